"""Offer plain functions as tools: the policy calls them, and reads their results or errors.

In: the policy's message with its tool calls. Out: a message of the role `tool` for each call, in order; a failed or
invalid call has `is_error`. A message without calls ends the episode.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import json
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from agents.environments.child.imports import imported
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.schemas import (
    ServerGone,
    Signature,
    UnfitArguments,
    arguments_of,
    signature_of,
)


class ToolReply(NamedTuple):
    """The answer of a server or a program to a call."""

    is_error: bool
    text: str


SHORTEST_PLACE = 4  # shortest folder name that is removed from errors


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the functions and read their schemas. Raises TypeError for an unsuitable one."""
    programs, servers = None, section["servers"]
    if section["programs"]:  # whose imports come before the user's
        programs = importlib.import_module("agents.environments.child.programs").Programs(section)
    if servers:
        importlib.import_module("agents.environments.child.servers")
    signatures = [signature_of(imported(path), path) for path in section["functions"]]
    is_async = bool(servers) or any(inspect.iscoroutinefunction(one.function) for one in signatures)
    make = functools.partial(Tools, signatures, servers, programs, section["result_characters"])
    make()  # duplicate names fail before anything is played
    return PreparedKind(make, is_async)


class Tools:
    """An environment that answers calls."""

    takes_messages = True
    kept = "start"  # the kept part of a long result: its start, its end or both

    def __init__(
        self, signatures: Sequence[Signature], servers: Dict[str, Any], programs: Any, result_characters: int
    ) -> None:
        self._sections, self._programs, self._most = servers, programs, result_characters
        self._servers: List[Any] = []
        self._callers: Dict[str, Callable[[Any], Any]] = {}
        self.tools: List[Dict[str, Any]] = []
        for one in signatures:
            self._offer(one.schema, functools.partial(_call_function, one))
        for schema in programs.schemas if programs else ():
            self._offer(schema, functools.partial(_call_program, programs, schema["function"]["name"]))

    async def reset(self, row: Any, seed: int) -> None:  # noqa: ARG002
        """Begin with the row's messages. Raises ConnectionError where a server is unreachable."""
        for name, section in self._sections.items():
            server = importlib.import_module("agents.environments.child.servers").McpServer(name, section)
            self._servers.append(server)
            for schema in await server.connect():
                tool = schema["function"]["name"]
                self._offer(schema, functools.partial(_call_server, server, tool))

    async def step(
        self, said: Dict[str, Any]
    ) -> Tuple[List[Dict[str, Any]], None, bool, bool, Dict[str, Any]]:
        """Make the calls: synchronous ones in order, the others concurrently."""
        calls = said.get("tool_calls") or []
        waits = [self._begun(call) for call in calls]
        running = [self._finished(call, *wait) for call, wait in zip(calls, waits)]
        if any(inspect.isawaitable(found) for _, found in waits):
            messages = list(await asyncio.gather(*running))
        else:
            messages = [await one for one in running]
        return messages, None, not calls, False, {}

    async def close(self) -> None:
        """Disconnect from the servers, and end the programs."""
        if self._programs is not None:
            self._programs.close()
        for server in self._servers:
            await server.close()

    def _offer(self, schema: Dict[str, Any], caller: Callable[[Any], Any]) -> None:
        name = schema["function"]["name"]
        if name in self._callers:
            raise TypeError(f"two tools have the name {name}")
        self._callers[name] = caller
        self.tools.append(schema)

    def _begun(self, call: Dict[str, Any]) -> Tuple[bool, Any]:
        """Return whether a call has failed, and its result or the awaitable."""
        asked = call.get("function") or {}
        if "error" in call:
            return True, str(call["error"])
        name = str(asked.get("name"))
        if name not in self._callers:
            return True, f"there is no tool {name!r}; there is {', '.join(self._callers)}"
        try:
            return False, self._callers[name](arguments_of(asked.get("arguments")))
        except UnfitArguments as error:
            return True, f"{name}: {error}"
        except (MemoryError, ServerGone):
            raise
        except Exception as error:  # noqa: BLE001 - the policy reads it
            return True, told(error)

    async def _finished(self, call: Dict[str, Any], is_error: bool, found: Any) -> Dict[str, Any]:
        if inspect.isawaitable(found):
            try:
                found = await found
            except (MemoryError, ServerGone):
                raise
            except Exception as error:  # noqa: BLE001 - the policy reads it
                is_error, found = True, told(error)
        if isinstance(found, ToolReply):
            is_error, found = found
        if not isinstance(found, str):
            try:
                found = json.dumps(found, ensure_ascii=False, default=str)
            except (TypeError, ValueError, RecursionError) as error:
                is_error, found = True, f"the result is no JSON: {error}"
        found = cut(found, self._most, self.kept)
        name = (call.get("function") or {}).get("name")
        named = {"tool_call_id": call.get("id"), "name": name if isinstance(name, str) else None}
        message = {"role": "tool", "content": found, **{key: one for key, one in named.items() if one}}
        return {**message, "is_error": True} if is_error else message


def cut(text: str, most: int, kept: str = "start") -> str:
    """Return a text of at most `most` characters; a longer one is cut to its start, end or both, with a note."""
    if len(text) <= most:
        return text
    mark = f"[cut: {most} of {len(text)} characters]"
    start = {"start": most, "end": 0, "both": most - most // 2}[kept]
    parts = [text[:start], mark, text[len(text) - (most - start) :]]
    return "\n".join(part for part in parts if part)


def _call_function(signature: Signature, arguments: Dict[str, Any]) -> Any:
    return signature.function(**signature.fitted(arguments))


def _call_program(programs: Any, name: str, arguments: Dict[str, Any]) -> ToolReply:
    return ToolReply(*programs.call(name, arguments))


async def _call_server(server: Any, name: str, arguments: Dict[str, Any]) -> ToolReply:
    return ToolReply(*await server.call(name, arguments))


def told(error: BaseException) -> str:
    """Return the type and the message of an error, without folders of this machine."""
    text = str(error)
    for place in sorted(_places(), key=len, reverse=True):
        text = text.replace(place + os.sep, "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@functools.lru_cache(maxsize=1)
def _places() -> Sequence[str]:
    found = {os.getcwd(), os.path.expanduser("~"), sys.prefix, *sys.path}
    return [place for place in found if len(place) >= SHORTEST_PLACE]
