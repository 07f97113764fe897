"""Run an agent in a place: a command inside, the user's function outside, or Millrace's own loop with bash.

In: the section, once; a row at `reset`; the address and the key of the policy. Out: only how it ended: `judge` returns
its reward, after it has ended or was stopped. A subclass for each kind of place makes the place of a row and judges it.
Runs in the child's event loop: `judge` ends a `run` that is not finished.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.environments.child.imports import imported
from agents.environments.child.workplaces import bash_agent
from agents.environments.child.workplaces.place import Workplace, WorkplaceEnvironment

if TYPE_CHECKING:
    from agents.environments.child.own_loop.walled import Walled

Finish = dict[str, Any]


def solver_of(section: Mapping[str, Any]) -> Any:
    """Return the agent function, Millrace's own by default. Raises TypeError, and import errors."""
    if section["import_path"] is None:
        return bash_agent.solver(section)
    solve = imported(section["import_path"])
    if not inspect.iscoroutinefunction(solve):
        raise TypeError(
            f"{section['import_path']} is no function of (base_url, api_key, row, environment) with `async def`"
        )
    return solve


def walls_of(section: Mapping[str, Any]) -> Walled:
    """Find working walls, once for all episodes. Raises the errors of `sandbox.choice`, and FileNotFoundError."""
    from agents.environments.child.own_loop.walled import Walled

    found = Walled({**section, "command": section["command"] or ["bash"]})
    _ = found.sandbox.python_environment  # made before any fork
    return found


class PlacedAgent:
    """An agent in an episode."""

    takes_socket = True  # of the gateway: the only connection of a command inside
    deadline_s: float | None = None  # for the agent's work, from the row

    def __init__(self, section: Mapping[str, Any], solve: Any) -> None:
        self._section, self._solve = section, solve
        self._place: Workplace | None = None
        self._env: Mapping[str, str] = {}  # of the agent's processes
        self._words: tuple[str, ...] = ()  # of a command, for the inside
        self._row: dict[str, Any] = {}  # without what the agent may not see
        self._seed = 0

    @property
    def place(self) -> Workplace:
        """Return the place, once it exists."""
        if self._place is None:
            raise RuntimeError("there is no place before reset")
        return self._place

    async def run(self, base_url: str, key: str, socket: str) -> Finish:
        """Let the agent work to its end. Raises AgentFailed, PlaceBroken, and the function's errors."""
        if self._words:
            await self.place.run(
                self._words, row=self._row, key=key, socket=socket, seed=self._seed, env=self._env
            )
        else:
            environment = WorkplaceEnvironment(
                self.place, deadline_s=self._section["command_deadline_s"], env=self._env
            )
            await self._solve(base_url + "/v1", key, self._row, environment)
        return {"reward": None, "remark": ""}

    async def judge(self) -> Finish:
        """Judge the agent's result."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the place."""
        if self._place is not None:
            place, self._place = self._place, None
            await place.close()


def seen(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a row for the agent: without its answer or the location of one."""
    return {name: value for name, value in row.items() if name not in {"answer", "extra_info", "type"}}
