"""Run the environments of one worker: an episode begins in a child of its task's parent process, and answers each turn.

In: a task, its row and the seeds; then the policy's messages. Out: messages, rewards and the environment's end, or
`EnvironmentFailed`, with what happened and who caused it, or `Disturbed`. A parent process that died or did not start
is restarted, after a growing pause. Used by the agents' worker, in its event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from agents.environments.child.serving import EXIT_MEMORY
from agents.environments.processes import OWN_SIGNALS, Child, EnvironmentChildEnded, Parent, Reply, how_ended
from agents.environments.seam import (
    Beginning,
    Disturbed,
    EnvironmentFailed,
    EnvironmentStep,
    FailureKind,
    FailureStage,
    Finish,
)
from broker.messages import Turn
from config.episodes.environment_section import EnvironmentSection
from config.episodes.own_loop import AgentSection
from config.logs import mask
from config.run import Run
from tasks.turns import text_of

log = logging.getLogger(__name__)

CLOSE_S: Final = 5.0  # for an environment to close in
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0  # before a parent process is restarted
SOUND_S: Final = 30.0  # of life, after which the pauses are reset


class Environments:
    """The environments of all tasks of a run, in one worker."""

    def __init__(self, run: Run) -> None:
        self._tasks = {
            name: _Task(name, task.environment, run)
            for name, task in run.scorers.tasks.items()
            if task.environment is not None
        }

    async def begin(
        self,
        task: str,
        row: Mapping[str, Any],
        messages: Sequence[Turn],
        *,
        seed: int,
        own_seed: int,
        token: str,
        wants_reference: bool = False,
    ) -> tuple[Episode, Beginning]:
        """Begin an episode.

        Args:
            task: a name of `scorers.tasks` that has an environment.
            row: the row's `verification_info` and columns.
            messages: the row's.
            seed: of the group, whose episodes all get one problem.
            own_seed: of the episode, for random events within it.
            token: of this attempt, for names of external resources.
            wants_reference: whether to request the environment's reference play.
        Raises:
            EnvironmentFailed, Disturbed: the episode could not begin.
        """
        found = self._tasks[task]
        episode = Episode(found, await found.child())
        try:
            reply = await episode.ask(
                FailureStage.RESET,
                found.section.reset_deadline_s,
                row=dict(row),
                seed=seed,
                own_seed=own_seed,
                token=token,
                wants_reference=wants_reference,
            )
            is_begun_by_agent = isinstance(found.section, AgentSection)
            return episode, _beginning(reply["result"], messages, task, may_be_empty=is_begun_by_agent)
        except BaseException:
            await episode.close()
            raise

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(task.close() for task in self._tasks.values()))


class Episode:
    """One episode in a child."""

    def __init__(self, task: _Task, child: Child) -> None:
        self._task, self._child = task, child
        self._number = next(task.numbers)
        self._is_open = True
        child.episodes.add(self._number)

    async def step(self, said: Turn) -> EnvironmentStep:
        """Pass the policy's message to the environment, and return its answer.

        Args:
            said: the assistant's message. Arguments of a tool call are a JSON text; an unparsable call has the reason
                under `error`.
        Raises:
            EnvironmentFailed, Disturbed: the episode is over.
        """
        reply = await self.ask(FailureStage.STEP, self._task.section.step_deadline_s, said=said)
        found = reply["result"]
        return EnvironmentStep(
            messages=tuple(map(_masked, found["messages"])),
            reward=found["reward"],
            terminated=found["terminated"],
            truncated=found["truncated"],
            seconds=reply["seconds"],
            remark=mask(found["remark"]),
        )

    async def run(self, base_url: str, key: str, deadline_s: float, *, socket: str = "") -> Finish:
        """Let an agent that owns its loop run to its end.

        Args:
            base_url: of the policy; unique to this play, with the key.
            deadline_s: wall-clock seconds.
            socket: the path of the policy's Unix socket, for agents behind walls.
        Raises:
            EnvironmentFailed, Disturbed: the episode is over.
        """
        asked = await self.ask(FailureStage.RUN, deadline_s, base_url=base_url, key=key, socket=socket)
        return _finish(asked["result"])

    async def judge(self, deadline_s: float) -> Finish:
        """Judge an agent's result; end it first if it still runs.

        Raises:
            EnvironmentFailed, Disturbed: the episode is over.
        """
        return _finish((await self.ask(FailureStage.JUDGE, deadline_s))["result"])

    @property
    def is_waiting(self) -> bool:
        """Whether nobody works on the episode: never, since a child does."""
        return False

    def stop(self) -> None:
        """End the process of a running agent, where it has only this episode; otherwise closing ends it."""
        if self._child.episodes == {self._number} and not self._child.is_over:
            self._child.kill()

    @property
    def last_words(self) -> str:
        """Return the last output lines of its process; with several episodes in one child, of all."""
        return mask(self._child.last_words)

    async def close(self) -> None:
        """Close the environment, within `CLOSE_S`. Raises nothing except a cancellation."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self._child.is_over:
                with contextlib.suppress(TimeoutError, EnvironmentChildEnded):
                    await self._child.ask(self._number, "close", CLOSE_S)
        finally:
            self._child.episodes.discard(self._number)
            self._task.let_go(self._child)

    async def ask(self, stage: FailureStage, deadline_s: float, **what: Any) -> Reply:
        """Return the child's reply. Raises EnvironmentFailed or Disturbed, after which the episode is over."""
        try:
            reply = await self._child.ask(self._number, stage.value, deadline_s, **what)
        except TimeoutError:
            raise self._failed(
                stage, FailureKind.DEADLINE, f"no answer within {stage}_deadline_s={deadline_s:g}"
            ) from None
        except EnvironmentChildEnded as error:
            raise self._ended(stage, error) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failed(
                stage, FailureKind.ERROR, f"what it is to be told can't travel: {error}"
            ) from None
        if "deadline" in reply:
            where = f", while at\n{reply['deadline']}" if reply["deadline"] else ""
            raise self._failed(
                stage, FailureKind.DEADLINE, f"no answer within {stage}_deadline_s={deadline_s:g}{where}"
            )
        if "error" in reply:
            raise self._failed(
                stage,
                FailureKind.ERROR,
                reply["error"],
                is_foreign=reply["is_unreachable"],
                is_unreachable=reply["is_unreachable"],
            )
        return reply

    def _ended(self, stage: FailureStage, ended: EnvironmentChildEnded) -> EnvironmentFailed | Disturbed:
        """Say who caused the child's end."""
        status = ended.status
        if ended.is_killed or status is None or ended.running not in (0, self._number):
            return Disturbed(
                f"task {self._task.name}: its process ended {how_ended(status)}, and not for its sake"
            )
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == EXIT_MEMORY:
            return self._failed(
                stage, FailureKind.MEMORY, f"memory_mb={self._task.section.memory_mb} is used up"
            )
        is_outside = os.WIFSIGNALED(status) and os.WTERMSIG(status) not in OWN_SIGNALS
        by_whom = ", from outside: by a person, or for want of memory on this machine" if is_outside else ""
        is_alone = len(self._child.episodes) == 1 or ended.running == self._number
        what = f"its process ended {how_ended(status)}{by_whom}"
        return self._failed(stage, FailureKind.EXITED, what, is_foreign=is_outside or not is_alone)

    def _failed(
        self,
        stage: FailureStage,
        kind: FailureKind,
        what: str,
        *,
        is_foreign: bool = False,
        is_unreachable: bool = False,
    ) -> EnvironmentFailed:
        printed = self._child.last_words
        said = f"\nit printed last:\n{printed}" if printed else ""
        return EnvironmentFailed(
            mask(f"task {self._task.name}: the environment failed in {stage}: {what}{said}"),
            stage=stage,
            kind=kind,
            is_policys=stage in (FailureStage.STEP, FailureStage.RUN)
            and self._task.section.policy_can_break
            and not is_foreign,
            is_unreachable=is_unreachable,
        )


