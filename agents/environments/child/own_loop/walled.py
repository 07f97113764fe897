"""Run a command behind bubblewrap's walls: it reaches only the policy, and sees only the files shown to it.

In: the section, once for all episodes; then the row, and the gateway's socket with the key. Out: the command's result,
as in `own_loop`. Inside there is no network but the command's own loopback, on which `sandbox.harness.forwarder` serves
the policy; files are the system's programs, those of `readable`, and one private folder in memory. Needs Millrace's own
interpreter, whose package `sandbox` has the walls. Everything inside ends with the episode: its supervisor ends it when
this process is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Dict, List, Optional, Tuple

from agents.environments.child.own_loop.function import (
    REWARD_FILE,
    ROW,
    AgentFailed,
    finish_of,
    finish_of_text,
    how_ended,
    variables_of,
)
from agents.environments.child.schemas import ServerGone

PORT = 8000  # on the command's own loopback, which no one else uses
SOCKET, SHOWN, REPORT = "/policy.sock", "/agent", "/report"  # inside
FORWARDER = "forwarder.py"
WALL_S = 86_400.0  # of a command; its episode has its own deadlines
LOOK_S = 0.2  # between two checks of its memory
OUTPUT_BYTES = 16 << 20  # largest output
FILE_BYTES = 1 << 30  # of one file in its folder; the folder's size is bounded too
LAST_BYTES = 8192  # of its output, shown with a failure
ENVIRONMENTS_FILE = "pyvenv.cfg"  # of a virtual environment


class Walled:
    """The walls of a task."""

    def __init__(self, section: Dict[str, Any]) -> None:
        """Find working walls, once for all episodes. Raises the errors of `sandbox.choice`, where there are none."""
        sys.path.insert(0, section["source"])
        try:
            import sandbox
            from sandbox.choice import walls_without_network
            from sandbox.limits import Limits
            from sandbox.local.sandbox import LocalSandbox
            from sandbox.local.toolchain import PATH
            from sandbox.program import Ending, Language, SandboxUnavailable
        finally:
            sys.path.remove(section["source"])
        self.sandbox: LocalSandbox = walls_without_network()
        self.unavailable, self.exited = SandboxUnavailable, Ending.EXITED
        # Its text is read; it is never run outside the walls.
        with open(os.path.join(os.path.dirname(sandbox.__file__), "harness", FORWARDER), "rb") as file:
            self.forwarder = file.read()
        self.limits = Limits(
            wall_s=WALL_S,
            memory_bytes=section["memory_mb"] << 20,
            processes=section["processes"],
            file_bytes=FILE_BYTES,
            scratch_bytes=section["folder_mb"] << 20,
            output_bytes=OUTPUT_BYTES,
        )
        self.command, self.shown = _shown(section["command"], section["readable"], PATH)
        self._try(Language.PYTHON)
        self.kept = {name: os.environ[name] for name in section["variables"] if name in os.environ}

    def _try(self, language: Any) -> None:
        """Run a trivial program with the same files shown. Raises PermissionError where they can't be shown."""
        python = self.sandbox.interpreter.path
        limits = type(self.limits)()
        try:
            self.sandbox.execute(
                (python, "-c", "pass"), readable=self.shown, language=language, limits=limits
            )
        except self.unavailable as error:
            user = ": behind walls root is a user without rights, who must be able to read it (chmod -R o+rX)"
            raise PermissionError(
                f"what `readable` and the command name can't be shown{'' if os.getuid() else user}: {error}"
            ) from None

    def agent(self) -> WalledCommand:
        """Return the agent of an episode."""
        return WalledCommand(self)


