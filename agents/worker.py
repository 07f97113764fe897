"""Play the episodes of many groups at once, until the run ends: the agents' loop.

In: leased entries of `episodes`. Out: one entry of `rollouts` per group. Each group is an asyncio task with one for
each of its episodes; calls to Redis run in threads, environments in child processes. A crash loses
nothing: the group is leased again, recorded turns are found again, and calls in progress continue. For the same reason,
a worker that is asked to end hands its groups back at once. Consumes: episodes, records. Produces: calls, ends,
rollouts. Ends with the run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from agents.asking import EpisodeCounts
from agents.environments.runner import Environments
from agents.group import GroupPlay
from agents.lost_time import LostTime
from agents.rendering.build import open_rendering
from agents.rendering.rendering import Rendering
from agents.turns import TurnDesk
from broker.codec import decode_prompt
from broker.errors import BrokerUnavailable
from broker.joining import Joined, RunState, state_of
from broker.keys import EPISODES
from broker.messages import Prompt
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.work_meter import WorkMeter
from broker.protocol.episodes import Episodes
from broker.protocol.leases import Consumer, Renewer
from broker.protocol.streams import Entry
from config.episodes.own_loop import AgentSection
from sandbox.choice import check_walls

if TYPE_CHECKING:  # it brings an HTTP server, which runs without agents of their own loop need not
    from agents.gateway.server import Gateway

log = logging.getLogger(__name__)

BLOCK_S = 0.5  # longest wait of a read for groups; those in progress continue meanwhile
LOOK_EVERY_S = 1.0
THREADS = 16  # for blocking calls to Redis, one of which waits for groups


class AgentWorker:
    """Run one agents' process.

    Args:
        name: unique, HOST-PID-HEX; of its consumer in the group and its heartbeat.
        stop: set by a signal: groups in progress are handed back, and no new ones are taken.
    Attributes:
        groups: handed over so far.
    """

    def __init__(self, joined: Joined, name: str, stop: threading.Event) -> None:
        self._run = joined.run
        self.link, self.keys = joined.link, joined.keys
        self.name, self.stop = name, stop
        self.consumer = Consumer(joined.link, joined.keys, EPISODES, name, lease_s=joined.run.broker.lease_s)
        self._episodes = Episodes(self.consumer)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="redis")
        self._desk = TurnDesk(self._episodes, self._in_thread, lease_s=joined.run.broker.lease_s)
        self._tasks: dict[asyncio.Task[None], int] = {}  # -> number of the group's episodes
        self._plays: dict[str, asyncio.Task[None]] = {}  # by entry
        self._meter = WorkMeter()  # of the heartbeat, once there is one
        self._counts = EpisodeCounts()
        self._lost = LostTime()
        self._gateway: Gateway | None = None
        self._began: dict[str, float] = {}  # groups in progress -> Unix seconds of their start
        self.groups = 0

    async def run(self, heartbeat: Heartbeat) -> RunState:
        """Play until the run ends or `stop` is set. Returns the run's last state."""
        state: RunState = await self._in_thread(state_of, self.link, self.keys)
        if state.has_ended:
            return state
        self._meter = heartbeat.meter
        renewer = Renewer([self.consumer])
        heartbeat.set_state("starting")
        rendering = await self._in_thread(open_rendering, self._run)
        environments = Environments(self._run)
        if any(isinstance(task.environment, AgentSection) for task in self._run.scorers.tasks.values()):
            if self._run.walls_agents:
                await self._in_thread(check_walls)
            from agents.gateway.server import gateway_of

            self._gateway = gateway_of(self._run)
            await self._gateway.start()
        gc.freeze()  # objects of the imports: repeated garbage collection of them takes a fifth of the worker's time
        self._desk.start()
        try:
            return await self._work(environments, rendering, heartbeat)
        finally:
            await self._cancel_tasks()
            await self._hand_back()
            renewer.stop()
            if self._gateway is not None:
                await self._gateway.close()
            await environments.close()
            self._desk.close()
            self._threads.shutdown(wait=False)

    async def _in_thread(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args, **named))

    async def _work(self, environments: Environments, rendering: Rendering, heartbeat: Heartbeat) -> RunState:
        looked = 0.0
        state = RunState("", "")
        while not self.stop.is_set():
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                state = await self._in_thread(state_of, self.link, self.keys)
                if state.has_ended:
                    break
                self._lost.note(state.lost_s)
            self._measure()
            heartbeat.set_state("playing" if self._tasks else "waiting for episodes", **self._facts())
            if self._has_room:
                for entry in await self._in_thread(self.consumer.lease, 1, block_s=BLOCK_S):
                    await self._begin(entry, environments, rendering)
            else:
                await asyncio.wait(self._tasks, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            self._reap()
        return state

    @property
    def _has_room(self) -> bool:
        """Whether another group of the run's training groups' size can be played."""
        playing = sum(self._tasks.values())
        return not playing or playing + self._run.sampling.group_size <= self._run.agents.episodes

    async def _leave(self, entry: Entry) -> None:
        """End an older play of an entry that was lost and is leased again: it would release the new lease."""
        if (older := self._plays.get(entry.entry_id)) is None:
            return
        older.cancel()
        await asyncio.wait([older])
        self.consumer.hold(entry)

    async def _begin(self, entry: Entry, environments: Environments, rendering: Rendering) -> None:
        await self._leave(entry)
        prompt = await self._in_thread(self.consumer.decode, entry, decode_prompt)
        if prompt is None:
            return
        if not self._run.plays(prompt.task):
            reason = f"scorers.tasks.{prompt.task} has no environment, and the group came as episodes"
            await self._in_thread(self.consumer.dead_letter_entry, entry, reason=reason, attempts=0)
            return
        play = GroupPlay(
            self._run,
            self.consumer,
            entry,
            episodes=self._episodes,
            desk=self._desk,
            environments=environments,
            rendering=rendering,
            gateway=self._gateway,
            in_thread=self._in_thread,
            counts=self._counts,
            lost_since=self._lost.since,
        )
        task = asyncio.create_task(self._one(play, prompt, entry))
        self._tasks[task] = prompt.n
        self._plays[entry.entry_id] = task

    async def _one(self, play: GroupPlay, prompt: Prompt, entry: Entry) -> None:
        """Play one group. A bug ends the worker, and is in the group's dead letter if it ends every worker."""
        self._began[prompt.group_id] = time.time()
        try:
            counted = await play.play(prompt)
        except Exception:
            await self._in_thread(self.consumer.note_failure, entry, traceback.format_exc())
            raise
        finally:
            del self._began[prompt.group_id]
        self.groups += counted
        self._meter.count(groups=int(counted))
        log.debug("played group=%s n=%d counted=%s", prompt.group_id, prompt.n, counted)

    def _reap(self) -> None:
        """Remove finished tasks. A failed task ends the worker, and its group is leased again."""
        self._plays = {entry_id: task for entry_id, task in self._plays.items() if not task.done()}
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            if not task.cancelled():
                task.result()

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hand_back(self) -> int:
        """Give up all leases, so that other workers continue at once. Returns their number."""
        return self.consumer.hand_back()

    async def _hand_back(self) -> None:
        try:
            await self._in_thread(self.consumer.hand_back)
            await self._in_thread(self.consumer.leave)
        except BrokerUnavailable as error:  # the leases expire by themselves
            log.warning("not_handed_back stream=%s error=%s", EPISODES, error)

    def _measure(self) -> None:
        taken = sum(n for task, n in self._tasks.items() if not task.done())
        self._meter.hold(min(1.0, taken / self._run.agents.episodes), "episodes")

    def _facts(self) -> dict[str, str]:
        counts = self._counts
        return {
            "in_flight": str(sum(self._tasks.values())),
            "room": str(self._run.agents.episodes),
            "groups": str(self.groups),
            "began": " ".join(f"{group_id}@{at:.3f}" for group_id, at in self._began.items()),
            "turns": str(counts.turns),
            "tool_calls": str(counts.calls),
            "tool_errors": str(counts.tool_errors),
            "tokens_sampled": str(counts.sampled),
            "tokens_observed": str(counts.observed),
            "breaks": str(counts.breaks),
            "environment_s": f"{counts.environment_s:.3f}",
            "queue_s": f"{counts.queue_s:.3f}",
            "sampling_s": f"{counts.sampling_s:.3f}",
            "overridden": str(counts.overridden),
            "auxiliary": str(counts.auxiliary),
            "replayed": str(counts.replayed),
            "replayed_s": f"{counts.replayed_s:.3f}",
            "ends": " ".join(f"{end}={count}" for end, count in sorted(counts.ends.items())),
        }
