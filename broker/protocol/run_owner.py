"""The learner owns its run by scripts that no other role calls; each carries its fence and the last seq it saw.

A newer learner has a higher fence, and every script of an older one changes nothing (`Fenced`). A Redis whose `seq` or
fence is smaller than what was already acknowledged has forgotten something (`WentBack`); after `rejoin` its scripts
take effect again. The trainer's and the feeder's thread share one `RunOwner`.
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
    """A group to be issued."""

    group_id: str
    fields: Fields  # of its entry
    stream: str = PROMPTS  # or EPISODES


@dataclass(frozen=True, slots=True)
class Issued:
    """The answer to an `issue`: where Redis stands, and whether the groups came in."""

    position: int  # where Redis stands now
    floor: int | None  # of the new groups; None if none came in
    full: bool = False  # the budget or Redis's memory had no room


class RunOwner(RunReader):
    """Calls the guarded scripts, as the learner that holds the run.

    Args:
        fence: of a learner that held the run before; 0: `claim` comes first.
    """

    def __init__(self, link: RedisLink, keys: Keys, *, fence: int = 0) -> None:
        super().__init__(link, keys)
        self.fence = fence
        self.seq = 0
        self._redis = ""  # the server's run_id at the last check: each start of a server has its own
        self._lock = threading.Lock()

    def claim(self, journal_fence: int) -> int:
        """Take the run over from every older learner. Returns the new fence."""
        fence, seq = self.link.script("claim", self.keys.scripts(), journal_fence)
        self.fence, self.seq = int(fence), int(seq)
        return self.fence

    def rejoin(self) -> bool:
        """Write the fence again into a Redis that went back, and go on. Returns whether Redis knew this run at all.

        Raises:
            Fenced: a newer learner has the run.
        """
        reply = self.link.script("rejoin", self.keys.scripts(), each_try=self._one_try)
        self._raise_for(_text(reply[0]), reply[1])
        return bool(reply[2])

    def issue(
        self, position: int, new_position: int, budget: int, newest: int, groups: Sequence[NewGroup]
    ) -> Issued:
        """Let `groups` in, the ordinals from `position` up to `new_position`, if the budget has room for all of them.

        Args:
            newest: policy version that the learner knows to be announced.
            groups: a retry of a dead group may be among them. A retry is no ordinal, and counts as issued beside them.
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
        """Let in the groups of an evaluation round that are missing. Returns how many entries were added.

        Raises:
            NoRoom: Redis's memory is full; nothing was added.
        """
        return int(self._guarded("issue_eval", version, *_flat(groups), wait=Wait.FOR_ALL_BUT_MEMORY)[1])

    def reissue(self, groups: Sequence[NewGroup]) -> list[str]:
        """Issue again, with their old floors, the `groups` that have a slot and are in no stream. Returns their ids.

        The script restores what is missing, so full memory does not refuse it.
        """
        return [_text(group_id) for group_id in self._guarded("reissue", *_flat(groups))[1]]

    def restore_cursor(self, position: int, retries: Mapping[str, int]) -> None:
        """Have `cursor` stand at `position` at least, and name at least so many retries of each ordinal."""
        self._guarded("restore_cursor", position, *(part for pair in retries.items() for part in pair))

    def retire(self, ids: Iterable[str]) -> None:
        """Free the slots and entries of groups whose outcome is durable."""
        if wanted := list(ids):
            self._guarded("retire", *wanted)

    def announce(self, announcement: Announcement) -> None:
        """Tell the generators of new weights.

        Raises:
            RunFailed: a newer version was announced already. The version follows from the journal, which is ahead of
                Redis where nothing was lost.
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
        """Look whether this learner still owns the run and Redis still knows what it acknowledged.

        A Redis that was restarted is asked to write its append-only file anew: half of a script may be at its end.

        Raises:
            Fenced: a newer learner owns the run.
            WentBack: Redis has forgotten what it acknowledged.
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
        """Ask Redis to write its file anew: a crash may have left half of a script there, which the next start runs.

        Redis refuses where it keeps no such file, or writes one already; nothing is to be done then.
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

        Until the reply is noted no other thread sends a script: of two replies under way, the second would hide that
        Redis has forgotten the first. While a link waits between two tries, the other thread goes on.
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
    """Return the fence of the learner that has the run; 0 where none has. Does not wait for a Redis that is away."""
    found: Any = client.hget(keys.run, "fence")
    return int(found or 0)
