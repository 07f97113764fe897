"""A container that stands for a machine: lines are typed on it, and what goes on is left running there.

In: an engine with Docker's words (`docker`, `podman`), an image, lines of a shell. Out: what they say and how they end.
A line that is left running keeps its number, its log and its exit code in the container's /tmp, so that it can be
killed by its number as the kernel would, from inside.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD_S, TYPE_S, ASK_S = 3600.0, 300.0, 120.0
HOME = "/srv/millrace"


class MachineError(Exception):
    """A line failed, or the engine did; the message has its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """How a line ended, and what it wrote."""

    code: int
    text: str

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        return next((line for line in reversed(self.text.splitlines()) if line.strip()), "")


class ContainerProgram:
    """The program that knows containers.

    Args:
        build_words: that its `build` wants on this machine.
    Attributes:
        redis: the version of the redis-server on its machines, once one has said it.
    """

    def __init__(self, program: str, *, build_words: Sequence[str] = ()) -> None:
        self._program = program
        self._build_words = list(build_words)
        self.redis = "unknown"

    def ask(self, *words: str, timeout_s: float = ASK_S, variables: Mapping[str, str] | None = None) -> str:
        """Run one command of the engine. Raises MachineError."""
        try:
            done = subprocess.run(
                [self._program, *words],
                check=False,
                text=True,
                capture_output=True,
                timeout=timeout_s,
                env={**os.environ, **(variables or {})},
            )
        except subprocess.TimeoutExpired:
            raise MachineError(f"{self._program} {words[0]} said nothing for {timeout_s:.0f} s") from None
        if done.returncode:
            raise MachineError(
                f"{self._program} {words[0]} ended with {done.returncode}: {done.stderr[-800:]}"
            )
        return done.stdout

    def build(self, context: Path, dockerfile: Path, image: str, *, target: str = "") -> None:
        """Build an image."""
        words = ["--file", str(dockerfile), "--tag", image, *(["--target", target] if target else [])]
        self.ask("build", *self._build_words, *words, str(context), timeout_s=BUILD_S)

    def make_network(self, name: str) -> None:
        """Make a network whose containers reach each other by name and nothing else."""
        self.remove_network(name)
        self.ask("network", "create", "--internal", name)

    def remove_network(self, name: str) -> None:
        """Remove it, if it is there."""
        subprocess.run([self._program, "network", "rm", name], check=False, capture_output=True)

    def remove_container(self, name: str) -> None:
        """Remove it with all that runs there, if it is there."""
        subprocess.run([self._program, "rm", "--force", name], check=False, capture_output=True)

    def copy(self, source: FleetMachine, file: str, target: FleetMachine, to: str) -> None:
        """Copy a file or a folder between two machines, by way of this one, as a person does with scp."""
        with tempfile.TemporaryDirectory() as folder:
            self.ask("cp", f"{source.name}:{HOME}/{file}", f"{folder}/copy")
            target.types(f"mkdir -p $(dirname {to})")
            self.ask("cp", f"{folder}/copy", f"{target.name}:{HOME}/{to}")


class FleetMachine:
    """One container, with a folder of its own and a shell.

    Attributes:
        variables: of every line that is typed from now on.
    """

    def __init__(self, engine: ContainerProgram, name: str, *, image: str, network: str) -> None:
        self._engine = engine
        self.name = name
        self._image = image
        self._network = network
        self.variables: dict[str, str] = {}

    def start(self) -> None:
        """Start it: nothing runs there yet."""
        self.remove()
        options = ["--detach", "--name", self.name, "--hostname", self.name, "--network", self._network]
        self._engine.ask("run", *options, "--shm-size", "1g", "--cap-drop", "ALL", self._image)

    def remove(self) -> None:
        """Remove it with all that runs there."""
        self._engine.remove_container(self.name)

    def inspect(self) -> Any:
        """Return what the engine knows of it."""
        return json.loads(self._engine.ask("inspect", self.name))[0]

    def tries(self, line: str, *, variables: Mapping[str, str] | None = None) -> ShellResult:
        """Type a line and wait for its end, however it ends."""
        end = '; echo " $?"'
        text = self._execute(f"( {line}\n) 2>&1{end}", variables=variables)
        said, _, code = text.rstrip().rpartition(" ")
        return ShellResult(code=int(code), text=said)

    def types(self, line: str, *, quiet: bool = False) -> str:
        """Type a line and return what it says; `quiet`: without what it logs. Raises MachineError where it fails."""
        said = self.tries(f"{line} 2>/dev/null" if quiet and "<<" not in line else line)
        if said.code:
            raise MachineError(f"{self.name}: `{line[:120]}` ended with {said.code}: {said.text[-800:]}")
        return said.text

    def starts(self, name: str, line: str) -> None:
        """Type a line that goes on, and leave it running as `name`."""
        script = (
            f"{line} >/tmp/{name}.log 2>&1 & echo $! >/tmp/{name}.pid; wait $!; echo $? >/tmp/{name}.code"
        )
        self._execute(script, detached=True)

    def kill(self, name: str) -> None:
        """Kill what runs as `name`, and nothing of it gets to know."""
        self.types(f"kill -9 $(cat /tmp/{name}.pid)")

    def log(self, name: str) -> str:
        """Return what it has said so far."""
        return self.tries(f"cat /tmp/{name}.log").text

    def code(self, name: str) -> str:
        """Return its exit code; "" while it runs."""
        return self.tries(f"cat /tmp/{name}.code 2>/dev/null || true").text.strip()

    def all_logs(self) -> str:
        """Return the logs of all that was left running."""
        return self.tries("cat /tmp/*.log").text

    def _execute(
        self, script: str, *, detached: bool = False, variables: Mapping[str, str] | None = None
    ) -> str:
        given = {**self.variables, **(variables or {})}
        options = [*(["--detach"] if detached else []), *(word for name in given for word in ("--env", name))]
        return self._engine.ask(
            "exec", *options, self.name, "bash", "-c", script, timeout_s=TYPE_S, variables=given
        )