class WalledCommand:
    """A command in an episode."""

    takes_socket = True  # of the gateway, its only connection

    def __init__(self, walls: Walled) -> None:
        self._walls = walls
        self._supervisor: Optional[Any] = None

    def reset(self, row: Any, seed: int) -> None:
        """Store the row."""
        self._row, self._seed = row, seed

    def run(self, base_url: str, key: str, socket: str) -> Dict[str, Any]:  # noqa: ARG002
        """Run the command to its end. Raises AgentFailed, and ServerGone for failures of the machinery."""
        try:
            with self._walls.sandbox.shown_folder() as folder:
                return self._run(folder, key, socket)
        except self._walls.unavailable as error:
            raise ServerGone(f"the sandbox failed: {error}") from error

    def _run(self, folder: Any, key: str, socket: str) -> Dict[str, Any]:
        walls = self._walls
        (folder / FORWARDER).write_bytes(walls.forwarder)
        (folder / ROW).write_text(json.dumps(self._row), encoding="utf-8")
        report = folder / "report.json"
        report.touch()
        for file in folder.iterdir():
            file.chmod(0o666 if file == report else 0o644)
        own = "/tmp"  # noqa: S108 - the private folder inside, in memory
        given = variables_of(
            f"http://127.0.0.1:{PORT}",
            key,
            row=f"{SHOWN}/{ROW}",
            reward=f"{own}/{REWARD_FILE}",
            folder=own,
            seed=self._seed,
        )
        python = walls.sandbox.interpreter.path
        self._supervisor = supervisor = walls.sandbox.start_command(
            (python, "-s", "-B", f"{SHOWN}/{FORWARDER}", SOCKET, str(PORT), REPORT, *walls.command),
            readable={folder: SHOWN, type(folder)(socket): SOCKET, **walls.shown},
            writable={report: REPORT},
            env={**walls.kept, **given},
            limits=walls.limits,
            look_s=LOOK_S,
        )
        try:
            outcome = supervisor.ended(WALL_S)
        finally:
            self.close()
        sys.stdout.write((outcome.stdout + outcome.stderr)[-LAST_BYTES:].decode("utf-8", "replace"))
        sys.stdout.flush()
        return self._finish(outcome, report.read_text(encoding="utf-8", errors="replace"))

    def _finish(self, outcome: Any, report: str) -> Dict[str, Any]:
        program = self._walls.command[0]
        if outcome.ending is not self._walls.exited or outcome.exit_code:
            raise AgentFailed(f"{program} was ended behind its walls: {outcome.detail}")
        reward = reward_in(report, program)
        return finish_of_text(reward) if reward else finish_of(None, "")

    def close(self) -> None:
        """End everything that runs inside."""
        if self._supervisor is not None:
            supervisor, self._supervisor = self._supervisor, None
            supervisor.end()


def reward_in(report: str, program: str) -> str:
    """Return the reward that the forwarder reports; "": none. Raises AgentFailed unless the exit code is 0."""
    try:
        found = json.loads(report)
        lost, code, reward = found.get("lost"), found.get("code"), str(found.get("reward", ""))
    except (ValueError, AttributeError, RecursionError):
        raise AgentFailed(f"{program} left no report of its end") from None
    if lost is not None:
        raise AgentFailed(
            f"{lost}: behind the walls there are the system's programs and what `readable` names"
        )
    if not isinstance(code, int) or code:
        raise AgentFailed(f"{program} ended {how_ended(code) if isinstance(code, int) else 'somehow'}")
    return reward


def _shown(command: List[str], readable: List[str], systems: str) -> Tuple[Tuple[str, ...], Dict[Any, str]]:
    """Return the command's words for the inside, and the files shown there, at their own paths.

    A virtual environment's interpreter needs its environment and its base Python shown. A word that names a file below
    a shown folder, relative to the folder of the start, is made absolute.

    Args:
        systems: the folders of the system's programs, first in PATH order.
    Raises:
        FileNotFoundError: no such program, or a path of `readable` does not exist.
    """
    from pathlib import Path

    program = shutil.which(command[0], path=systems) or shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"there is no program {command[0]}")
    shown = {}
    for name in readable:
        if not os.path.exists(name):
            raise FileNotFoundError(f"readable: there is no {name}")
        shown[Path(os.path.abspath(name))] = os.path.abspath(name)
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    if os.path.exists(os.path.join(prefix, ENVIRONMENTS_FILE)):
        base = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        for place in (prefix, *([] if base in ("/usr", "/usr/local", "/") else [base])):
            shown[Path(place)] = place
    elif not any(program.startswith(f"{place}{os.sep}") for place in ("/usr", "/bin", *shown.values())):
        shown[Path(os.path.realpath(program))] = os.path.abspath(program)

    def inside(word: str) -> str:
        place = os.path.abspath(word)
        is_shown = any(place == one or place.startswith(one + os.sep) for one in shown.values())
        return place if os.path.exists(place) and is_shown else word

    return (os.path.abspath(program), *map(inside, command[1:])), shown
