"""The learner's end of direct weights: an epoch with the generators that ask, and a round for each announced version.

In: versions as they are announced, and the generators' wishes (`broker.direct_weights`). Out: an epoch on the board,
and the bytes of each version, which a courier sends to all members at once. A thread of rank 0 drives the courier and
waits for it with a deadline; the publisher and the training only leave a version here. Whatever fails ends the epoch,
and its members read the announced files, as everybody may at any time.

The courier reads the announced files, which are held open: the gathered copy in memory is overwritten by the next
gathering, which may not wait for a round.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import redis

from broker.connection import RedisLink
from broker.direct_weights.board import Board, this_machine
from broker.direct_weights.courier_process import COMMAND, EXITED, CourierProcess, Event
from broker.direct_weights.records import Epoch, Round, State, Wish, courier_settings
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import newest_fence
from config.learner import DirectConfig
from learner.weight_sync.delta_chain import OpenVersion
from learner.weight_sync.heard_wishes import HeardWishes

log = logging.getLogger(__name__)

LOOK_S = 0.2
ALIVE_S = 10.0  # a generator whose wish has not changed for so long has gone
SETTLE_S = 2.0  # the living generators stay the same for so long before an epoch is formed
RETRY_S, LONGEST_RETRY_S = 5.0, 300.0  # after an epoch that failed; twice as long after each
ABSENT_S = 120.0  # a generator that did not connect is left out for so long
PROLONG_S = 60.0
END_S = 5.0  # for the thread's end
VOIDS = 3  # in a row, after which the log says that rounds are slower than steps


class RoundFailed(Exception):
    """The epoch is over; the message says why."""


class DirectSender:
    """Sends announced versions to the generators that ask.

    Args:
        section: the type, the address and the deadline.
        fence: of this learner, once it has claimed the run; nothing is sent when a newer one has it.
        command: the courier's program.
    """

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        section: DirectConfig,
        *,
        fence: Callable[[], int],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._client = link.client  # not the link, which waits: the next look makes up for a failed one
        self._keys = keys
        self._board = Board(link.client, keys)
        self._section = section
        self._host = section.address or _address_towards(link)
        self._fence = fence
        self._command = command
        self._machine = this_machine()
        self._offered: OpenVersion | None = None
        self._lock = threading.Lock()  # of `_offered`
        self._heard = HeardWishes[Wish](ALIVE_S)
        self._settled: tuple[tuple[str, ...], float] = ((), 0.0)  # who lives, and since when nobody else does
        self._absent: dict[str, float] = {}  # generator -> until when it is left out
        self._epoch: Epoch | None = None
        self._courier: CourierProcess | None = None
        self._failures = self._voids = 0
        self._not_before = self._prolonged_at = 0.0
        self._said = ""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="direct-weights", daemon=True)

    def start(self) -> None:
        """Begin to look for generators that ask."""
        self._thread.start()

    def offer(self, announcement: Announcement) -> None:
        """Take the version that has just been announced; an older one that is under way is void. Never waits."""
        try:
            version = OpenVersion(announcement)
        except OSError as error:
            log.warning("weights_not_sent version=%d error=%s", announcement.version, error)
            return
        with self._lock:
            before, self._offered = self._offered, version
        if before is not None:
            before.close()
        self._wake.set()

    def stop(self) -> None:
        """End: no more versions come. A courier that hangs is killed."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_S)

    def look(self) -> None:
        """Take note of who asks; form an epoch, send a version or end the epoch accordingly.

        Raises:
            redis.RedisError: Redis is away.
        """
        self._listen()
        members = () if self._is_fenced() else self._living()
        if self._epoch is not None and (reason := self._why_over(members)):
            self._end(reason)
        try:
            if self._epoch is None:
                self._let_go_offered()  # generators read the file meanwhile
                if members and self._is_settled(members):
                    self._form(members)
                    self._let_go_offered()
            elif (version := self._take_offered()) is not None:
                with contextlib.closing(version):
                    self._send(version)
        except RoundFailed as error:
            self._fail(str(error))
        except redis.RedisError:  # what the board says is not known: members notice that the courier has gone
            self._kill_courier()
            raise
        self._prolong()

    def _why_over(self, members: tuple[str, ...]) -> str:
        """Say why the epoch can't go on; "" where it can."""
        epoch = self._epoch
        if self._courier is None or epoch is None:
            return ""
        while event := self._courier.next_event(0):
            if event["event"] in {"failed", EXITED}:
                return str(event["reason"])
        if self._is_fenced():
            return "a newer learner has the run"
        if gone := set(epoch.members) - set(members):
            return f"{', '.join(sorted(gone))} no longer asks"
        if new := set(members) - set(epoch.members):
            return f"{', '.join(sorted(new))} asks, too" if self._is_settled(members) else ""
        return ""

    def _form(self, members: tuple[str, ...]) -> None:
        """Start the courier, tell the members where it listens, and wait until all have connected."""
        section = self._section
        epoch = Epoch(
            id=secrets.token_hex(8),
            type=section.type,
            host=self._host,
            port=0,
            bucket_bytes=section.bucket_mb << 20,
            timeout_s=section.timeout_s,
            members=members,
            state=State.FORMING,
        )
        self._courier = CourierProcess(
            courier_settings(epoch, rank=0, port=section.port), command=self._command
        )
        deadline = time.monotonic() + section.timeout_s
        listening = self._await({"listening"}, deadline, "the courier to listen")
        self._write(replace(epoch, port=int(listening["port"])))
        self._await({"open"}, deadline, f"{len(members)} generators to connect")
        self._write(replace(self._formed, state=State.OPEN))
        self._failures = 0
        log.info(
            "direct_epoch type=%s members=%d at=%s:%d",
            epoch.type,
            len(members),
            self._host,
            self._formed.port,
        )

    def _send(self, version: OpenVersion) -> None:
        """Send one version to all members, and wait until they have it, it is void, or the deadline passes."""
        started = time.monotonic()
        epoch = self._formed
        last = epoch.round.number if epoch.round else 0
        this = Round(
            number=last + 1,
            version=version.version,
            checksum=version.checksum,
            sizes_bytes=version.stream.sizes_bytes,
        )
        self._write(replace(epoch, round=this))
        paths = [f"/proc/{os.getpid()}/fd/{file}" for file in version.stream.descriptors]  # the folder may go
        self._tell({"round": this.number, "paths": paths, "sizes": list(this.sizes_bytes)})
        what = f"{len(epoch.members)} generators to take version {version.version}"
        event = self._await({"sent", "void"}, started + epoch.timeout_s, what, sending=this.number)
        self._write(replace(epoch, round=replace(this, is_over=True)))
        if event["event"] == "void":
            self._note_void(version.version)
            return
        self._voids = 0
        log.info(
            "weights_sent version=%d bytes=%d took_s=%.2f members=%d",
            version.version,
            this.size_bytes,
            time.monotonic() - started,
            len(epoch.members),
        )
        for member, word in zip(epoch.members, event["said"], strict=True):
            if word != "ok":
                log.warning(
                    "weights_not_taken generator=%s version=%d reason=%s", member, version.version, word
                )

    def _await(self, wanted: set[str], deadline: float, what: str, *, sending: int | None = None) -> Event:
        """Wait for an event of the courier; make its round void where a newer version comes meanwhile.

        Raises:
            RoundFailed: the courier failed, the deadline passed, or this learner ends.
        """
        is_void = False
        while time.monotonic() < deadline and not self._stop.is_set():
            if sending and not is_void and self._offered is not None:
                self._tell({"void": sending})
                is_void = True
            event = self._formed_courier.next_event(LOOK_S / 2)
            if event is None:
                self._watch_members()
            elif event["event"] in wanted:
                return event
            elif event["event"] == "missing":
                self._leave_out(event["ranks"])
            elif event["event"] in {"failed", EXITED}:
                raise RoundFailed(str(event["reason"]))
        if self._stop.is_set():
            raise RoundFailed("this learner ends")
        raise RoundFailed(f"waited {self._section.timeout_s:.0f} s for {what}")

    def _watch_members(self) -> None:
        """End the epoch at once where a member has gone. Without Redis nobody knows, and a round goes on."""
        with contextlib.suppress(redis.RedisError):
            self._listen()
            epoch, living = self._epoch, self._living()
            if epoch is not None and (gone := sorted(set(epoch.members) - set(living) - self._absent.keys())):
                raise RoundFailed(f"{', '.join(gone)} no longer asks")

    def _leave_out(self, ranks: Sequence[int]) -> None:
        until = time.monotonic() + ABSENT_S
        absent = [self._formed.members[rank - 1] for rank in ranks]
        self._absent |= dict.fromkeys(absent, until)
        log.warning(
            "direct_absent generators=%s: they did not connect to %s:%d, and are asked again after %.0f s. Is that "
            "address (learner.weights.direct.address) reached from there?",
            ",".join(absent),
            self._host,
            self._formed.port,
            ABSENT_S,
        )

    def _note_void(self, version: int) -> None:
        self._voids += 1
        log.info("weights_void version=%d: a newer one was announced while it was sent", version)
        if self._voids == VOIDS:
            log.warning(
                "direct_too_slow rounds=%d: each was overtaken by the next version. Direct weights bring nothing "
                "here; learner.weights.every publishes fewer versions",
                self._voids,
            )

    def _fail(self, reason: str) -> None:
        """End the epoch, and try again later: sooner for a first failure than for the next."""
        self._failures += 1
        wait_s = min(LONGEST_RETRY_S, RETRY_S * 2 ** (self._failures - 1))
        self._not_before = time.monotonic() + wait_s
        if not self._stop.is_set():
            log.warning(
                "direct_failed reason=%s: generators read the files; trying again in %.0f s", reason, wait_s
            )
        self._end(reason)

    def _end(self, reason: str) -> None:
        """End the epoch, if there is one, and tell its members why."""
        epoch = self._epoch
        self._kill_courier()
        if epoch is not None:
            log.debug("direct_epoch_ended reason=%s", reason)
            self._board.write_epoch(replace(epoch, state=State.ENDED, reason=reason))

    def _kill_courier(self) -> None:
        if self._courier is not None:
            self._courier.kill()
        self._courier = self._epoch = None

    def _write(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._board.write_epoch(epoch)

    @property
    def _formed(self) -> Epoch:
        if self._epoch is None:
            raise RuntimeError("there is no epoch")
        return self._epoch

    @property
    def _formed_courier(self) -> CourierProcess:
        if self._courier is None:
            raise RuntimeError("there is no courier")
        return self._courier

    def _tell(self, command: Mapping[str, Any]) -> None:
        self._formed_courier.tell(command)

    def _take_offered(self) -> OpenVersion | None:
        with self._lock:
            version, self._offered = self._offered, None
        return version

    def _listen(self) -> None:
        """Read the wishes. What is there at the first look may be left from a learner that has gone."""
        wishes = self._board.wishes()
        if not self._heard.has_looked:
            self._board.clear()
        self._heard.listen(wishes)

    def _living(self) -> tuple[str, ...]:
        """Name the generators that may be members now."""
        now = time.monotonic()
        self._absent = {name: until for name, until in self._absent.items() if until > now}
        lately = self._heard.since(ALIVE_S)
        living = {name: wish for name, wish in lately.items() if name not in self._absent}
        if self._section.type == "ipc":
            far = sorted(name for name, wish in living.items() if wish.machine != self._machine)
            if far:
                self._say(f"direct_elsewhere generators={','.join(far)}: ipc reaches this machine alone")
            living = {name: wish for name, wish in living.items() if wish.machine == self._machine}
        members = tuple(sorted(living))
        if members != self._settled[0]:
            self._settled = (members, now)
        return members

    def _is_settled(self, members: tuple[str, ...]) -> bool:
        now = time.monotonic()
        return members == self._settled[0] and now - self._settled[1] > SETTLE_S and now > self._not_before

    def _is_fenced(self) -> bool:
        return newest_fence(self._client, self._keys) > self._fence()

    def _prolong(self) -> None:
        if self._epoch is not None and time.monotonic() - self._prolonged_at > PROLONG_S:
            self._board.prolong()
            self._prolonged_at = time.monotonic()

    def _keep_looking(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(LOOK_S)
            self._wake.clear()
            try:
                self.look()
            except (redis.ConnectionError, redis.TimeoutError) as error:
                log.debug("direct_cut_off error=%s", error)  # the learner's own link warns of it
            except (redis.RedisError, OSError) as error:
                self._say(f"direct_failed error={error}; trying again")
                self._not_before = time.monotonic() + RETRY_S
            except Exception:  # a bug here is not the learner's end
                self._not_before = time.monotonic() + RETRY_S
                log.exception("direct_failed")
                with contextlib.suppress(redis.RedisError):
                    self._end("a bug")
        with contextlib.suppress(redis.RedisError):
            self._end("this learner ends")
        self._let_go_offered()

    def _let_go_offered(self) -> None:
        if (version := self._take_offered()) is not None:
            version.close()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.warning("%s", text)


def _address_towards(link: RedisLink) -> str:
    """Return this machine's address as Redis' machine sees it, which generators reach, too. Nothing is sent."""
    where = link.client.connection_pool.connection_kwargs
    if "path" not in where:
        host, port = where.get("host", "localhost"), where.get("port", 6379)
        for family, kind, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                probe.connect(place)
                return str(probe.getsockname()[0])
    return "127.0.0.1"
