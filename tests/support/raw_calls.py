"""Requests to a gateway as any program may send them, and the smallest right one of each API."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from tests.support.scripted_policy import Served

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
RESPONSES, COMPLETIONS = "/v1/responses", "/v1/completions"
SAYING: Final = [{"role": "user", "content": "Say."}]
RIGHT: Final[dict[str, dict[str, Any]]] = {
    CHAT: {"model": "m", "messages": SAYING},
    MESSAGES: {"model": "m", "max_tokens": 99, "messages": SAYING},
    RESPONSES: {"model": "m", "input": "Say."},
    COMPLETIONS: {"model": "m", "prompt": "Say."},
}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def says(self) -> str:
        """Return what the policy said, of a whole answer of any API."""
        body = self.body
        for path in (
            ("choices", 0, "message", "content"),
            ("choices", 0, "text"),
            ("content", 0, "text"),
            ("output", 0, "content", 0, "text"),
        ):
            found: Any = body
            try:
                for step in path:
                    found = found[step]
            except (KeyError, IndexError):
                continue
            return str(found)
        raise AssertionError(f"nothing is said in {self.text[:500]}")


async def sent(
    it: Served, path: str, body: Any, method: str = "POST", key: str | None = None, **headers: str
) -> Reply:
    """Send bytes as they are, or anything else as JSON, and return the reply."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    content = None if data is None else io.BytesIO(data)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    key = it.access.key if key is None else key
    given = ({"Authorization": f"Bearer {key}"} if key else {}) | named
    async with (
        aiohttp.ClientSession(max_field_size=1 << 20) as http,
        http.request(method, it.access.base_url + path, data=content, headers=given) as response,
    ):
        return Reply(response.status, response.headers, await response.text())
