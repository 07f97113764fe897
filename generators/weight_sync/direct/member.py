"""A generator's part in direct weights: it asks, joins an epoch, and has its courier stage versions in memory.

In: the epoch and its rounds, which the learner writes on the board (`broker.direct_weights`). Out: the newest version
that has arrived whole, as files in memory; or the reason why none comes. A thread beside the
event loop drives the courier, and kills it when a deadline passes: whatever it hangs in is gone then. After FAILURES
epochs in a row that this generator's courier has not come through, the generator asks no more.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from broker.connection import RedisLink
from broker.direct_weights.board import Board, this_machine
from broker.direct_weights.courier_process import COMMAND, CourierProcess, Event
from broker.direct_weights.records import Epoch, Round, State, Wish, courier_settings
from broker.keys import Keys

log = logging.getLogger(__name__)

LOOK_S = 0.2
ASK_S = 1.0  # between two wishes
FAILURES = 3
END_S = 5.0  # for the thread's end


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A version in this machine's memory. Every bucket had its seal; its checksum is still to be compared."""

    version: int
    checksum: str  # as announced
    descriptors: tuple[int, ...]  # of its files, which nobody can change any more

    @property
    def files(self) -> tuple[Path, ...]:
        """Return paths by which every process of this user on this machine opens the files."""
        return tuple(Path(f"/proc/{os.getpid()}/fd/{descriptor}") for descriptor in self.descriptors)

    def close(self) -> None:
        """Let the memory go, once nobody has the files open any more."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class DirectMember:
    """Takes part in epochs for one generator.

    Args:
        generator: its name; the courier runs beside it.
        command: the courier's program.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, generator: str, *, command: Sequence[str] = COMMAND
    ) -> None:
        self._board = Board(link.client, keys)
        self._generator = generator
        self._command = command
        self._machine = this_machine()
        self._count = itertools.count(1)
        self._asked_at = -ASK_S
        self._epoch: Epoch | None = None  # that this generator's courier is for
        self._courier: CourierProcess | None = None
        self._deadline = 0.0  # of what the courier is at
        self._round: Round | None = None  # that the courier takes part in
        self._last_round = 0  # number of the last one that it was told of
        self._is_connected = self._is_open = False  # the courier: to the learner's; all are
        self._given_up: str = ""  # id of the epoch that has failed here
        self._failures = 0
        self._news = threading.Condition()  # of all below, which other threads read
        self._staged: Staged | None = None
        self._open_since: float | None = None
        self._expected: tuple[int, ...] = ()  # version of the round under way
        self._arrived_bytes = 0
        self._reason = "no epoch has formed yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="direct-weights", daemon=True)
        self._thread.start()

    @property
    def open_since(self) -> float | None:
        """When this generator became a member of an open epoch, monotonic seconds; None where it is none."""
        with self._news:
            return self._open_since

    @property
    def expected(self) -> int | None:
        """The version that is on its way; None where none is."""
        with self._news:
            return self._expected[0] if self._expected else None

    @property
    def arrived_bytes(self) -> int:
        """Bytes that have come in all."""
        with self._news:
            return self._arrived_bytes

    @property
    def reason(self) -> str:
        """Why nothing is on its way, for people."""
        with self._news:
            return self._reason

    def take(self, checksums: dict[int, str], *, above: int, wait_s: float) -> Staged | None:
        """Wait for a staged version, and hand it over to the caller, who closes it; None where there is none in time.

        Args:
            checksums: of the announced versions; a staged one of another checksum is none.
            above: no version up to it is of use.
            wait_s: how long; the wait ends early where nothing is on its way any more.
        """
        deadline = time.monotonic() + wait_s
        with self._news:
            while True:
                staged = self._staged
                if staged is not None:
                    self._staged = None
                    if staged.version > above and checksums.get(staged.version) == staged.checksum:
                        return staged
                    staged.close()
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self._open_since is None or self._stop.is_set():
                    return None
                self._news.wait(left_s)

    def close(self) -> None:
        """Ask no more, and end the courier."""
        self._stop.set()
        self._thread.join(timeout=END_S)
        with self._news:
            staged, self._staged = self._staged, None
            self._news.notify_all()
        if staged is not None:
            staged.close()

    # Below: the thread.

    def look(self) -> None:
        """Ask, follow what the board says of the epoch, and hear what the courier says.

        Raises:
            redis.RedisError: Redis is away.
        """
        if time.monotonic() - self._asked_at >= ASK_S:
            self._board.ask(self._generator, Wish(count=next(self._count), machine=self._machine))
            self._asked_at = time.monotonic()
        found = self._board.read_epoch()
        is_mine = found is not None and found.state is not State.ENDED and self._generator in found.members
        if self._epoch is not None and (not is_mine or found is None or found.id != self._epoch.id):
            reason = found.reason if found and found.reason else "the epoch has ended"
            had_s = self._epoch.timeout_s - (self._deadline - time.monotonic())
            if not self._is_connected and had_s > self._epoch.timeout_s / 2:
                self._give_up(f"the courier did not connect: {reason}", is_own=True)
            else:
                self._leave(reason)
        if is_mine and found is not None and found.id != self._given_up:
            self._follow(found)

    def _follow(self, found: Epoch) -> None:
        """Join an epoch that is new, or its round."""
        if self._epoch is None and found.port:
            self._join(found)
        this = found.round
        if self._is_open and this and not this.is_over and this.number > self._last_round and self._courier:
            self._last_round, self._round = this.number, this
            self._deadline = time.monotonic() + found.timeout_s
            self._courier.tell({"round": this.number, "sizes": list(this.sizes_bytes)})
            with self._news:
                self._expected = (this.version,)
                self._news.notify_all()

    def _join(self, epoch: Epoch) -> None:
        rank = 1 + epoch.members.index(self._generator)
        settings = courier_settings(epoch, rank=rank, port=epoch.port)
        self._courier = CourierProcess(settings, command=self._command)
        self._epoch, self._last_round = epoch, 0
        self._deadline = time.monotonic() + epoch.timeout_s

    def hear(self, wait_s: float) -> None:
        """Take in what the courier says, and kill it where its deadline has passed."""
        if self._courier is None:
            self._stop.wait(wait_s)
            return
        if (event := self._courier.next_event(wait_s)) is not None:
            self._take_in(event)
        elif (self._round or not self._is_open) and time.monotonic() > self._deadline:
            what = f"version {self._round.version}" if self._round else "the others to connect"
            is_own = bool(self._round) or not self._is_connected
            self._give_up(f"waited for {what} until the deadline", is_own=is_own)

    def _take_in(self, event: Event) -> None:
        match event["event"]:
            case "connected":
                self._is_connected = True
            case "open":
                self._is_open = True
                with self._news:
                    self._open_since, self._reason = time.monotonic(), "no round is under way"
                log.info("direct_joined members=%d", len(self._epoch.members) if self._epoch else 0)
            case "progress":
                with self._news:
                    self._arrived_bytes += int(event["bytes"])
            case "staged":
                self._stage([int(descriptor) for descriptor in event["descriptors"]])
            case "void" | "spoiled":
                if event["event"] == "spoiled":
                    log.warning("direct_spoiled reason=%s: it is not loaded", event["reason"])
                self._round_over(str(event["reason"]))
            case "failed" | "exited":
                self._give_up(str(event["reason"]), is_own=not self._is_connected)

    def _stage(self, descriptors: Sequence[int]) -> None:
        """Open what the courier has in memory, and let others take it."""
        this, courier = self._round, self._courier
        if this is None or courier is None:
            return
        opened = [
            os.open(f"/proc/{courier.pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
            for descriptor in descriptors
        ]
        courier.tell({"taken": this.number})
        staged = Staged(version=this.version, checksum=this.checksum, descriptors=tuple(opened))
        self._failures = 0
        with self._news:
            before, self._staged = self._staged, staged
            self._arrived_bytes += this.size_bytes
        if before is not None:
            before.close()
        self._round_over("no round is under way")

    def _round_over(self, reason: str) -> None:
        self._round = None
        with self._news:
            self._expected, self._reason = (), reason
            self._news.notify_all()

    def _give_up(self, reason: str, *, is_own: bool) -> None:
        """Leave the epoch for good: it has failed here."""
        self._given_up = self._epoch.id if self._epoch else ""
        self._failures += is_own
        log.warning("direct_failed reason=%s: the announced files are read", reason)
        self._leave(reason)
        if self._failures >= FAILURES:
            log.warning(
                "direct_given_up failures=%d reason=%s: this generator asks for no direct weights any more",
                self._failures,
                reason,
            )
            self._stop.set()

    def _leave(self, reason: str) -> None:
        if self._courier is not None:
            self._courier.kill()
        self._courier = self._epoch = None
        self._is_connected = self._is_open = False
        with self._news:
            self._open_since = None
        self._round_over(reason)

    def _look_s(self) -> float:
        """Look, and return how long the courier is listened to until the next look: longer while Redis is away."""
        try:
            self.look()
        except redis.RedisError as error:  # a round goes on without it
            log.debug("direct_cut_off error=%s", error)  # the generator's own link warns of it
            return ASK_S
        return LOOK_S

    def _keep_looking(self) -> None:
        while not self._stop.is_set():
            try:
                self.hear(self._look_s())
            except OSError as error:
                self._give_up(f"{error.strerror}", is_own=True)
            except Exception:  # a bug here is not the generator's end
                log.exception("direct_failed")
                self._stop.set()
        self._leave("this generator asks no more")
        with contextlib.suppress(redis.RedisError):
            self._board.withdraw(self._generator)
