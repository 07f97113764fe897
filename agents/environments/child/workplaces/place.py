"""A place where an agent works: commands are run in it, and tests, once the agent has ended.

In: commands of the agent. Out: what they print and their exit code, in Harbor's own terms, so that an agent written for
`environment.exec` of Harbor runs as it is. `walled` is one behind bubblewrap's walls, `container` one in a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agents.environments.child.schemas import ServerGone

ENDED_BY_LIMIT = 124  # exit code of what was ended by a limit, as `timeout` has it


class PlaceBroken(ServerGone):
    """The place failed, and neither the agent nor its policy had a part in it."""


class UnfitRow(Exception):
    """A row has nothing that an agent could work at here; the message says why."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What came of a command."""

    stdout: str
    stderr: str  # its last line says which limit ended it, if one did
    return_code: int  # ENDED_BY_LIMIT: a limit ended it


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of the tests."""

    logs: Path  # folder in which they left `verifier/`
    code: int | None  # how they ended
    printed: str  # their last words
    ended: str  # "" where they ended by themselves, whatever their exit code; else by which limit


class Place(Protocol):
    """Where an agent works."""

    workdir: str  # the folder that commands begin in

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
            env: beside the variables that commands have anyway.
        Raises:
            AgentFailed, PlaceBroken
        """
        ...

    async def test(self, tests: Path, script: str, *, env: Mapping[str, str], timeout_s: float) -> Tested:
        """End all that the agent has left running, and run its tests on what it has made.

        Args:
            tests: folder here, which nothing inside has seen before.
            script: of that folder.
        Raises:
            PlaceBroken: they could not be run.
        """
        ...

    async def close(self) -> None:
        """End all that runs, and remove the place."""
        ...


class Environment:
    """What an agent that is a function is given for the place it works in."""

    def __init__(self, place: Place, *, deadline_s: float, env: Mapping[str, str]) -> None:
        self._place, self._deadline_s, self._env = place, deadline_s, env

    @property
    def workdir(self) -> str:
        """Return the folder that commands begin in."""
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
    """Let every user read a folder of ours and what is below it; what can be run stays so."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            is_run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_run else 0o644)
