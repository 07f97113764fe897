"""Run an agent that is the user's function, which calls the policy by an address and a key.

In: the row at `reset`; then the address and the key. Out: the reward that the agent returns, if any. Its exception
fails its episode. Also contains code shared with commands.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import signal
from typing import Any, Dict

from agents.environments.child.imports import imported
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.schemas import ServerGone

REWARD = "reward"  # key of a result, or of a reward file, that is an object
ROW, REWARD_FILE = "row.json", "reward.json"  # in a command's folder


class AgentFailed(Exception):
    """A command ended with an exit code other than 0, or left an unreadable reward."""


class Unmeasured(ServerGone):
    """The source of an episode's reward failed itself, so there is no reward."""


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the function. Raises the import's errors, and TypeError."""
    path = section["import_path"]
    solve = imported(path)
    if not callable(solve):
        raise TypeError(f"{path} is no function of (base_url, api_key, row)")
    is_async = inspect.iscoroutinefunction(solve)
    if section["episodes_per_child"] > 1 and not is_async:
        raise TypeError(f"{path} blocks its process: agents.episodes_per_child is 1 then, or say `async def`")
    return PreparedKind(functools.partial(FunctionAgent, solve), is_async)


class FunctionAgent:
    """A function of (base_url, api_key, row)."""

    def __init__(self, solve: Any) -> None:
        self._solve = solve
        self._row: Any = None

    def reset(self, row: Any, seed: int) -> None:  # noqa: ARG002
        """Store the row."""
        self._row = row

    async def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Call the function to its end."""
        found = self._solve(base_url + "/v1", key, self._row)
        return finish_of(await found if inspect.isawaitable(found) else found, "the function")


def variables_of(base_url: str, key: str, *, row: str, reward: str, folder: str, seed: int) -> Dict[str, str]:
    """Return the environment variables of a command.

    Args:
        base_url: of the policy, without /v1.
        row, reward, folder: paths, inside the command's file system.
    """
    return {
        "OPENAI_BASE_URL": base_url + "/v1",
        "OPENAI_API_BASE": base_url + "/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": key,
        "MILLRACE_ROW": row,
        "MILLRACE_REWARD": reward,
        "MILLRACE_FOLDER": folder,
        "MILLRACE_SEED": str(seed),
    }


def finish_of_text(text: str) -> Dict[str, Any]:
    """Read the text of a command's reward file. Raises AgentFailed."""
    try:
        return finish_of(json.loads(text), "the reward file")
    except (ValueError, TypeError, RecursionError) as error:
        raise AgentFailed(f"the reward file has no reward: {error}") from None


def finish_of(found: Any, what: str) -> Dict[str, Any]:
    """Read an agent's result: nothing, a number, or an object with `reward` and optionally `remark`."""
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


def how_ended(code: int) -> str:
    """Describe how a command ended, by its exit code, or its signal as a negative number."""
    if code < 0:
        try:
            return f"by {signal.Signals(-code).name}"
        except ValueError:
            return f"by signal {-code}"
    return f"with exit code {code}"
