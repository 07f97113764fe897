"""Run an agent that is a command, once per episode: behind walls, or with the rights of the agents.

In: the section; then the row at `reset`, the address and the key of the policy. Out: the reward that it writes to a
file, if any. An exit code other than 0 fails its episode. `walled` has the command behind walls.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List

from agents.environments.child.own_loop.function import (
    REWARD_FILE,
    ROW,
    AgentFailed,
    finish_of,
    finish_of_text,
    how_ended,
    variables_of,
)
from agents.environments.child.own_loop.walled import Walled
from agents.environments.child.prepared import PreparedKind


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Find the command, and walls. Raises FileNotFoundError, and the errors of `sandbox.choice`."""
    if section["sandbox"]:
        return PreparedKind(Walled(section).agent, False)
    program = section["command"][0]
    if shutil.which(program) is None:
        raise FileNotFoundError(f"there is no program {program}")
    return PreparedKind(functools.partial(CommandAgent, section["command"]), False)


class CommandAgent:
    """A command, started in its own folder with the address and the key in its environment."""

    def __init__(self, command: List[str]) -> None:
        self._command = command
        self._folder = ""

    def reset(self, row: Any, seed: int) -> None:
        """Make the folder, with the row in a file."""
        self._folder = tempfile.mkdtemp(prefix="millrace-agent-")
        with open(os.path.join(self._folder, ROW), "w", encoding="utf-8") as file:
            json.dump(row, file)
        self._seed = seed

    def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Run the command to its end. Raises AgentFailed."""
        reward_file = os.path.join(self._folder, REWARD_FILE)
        given = variables_of(
            base_url,
            key,
            row=os.path.join(self._folder, ROW),
            reward=reward_file,
            folder=self._folder,
            seed=self._seed,
        )
        ended = subprocess.run(
            self._command, env={**os.environ, **given}, stdin=subprocess.DEVNULL, check=False
        )
        if ended.returncode:
            raise AgentFailed(f"{self._command[0]} ended {how_ended(ended.returncode)}")
        if not os.path.exists(reward_file):
            return finish_of(None, "")
        with open(reward_file, encoding="utf-8") as file:
            return finish_of_text(file.read())

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
