"""Agents that own their loop: the user's function, or a command. They call the policy by an address and a key.

In: the row at `reset`; then the address and the key. Out: the reward that the agent gives, if it gives one, when it has
ended. What it raises, or an exit code that is not 0, is the failure of its episode.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Dict, List

from agents.environments.child.imports import imported
from agents.environments.child.prepared import Prepared

REWARD = "reward"  # key of a result, or of a reward file, that is an object


class AgentFailed(Exception):
    """A command ended with an exit code that is not 0, or left no reward that can be read."""


def prepare(section: Dict[str, Any]) -> Prepared:
    """Import the function, or look for the command. Raises what an import raises, TypeError, FileNotFoundError."""
    if section["type"] == "command":
        program = section["command"][0]
        if shutil.which(program) is None:
            raise FileNotFoundError(f"there is no program {program}")
        return Prepared(functools.partial(CommandAgent, section["command"]), False)
    path = section["import_path"]
    solve = imported(path)
    if not callable(solve):
        raise TypeError(f"{path} is no function of (base_url, api_key, row)")
    is_async = inspect.iscoroutinefunction(solve)
    if section["episodes_per_child"] > 1 and not is_async:
        raise TypeError(f"{path} blocks its process: agents.episodes_per_child is 1 then, or say `async def`")
    return Prepared(functools.partial(FunctionAgent, solve), is_async)


class FunctionAgent:
    """A function of (base_url, api_key, row)."""

    def __init__(self, solve: Any) -> None:
        self._solve = solve
        self._row: Any = None

    def reset(self, row: Any, seed: int) -> None:  # noqa: ARG002
        """Keep the row."""
        self._row = row

    async def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Call the function to its end."""
        found = self._solve(base_url + "/v1", key, self._row)
        return finish_of(await found if inspect.isawaitable(found) else found, "the function")


class CommandAgent:
    """A command, started with the address and the key in its environment, in a folder of its own."""

    def __init__(self, command: List[str]) -> None:
        self._command = command
        self._folder = ""

    def reset(self, row: Any, seed: int) -> None:
        """Make the folder, with the row in a file."""
        self._folder = tempfile.mkdtemp(prefix="millrace-agent-")
        with open(os.path.join(self._folder, "row.json"), "w", encoding="utf-8") as file:
            json.dump(row, file)
        self._seed = seed

    def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Run the command to its end. Raises AgentFailed."""
        reward_file = os.path.join(self._folder, "reward.json")
        given = {
            "OPENAI_BASE_URL": base_url + "/v1",
            "OPENAI_API_BASE": base_url + "/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": key,
            "MILLRACE_ROW": os.path.join(self._folder, "row.json"),
            "MILLRACE_REWARD": reward_file,
            "MILLRACE_FOLDER": self._folder,
            "MILLRACE_SEED": str(self._seed),
        }
        ended = subprocess.run(
            self._command, env={**os.environ, **given}, stdin=subprocess.DEVNULL, check=False
        )
        if ended.returncode:
            raise AgentFailed(f"{self._command[0]} ended {_how(ended.returncode)}")
        if not os.path.exists(reward_file):
            return finish_of(None, "")
        with open(reward_file, encoding="utf-8") as file:
            text = file.read()
        try:
            return finish_of(json.loads(text), "the reward file")
        except (ValueError, TypeError) as error:
            raise AgentFailed(f"the reward file has no reward: {error}") from None

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def finish_of(found: Any, what: str) -> Dict[str, Any]:
    """Return what an agent gives at its end: nothing, a number, or an object with `reward` and maybe `remark`."""
    remark = ""
    if isinstance(found, dict):
        remark = str(found.get("remark", ""))
        found = found.get(REWARD)
    return {"reward": None if found is None else _number(found, what), "remark": remark}


def _number(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(
            f"{what} gives a number, an object with `reward`, or nothing, got {type(value).__name__}"
        )
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what} gives a finite number, got {number}")
    return number


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"by {signal.Signals(-code).name}"
        except ValueError:
            return f"by signal {-code}"
    return f"with exit code {code}"
