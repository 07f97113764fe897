"""Call tools of MCP servers, with the package `mcp`, 2 or newer, of the children's interpreter.

In: the sections of servers. Out: schemas of their tools, and the results of calls, as text. An unreachable server
raises ServerGone with its name, so that the policy is not blamed; a server's own error about a call goes to the policy.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from agents.environments.child.schemas import ServerGone


class McpServer:
    """One server, while an episode is played. One task holds the connection, as its library requires."""

    def __init__(self, name: str, section: Dict[str, Any]) -> None:
        self._name, self._section = name, section
        self._leave = asyncio.Event()
        self._client: Optional[Client] = None
        self._holding: Optional[asyncio.Task[None]] = None

    async def connect(self) -> List[Dict[str, Any]]:
        """Connect, and return the schemas of the tools. Raises ServerGone."""
        ready = asyncio.get_running_loop().create_future()
        self._holding = asyncio.ensure_future(self._hold(ready))
        await asyncio.wait({ready, self._holding}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise ServerGone(f"the server {self._name} can't be reached") from self._holding.exception()
        found: List[Dict[str, Any]] = ready.result()
        if (wanted := self._section["tools"]) is None:
            return found
        by_name = {one["function"]["name"]: one for one in found}
        if lacking := [name for name in wanted if name not in by_name]:
            raise LookupError(
                f"the server {self._name} has no tool {', '.join(lacking)}; it has {', '.join(by_name)}"
            )
        return [by_name[name] for name in wanted]

    async def call(self, name: str, arguments: Dict[str, Any]) -> Tuple[bool, str]:
        """Return whether the call failed, and the server's answer. Raises ServerGone."""
        if self._client is None:
            raise ServerGone(f"the server {self._name} is not connected")
        try:
            found = await self._client.call_tool(name, arguments)
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise ServerGone(f"the server {self._name} is gone: {error.message}") from error
            return True, error.message
        except Exception as error:
            raise ServerGone(f"the server {self._name} does not answer") from error
        parts = [_text_of(part) for part in found.content]
        if not parts and found.structured_content is not None:
            parts = [json.dumps(found.structured_content, ensure_ascii=False)]
        return bool(found.is_error), "\n".join(parts)

    async def close(self) -> None:
        """Disconnect; a command is ended."""
        self._leave.set()
        if self._holding is not None:
            await asyncio.wait({self._holding})

    async def _hold(self, ready: asyncio.Future[List[Dict[str, Any]]]) -> None:
        async with Client(self._transport()) as self._client:
            cursor = None
            found: List[Dict[str, Any]] = []
            while True:
                page = await self._client.list_tools(cursor=cursor)
                found += [_schema(tool) for tool in page.tools]
                cursor = page.next_cursor
                if cursor is None:
                    break
            ready.set_result(found)
            await self._leave.wait()

    def _transport(self) -> Any:
        if self._section["command"]:
            command, *words = self._section["command"]
            return stdio_client(
                StdioServerParameters(command=command, args=words, env=dict(os.environ)), errlog=sys.stderr
            )
        variable = self._section["key_variable"]
        headers = {"Authorization": f"Bearer {os.environ[variable]}"} if variable else {}
        client = create_mcp_http_client(headers=headers)
        return streamable_http_client(self._section["url"], http_client=client)


def _schema(tool: Any) -> Dict[str, Any]:
    parameters = {key: one for key, one in tool.input_schema.items() if key not in ("$schema", "title")}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description or "", "parameters": parameters},
    }


def _text_of(part: Any) -> str:
    """Return a part of a result as text for the policy."""
    if part.type == "text":
        return str(part.text)
    if part.type == "resource" and hasattr(part.resource, "text"):
        return str(part.resource.text)
    return f"[{getattr(part, 'mime_type', None) or part.type}]"
