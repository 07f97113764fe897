"""Offer verl's tools: classes derived from its `BaseTool`, and functions marked with its `@function_tool`.

In: the policy's message with its tool calls, and the row's `extra_info` with `tools_kwargs`. Out: a message for each
call, and as a turn's reward the calls' rewards and the increase of `calc_reward`. The classes are imported by a task's
parent process, and instantiated once in each child: they may start threads. Needs verl in the children's interpreter.
Both generations work: `create` and `execute` may return text alone, or with a `ToolResponse`.
Source: verl 0.4 to 0.10, `verl/tools/base_tool.py`, the SGLang rollout of 0.4 and the tool agent loop of 0.10.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import types
from typing import Any, Dict, List, Optional, Tuple

from agents.environments.child.imports import find_beside_the_start, imported
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.tools import ToolReply, Tools

KWARGS = "tools_kwargs"


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import classes and functions. Raises the import's errors."""
    find_beside_the_start()
    if section["servers"]:
        importlib.import_module("agents.environments.child.servers")
    classes = [imported(":".join(entry["class_name"].rsplit(".", 1))) for entry in section["entries"]]
    functions: List[Any] = []
    if path := section["function_tool_path"]:
        functions = importlib.import_module("verl.tools.function_tool").load_function_tools_from_path(path)
        if not functions:
            raise LookupError(f"{path} marks no function with @function_tool")

    @functools.lru_cache(maxsize=1)
    def made() -> List[Any]:  # in each child, since a fork does not keep threads
        return [_made(entry, one) for entry, one in zip(section["entries"], classes)] + functions

    return PreparedKind(lambda: VerlTools(made(), section), is_async=True)


def _made(entry: Dict[str, Any], tool_class: Any) -> Any:
    schema = entry["tool_schema"]
    if schema is not None:
        schema = importlib.import_module("verl.tools.schemas").OpenAIFunctionToolSchema.model_validate(schema)
    return tool_class(config=entry["config"], tool_schema=schema)


