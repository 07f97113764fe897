"""Play Harbor's task directories: the agent works in the task's environment, then the task's own tests reward it.

In: a row with a task directory. Out: the reward that the tests write. A task without an image is played behind
bubblewrap's walls, on the files of its `environment/`; others in a container. The tests and the folder of their logs
appear only after the agent has ended. Tests that crash, time out or write no reward raise `VerifierBroke`, which is no
reward of 0. Needs Millrace's own interpreter, which has the walls.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.environments.child.prepared import PreparedKind
from agents.environments.child.workplaces.agent import Finish, PlacedAgent, seen, solver_of, walls_of
from agents.environments.child.workplaces.place import PlaceBroken, UnfitRow, Workplace
from agents.environments.child.workplaces.rewards import NoReward, reward_in

if TYPE_CHECKING:
    from agents.environments.child.own_loop.walled import Walled
    from agents.environments.child.workplaces.engine import ContainerEngine
    from tasks.harbor import HarborTask

TEMPLATE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")  # ${NAME}, ${NAME:-default}


class VerifierBroke(Exception):
    """The tests of a task did not reward the agent's work; the message says why."""


def prepare(section: dict[str, Any]) -> PreparedKind:
    """Import the agent, and find walls: without them, tasks that need them fail by name."""
    sys.path.append(section["source"])  # permanently: some of it is imported on first use
    return PreparedKind(functools.partial(HarborAgent, HarborKind(section)), is_async=True)


class HarborKind:
    """The common part of a task's episodes."""

    def __init__(self, section: dict[str, Any]) -> None:
        self.section = section
        self.solve = None if section["command"] else solver_of(section)
        self._walls = self._no_walls = None
        from agents.environments.child.workplaces.walled import WalledPlace
        from sandbox.program import SandboxMissing
        from tasks.harbor import digest_of, read_task

        self.make_walled, self._read_task, self._digest_of = WalledPlace, read_task, digest_of
        try:
            self._walls = walls_of(section)
        except (SandboxMissing, FileNotFoundError) as error:  # a program that only images have
            self._no_walls = error

    @property
    def walls(self) -> Walled:
        """Return the walls. Raises why there are none."""
        if self._walls is None:
            raise PlaceBroken(f"it asks for no image, and behind walls: {self._no_walls}")
        return self._walls

    @functools.cached_property
    def engine(self) -> ContainerEngine:
        """Return the container engine. Raises PlaceBroken, where there is none."""
        from agents.environments.child.workplaces.engine import find_engine

        return find_engine(self.section["engine"], self.section["build_words"])

    def task_of(self, row: Mapping[str, Any]) -> HarborTask:
        """Return the task of a row. Raises UnfitRow, and BadMessage for an invalid folder."""
        answer = row.get("answer")
        named = answer.get("value", answer) if isinstance(answer, Mapping) else answer
        named = {"folder": named} if isinstance(named, str) else named
        if not isinstance(named, Mapping) or not isinstance(named.get("folder"), str):
            raise UnfitRow('a row of type harbor has {"answer": {"folder": ...}}, the task directory')
        folder = Path(named["folder"])
        if self.section["root"] is not None:
            folder = Path(self.section["root"]) / folder.name
        task = self._read_task(folder.absolute())
        digest = named.get("digest")
        if digest is not None and digest != self._digest_of(task.folder):
            raise UnfitRow(
                f"{folder} is not as it was when `millrace prepare` made the row: prepare it again"
            )
        return task


class HarborAgent(PlacedAgent):
    """An agent in a task directory."""

    def __init__(self, kind: HarborKind) -> None:
        super().__init__(kind.section, kind.solve)
        self._kind = kind

    async def reset(self, row: Mapping[str, Any], seed: int) -> None:
        """Make the place. Raises UnfitRow, BadMessage, PlaceBroken."""
        self._task = task = await asyncio.to_thread(self._kind.task_of, row)
        self._row, self._seed = {**seen(row), "instruction": task.instruction}, seed
        self._env = filled(task.env)
        self.deadline_s = task.agent_s
        self._place = await (self._in_container(task) if task.needs_image else self._behind_walls(task))

    async def _behind_walls(self, task: HarborTask) -> Workplace:
        if task.agent_user or task.verifier_user:
            raise UnfitRow(
                f"{task.folder}: [agent] and [verifier] user need an image: behind walls there is one user"
            )
        walls = self._kind.walls
        is_command = bool(self._section["command"])
        place = self._kind.make_walled(
            walls, memory_bytes=task.memory_mb << 20, env={}, is_command=is_command
        )
        self._place = place  # closed in any case
        if is_command:
            self._words = walls.command
        await asyncio.to_thread(
            place.open,
            lambda work: shutil.copytree(task.environment, work, symlinks=True, dirs_exist_ok=True),
        )
        return place

    async def _in_container(self, task: HarborTask) -> Workplace:
        from agents.environments.child.workplaces.container import ContainerPlace

        place = ContainerPlace(self._kind.engine, task, self._section)
        self._place = place
        self._words = tuple(self._section["command"])
        await place.open()
        return place

    async def judge(self) -> Finish:
        """Run the tests. Raises VerifierBroke, PlaceBroken."""
        from sandbox.local.folders import NestedTooDeeply

        task = self._task
        env = {**self._env, **filled(task.verifier_env)}
        most_s = min(task.verifier_s, self._section["judge_deadline_s"])
        try:
            tested = await self.place.test(task.tests, task.script, env=env, timeout_s=most_s)
        except NestedTooDeeply as error:  # caused by the agent
            return {"reward": 0.0, "remark": f"the tests could not be given the work folder: {error}"}
        if tested.ended:
            raise VerifierBroke(f"the tests were ended: {tested.ended}{_last(tested.printed)}")
        try:
            reward, remark = reward_in(tested.logs)
        except NoReward as error:
            raise VerifierBroke(
                f"the tests ended with exit code {tested.code} and no reward: {error}{_last(tested.printed)}"
            ) from None
        return {"reward": reward, "remark": remark}


def _last(printed: str) -> str:
    """Return the tests' last output, as part of a message."""
    return f"; they printed last:\n{printed.strip()}" if printed.strip() else ""


def filled(values: Mapping[str, str]) -> dict[str, str]:
    """Return variables with templates filled from this process's own. Raises UnfitRow for unset ones."""

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = os.environ.get(name, default)
        if found is None:
            raise UnfitRow(
                f"task.toml wants the variable {name}, which is not set where the agents run; one that holds a secret "
                "has to be named in `variables`"
            )
        return found

    return {name: TEMPLATE.sub(value_of, value) for name, value in values.items()}
