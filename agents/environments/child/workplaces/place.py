"""Define a place where an agent works: it runs commands, and tests after the agent's end.

In: commands of the agent. Out: their output and exit codes, with Harbor's names, so that an agent written for Harbor's
`environment.exec` runs unchanged. `walled` is a place behind bubblewrap's walls, `container` one in a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agents.environments.child.schemas import ServerGone

ENDED_BY_LIMIT = 124  # exit code after a limit, as `timeout` has it


class PlaceBroken(ServerGone):
    """The place failed; neither the agent nor its policy caused it."""


class UnfitRow(Exception):
    """A row has nothing here for an agent to work on; the message says why."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command."""

    stdout: str
    stderr: str  # its last line names the limit that ended it, if any
    return_code: int  # ENDED_BY_LIMIT: a limit ended it


@dataclass(frozen=True, slots=True)
class Tested:
    """The result of the tests."""

    logs: Path  # the folder with their `verifier/`
    code: int | None  # exit code
    printed: str  # their last output
    ended: str  # "" where they ended by themselves, whatever their exit code; else the limit


class Workplace(Protocol):
    """A place where an agent works."""

    workdir: str  # initial folder of commands

    async def exec(
        self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout_s: float
    ) -> ExecResult:
        """Run a command of bash.

        Raises:
            PlaceBroken: it could not be run.
        """
        ...

    async def run(
        self, words: tuple[str, ...], *, row: Any, key: str, socket: str, seed: int, env: Mapping[str, str]
    ) -> None:
        """Run an agent that is a command to its end.

        Args:
            words: of the command.
            key, socket: of the policy.
            env: in addition to every command's variables.
        Raises:
            AgentFailed, PlaceBroken
        """
        ...

    async def test(self, tests: Path, script: str, *, env: Mapping[str, str], timeout_s: float) -> Tested:
        """End all processes of the agent, and run its tests on its result.

        Args:
            tests: folder here, not visible inside before.
            script: in that folder.
        Raises:
            PlaceBroken: they could not be run.
        """
        ...

    async def close(self) -> None:
        """End everything that runs, and remove the place."""
        ...


class WorkplaceEnvironment:
    """The place, as given to an agent that is a function."""

    def __init__(self, place: Workplace, *, deadline_s: float, env: Mapping[str, str]) -> None:
        self._place, self._deadline_s, self._env = place, deadline_s, env

    @property
    def workdir(self) -> str:
        """Return the initial folder of commands."""
        return self._place.workdir

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
    ) -> ExecResult:
        """Run a command of bash, in the work folder unless `cwd` names another, for at most `timeout_sec` seconds."""
        return await self._place.exec(
            command, cwd=cwd, env={**self._env, **(env or {})}, timeout_s=timeout_sec or self._deadline_s
        )


def readable_by_all(folder: Path) -> None:
    """Make a folder of ours and its contents readable for every user; executables stay so."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            is_run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_run else 0o644)
