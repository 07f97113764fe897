"""Request the turns of a worker's episodes from the policy: each once, and wait for its record.

In: prompts of turns. Out: their records, which are in Redis before anybody here sees them. Generators publish a hint of
each answer on a channel. A periodic look finds what hints missed: a lost hint, a call whose generator is gone. Without
permission to subscribe there is a look every few seconds. Belongs to one worker: calls to Redis run in its threads, and
one more thread reads the hints.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import redis

from broker.protocol.episodes import Asking, Attempt, CallState, Episodes, PolicyCall

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0  # without hints
HEARD_SHARE = 1 / 4  # of a lease, between two looks with hints
AT_ONCE = 32  # questions per round trip
HEAR_S = 1.0  # per read of the channel
BEHIND_S, SHUN_S = 2.0, 10.0  # after waiting BEHIND_S for a generator, it is not asked by name for SHUN_S
AGAIN_S = 2.0  # before subscribing again after an outage


class Superseded(Exception):
    """A newer attempt plays the group, or the group is gone: this play must stop."""


class HasEnded(Exception):
    """The episode has already ended."""


class TurnFailed(Exception):
    """No generator could answer, in this attempt; the message says why."""


class Told(NamedTuple):
    """A record, and how it was found."""

    record: bytes  # as stored
    was_there: bool  # before this request: an earlier play had requested it


class Queues:
    """Measure how long calls wait for each generator: a conversation stays with one that keeps up.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._behind_until: dict[str, float] = {}

    def note(self, generator: str, *, took_s: float, sampled_s: float) -> None:
        """Note how long an answer took, and how much of that was sampling."""
        if took_s - sampled_s > max(BEHIND_S, sampled_s):
            self._behind_until[generator] = self._clock() + SHUN_S
        else:
            self._behind_until.pop(generator, None)

    def near(self, generator: str) -> str:
        """Return the generator for a conversation's next turn; "": any."""
        return "" if self._clock() < self._behind_until.get(generator, 0.0) else generator


class TurnDesk:
    """Request turns for the episodes of one worker.

    Args:
        episodes: the worker's access to them.
        in_thread: runs a blocking call outside the event loop.
        lease_s: after which a silent generator has lost its calls.
    """

    def __init__(self, episodes: Episodes, in_thread: Callable[..., Any], *, lease_s: float) -> None:
        self._episodes = episodes
        self._in_thread = in_thread
        self.queues = Queues()
        self._lease_s = lease_s
        self._hears = False
        self._waiting: list[tuple[Asking, asyncio.Future[tuple[CallState, bytes]]]] = []
        self._asking: asyncio.Task[None] | None = None
        self._hints: defaultdict[tuple[str, int], set[asyncio.Event]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="hints", daemon=True)

    def start(self) -> None:
        """Start reading hints. Called in the event loop of the turns."""
        self._loop = asyncio.get_running_loop()
        self._listener.start()

    def close(self) -> None:
        """Stop reading hints."""
        self._stop.set()
        self._listener.join(timeout=2 * HEAR_S)

    async def turn(self, attempt: Attempt, call: PolicyCall, prompt: bytes, *, near: str = "") -> Told:
        """Request a turn and return its record. There is no deadline for the queue: the group has one.

        Args:
            prompt: a packed `TurnPrompt`.
            near: the generator that sampled the turn before.
        Raises:
            Superseded, HasEnded, TurnFailed: see there.
        """
        ask, look = Asking(attempt, call, prompt, near), Asking(attempt, call)
        with self._hinted(attempt.group_id, call.episode) as hint:
            found, said = await self._answer_to(ask)
            was_there = found is CallState.TURN
            while True:
                match found:
                    case CallState.TURN:
                        return Told(bytes(said), was_there)
                    case CallState.FAILED:
                        raise TurnFailed(said.decode(errors="replace"))
                    case CallState.GONE:
                        raise Superseded
                    case CallState.ENDED:
                        raise HasEnded
                    case CallState.ASK:
                        found, said = await self._answer_to(ask)
                    case _:
                        # `wait_for` of Python 3.11 loses a cancellation that comes with a hint: this does not.
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(self._look_every_s):
                                await hint.wait()
                        hint.clear()
                        found, said = await self._answer_to(look)

    async def _answer_to(self, asking: Asking) -> tuple[CallState, bytes]:
        """Query Redis, together with all queries that arrive while it answers others."""
        answer: asyncio.Future[tuple[CallState, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting.append((asking, answer))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        return await answer

    async def _ask_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            try:
                found = await self._in_thread(self._episodes.ask_all, [asking for asking, _ in batch])
            except Exception as error:  # noqa: BLE001 - raised by the waiter
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)

    @property
    def _look_every_s(self) -> float:
        return max(LOOK_EVERY_S, HEARD_SHARE * self._lease_s) if self._hears else LOOK_EVERY_S

    async def is_asked(self, attempt: Attempt, call: PolicyCall) -> bool:
        """Return whether a turn was requested before, in this attempt or an older one, answered or not."""
        found, _ = await self._in_thread(self._episodes.look, attempt, call)
        return bool(found is not CallState.ASK)

    @contextlib.contextmanager
    def _hinted(self, group_id: str, episode: int) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each hint on an episode."""
        hint, place = asyncio.Event(), (group_id, episode)
        self._hints[place].add(hint)
        try:
            yield hint
        finally:
            self._hints[place].discard(hint)
            if not self._hints[place]:
                del self._hints[place]

    def _hint(self, text: str) -> None:
        group_id, _, episode = text.rpartition(" ")
        if episode.isdecimal():
            for hint in self._hints.get((group_id, int(episode)), ()):
                hint.set()

    def _hint_all(self) -> None:
        """Wake all waiters: hints may have been lost."""
        for hints in self._hints.values():
            for hint in hints:
                hint.set()

    def _listen(self) -> None:
        """Pass hints to the event loop, until `close`."""
        while not self._stop.is_set():
            try:
                with self._episodes.hints() as channel:
                    self._pass_on(channel)
            except redis.exceptions.NoPermissionError as error:
                log.warning("no_hints error=%s: turns are looked for every %.0f s", error, LOOK_EVERY_S)
                return
            except redis.RedisError:
                self._stop.wait(AGAIN_S)
            except RuntimeError:  # the event loop is closed
                return

    def _pass_on(self, channel: Any) -> None:
        if self._loop is None:
            raise RuntimeError("hints are heard before start()")
        channel.get_message(timeout=HEAR_S)  # the confirmation of the subscription
        self._hears = True
        try:
            self._loop.call_soon_threadsafe(self._hint_all)
            while not self._stop.is_set():
                if found := channel.get_message(timeout=HEAR_S):
                    self._loop.call_soon_threadsafe(self._hint, found["data"].decode())
        finally:
            self._hears = False
