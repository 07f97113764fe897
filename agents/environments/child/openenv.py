"""Run an environment on an OpenEnv server: one session of its WebSocket is one episode.

In: the policy's message, as a text, a JSON object or tool calls. Out: the observation's fields as text, with the
server's `reward` and `done`. An action that the server's schema refuses is reported to the policy. A server that is
unreachable, full or gone raises ServerGone, so that the policy is not blamed; an error in the environment's own code is
raised as for any environment. The WebSocket client is aiohttp, which is in each of our locks.
Source: the messages of openenv 0.10, `openenv/core/env_server/types.py` and `http_server.py`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import aiohttp

from agents.environments.child.games import SEEDS
from agents.environments.child.prepared import PreparedKind
from agents.environments.child.schemas import ServerGone, UnfitArguments, arguments_of

Messages = List[Dict[str, Any]]

HEARTBEAT_S = 40.0  # between pings; the pong may take half of it, as in OpenEnv's own client
GOODBYE_S = 2.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0  # before a full server is tried again
ROOM_SHARE = 0.9  # of reset_deadline_s: how long to wait for room on a full server
MAX_BYTES = 64 << 20  # of one message
MOST_READ = 1 << 20  # characters scanned without success for an object
SCALARS = {"string", "integer", "number", "boolean"}
METADATA = "metadata"  # a field of actions and observations, for internal use
ACT = "act"  # the tool with an action's fields
REFUSED, FULL = "VALIDATION_ERROR", "CAPACITY_REACHED"  # codes of errors
TOOLS, TOOL_CALL = "list_tools", "call_tool"  # actions of an environment that offers MCP tools


class ServerError(Exception):
    """The error that a server returns instead of an observation."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self.code = str(said.get("code", "UNKNOWN"))
        self.errors = said.get("errors") or []
        super().__init__(f"the OpenEnv server says {self.code}: {said.get('message', '')}")


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Return the environment; its server is first contacted at an episode's beginning. Raises LookupError."""
    if (variable := section["key_variable"]) and variable not in os.environ:
        raise LookupError(f"the agents' environment has no {variable}, which key_variable names")
    return PreparedKind(functools.partial(OpenEnv, section), is_async=True)


