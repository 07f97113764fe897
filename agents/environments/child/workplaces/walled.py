"""Work behind bubblewrap's walls: a work folder on disk, the system's programs, no network except to the policy.

In: the initial files. Out: the output of commands. The work folder and /tmp persist between commands; processes that a
command leaves end with it. The tests are shown after the last command has ended: their folder is read-only and new,
/tmp is empty again, and the folder of their logs did not exist before. An episode runs as one user, whom nothing else
uses. Needs Millrace's own interpreter, whose package `sandbox` has the walls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.environments.child.own_loop.function import REWARD_FILE, ROW, AgentFailed, variables_of
from agents.environments.child.own_loop.walled import (
    FORWARDER,
    LOOK_S,
    PORT,
    REPORT,
    SHOWN,
    SOCKET,
    WALL_S,
    Walled,
    reward_in,
)
from agents.environments.child.workplaces.place import (
    ENDED_BY_LIMIT,
    ExecResult,
    PlaceBroken,
    Tested,
    readable_by_all,
)
from sandbox.local.folders import give_folder
from sandbox.local.supervisors import Supervisor
from sandbox.local.toolchain import PATH
from sandbox.program import Ending, ProgramOutcome, SandboxUnavailable

WORK, SCRATCH, TESTS, LOGS = "/app", "/tmp", "/tests", "/logs"  # noqa: S108 - inside
GRACE_S = 30.0  # beyond a command's own time: for the walls' setup and teardown
LAST_BYTES = 8192  # of the output of an agent or the tests


class WalledPlace:
    """A place behind the walls.

    Args:
        walls: of the task.
        memory_bytes: of all processes together.
        env: variables of everything inside.
        is_command: whether the agent is a command, which runs inside to its end.
    Raises:
        PlaceBroken: a file can't be shown.
    """

    workdir = WORK

    def __init__(self, walls: Walled, *, memory_bytes: int, env: Mapping[str, str], is_command: bool) -> None:
        self._walls = walls
        self._resources = contextlib.ExitStack()
        self._lock = asyncio.Lock()
        self._supervisor: Supervisor | None = None
        python = walls.sandbox.python_environment
        self._shown = {python.folder: python.inside, **python.shown, **walls.shown}
        self._env = {**walls.kept, "PATH": f"{python.inside}/bin:{PATH}", **env}
        self._limits = replace(walls.limits, memory_bytes=memory_bytes)
        below = [path for path in walls.shown.values() if path.startswith((f"{WORK}/", f"{SCRATCH}/"))]
        if below and not is_command:
            raise PlaceBroken(
                f"readable: {below[0]} can't be shown: inside {WORK} and {SCRATCH} are the agent's own"
            )

    def open(self, fill: Any) -> None:
        """Make the work folder. Raises PlaceBroken, and the errors of `fill`.

        Args:
            fill: receives the empty folder.
        """
        try:
            self._folder = self._resources.enter_context(self._walls.sandbox.shown_folder())
        except SandboxUnavailable as error:
            raise PlaceBroken(f"the sandbox failed: {error}") from error
        for name in ("work", "tmp"):
            (self._folder / name).mkdir()
        fill(self._folder / "work")

    @property
    def work(self) -> Path:
        """The path of the work folder, on this side."""
        return self._folder / "work"

    async def exec(
        self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout_s: float
    ) -> ExecResult:
        """Run a command of bash. Raises PlaceBroken."""
        outcome = await self._ended(
            ("bash", "-c", command), cwd=cwd or WORK, env=dict(env or {}), wall_s=timeout_s
        )
        said = [part.decode("utf-8", "replace") for part in (outcome.stdout, outcome.stderr)]
        if outcome.exit_code is None:
            said[1] += f"\nit was ended: {outcome.detail}\n"
        code = ENDED_BY_LIMIT if outcome.exit_code is None else outcome.exit_code
        return ExecResult(stdout=said[0], stderr=said[1], return_code=code if code >= 0 else 128 - code)

    async def run(
        self, words: tuple[str, ...], *, row: Any, key: str, socket: str, seed: int, env: Mapping[str, str]
    ) -> None:
        """Run the agent to its end. Raises AgentFailed, PlaceBroken."""
        folder = self._folder / "agent"
        folder.mkdir()
        (folder / FORWARDER).write_bytes(self._walls.forwarder)
        (folder / ROW).write_text(json.dumps(row), encoding="utf-8")
        report = self._folder / "report.json"
        report.touch()
        report.chmod(0o666)
        for file in (folder, *folder.iterdir()):
            file.chmod(0o755 if file == folder else 0o644)
        given = variables_of(
            f"http://127.0.0.1:{PORT}",
            key,
            row=f"{SHOWN}/{ROW}",
            reward=f"{SCRATCH}/{REWARD_FILE}",
            folder=WORK,
            seed=seed,
        )
        python = self._walls.sandbox.interpreter.path
        outcome = await self._ended(
            (python, "-s", "-B", f"{SHOWN}/{FORWARDER}", SOCKET, str(PORT), REPORT, *words),
            cwd=WORK,
            env={**env, **given},
            wall_s=WALL_S,
            readable={folder: SHOWN, Path(socket): SOCKET},
            writable={report: REPORT},
            has_own_scratch=True,
        )
        print((outcome.stdout + outcome.stderr)[-LAST_BYTES:].decode("utf-8", "replace"), flush=True)  # noqa: T201
        if outcome.ending is not Ending.EXITED or outcome.exit_code:
            raise AgentFailed(f"{words[0]} was ended behind its walls: {outcome.detail}")
        reward_in(report.read_text(encoding="utf-8", errors="replace"), words[0])

    async def test(self, tests: Path, script: str, *, env: Mapping[str, str], timeout_s: float) -> Tested:
        """Run tests on the work folder, once no process runs in it. Raises PlaceBroken."""
        await self.still()
        shown, logs = self._folder / "tests", self._folder / "logs"
        shutil.copytree(tests, shown, symlinks=True)
        readable_by_all(shown)
        for name in ("verifier", "agent", "artifacts"):
            (logs / name).mkdir(parents=True)
        outcome = await self._ended(
            ("bash", f"{TESTS}/{script}"),
            cwd=WORK,
            env={**env},
            wall_s=timeout_s,
            readable={shown: TESTS},
            writable={logs: LOGS},
            has_own_scratch=True,
        )
        printed = (outcome.stdout + outcome.stderr)[-LAST_BYTES:].decode("utf-8", "replace")
        is_by_itself = outcome.ending in (Ending.EXITED, Ending.SIGNALLED)
        return Tested(logs, outcome.exit_code, printed, "" if is_by_itself else outcome.detail)

    async def still(self) -> None:
        """Wait until no process runs inside: a command ends with everything it has started."""
        async with self._lock:
            pass

    async def close(self) -> None:
        """End everything that runs inside, and remove the folder."""
        if self._supervisor is not None:
            supervisor, self._supervisor = self._supervisor, None
            supervisor.end()
        self._resources.close()

    async def _ended(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        env: dict[str, str],
        wall_s: float,
        readable: Mapping[Path, str] | None = None,
        writable: Mapping[Path, str] | None = None,
        has_own_scratch: bool = False,
    ) -> ProgramOutcome:
        """Run one command line to its end, alone. Raises PlaceBroken."""
        scratch = {} if has_own_scratch else {self._folder / "tmp": SCRATCH}
        async with self._lock:
            try:
                supervisor = self._ready(writable or {})
                self._walls.sandbox.start_command(
                    ("/usr/bin/env", "-C", cwd, *argv),
                    readable={**self._shown, **(readable or {})},
                    writable={self.work: WORK, **scratch, **(writable or {})},
                    env={**self._env, **env},
                    limits=replace(self._limits, wall_s=wall_s),
                    look_s=LOOK_S,
                    kept_bytes=self._limits.scratch_bytes,
                    by=supervisor,
                )
                try:
                    await _readable(supervisor.fileno(), wall_s + GRACE_S)
                except BaseException:
                    self._supervisor = None
                    supervisor.end()
                    raise
                return supervisor.ended()
            except (SandboxUnavailable, TimeoutError, OSError) as error:
                raise PlaceBroken(f"the sandbox failed: {error}") from error

    def _ready(self, writable: Mapping[Path, str]) -> Supervisor:
        """Return the supervisor of the next command, and give its user the writable folders.

        Raises:
            SandboxUnavailable, OSError: the machinery failed.
            NestedTooDeeply: the agent's files can't be handed over.
        """
        folders = [folder for folder in writable if folder.is_dir()]
        if self._supervisor is None:
            self._supervisor = self._walls.sandbox.supervisor()
            folders += [self.work, self._folder / "tmp"]
        user = self._supervisor.user
        for folder in folders:
            if user.uid is not None and user.gid is not None:  # else files and user are both ours
                give_folder(folder, user.uid, user.gid)
        return self._supervisor


async def _readable(descriptor: int, within_s: float) -> None:
    """Wait until a descriptor can be read from. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def can_be_read() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, can_be_read)
    try:
        await asyncio.wait_for(ready, within_s)
    except TimeoutError:
        raise TimeoutError(f"no end within {within_s:.0f} s") from None
    finally:
        loop.remove_reader(descriptor)
