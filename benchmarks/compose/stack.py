"""A stack of compose.yaml as a proof drives it: its containers by service, their processes as the host sees them.

In: the compose command (`docker compose`, or another with the same words) and the engine's (`docker`, `podman`). Out:
what they say, as Python has it. Containers are killed by their main process' number, from outside: that is what a crash
looks like to an engine, and what its restart policy acts on; its own `kill` counts as somebody's wish. Needs root where
the engine runs as root.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.pages.terminal import NotSaid, watch

ASK_S = 120.0
POLL_S = 2.0  # asking an engine costs it a good part of a second of processor time


class NotInTime(Exception):
    """A condition did not hold within its time."""


@dataclass(frozen=True, slots=True)
class MeasuredBar:
    """One bar of the proof, with what was measured and whether the bar held."""

    bar: str
    measured: str
    is_held: bool


class Stack:
    """One compose project, driven from the host.

    Args:
        root: where compose.yaml lies.
        compose: words that stand for `docker compose`.
        engine: the program that knows single containers.
        variables: of .env, for every call.
    """

    def __init__(
        self, root: Path, compose: Sequence[str], engine: str, project: str, variables: Mapping[str, str]
    ) -> None:
        self._root = root
        self._compose = list(compose)
        self._engine = engine
        self._project = project
        self.variables = dict(variables)

    def compose(self, *words: str, timeout_s: float = 900.0) -> str:
        """Run `docker compose WORDS`. Raises RuntimeError with its last lines where it fails."""
        done = subprocess.run(
            [*self._compose, *words],
            cwd=self._root,
            env=self._environment(),
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
        if done.returncode:
            raise RuntimeError(
                f"compose {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}"
            )
        return done.stdout

    def types(self, line: str, *, timeout_s: float = 900.0) -> str:
        """Type a page's line, with this stack's command in the place of `docker compose`. Raises as `compose`."""
        return self.compose(*shlex.split(line.removeprefix("docker compose ")), timeout_s=timeout_s)

    def watches(self, line: str, pattern: str, at_most_s: float) -> str:
        """Type a page's line that goes on, until it has said `pattern`; return the match. Raises NotInTime."""
        words = [*self._compose, *shlex.split(line.removeprefix("docker compose "))]
        try:
            found, _ = watch(words, pattern, cwd=self._root, env=self._environment(), at_most_s=at_most_s)
        except NotSaid as error:
            raise NotInTime(f"`{line}`: {error}") from None
        return found.strip()[:60]

    def volumes(self) -> list[str]:
        """Return the names of this project's volumes."""
        return self._ask(
            "volume", "ls", "--quiet", "--filter", f"label=com.docker.compose.project={self._project}"
        ).split()

    def down(self) -> None:
        """Remove the project with its volumes, and containers of scales or profiles that compose forgets."""
        left = self._ask(
            "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={self._project}"
        )
        if left:
            self._ask("rm", "--force", *left.split())
        self.compose("down", "--volumes")

    def containers(self, service: str, *, all_of_them: bool = False) -> list[str]:
        """Return the ids of a service's running containers, and of its ended ones if asked."""
        words = [
            "ps",
            "--no-trunc",
            "--quiet",
            "--filter",
            f"label=com.docker.compose.project={self._project}",
            "--filter",
            f"label=com.docker.compose.service={service}",
            *(["--all"] if all_of_them else []),
        ]
        return self._ask(*words).split()

    def inspect(self, container: str) -> Any:
        """Return what the engine knows of a container."""
        return json.loads(self._ask("inspect", container))[0]

    def state(self, container: str) -> Any:
        """Return a container's `State`: Running, Pid, ExitCode, StartedAt."""
        return self.inspect(container)["State"]

    def execute(
        self, container: str, *words: str, timeout_s: float = ASK_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside a container."""
        return subprocess.run(
            [self._engine, "exec", container, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def log(self, container: str) -> str:
        """Return a container's whole log, each line behind its time."""
        return subprocess.run(
            [self._engine, "logs", "--timestamps", container],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ASK_S,
        ).stdout

    def addresses(self, container: str) -> list[str]:
        """Return a container's IP addresses, one for each of its networks."""
        return [
            network["IPAddress"]
            for network in self.inspect(container)["NetworkSettings"]["Networks"].values()
        ]

    def size_bytes(self, image: str) -> int:
        """Return the size of an image with all its layers."""
        return int(json.loads(self._ask("image", "inspect", image))[0]["Size"])

    def stop(self, container: str) -> None:
        """Stop a container as an operator does: SIGTERM, and time to hand back."""
        self._ask("stop", "--time", "60", container)

    def kill_main_process(self, container: str) -> float:
        """Kill a container's main process from outside; return the seconds until the engine started it again."""
        before = self.state(container)
        os.kill(int(before["Pid"]), signal.SIGKILL)
        killed_at = time.time()
        now = wait_for(f"the restart of {container[:12]}", 120.0, lambda: self._again(container, before))
        return moment(now["StartedAt"]) - killed_at

    def redis(self, *words: str) -> str:
        """Run one command of redis-cli inside the container of Redis."""
        (container,) = self.containers("redis")
        done = self.execute(
            container, "sh", "-c", 'REDISCLI_AUTH=$REDIS_PASSWORD exec redis-cli "$@"', "sh", *words
        )
        return done.stdout.strip()

    def _environment(self) -> dict[str, str]:
        return os.environ | {"COMPOSE_PROJECT_NAME": self._project} | self.variables

    def _again(self, container: str, before: Any) -> Any:
        now = self.state(container)
        return now if now["Running"] and now["Pid"] != before["Pid"] else None

    def _ask(self, *words: str) -> str:
        return subprocess.run(
            [self._engine, *words], check=True, capture_output=True, text=True, timeout=ASK_S
        ).stdout


def wait_for(what: str, at_most_s: float, condition: Callable[[], Any]) -> Any:
    """Return the first answer that is true. Raises NotInTime, which names what was awaited."""
    deadline = time.monotonic() + at_most_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise NotInTime(f"{what} did not come within {at_most_s:.0f} s")
        time.sleep(POLL_S)
    return answer


def moment(text: str) -> float:
    """Read a time as engines write it, as Unix seconds; digits below a microsecond are left out."""
    return datetime.fromisoformat(text).timestamp()
