"""Answer the calls of a generator: turns of the policy that agents request, in addition to the groups of `prompts`.

In: leased entries of `policy_calls`, and of the generator's own stream, which gets conversations that are in its cache.
Out: one record per call. A call takes the room of one completion. Calls come before prompts, but an eighth of the room
is reserved for prompts while any wait. A generator that dies loses no call: its leases and its own stream expire, so
that the waiting agent asks again. Belongs to one generator's worker, and runs in its event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from broker.codec import pack, unpack
from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import TurnPrompt
from broker.protocol.episodes import BegunCall, CallStream, with_id
from broker.protocol.leases import Consumer, read_any
from broker.protocol.streams import Entry
from config.run import Run
from generators.answers import answer_turn
from generators.chat import Chat
from generators.engine import Engine
from generators.exclusive_gate import ExclusiveGate

log = logging.getLogger(__name__)

PROMPTS_SHARE = 1 / 8  # of the room
TAKE_OVER_EVERY_S = 1.0


class CallDesk:
    """Lease and answer the calls of one generator.

    Args:
        run: room is counted in its groups of `sampling.group_size`.
        own: the calls for this generator alone.
        prompts: leased at the same time.
        has_floor: waits for the weights of a floor; False: they are late.
        count: called after each answer, with the sampled tokens.
    """

    def __init__(
        self,
        run: Run,
        shared: CallStream,
        own: CallStream,
        prompts: Consumer,
        *,
        engine: Engine,
        gate: ExclusiveGate,
        has_floor: Callable[[str, int], Awaitable[bool]],
        count: Callable[[int], None],
    ) -> None:
        self.streams = (own, shared)  # in the order in which they are read
        self.weight = 1 / run.sampling.group_size  # of a call, in groups
        self._run = run
        self._prompts = prompts
        self._engine = engine
        self._gate = gate
        self._has_floor = has_floor
        self._count = count
        self._took_over = 0.0

    def lease(self, room: float, groups: int, most: int, *, block_s: float) -> list[Entry]:
        """Lease calls and groups, waiting up to `block_s` for the first.

        Args:
            room: free room, in groups.
            groups: number of held groups of `prompts`.
            most: groups that the generator holds at once.
        """
        reserve = min(max(1, int(most * PROMPTS_SHARE)) - groups, int(room))
        taken = self._prompts.lease(reserve, block_s=0) if reserve > 0 else []
        room -= len(taken)
        now = time.monotonic()
        if takes_over := now - self._took_over > TAKE_OVER_EVERY_S:
            self._took_over = now
        for calls in self.streams:
            if (count := int(room / self.weight + 1e-6)) > 0:
                found = calls.lease(count, takes_over=takes_over)
                room -= len(found) * self.weight
                taken += found
        if not taken and room >= 1:
            taken = self._prompts.lease(int(room), block_s=0)
        if taken:
            return taken
        consumers = [calls.consumer for calls in self.streams]
        return read_any([*consumers, *[self._prompts] * (room >= 1)], block_s=block_s)

    def of(self, entry: Entry) -> CallStream | None:
        """Return the stream of calls that an entry is from; None: it is a group of `prompts`."""
        return next((calls for calls in self.streams if calls.consumer.stream == entry.stream), None)

    def is_wanted(self, entry: Entry) -> bool:
        """Return whether a leased call is still awaited, as of the last renewal."""
        calls = self.of(entry)
        return calls is None or calls.consumer.holds(entry)

    async def answer(self, calls: CallStream, entry: Entry, chat: Chat) -> None:
        """Sample one call, alone if it is its last attempt of several, and write its record."""
        before = 0 if entry.is_new else await asyncio.to_thread(calls.tries, entry)
        if is_last := 0 < self._run.broker.max_attempts - 1 <= before:
            log.warning("last_attempt group=%s: a call of it is sampled alone", entry.group_id)
        async with self._gate.enter(alone=is_last):
            asked = await asyncio.to_thread(calls.begin, entry)
            if asked is None:
                return
            try:
                await self._attempt(calls, asked, chat)
            except Permanent as error:
                log.warning("call_refused group=%s reason=%s", entry.group_id, error)
                await asyncio.to_thread(calls.refuse, asked, str(error))

    async def _attempt(self, calls: CallStream, asked: BegunCall, chat: Chat) -> None:
        entry = asked.entry
        if asked.number > self._run.broker.max_attempts:
            raise BadMessage(f"generators began this turn {asked.number - 1} times, and none came to its end")
        prompt = unpack(asked.prompt, TurnPrompt)
        if not await self._has_floor(entry.group_id, entry.floor):
            await asyncio.to_thread(calls.consumer.give_up, entry, counts=False)
            return
        try:
            record = await answer_turn(prompt, self._engine, chat, calls.consumer.name)
        except Retryable as error:
            log.warning("sampling_failed group=%s attempt=%d error=%s", entry.group_id, asked.number, error)
            calls.consumer.release(entry)  # its lease expires, and a generator tries again
            return
        except Permanent:
            raise
        except Exception:
            self._gate.shut()  # a call that began now would waste an attempt
            raise
        if await asyncio.to_thread(calls.answer, asked, with_id(pack(record))):
            self._count(len(record.token_ids))