class _Task:
    """A task's parent process, and the children with room."""

    def __init__(self, name: str, section: EnvironmentSection, run: Run) -> None:
        self.name, self.section, self.numbers = name, section, count(1)
        self._room = run.agents.episodes_per_child
        self._walls = {"walls": run.scorers.sandbox, "sandbox_urls": run.scorers.sandbox_urls}
        self._parent: Parent | None = None
        self._children: list[Child] = []
        self._lock = asyncio.Lock()
        self._failure: EnvironmentFailed | None = None
        self._pause_s, self._next_s = FIRST_PAUSE_S, 0.0  # before the next restart
        self._started_s = 0.0

    async def child(self) -> Child:
        """Return a child with room for an episode. Raises EnvironmentFailed."""
        async with self._lock:
            parent = await self._living_parent()
            self._children = [child for child in self._children if not child.is_over]
            for child in self._children:
                if child.has_room:
                    return child
            child = await parent.fork()
            self._children.append(child)
            return child

    def let_go(self, child: Child) -> None:
        """End a child without episodes."""
        if not child.episodes and not child.is_over:
            child.kill()

    async def close(self) -> None:
        """End all processes."""
        if self._parent is not None:
            await self._parent.close()

    async def _living_parent(self) -> Parent:
        """Return the parent process, restarted where it has died. Raises EnvironmentFailed."""
        if self._parent is not None and self._parent.is_alive:
            return self._parent
        now = asyncio.get_running_loop().time()
        if self._parent is not None:
            log.warning("environments_parent_ended task=%s said=%r", self.name, self._parent.last_words)
            await self._parent.close()
            self._parent = None
            self._note_end(now)
        if now < self._next_s and (before := self._failure) is not None:
            raise EnvironmentFailed(str(before), stage=before.stage, kind=before.kind)
        parent = Parent(self.section, self.name, episodes_per_child=self._room, walls=self._walls)
        try:
            await parent.start()
        except EnvironmentFailed as error:
            log.warning("environments_parent_failed task=%s error=%s", self.name, error)
            await parent.close()
            self._note_end(asyncio.get_running_loop().time())
            self._failure = error
            raise
        except BaseException:
            await parent.close()
            raise
        self._started_s = asyncio.get_running_loop().time()
        self._parent = parent
        return parent

    def _note_end(self, now: float) -> None:
        """Extend the pause before the next start, unless the last process worked for a while."""
        self._pause_s = (
            FIRST_PAUSE_S if now - self._started_s > SOUND_S else min(2 * self._pause_s, LONGEST_PAUSE_S)
        )
        self._next_s = now + self._pause_s


def _masked(message: Turn) -> Turn:
    """Return a message with secrets masked; an error's text may contain an address with a key."""
    return {**message, "content": mask(text_of(message))} if message.get("is_error") else message


def _finish(found: Reply) -> Finish:
    """Read an agent's result."""
    return Finish(reward=found["reward"], remark=mask(found["remark"]), answer=found.get("answer"))


def _beginning(found: Reply, messages: Sequence[Turn], task: str, *, may_be_empty: bool) -> Beginning:
    """Read the reply to a reset. Raises EnvironmentFailed where it is not valid."""
    given = tuple(found["messages"]) if found["is_whole"] else (*messages, *found["messages"])
    if not given and not may_be_empty:
        what = f"task {task}: neither the row nor reset has a message to begin with"
        raise EnvironmentFailed(what, stage=FailureStage.RESET, kind=FailureKind.ERROR)
    low_high = found["reward_range"]
    return Beginning(
        messages=given,
        tools=tuple(found["tools"]),
        reward_range=None if low_high is None else (low_high[0], low_high[1]),
        reference=None if found["reference"] is None else tuple(found["reference"]),
        deadline_s=found["deadline_s"],
    )
