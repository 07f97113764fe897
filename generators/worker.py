"""Sample groups until the run ends, and answer calls of agents: the generator's loop.

In: leased entries of `prompts`, and calls (`generators.calls`). Out: one entry of `rollouts` per group, by one
hand-over; one record per call. Each group or call in flight is an asyncio task; blocking calls to Redis run in threads
outside the loop. A crash loses nothing: prompts and calls are still pending, and another generator takes them over when
the lease expires. A generator that is asked to end finishes its groups, and hands back those that take longer than its
grace time.
Consumes: prompts, calls, announcements. Produces: rollouts, records. Ends with the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import traceback

from broker import codec
from broker.errors import BrokerUnavailable, Permanent, PipelineError, Retryable
from broker.joining import Joined, RunState, state_of
from broker.keys import PROMPTS, ROLLOUTS
from broker.messages import Prompt, SampledGroup
from broker.monitoring.crash_reports import dead_letter_exhausted
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.work_meter import WorkMeter
from broker.protocol.announcements import Announcements
from broker.protocol.episodes import CallStream
from broker.protocol.leases import Consumer, Renewer
from broker.protocol.streams import Entry
from config.run import Run
from generators.answers import answer
from generators.calls import CallDesk
from generators.chat import Chat, open_chat
from generators.engine import NO_VERSION, Engine
from generators.exclusive_gate import ExclusiveGate
from generators.weight_sync.build import build_receiver
from generators.weight_sync.follower import WeightFollower

log = logging.getLogger(__name__)

ROLE = "generator"
BLOCK_S = 0.5  # longest wait of a read for prompts; groups in progress continue meanwhile
LOOK_EVERY_S = 1.0
GRACE_S = 15.0  # for groups in flight when the run ends or a stop is requested; `millrace up` waits longer


def groups_at_once(run: Run, engine_room: int) -> int:
    """Return how many groups a generator holds: the run's setting, or as many as its engine can use.

    Without a setting, the first generator must not take the whole budget: groups that wait in its engine could be
    sampled at once by another.

    Args:
        run: the run, with its budget and the number of its generators.
        engine_room: groups that keep the engine busy.
    """
    generators = run.generators
    if generators.groups_in_flight is not None:
        return generators.groups_in_flight
    share = -(-run.most_in_flight // generators.count)
    return max(1, min(engine_room, share))


class Generator:
    """Run one generator process.

    Args:
        name: unique, HOST-PID-HEX; of its consumer in the group and its heartbeat.
        stop: set by a signal: groups in flight are finished, and no new ones are taken.
    Attributes:
        groups: handed over so far.
        tokens: sampled in these.
    """

    def __init__(self, joined: Joined, engine: Engine, name: str, stop: threading.Event) -> None:
        self._run = joined.run
        self.link = joined.link
        self.keys = joined.keys
        self.engine = engine
        self.name = name
        self.stop = stop
        self.prompts = Consumer(joined.link, joined.keys, PROMPTS, name, lease_s=joined.run.broker.lease_s)
        self._calls = (
            [
                CallStream(joined.link, joined.keys, name, lease_s=joined.run.broker.lease_s, own=own)
                for own in (True, False)
            ]
            if joined.run.has_agents
            else []
        )
        self._receiver = build_receiver(joined.run, joined.link, joined.keys, name)
        self.follower = WeightFollower(Announcements(joined.link, joined.keys), engine, self._receiver)
        self.gate = ExclusiveGate()
        self._chat: Chat | None = None  # set when the engine starts
        self._room = 1  # groups at once; the engine's number once it has started
        self._tasks: dict[asyncio.Task[None], Entry] = {}
        self._meter = WorkMeter()  # of the heartbeat, once there is one
        self._began: dict[str, float] = {}  # groups in progress -> Unix seconds of their start
        self.groups = 0
        self.tokens = 0
        self.turns = 0
        self._desk: CallDesk | None = None
        if self._calls:
            own, shared = self._calls
            self._desk = CallDesk(
                joined.run,
                shared,
                own,
                self.prompts,
                engine=engine,
                gate=self.gate,
                has_floor=self._has_floor,
                count=self._count_turn,
            )
        self._late_for = (
            NO_VERSION  # the newest version that did not come in time: nothing is leased before it
        )
        self._started_at = 0.0  # of the engine, monotonic seconds

    async def run(self, heartbeat: Heartbeat) -> RunState:
        """Sample until the run ends or `stop` is set. Returns the run's last state."""
        state = await asyncio.to_thread(state_of, self.link, self.keys)
        if state.has_ended:
            return state  # starting an engine would take minutes
        self._meter = heartbeat.meter
        renewer = Renewer([self.prompts, *self._calls])
        heartbeat.set_state("starting the engine")
        self._chat = await asyncio.to_thread(open_chat, self._run)
        await self.engine.start()
        self._room = groups_at_once(self._run, self.engine.room)
        self._started_at = time.monotonic()
        following = asyncio.create_task(self.follower.follow())
        try:
            state = await self._work(following, heartbeat)
            await self._finish()
            return state
        finally:
            following.cancel()
            await self._cancel_tasks()
            await asyncio.gather(following, return_exceptions=True)
            renewer.stop()
            await self.engine.close()
            self._receiver.close()

    async def _work(self, following: asyncio.Task[None], heartbeat: Heartbeat) -> RunState:
        looked = 0.0
        state = RunState("", "")
        while not self.stop.is_set():
            if following.done():
                following.result()  # raises its error
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                state = await asyncio.to_thread(state_of, self.link, self.keys)
                if state.has_ended:
                    break
                self._cancel_unwanted()
            room = self._room - self._taken
            if room < self._least or not self._has_weights:
                self._measure()
                heartbeat.set_state(
                    "sampling" if room < self._least else self.follower.state, **self._facts()
                )
                await self._wait_for_any(following)
                continue
            for entry in await asyncio.to_thread(self._lease, room):
                task = asyncio.create_task(self._one(entry))
                task.add_done_callback(lambda _: self._measure())
                self._tasks[task] = entry
            self._measure()
            heartbeat.set_state("sampling" if self._tasks else "waiting for prompts", **self._facts())
            await self._reap()
        return state

    def _lease(self, room: float) -> list[Entry]:
        """Lease as much as there is room for, waiting up to `BLOCK_S` for the first entry."""
        if self._desk is None:
            return self.prompts.lease(int(room), block_s=BLOCK_S)
        return self._desk.lease(room, self._groups_held, self._room, block_s=BLOCK_S)

    @property
    def _groups_held(self) -> int:
        return sum(entry.stream == PROMPTS for task, entry in self._tasks.items() if not task.done())

    @property
    def _taken(self) -> float:
        """How much room is taken, in groups."""
        groups = self._groups_held
        under_way = sum(not task.done() for task in self._tasks)
        return groups + (under_way - groups) * (0 if self._desk is None else self._desk.weight)

    @property
    def _least(self) -> float:
        """The smallest room that an entry takes."""
        return 1 if self._desk is None else self._desk.weight * 0.999

    def _cancel_unwanted(self) -> None:
        """Cancel calls that are no longer awaited."""
        for task, entry in self._tasks.items():
            if self._desk is not None and not task.done() and not self._desk.is_wanted(entry):
                log.info("unwanted group=%s: its call is sampled no further", entry.group_id)
                task.cancel()

    @property
    def _has_weights(self) -> bool:
        """Whether the weights are loaded that leased groups would need."""
        return self.engine.version != NO_VERSION and self.engine.version >= self._late_for

    async def _finish(self) -> None:
        """Give the groups in flight `GRACE_S` to end, and hand the rest back, so that their leases need not expire.

        Leases are handed back even if a group fails meanwhile; the failure is raised afterwards.
        """
        try:
            if self._tasks:
                log.info("finishing groups=%d", len(self._tasks))
                await asyncio.wait(self._tasks, timeout=GRACE_S)
                await self._reap()
            if self._tasks:
                log.warning("unfinished groups=%d after_s=%.0f", len(self._tasks), GRACE_S)
        finally:
            await self._cancel_tasks()  # else a group would hand over an entry that is handed back
            await self._hand_back()

    def hand_back(self) -> int:
        """Give up all leases, so that other generators continue at once. Returns their number."""
        return sum(one.hand_back() for one in (self.prompts, *(calls.consumer for calls in self._calls)))

    async def _hand_back(self) -> None:
        try:
            await asyncio.to_thread(self.hand_back)
            await asyncio.to_thread(self.prompts.leave)
            for calls in self._calls:
                await asyncio.to_thread(calls.leave)
        except BrokerUnavailable as error:  # the leases expire by themselves
            log.warning("not_handed_back stream=%s error=%s", PROMPTS, error)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait_for_any(self, following: asyncio.Task[None]) -> None:
        if self._tasks:
            await asyncio.wait({*self._tasks, following}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            await self._reap()
        else:
            await asyncio.sleep(0.1)

    async def _reap(self) -> None:
        """Remove finished tasks. A failed task ends the generator, and its group is leased again."""
        await asyncio.sleep(0)
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            if not task.cancelled():
                task.result()

    async def _one(self, entry: Entry) -> None:
        """Answer a call, or sample one group, alone if it is its last attempt of several, and hand it over."""
        if self._desk is not None and (calls := self._desk.of(entry)):
            await self._desk.answer(calls, entry, self._spoken)
            return
        prompt, before = await asyncio.to_thread(self._opened, entry)
        if prompt is None:
            return
        if is_last := 0 < self._run.broker.max_attempts - 1 <= before:
            log.warning("last_attempt group=%s: it is sampled alone", prompt.group_id)
        async with self.gate.enter(alone=is_last):
            await self._attempt(entry, prompt)

    def _opened(self, entry: Entry) -> tuple[Prompt | None, int]:
        """Return an entry's prompt, None where it can't be read, and how often sampling it was begun before."""
        prompt = self.prompts.decode(entry, codec.decode_prompt)
        return prompt, 0 if prompt is None or entry.is_new else self.prompts.tries(entry)

    async def _attempt(self, entry: Entry, prompt: Prompt) -> None:
        attempts = await asyncio.to_thread(self.prompts.begin, entry)
        if attempts == 0:
            self.prompts.release(entry)
            return
        if attempts > self._run.broker.max_attempts:
            await asyncio.to_thread(
                dead_letter_exhausted,
                self.prompts,
                entry,
                attempts=attempts - 1,
                most=self._run.broker.max_attempts,
                what="generators began this prompt",
            )
            return
        if not await self._has_floor(prompt.group_id, prompt.floor):
            await asyncio.to_thread(self.prompts.give_up, entry, counts=False)
            return
        try:
            rollout = await self._sample(prompt, attempts)
        except Permanent as error:
            await asyncio.to_thread(
                self.prompts.dead_letter_entry,
                entry,
                reason=str(error),
                attempts=attempts,
                traceback=traceback.format_exc(),
            )
            return
        except Retryable as error:
            log.warning("sampling_failed group=%s attempt=%d error=%s", prompt.group_id, attempts, error)
            await self._note_failure(entry)
            self.prompts.release(entry)  # its lease expires, and a generator tries again
            return
        except Exception:
            self.gate.shut()  # a group that began now would waste an attempt
            await self._note_failure(entry)
            raise
        counted = await asyncio.to_thread(self._hand_over, entry, rollout)
        if not self.groups and counted:
            log.info(
                "first_group group=%s version=%d after_start_s=%.1f",
                prompt.group_id,
                rollout.max_version,
                time.monotonic() - self._started_at,
            )
        self.groups += counted
        self.tokens += rollout.num_tokens * counted
        self._meter.count(groups=counted, tokens=rollout.num_tokens * counted)
        log.debug(
            "sampled group=%s n=%d tokens=%d versions=%d-%d counted=%s took_s=%.2f",
            prompt.group_id,
            prompt.n,
            rollout.num_tokens,
            rollout.min_version,
            rollout.max_version,
            counted,
            rollout.seconds,
        )

    def _hand_over(self, entry: Entry, group: SampledGroup) -> bool:
        """Encode a group and hand it over, in a thread: the event loop drives the engine meanwhile."""
        return self.prompts.hand_over(entry, ROLLOUTS, codec.encode_rollout(group))

    async def _note_failure(self, entry: Entry) -> None:
        """Record the exception being handled, for the dead letter of a group that fails each time."""
        text = traceback.format_exc()
        with contextlib.suppress(PipelineError):  # Redis is away: the dead letter has less information
            await asyncio.to_thread(self.prompts.note_failure, entry, text)

    def _count_turn(self, tokens: int) -> None:
        self.turns += 1
        self.tokens += tokens
        self._meter.count(turns=1, tokens=tokens)

    async def _has_floor(self, group_id: str, floor: int) -> bool:
        """Wait for the version of a group's floor, before its first token. False: it is late; others may have it.

        A group that kept waiting would delay the learner, which needs the oldest first, while others could sample it.
        """
        deadline_s = self._run.generators.update_deadline_s
        try:
            # `wait_for` of Python 3.11 may lose a cancellation that comes with the weights.
            async with asyncio.timeout(deadline_s):
                await self.follower.at_least(floor)
        except TimeoutError:
            self._late_for = max(self._late_for, floor)
            log.warning(
                "update_late group=%s needs=%d held=%d after_s=%.0f for=%s: the group goes to other generators",
                group_id,
                floor,
                self.engine.version,
                deadline_s,
                self.follower.waits_for or "the weights",
            )
            return False
        return True

    async def _sample(self, prompt: Prompt, attempts: int) -> SampledGroup:
        started = time.monotonic()
        self._began[prompt.group_id] = time.time()
        try:
            completions = await answer(prompt, self.engine, self._spoken)
        finally:
            self._began.pop(prompt.group_id, None)
        return SampledGroup(
            prompt=prompt,
            completions=completions,
            generator=self.name,
            seconds=time.monotonic() - started,
            sampled_at=time.time(),
            attempts=attempts,
        )

    @property
    def _spoken(self) -> Chat:
        if self._chat is None:
            raise RuntimeError("something is sampled before run()")
        return self._chat

    def _measure(self) -> None:
        """Report to the meter how much of this generator's room is taken."""
        taken = self._taken / self._room
        self._meter.hold(taken, "prompts" if self._has_weights else "weights")

    def _facts(self) -> dict[str, str]:
        # A lease names the generator of a group but not since when: each renewal restarts its clock.
        began = " ".join(f"{group_id}@{at:.3f}" for group_id, at in self._began.items())
        return {
            "version": str(self.engine.version),
            "in_flight": str(len(self._tasks)),
            "room": str(self._room),
            "groups": str(self.groups),
            **({"turns": str(self.turns)} if self._desk is not None else {}),
            "tokens": str(self.tokens),
            **{name: str(count) for name, count in self.engine.counts.items()},
            "began": began,
        }
