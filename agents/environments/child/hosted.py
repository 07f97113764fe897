"""Run one episode's environment, and convert its results to one form.

In: a row and seeds, then the policy's messages. Out: messages, reward and the episode's state, as JSON. Invalid results
of the environment raise TypeError or ValueError, with the result. Runs in the child.
"""

from __future__ import annotations

import inspect
import math
import random
import sys
from typing import Any, Dict, List, Optional

from agents.environments.child.prepared import PreparedKind

SHAPE = "(observation, reward, terminated, truncated, info)"


class Hosted:
    """An environment while its episode is played."""

    def __init__(self, prepared: PreparedKind) -> None:
        self._prepared = prepared
        self._environment: Any = None

    async def reset(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Make the environment and begin. `is_whole`: its messages replace the row's."""
        random.seed(request["own_seed"])
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(request["own_seed"] % (1 << 32))
        self._environment = environment = self._prepared.make()
        offered = inspect.signature(environment.reset).parameters
        more = {name: request[name] for name in ("own_seed", "token") if name in offered}
        found = await _awaited(environment.reset(request["row"], request["seed"], **more))
        if isinstance(found, tuple):
            if len(found) != 2 or not isinstance(found[1], dict):
                raise TypeError(f"reset gives an observation, or (observation, info), got {_shown(found)}")
            found = found[0]
        return {
            "messages": messages_of(found, "reset"),
            "is_whole": isinstance(found, list),
            "tools": _tools_of(environment),
            "reward_range": _range_of(environment),
            "deadline_s": getattr(environment, "deadline_s", None),
            "reference": await _reference_of(environment, request) if request["wants_reference"] else None,
        }

    async def step(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Pass the policy's message to the environment."""
        said = request["said"]
        action = said if getattr(self._environment, "takes_messages", False) else said.get("content") or ""
        found = await _awaited(self._environment.step(action))
        if not isinstance(found, tuple) or len(found) != 5:
            raise TypeError(f"step gives {SHAPE}, got {_shown(found)}")
        observation, reward, terminated, truncated, info = found
        return {
            "messages": messages_of(observation, "step"),
            "reward": None if reward is None else _number(reward, "reward"),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "remark": str(info.get("remark", "")) if isinstance(info, dict) else "",
        }

    async def run(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Let an agent that owns its loop run to its end."""
        where = [request["base_url"], request["key"]]
        if getattr(self._environment, "takes_socket", False):
            where.append(request["socket"])
        found: Dict[str, Any] = await _awaited(self._environment.run(*where))
        return found

    async def judge(self, _: Dict[str, Any]) -> Dict[str, Any]:
        """Judge an agent's result, after its end."""
        found: Dict[str, Any] = await _awaited(self._environment.judge())
        return found

    async def close(self, _: Dict[str, Any]) -> Dict[str, Any]:
        """Close the environment, if it was made and has `close`."""
        if callable(close := getattr(self._environment, "close", None)):
            await _awaited(close())
        return {}


def messages_of(observation: Any, where: str) -> List[Dict[str, Any]]:
    """Return the messages of an observation: a text, a message, several, or none."""
    if observation is None:
        return []
    if isinstance(observation, str):
        return [{"role": "user", "content": observation}]
    found = [observation] if isinstance(observation, dict) else observation
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise TypeError(
            f"{where}: an observation is a text, a message, a list of messages or None, got {_shown(observation)}"
        )
    for one in found:
        if not isinstance(one.get("role"), str):
            raise TypeError(f"{where}: a message has a role, got {_shown(one)}")
        if not isinstance(one.get("content", ""), (str, list, type(None))):
            raise TypeError(f"{where}: a message's content is a text or a list of parts, got {_shown(one)}")
    return found


async def _reference_of(environment: Any, request: Dict[str, Any]) -> Optional[List[Dict[str, Any]]]:
    """Return the policy's messages from `reference` for a row; None without such a method."""
    if not callable(method := getattr(environment, "reference", None)):
        return None
    found = await _awaited(method(request["row"], request["seed"]))
    actions = [] if found is None else found
    if not isinstance(actions, list) or not all(isinstance(one, (str, dict)) for one in actions):
        raise TypeError(f"reference gives a list of actions, texts or messages, or None, got {_shown(found)}")
    said = [{"content": one} if isinstance(one, str) else one for one in actions]
    return [{"role": "assistant", **one} for one in said]


async def _awaited(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


def _tools_of(environment: Any) -> List[Any]:
    tools = list(getattr(environment, "tools", None) or ())
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
            raise TypeError(
                f'tools: a schema is {{"type": "function", "function": {{…}}}}, got {_shown(tool)}'
            )
    return tools


def _range_of(environment: Any) -> Optional[List[float]]:
    """Return `reward_range`; None for Gymnasium's unbounded default."""
    if (found := getattr(environment, "reward_range", None)) is None:
        return None
    low, high = found
    if math.isinf(low) or math.isinf(high):
        return None
    low, high = _number(low, "reward_range"), _number(high, "reward_range")
    if not low < high:
        raise ValueError(f"reward_range is (least, greatest), got ({low:g}, {high:g})")
    return [low, high]


def _number(value: Any, what: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what}: a finite number is wanted, got {number}")
    return number


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:200]}{'…' if len(text) > 200 else ''}"