class VerlTools(Tools):
    """An environment that answers calls, and rewards them."""

    def __init__(self, made: List[Any], section: Dict[str, Any]) -> None:
        super().__init__([], section["servers"], None, section["result_characters"])
        self.kept = section["result_kept"]
        self._is_per_call = section["instances"] == "call"
        self._made = {tool.name: tool for tool in made}
        if len(self._made) < len(made):
            raise TypeError(f"two tools have one name, of {', '.join(tool.name for tool in made)}")
        self._kwargs: Dict[str, Any] = {}
        self._instances: Dict[str, str] = {}  # tool -> id of its unreleased instance
        self._calls, self._rewards, self._earned = 0, [], 0.0  # type: int, List[Any], float

    async def reset(self, row: Dict[str, Any], seed: int, token: str) -> Optional[str]:  # type: ignore[override]
        """Make the instances. Raises LookupError where the row names an unknown tool."""
        await super().reset(row, seed)
        extra = _object(row.get("extra_info"))
        given = _object(extra.get(KWARGS))
        self._kwargs = {name: _object(one) for name, one in given.items() if one is not None}
        # What the policy's tool may read, as passed by verl's agent loop.
        self._agent_data = types.SimpleNamespace(
            request_id=token, tools_kwargs=self._kwargs, messages=[], metrics={}, extra_fields={}, tool_rewards=[],
            turn_scores=[], image_data=None, video_data=None, user_turns=0, assistant_turns=0,
        )  # fmt: skip
        chosen = extra.get("tool_selection")
        if not chosen and extra.get("need_tools_kwargs") and not self._is_per_call:
            chosen = list(self._kwargs)
        if lacking := [name for name in chosen or () if name not in self._made]:
            raise LookupError(
                f"the row wants {', '.join(lacking)}; there is {', '.join(self._made) or 'no tool'}"
            )
        said: List[str] = []
        for name in chosen or self._made:
            tool = self._made[name]
            schema = tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True)
            self._offer(schema, functools.partial(self._execute, tool))
            if hasattr(tool, "create") and not self._is_per_call:
                said.append(await self._create(tool, token))
        return "\n".join(filter(None, said)) or None

    async def step(self, said: Dict[str, Any]) -> Any:
        """Make the calls, and return their rewards."""
        self._rewards = []
        self._agent_data.messages.append(said)
        self._agent_data.assistant_turns += 1
        messages, _, is_over, is_cut, info = await super().step(said)
        self._agent_data.messages += messages
        self._agent_data.user_turns += bool(messages)
        given = [number(one, "reward") for one in self._rewards if one is not None]
        self._agent_data.tool_rewards += given
        worth = [one for name in self._instances if (one := await self._worth(name)) is not None]
        if worth:
            given.append(sum(worth) - self._earned)
            self._earned = sum(worth)
        return messages, sum(given) if given else None, is_over, is_cut, info

    async def close(self) -> None:
        """Release the instances."""
        for name in [*self._instances]:
            await self._release(name)
        await super().close()

    async def _execute(self, tool: Any, arguments: Dict[str, Any]) -> ToolReply:
        """Make one call."""
        name = tool.name
        if not hasattr(tool, "create"):  # a function
            normalize = importlib.import_module("verl.tools.function_tool").normalize_function_tool_return
            response, reward, _ = normalize(await tool.call(arguments))
            self._rewards.append(reward)
            return ToolReply(False, text_of(response))
        taken = inspect.signature(tool.execute).parameters
        parameters = taken.get("parameters")
        is_text = parameters is not None and parameters.annotation in (str, "str")
        more = {"agent_data": self._agent_data} if _takes(taken, "agent_data") else {}
        more.update(self._of(name, "execute_kwargs"))
        instance = self._instances.get(name, "")
        if self._is_per_call:
            self._calls += 1
            _, instance = await self._create_for(tool, f"{self._agent_data.request_id}-{self._calls}")
        try:
            given = json.dumps(arguments, ensure_ascii=False) if is_text else arguments
            response, reward, _ = await _awaited(tool.execute(instance, given, **more))
        finally:
            if self._is_per_call:
                await _awaited(tool.release(instance, **self._of(name, "release_kwargs")))
        self._rewards.append(reward)
        return ToolReply(False, text_of(response))

    async def _create(self, tool: Any, token: str) -> str:
        """Make the episode's instance of a tool, and return its message."""
        said, self._instances[tool.name] = await self._create_for(tool, token)
        return said

    async def _create_for(self, tool: Any, instance: str) -> Tuple[str, str]:
        """Make an instance, and return its message and its id."""
        given, taken = self._of(tool.name, "create_kwargs"), inspect.signature(tool.create).parameters
        if "create_kwargs" in taken:  # verl's agent loop passes them under that one name
            more = {"create_kwargs": given}
        else:
            more = {**given, **({"create_kwargs": given} if _takes(taken, "create_kwargs") else {})}
        found = await _awaited(tool.create(instance, **more))
        if isinstance(found, tuple):
            return text_of(found[1]), str(found[0])
        return "", str(found)

    async def _worth(self, name: str) -> Optional[float]:
        """Return an instance's current reward; None where its tool returns no number."""
        tool = self._made[name]
        found = await _awaited(
            tool.calc_reward(self._instances[name], **self._of(name, "calc_reward_kwargs"))
        )
        return None if isinstance(found, (list, str, type(None))) else number(found, "calc_reward")

    async def _release(self, name: str) -> None:
        instance = self._instances.pop(name)
        await _awaited(self._made[name].release(instance, **self._of(name, "release_kwargs")))

    def _of(self, name: str, which: str) -> Dict[str, Any]:
        """Return the row's arguments for a tool's method."""
        return _object(self._kwargs.get(name, {}).get(which))


def text_of(response: Any) -> str:
    """Return a tool's answer as text for the policy; pictures are named, and not shown."""
    if isinstance(response, dict):
        response = (
            types.SimpleNamespace(**response) if "text" in response else json.dumps(response, default=str)
        )
    if isinstance(response, str):
        return response
    if not hasattr(response, "text"):
        return str(response)
    shown = [f"[{kind}]" for kind in ("image", "video") for _ in getattr(response, kind, None) or ()]
    return "\n".join(filter(None, [response.text, *shown]))


def number(value: Any, what: str) -> float:
    """Return a reward. Raises TypeError where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: a number is wanted, got {type(value).__name__} {value!r:.80}") from None


def _takes(parameters: Any, name: str) -> bool:
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _object(value: Any) -> Dict[str, Any]:
    """Return an object, or the one in a JSON text; an empty one for none."""
    found = json.loads(value) if isinstance(value, str) and value.strip() else value
    if not found:
        return {}
    if not isinstance(found, dict):
        raise TypeError(f"an object is wanted, got {type(found).__name__} {found!r:.80}")
    return found


async def _awaited(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found
