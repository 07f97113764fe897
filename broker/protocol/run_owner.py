"""Run the scripts that only the learner may call; each carries its fence and the last seq it saw.

A newer learner has a higher fence, and the scripts of an older one change nothing (`Fenced`). A Redis whose `seq` or
fence is smaller than what it acknowledged has lost writes (`WentBack`); after `rejoin` scripts take effect again. The
trainer's and the feeder's thread share one `RunOwner`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from broker.codec import Fields, encode_announcement
from broker.connection import RedisLink, Wait
from broker.errors import Fenced, NoRoom, RunFailed, WentBack
from broker.keys import PROMPTS, Keys
from broker.messages import Announcement
from broker.protocol.run_reader import RunReader

log = logging.getLogger(__name__)


class NewGroup(NamedTuple):
    """A group to issue."""

    group_id: str
    fields: Fields  # of its entry
    stream: str = PROMPTS  # or EPISODES


@dataclass(frozen=True, slots=True)
class Issued:
    """The answer to an `issue`: the position in Redis, and whether the groups were issued."""

    position: int  # in Redis, now
    floor: int | None  # of the new groups; None if none were issued
    full: bool = False  # the budget or Redis's memory had no room


class RunOwner(RunReader):
    """Call the guarded scripts, as the learner that owns the run.

    Args:
        fence: of a learner that already owns the run; 0: call `claim` first.
    """

    def __init__(self, link: RedisLink, keys: Keys, *, fence: int = 0) -> None:
        super().__init__(link, keys)
        self.fence = fence
        self.seq = 0
        self._redis = ""  # the server's run_id at the last check: each server start has its own
        self._lock = threading.Lock()

    def claim(self, journal_fence: int) -> int:
        """Take the run over from every older learner. Returns the new fence."""
        fence, seq = self.link.script("claim", self.keys.scripts(), journal_fence)
        self.fence, self.seq = int(fence), int(seq)
        return self.fence

    def rejoin(self) -> bool:
        """Write the fence again into a Redis that went back, and continue. Returns whether Redis knew this run at all.

        Raises:
            Fenced: a newer learner owns the run.
        """
        reply = self.link.script("rejoin", self.keys.scripts(), each_try=self._one_try)
        self._raise_for(_text(reply[0]), reply[1])
        return bool(reply[2])

    def issue(
        self, position: int, new_position: int, budget: int, newest: int, groups: Sequence[NewGroup]
    ) -> Issued:
        """Issue `groups`, the ordinals from `position` up to `new_position`, if the budget has room for all of them.

        Args:
            newest: the version that the learner knows to be announced.
            groups: retries may be among them. A retry is no ordinal, and is issued in addition.
        """
        try:
            status, value = self._guarded(
                "issue", position, new_position, budget, newest, *_flat(groups), wait=Wait.FOR_ALL_BUT_MEMORY
            )
        except NoRoom:
            return Issued(position, None, full=True)
        match status:
            case "ok":
                return Issued(new_position, int(value))
            case "moved":
                return Issued(int(value), None)
            case "full":
                return Issued(position, None, full=True)
            case _:
                raise RunFailed(
                    f"group {_text(value)} is in Redis already, though the cursor stands at {position}; "
                    "was a key of this run changed by hand?"
                )

    def issue_eval(self, version: int, groups: Sequence[NewGroup]) -> int:
        """Issue the missing groups of an evaluation round. Returns how many entries were added.

        Raises:
            NoRoom: Redis's memory is full; nothing was added.
        """
        return int(self._guarded("issue_eval", version, *_flat(groups), wait=Wait.FOR_ALL_BUT_MEMORY)[1])

    def reissue(self, groups: Sequence[NewGroup]) -> list[str]:
        """Reissue, with their old floors, those of `groups` with a slot and no stream entry. Returns their ids.

        The script only restores, so full memory does not refuse it.
        """
        return [_text(group_id) for group_id in self._guarded("reissue", *_flat(groups))[1]]

    def restore_cursor(self, position: int, retries: Mapping[str, int]) -> None:
        """Raise `cursor` to `position` at least, and each ordinal's retry count to the given one at least."""
        self._guarded("restore_cursor", position, *(part for pair in retries.items() for part in pair))

    def retire(self, ids: Iterable[str]) -> None:
        """Free the slots and entries of groups whose outcome is durable."""
        if wanted := list(ids):
            self._guarded("retire", *wanted)

    def announce(self, announcement: Announcement) -> None:
        """Announce new weights to the generators.

        Raises:
            RunFailed: a newer version was already announced. The version follows from the journal, which is ahead of
                Redis unless the journal lost records.
        """
        fields = [part for pair in encode_announcement(announcement).items() for part in pair]
        status, value = self._guarded("announce", announcement.version, *fields)
        if status == "older":
            raise RunFailed(
                f"Redis knows version {int(value)} of run {self.keys.name}, and the journal ends at "
                f"version {announcement.version}: records were lost, or an older copy of the run's folder "
                f"was restored. See what is missing: `millrace audit {self.keys.name}`"
            )

    def check(self) -> None:
        """Check that this learner still owns the run and that Redis has lost no acknowledged writes.

        A restarted Redis is asked to rewrite its append-only file, which may end in half a script.

        Raises:
            Fenced: a newer learner owns the run.
            WentBack: Redis has lost acknowledged writes.
        """

        def attempt(client: Any) -> list[Any]:
            with client.pipeline(transaction=False) as pipe:
                pipe.hget(self.keys.run, "fence")
                pipe.hget(self.keys.cursor, "seq")
                pipe.info("server")
                return list(pipe.execute())

        with self._lock:
            seq = self.seq
        *numbers, server = self.link(attempt)
        fence, found = (int(value or 0) for value in numbers)
        is_new, self._redis = self._redis not in {"", server["run_id"]}, server["run_id"]
        if is_new:
            log.warning("redis_restarted at=%s; its append-only file is written anew", self.link.address)
            self.rewrite_append_only_file()
        if fence > self.fence:
            self._raise_for("fenced", fence)
        if found < seq or fence < self.fence:
            self._raise_for("went back", found)

    def rewrite_append_only_file(self) -> None:
        """Ask Redis to rewrite its file: a crash may have left half a script there, which the next start would run.

        Redis refuses where it has no such file, or already writes one; then there is nothing to do.
        """
        with contextlib.suppress(redis.ResponseError):
            self.link(lambda client: client.bgrewriteaof())

    def _guarded(self, script: str, *args: Any, wait: Wait = Wait.FOR_ALL) -> tuple[str, Any]:
        reply = self.link.script(
            script, self.keys.scripts(), *args, guarded=True, wait=wait, each_try=self._one_try
        )
        status = _text(reply[0])
        if status == "ok":
            return status, reply[2] if len(reply) > 2 else None
        self._raise_for(status, reply[1])
        return status, reply[1]

    def _one_try(self, run: Callable[..., Any]) -> Any:
        """Try a script once, with the newest seq that either thread has seen.

        No other thread sends a script until the reply is recorded: with two replies outstanding, the second would hide
        that Redis had lost the first. While a link waits between two tries, the other thread may proceed.
        """
        with self._lock:
            reply = run(self.fence, self.seq)
            if _text(reply[0]) == "ok":
                self.seq = max(self.seq, int(reply[1]))
            return reply

    def _raise_for(self, status: str, value: Any) -> None:
        if status == "fenced":
            raise Fenced(
                f"a newer learner (fence {int(value)}) has taken run {self.keys.name} over from this one "
                f"(fence {self.fence})"
            )
        if status == "went back":
            raise WentBack(
                f"redis at {self.link.address} went back: it stands at seq {int(value)}, and {self.seq} was "
                "acknowledged"
            )


def _flat(groups: Sequence[NewGroup]) -> list[Any]:
    flat: list[Any] = []
    for group_id, fields, stream in groups:
        flat += [group_id, stream, len(fields) * 2]
        for name, value in fields.items():
            flat += [name, value]
    return flat


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def newest_fence(client: redis.Redis, keys: Keys) -> int:
    """Return the fence of the learner that owns the run; 0 for none. Does not wait for a Redis that is away."""
    found: Any = client.hget(keys.run, "fence")
    return int(found or 0)
