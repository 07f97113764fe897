"""An agent in a place: a command inside, your own function outside, or the loop with bash that Millrace has.

In: the section, once; a row at `reset`; the address and the key of the policy. Out: nothing but how it ended: what it
is worth is said by `judge`, when it has ended or was stopped. A kind of place is a subclass, which makes the place of a
row and judges it. Served in the child's event loop: `judge` ends a `run` that is not over.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.environments.child.imports import imported
from agents.environments.child.workplaces import bash_agent
from agents.environments.child.workplaces.place import Environment, Place

if TYPE_CHECKING:
    from agents.environments.child.own_loop.walled import Walled

Finish = dict[str, Any]


def solver_of(section: Mapping[str, Any]) -> Any:
    """Return the agent that is a function, Millrace's own where none is named. Raises TypeError, as an import does."""
    if section["import_path"] is None:
        return bash_agent.solver(section)
    solve = imported(section["import_path"])
    if not inspect.iscoroutinefunction(solve):
        raise TypeError(
            f"{section['import_path']} is no function of (base_url, api_key, row, environment) with `async def`"
        )
    return solve


def walls_of(section: Mapping[str, Any]) -> Walled:
    """Find walls that hold, once for all episodes. Raises what `sandbox.choice` raises, and FileNotFoundError."""
    from agents.environments.child.own_loop.walled import Walled

    found = Walled({**section, "command": section["command"] or ["bash"]})
    _ = found.sandbox.python_environment  # made before any fork
    return found


class PlacedAgent:
    """An agent in an episode."""

    takes_socket = True  # of the gateway: all that a command inside reaches
    deadline_s: float | None = None  # of the agent's work, by the row

    def __init__(self, section: Mapping[str, Any], solve: Any) -> None:
        self._section, self._solve = section, solve
        self._place: Place | None = None
        self._env: Mapping[str, str] = {}  # of what the agent runs
        self._words: tuple[str, ...] = ()  # of a command, as they are inside
        self._row: dict[str, Any] = {}  # as the agent sees it
        self._seed = 0

    @property
    def place(self) -> Place:
        """Return the place, once there is one."""
        if self._place is None:
            raise RuntimeError("there is no place before reset")
        return self._place

    async def run(self, base_url: str, key: str, socket: str) -> Finish:
        """Let the agent work to its end. Raises AgentFailed, PlaceBroken, and what the function raises."""
        if self._words:
            await self.place.run(
                self._words, row=self._row, key=key, socket=socket, seed=self._seed, env=self._env
            )
        else:
            environment = Environment(
                self.place, deadline_s=self._section["command_deadline_s"], env=self._env
            )
            await self._solve(base_url + "/v1", key, self._row, environment)
        return {"reward": None, "remark": ""}

    async def judge(self) -> Finish:
        """Say what the agent has made is worth."""
        raise NotImplementedError

    async def close(self) -> None:
        """Leave the place."""
        if self._place is not None:
            place, self._place = self._place, None
            await place.close()


def seen(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the agent is given of a row: not its answer, and not where that lies."""
    return {name: value for name, value in row.items() if name not in {"answer", "extra_info", "type"}}
