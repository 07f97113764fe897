"""Plain functions as tools: the policy calls them, and reads what they return or why they fail.

In: the policy's message with its tool calls. Out: a message of the role `tool` for each call, in order; a call that
can't be made, or fails, has `is_error`. A message without calls ends the episode.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
from typing import Any, Dict, List, Sequence, Tuple

from agents.environments.child.imports import imported
from agents.environments.child.prepared import Prepared
from agents.environments.child.schemas import Signature, Unfit, signature_of

SHORTEST_PLACE = 4  # characters of a folder that is taken out of errors


def prepare(section: Dict[str, Any]) -> Prepared:
    """Import the functions and read their schemas. Raises TypeError for one that can't be a tool."""
    signatures = [signature_of(imported(path), path) for path in section["functions"]]
    names = [one.name for one in signatures]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TypeError(f"functions: two tools have the name {', '.join(twice)}")
    make = functools.partial(Tools, signatures, section["result_characters"])
    any_async = any(inspect.iscoroutinefunction(one.function) for one in signatures)
    return Prepared(make, any_async, ", ".join(names))


class Tools:
    """An environment that answers calls of functions."""

    takes_messages = True

    def __init__(self, signatures: Sequence[Signature], result_characters: int) -> None:
        self._signatures = {one.name: one for one in signatures}
        self._most = result_characters
        self.tools = [one.schema for one in signatures]

    def reset(self, row: Any, seed: int) -> None:
        """Begin with the row's messages."""

    async def step(
        self, said: Dict[str, Any]
    ) -> Tuple[List[Dict[str, Any]], None, bool, bool, Dict[str, Any]]:
        """Make the calls: those of functions that are not async in order, the others side by side."""
        calls = said.get("tool_calls") or []
        waits = [self._begun(call) for call in calls]
        running = [self._finished(call, is_error, found) for call, (is_error, found) in zip(calls, waits)]
        if any(inspect.isawaitable(found) for _, found in waits):
            messages = list(await asyncio.gather(*running))
        else:
            messages = [await one for one in running]
        return messages, None, not calls, False, {}

    def _begun(self, call: Dict[str, Any]) -> Tuple[bool, Any]:
        """Return whether a call has failed, and its result: what to wait for, where the function is async."""
        asked = call.get("function") or {}
        if "error" in call:
            return True, str(call["error"])
        signature = self._signatures.get(str(asked.get("name")))
        if signature is None:
            return True, f"there is no tool {asked.get('name')!r}; there is {', '.join(self._signatures)}"
        try:
            return False, signature.function(**signature.arguments(asked.get("arguments")))
        except Unfit as error:
            return True, f"{signature.name}: {error}"
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the policy reads it
            return True, told(error)

    async def _finished(self, call: Dict[str, Any], is_error: bool, found: Any) -> Dict[str, Any]:
        if inspect.isawaitable(found):
            try:
                found = await found
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - the policy reads it
                is_error, found = True, told(error)
        if not isinstance(found, str):
            try:
                found = json.dumps(found, ensure_ascii=False, default=str)
            except (TypeError, ValueError, RecursionError) as error:
                is_error, found = True, f"the result is no JSON: {error}"
        if len(found) > self._most:
            found = f"{found[: self._most]}\n[cut: {self._most} of {len(found)} characters]"
        name = (call.get("function") or {}).get("name")
        named = {"tool_call_id": call.get("id"), "name": name if isinstance(name, str) else None}
        message = {"role": "tool", "content": found, **{key: one for key, one in named.items() if one}}
        return {**message, "is_error": True} if is_error else message


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