class OpenEnvSession:
    """A session with a server: each message gets one answer."""

    def __init__(self, section: Dict[str, Any]) -> None:
        scheme, _, rest = section["url"].partition("://")
        place, tls = re.sub(r"(/ws)?/*$", "", rest), "s" if scheme in ("https", "wss") else ""
        self._socket_url, self._base_url = f"ws{tls}://{place}/ws", f"http{tls}://{place}"
        variable = section["key_variable"]
        self._headers = {"Authorization": f"Bearer {os.environ[variable]}"} if variable else {}
        self._client: Optional[aiohttp.ClientSession] = None
        self._socket: Optional[aiohttp.ClientWebSocketResponse] = None

    async def schemas(self) -> Dict[str, Any]:
        """Return the JSON schemas of action and observation. Raises ServerGone."""
        self._client = self._client or aiohttp.ClientSession(headers=self._headers)
        try:
            async with self._client.get(f"{self._base_url}/schema") as reply:
                reply.raise_for_status()
                found: Dict[str, Any] = await reply.json()
                return found
        except (aiohttp.ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
            raise ServerGone(f"the OpenEnv server at {self._base_url} can't be asked for /schema") from error

    async def connect(self) -> None:
        """Begin the session. Raises ServerGone."""
        self._client = self._client or aiohttp.ClientSession(headers=self._headers)
        wait = aiohttp.ClientWSTimeout(ws_close=GOODBYE_S)
        try:
            self._socket = await self._client.ws_connect(
                self._socket_url, heartbeat=HEARTBEAT_S, max_msg_size=MAX_BYTES, timeout=wait
            )
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise ServerGone(f"the OpenEnv server at {self._socket_url} can't be reached") from error

    async def ask(self, kind: str, data: Dict[str, Any]) -> Dict[str, Any]:
        """Send a message, and return the `data` of the answer. Raises ServerError and ServerGone."""
        gone = f"the OpenEnv server at {self._socket_url} is gone"
        if self._socket is None:
            raise ServerGone(gone)
        try:
            await self._socket.send_json({"type": kind, "data": data})
        except (aiohttp.ClientError, OSError):
            pass  # it has closed the session, and may have sent the reason
        try:
            message = await self._socket.receive()
        except (aiohttp.ClientError, OSError) as error:
            raise ServerGone(gone) from error
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise ServerGone(gone) from self._socket.exception()
        answer = json.loads(message.data)
        if answer["type"] == "error":
            raise ServerError(answer["data"])
        found: Dict[str, Any] = answer["data"]
        return found

    async def leave(self) -> None:
        """End the session; the server closes its environment."""
        socket, self._socket = self._socket, None
        if socket is not None and not socket.closed:
            try:
                await socket.send_json({"type": "close"})
            except (aiohttp.ClientError, OSError):
                pass
            await socket.close()

    async def close(self) -> None:
        """End the session, and close the connections."""
        await self.leave()
        if self._client is not None:
            await self._client.close()


class Taken(NamedTuple):
    """An action, or why the policy's message is none."""

    action: Optional[Dict[str, Any]]
    call: Optional[Dict[str, Any]]  # the tool call it comes from
    reason: str = ""


class OpenEnv:
    """An environment while its episode is played."""

    takes_messages = True

    def __init__(self, section: Dict[str, Any]) -> None:
        self._section, self._session = section, OpenEnvSession(section)
        self._form, self._field = section["action"], section["action_field"]
        self._schema: Dict[str, Any] = {}
        self._has_tools = False  # whether the tools are the environment's own, by MCP
        self.tools: List[Dict[str, Any]] = []

    async def reset(self, row: Dict[str, Any], seed: int, token: str) -> Optional[str]:
        """Begin a session and an episode. Raises ServerGone, ServerError and LookupError."""
        schemas = await self._session.schemas()
        self._read(schemas)
        wanted = self._section["reset_from_row"]
        if lacking := [name for name in wanted if name not in row]:
            raise LookupError(f"the row has no {', '.join(lacking)}, which reset_from_row names")
        given = {"seed": seed % SEEDS, "episode_id": token, **self._section["reset"]}
        data = await self._begun({**given, **{name: row[name] for name in wanted}})
        if data.get("done"):
            raise ValueError("the episode is over at its reset")
        if self._form == "json":
            asked = "Answer with one JSON object, which is your action. Its schema:\n"
            return f"{self._shown(data)}\n\n{asked}{json.dumps(self._schema, ensure_ascii=False)}".strip()
        return self._shown(data) or None

    async def step(
        self, said: Dict[str, Any]
    ) -> Tuple[Messages, Optional[float], bool, bool, Dict[str, Any]]:
        """Take the actions of a message in order, up to the end of the episode or of the message."""
        messages: Messages = []
        rewards: List[float] = []
        is_done = False
        for action, call, reason in self._taken(said):
            found = {"content": reason, "is_error": True}
            if action is not None:
                try:
                    data = await self._session.ask("step", action)
                    is_done = bool(data.get("done"))
                    rewards += [] if data.get("reward") is None else [float(data["reward"])]
                    found = self._answer(data)
                except ServerError as error:
                    if error.code != REFUSED:
                        raise
                    found = {"content": _why(error), "is_error": True}
            messages.append(_addressed(found, call))
            if is_done:
                break
        is_over = is_done or (self._has_tools and not said.get("tool_calls"))
        shown = [one for one in messages if one["content"] or one["role"] == "tool"]
        return shown, sum(rewards) if rewards else None, is_over, False, {}

    async def close(self) -> None:
        """End the session."""
        await self._session.close()

    def _read(self, schemas: Dict[str, Any]) -> None:
        """Read the form of actions from the schemas. Raises LookupError."""
        action = schemas["action"]
        fields = {name: one for name, one in action.get("properties", {}).items() if name != METADATA}
        self._has_tools = not fields or {"tool_name", "arguments"} <= fields.keys()
        required = [name for name in action.get("required", ()) if name in fields] or list(fields)
        sole = required[0] if len(required) == 1 and _is_scalar(fields[required[0]]) else None
        if self._has_tools:
            self._form = "call"
        elif self._form in (None, "text") and (self._field or sole):
            self._form, self._field = "text", self._field or sole
        elif self._form == "text":
            raise LookupError(f"action_field has to say what a text is, of {', '.join(fields)}")
        self._form = self._form or "call"
        if self._form == "text" and self._field not in fields:
            raise LookupError(f"an action has no field {self._field}; it has {', '.join(fields)}")
        offered = schemas["observation"].get("properties", {})
        if lacking := [name for name in self._section["observation"] if offered and name not in offered]:
            raise LookupError(f"an observation has no {', '.join(lacking)}; it has {', '.join(offered)}")
        self._schema = {**action, "properties": fields}
        self._schema.pop("title", None)
        if self._form == "call" and not self._has_tools:
            text = self._schema.pop("description", None) or "Take an action."
            self.tools = [_tool(ACT, text, self._schema)]

    async def _begun(self, data: Dict[str, Any]) -> Dict[str, Any]:
        """Begin a session, once the server has room, and return the result of its reset."""
        pause, until = FIRST_PAUSE_S, time.monotonic() + ROOM_SHARE * self._section["reset_deadline_s"]
        while True:
            await self._session.connect()
            try:
                if self._has_tools:
                    listed = (await self._session.ask("step", {"type": TOOLS}))["observation"]
                    self.tools = [
                        _tool(one["name"], one.get("description") or "", one["input_schema"])
                        for one in listed["tools"]
                    ]
                return await self._session.ask("reset", data)
            except ServerError as error:
                if error.code != FULL:
                    raise
                if time.monotonic() + pause > until:
                    hint = "its `max_concurrent_envs` says how many episodes it plays at once"
                    raise ServerGone(f"{error}; no session in reset_deadline_s: {hint}") from error
            await self._session.leave()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _taken(self, said: Dict[str, Any]) -> Iterator[Taken]:
        """Yield the actions of a message."""
        text = said.get("content") or ""
        if self._form == "text":
            yield Taken({str(self._field): self._value(text)}, None)
        elif self._form == "json":
            found = last_object(text)
            yield Taken(found, None, "That has no JSON object, and an action is one.")
        else:
            calls = said.get("tool_calls") or []
            for call in calls:
                yield self._called(call)
            if not calls and not self._has_tools:
                yield Taken(None, None, f"That takes no action. Call `{ACT}`.")

    def _called(self, call: Dict[str, Any]) -> Taken:
        """Return the action of a tool call."""
        asked = call.get("function") or {}
        name, names = str(asked.get("name")), [tool["function"]["name"] for tool in self.tools]
        if "error" in call:
            return Taken(None, call, str(call["error"]))
        if name not in names:
            return Taken(None, call, f"there is no tool {name!r}; there is {', '.join(names)}")
        try:
            arguments = arguments_of(asked.get("arguments"))
        except UnfitArguments as error:
            return Taken(None, call, f"{name}: {error}")
        if not self._has_tools:
            return Taken(arguments, call)
        return Taken({"type": TOOL_CALL, "tool_name": name, "arguments": arguments}, call)

    def _value(self, text: str) -> Any:
        """Return a text converted to its field's type; the server refuses invalid values."""
        if "string" in _types(self._schema["properties"][self._field]):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text.strip()

    def _answer(self, data: Dict[str, Any]) -> Dict[str, Any]:
        """Return the content of a message for an observation."""
        observation = data["observation"]
        if not (self._has_tools and "tool_name" in observation):
            return {"content": self._shown(data)}
        if error := observation.get("error"):
            return {"content": str(error.get("message")), "is_error": True}
        is_error, text = _result(observation.get("result"))
        return {"content": self._cut(text), **({"is_error": True} if is_error else {})}

    def _shown(self, data: Dict[str, Any]) -> str:
        """Return an observation's fields as text: the single field, or one per line."""
        observation, wanted = data["observation"], self._section["observation"]
        names = [
            name for name in wanted or observation if name in observation and (wanted or name != METADATA)
        ]
        fields = {
            name: _text(observation[name]) for name in names if observation[name] not in (None, "", [], {})
        }
        if len(fields) == 1:
            return self._cut(next(iter(fields.values())))
        return self._cut("\n".join(f"{name}: {text}" for name, text in fields.items()))

    def _cut(self, text: str) -> str:
        most = self._section["result_characters"]
        return text if len(text) <= most else f"{text[:most]}\n[cut: {most} of {len(text)} characters]"


def last_object(text: str) -> Optional[Dict[str, Any]]:
    """Return the last top-level JSON object in a text; None for none."""
    found, place, decoder, left = None, text.find("{"), json.JSONDecoder(), MOST_READ
    while place >= 0 and left > 0:
        try:
            found, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            end, left = place + 1, left - (error.pos - place)
        except RecursionError:
            end, left = place + 1, left - len(text)
        place = text.find("{", end)
    return found


def _why(error: ServerError) -> str:
    """Return why a server refuses an action, by field, without the policy's own values."""
    told = [(".".join(map(str, one.get("loc") or ())), str(one.get("msg"))) for one in error.errors]
    return (
        f"The action is refused: {'; '.join(f'{where}: {what}' if where else what for where, what in told)}"
    )


def _addressed(found: Dict[str, Any], call: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """Return a message to the policy: a tool's where it answers a call, else the user's."""
    if call is None:
        return {"role": "user", **found}
    name = (call.get("function") or {}).get("name")
    named = {"tool_call_id": call.get("id"), "name": name if isinstance(name, str) else None}
    return {"role": "tool", **found, **{key: one for key, one in named.items() if one}}


def _result(result: Any) -> Tuple[bool, str]:
    """Return whether an MCP tool's result is an error, and its text."""
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return False, _text(result)
    parts = [
        str(part.get("text") or f"[{part.get('mimeType') or part.get('type')}]") for part in result["content"]
    ]
    if not parts and result.get("structured_content") is not None:
        parts = [_text(result["structured_content"])]
    return bool(result.get("is_error") or result.get("isError")), "\n".join(parts)


def _tool(name: str, description: str, parameters: Dict[str, Any]) -> Dict[str, Any]:
    kept = {key: one for key, one in parameters.items() if key not in ("$schema", "title")}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": kept}}


def _types(schema: Dict[str, Any]) -> List[Any]:
    """Return the types in a field's schema."""
    every = [schema, *schema.get("anyOf", ())]
    return [
        kind
        for one in every
        for kind in (one["type"] if isinstance(one.get("type"), list) else [one.get("type")])
    ]


def _is_scalar(schema: Dict[str, Any]) -> bool:
    return bool(SCALARS & set(_types(schema))) or "enum" in schema or "const" in schema


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
