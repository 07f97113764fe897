"""Work in a container, with podman or docker: the image that a task names, or one built from its `environment/`.

In: a task directory. Out: the output of commands. The container has no network unless the section allows it; an agent
that is a command still finds the policy at its own loopback, through the gateway's mounted socket. The folders of the
tests and of their logs are mounted from here: while the agent works the tests' folder is empty and read-only; then the
container is stopped and started again, so that no process of the agent runs, `logs/verifier` is replaced by a new
folder, and the tests are copied into theirs. A container does not outlive its owner for long: it ends by itself, and
the next one to start removes those without an owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.environments.child.own_loop.function import REWARD_FILE, ROW, AgentFailed, variables_of
from agents.environments.child.own_loop.walled import FORWARDER, PORT, REPORT, SHOWN, SOCKET, reward_in
from agents.environments.child.workplaces.engine import ContainerEngine, new_name
from agents.environments.child.workplaces.place import ENDED_BY_LIMIT, ExecResult, Tested, readable_by_all
from sandbox.local.folders import remove_folder
from sandbox.local.supervisors import own_folder
from tasks.harbor import HarborTask

TESTS, LOGS = "/tests", "/logs"  # inside
GRACE_S = 30.0  # beyond a command's own time
LIFE_S = 3600.0  # of a container, beyond its episode's longest time
LAST_BYTES = 8192
KILLED = 137  # exit code of a program that `timeout` has killed
HARNESS = Path(__file__).parents[4] / "sandbox" / "harness"


class ContainerPlace:
    """A place in a container.

    Args:
        section: of the environment.
    """

    def __init__(self, engine: ContainerEngine, task: HarborTask, section: Mapping[str, Any]) -> None:
        self._engine, self._task, self._section = engine, task, section
        self._name = new_name()
        self._image = ""
        self._folder: tuple[Path, int] | None = None
        self._is_started = False
        places = [str(Path(name).absolute()) for name in section["readable"]]
        self._readable = {place: f"{place}:ro" for place in places}
        self.workdir = "/"

    async def open(self) -> None:
        """Make the image available, and the mounted folders. Raises PlaceBroken, BadMessage."""
        await self._engine.sweep()
        self._image = await self._engine.image_of(self._task)
        found = await self._engine.ask("image", "inspect", "--format", "{{.Config.WorkingDir}}", self._image)
        self.workdir = found.strip() or "/"
        self._folder = await asyncio.to_thread(own_folder)
        for name in ("tests", "logs/agent", "logs/verifier", "logs/artifacts", "agent"):
            (self._here / name).mkdir(parents=True)
        for path in (self._here, *self._here.rglob("*")):
            path.chmod(0o755)
        for path in (self._here / "logs").rglob("*"):
            path.chmod(0o777)

    @property
    def _here(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the place is not open")
        return self._folder[0]

    async def exec(
        self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout_s: float
    ) -> ExecResult:
        """Run a command of bash as the agent's user. Raises PlaceBroken."""
        await self._start({})
        words = ("bash", "-c", command)
        return await self._exec(
            words, cwd=cwd, env=env or {}, timeout_s=timeout_s, user=self._task.agent_user
        )

    async def run(
        self, words: tuple[str, ...], *, row: Any, key: str, socket: str, seed: int, env: Mapping[str, str]
    ) -> None:
        """Run the agent to its end. Raises AgentFailed, PlaceBroken."""
        shown, report = self._here / "agent", self._here / "report.json"
        shutil.copyfile(HARNESS / FORWARDER, shown / FORWARDER)
        (shown / ROW).write_text(json.dumps(row), encoding="utf-8")
        report.touch()
        for file in (*shown.iterdir(), report):
            file.chmod(0o666 if file == report else 0o644)
        await self._start({str(shown): f"{SHOWN}:ro", str(report): REPORT, socket: SOCKET, **self._readable})
        given = variables_of(
            f"http://127.0.0.1:{PORT}",
            key,
            row=f"{SHOWN}/{ROW}",
            reward=f"/tmp/{REWARD_FILE}",  # noqa: S108 - inside; nobody reads it
            folder=self.workdir,
            seed=seed,
        )
        forwarder = ("python3", "-s", "-B", f"{SHOWN}/{FORWARDER}", SOCKET, str(PORT), REPORT)
        done = await self._exec(
            (*forwarder, *words), cwd=None, env={**env, **given}, timeout_s=None, user=self._task.agent_user
        )
        print((done.stdout + done.stderr)[-LAST_BYTES:], flush=True)  # noqa: T201 - for a failure's message
        text = report.read_text(encoding="utf-8", errors="replace")
        if done.return_code and not text:
            raise AgentFailed(
                f"{words[0]} did not run in {self._image}, which needs a python3 for it: exit code {done.return_code}"
            )
        reward_in(text, words[0])

    async def test(self, tests: Path, script: str, *, env: Mapping[str, str], timeout_s: float) -> Tested:
        """Run tests in the container, after all processes of the agent have ended. Raises PlaceBroken."""
        await self._start({})
        await self._engine.ask("restart", "--time", "0", self._name)
        logs = self._here / "logs"
        (logs / "verifier").rename(logs / "before")  # files of the agent there do not count
        (logs / "verifier").mkdir()
        (logs / "verifier").chmod(0o777)
        shutil.copytree(tests, self._here / "tests", symlinks=True, dirs_exist_ok=True)
        readable_by_all(self._here / "tests")
        done = await self._exec(
            ("bash", f"{TESTS}/{script}"),
            cwd=None,
            env=env,
            timeout_s=timeout_s,
            user=self._task.verifier_user,
        )
        await self._remove()  # here, where there is time for it
        is_late = done.return_code == ENDED_BY_LIMIT
        printed = (done.stdout + done.stderr)[-LAST_BYTES:]
        return Tested(logs, done.return_code, printed, f"{timeout_s:g} s of time" if is_late else "")

    async def close(self) -> None:
        """Remove the container, and the folders."""
        await self._remove()
        if self._folder is not None:
            (folder, lock), self._folder = self._folder, None
            # Files that only a user of the container may remove stay, and are swept by their owner.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_folder, folder)
            os.close(lock)

    async def _remove(self) -> None:
        """Remove the container, if there is one. Raises PlaceBroken."""
        if self._is_started:
            await self._engine.call("kill", self._name)  # `rm` alone would ask it to end, and wait
            await self._engine.call("rm", "--force", self._name)
            self._is_started = False

    async def _start(self, mounts: Mapping[str, str]) -> None:
        """Start the container, unless it runs. Raises PlaceBroken."""
        if self._is_started:
            return
        task, here = self._task, self._here
        mounts = {str(here / "tests"): f"{TESTS}:ro", str(here / "logs"): LOGS, **mounts}
        life_s = self._section["deadline_s"] + self._section["judge_deadline_s"] + LIFE_S
        words = ["run", "--detach", "--name", self._name, "--security-opt", "no-new-privileges"]
        words += ["--cpus", f"{task.cpus:g}", "--memory", f"{task.memory_mb}m"]
        words += ["--pids-limit", str(self._section["processes"])]
        if not (self._section["network"] and task.wants_network):
            words += ["--network", "none"]
        for place, inside in mounts.items():
            words += ["--volume", f"{place}:{inside}"]
        self._is_started = True
        # A shell that waits also reaps orphans of commands.
        await self._engine.ask(*words, self._image, "sh", "-c", f"sleep {life_s:.0f} & wait")

    async def _exec(
        self,
        words: tuple[str, ...],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        timeout_s: float | None,
        user: str | None,
    ) -> ExecResult:
        """Run words in the container; without a time limit for None. Raises PlaceBroken."""
        options = [*(["--user", user] if user else []), *(["--workdir", cwd] if cwd else [])]
        options += [word for name in env for word in ("--env", name)]  # no values on command lines
        limited = () if timeout_s is None else ("timeout", "-s", "KILL", f"{timeout_s:g}")
        began = time.monotonic()
        code, out, err = await self._engine.call(
            "exec",
            *options,
            self._name,
            *limited,
            *words,
            within_s=LIFE_S * 24 if timeout_s is None else timeout_s + GRACE_S,
            env=env,
        )
        is_late = timeout_s is not None and code == KILLED and time.monotonic() - began >= timeout_s
        said = [part.decode("utf-8", "replace") for part in (out, err)]
        if is_late:
            said[1] += f"\nit was ended: {timeout_s:g} s of time\n"
        return ExecResult(stdout=said[0], stderr=said[1], return_code=ENDED_BY_LIMIT if is_late else code)
