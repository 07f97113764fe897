"""An agent elsewhere without any library: a process that speaks HTTP by hand, and plays conversations side by side.

In: on standard input a line of JSON for each order, as `ConversationOrder` has it. Out: a line of JSON when its
conversations have ended: calls, and the tokens that the server counted. Used by the benchmarks of the gateway, which
start it by `client`: what a client costs is not the server's, and what a server says is read and sent back as it came.
Any status but 200, and 204 where an answer is still to come, ends the process by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.results import ROOT

WAIT_S = 600.0  # for an answer
LONGEST = 1 << 24  # bytes of a line


class ConversationOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations to play.

    Attributes:
        url: of the server.
        conversations: how many; each has its number in its first message.
        at_once: of them.
        turns: calls of each.
        body: of a call, but for its messages.
        messages: with which a conversation begins; `{number}` is its own, or the seed of its group.
        result: of a tool that was called, or what is said where none was; "": each call begins anew.
        opens: whether each is an episode, which is opened before and finished behind.
    """

    url: str
    conversations: int
    at_once: int
    turns: int
    body: dict[str, Any]
    messages: list[dict[str, str]]
    result: str = ""
    opens: bool = False


class Connection:
    """One kept connection to a server."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Send a request, and return the answer's status and body. Raises TimeoutError, OSError."""
        async with asyncio.timeout(WAIT_S):
            if self._streams is None:
                host, port = self._place.hostname, self._place.port
                self._streams = await asyncio.open_connection(host, port, limit=LONGEST)
            reader, writer = self._streams
            data = json.dumps(body).encode()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {self._place.netloc}\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            writer.write(head.encode() + data)
            return await _answer(reader)

    def close(self) -> None:
        """Close it."""
        if self._streams is not None:
            self._streams[1].close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(None, 2)[1])
    if b"transfer-encoding: chunked" not in head:
        _, _, length = head.partition(b"content-length:")
        return status, await reader.readexactly(int(length.split(None, 1)[0]) if length else 0)
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return status, b"".join(parts)


async def _play(order: ConversationOrder, numbers: Iterator[int], counts: Counter[str]) -> None:
    """Play conversations until there are none."""
    connection = Connection(order.url)
    try:
        for number in numbers:
            given: Mapping[str, Any] = {"api_key": "none"}
            if order.opens:
                given = json.loads(await _posted(connection, "/episodes", "", {}))
            named = given["seed"] if order.opens and order.result else number
            await _converse(order, connection, given["api_key"], named, counts)
            if order.opens:
                path = f"/episodes/{given['id']}/finish"
                await _posted(connection, path, given["api_key"], {"reward": 1.0})
    finally:
        connection.close()


async def _converse(
    order: ConversationOrder, connection: Connection, key: str, number: int, counts: Counter[str]
) -> None:
    def opening(turn: int) -> list[Any]:
        named = f"{number}" if order.result else f"{number}.{turn}"
        return [
            message | {"content": message["content"].replace("{number}", named)} for message in order.messages
        ]

    messages = opening(0)
    for turn in range(order.turns):
        if turn and not order.result:
            messages = opening(turn)
        said, usage = _read(
            await _posted(connection, "/v1/chat/completions", key, {**order.body, "messages": messages})
        )
        counts["calls"] += 1
        counts["given"] += usage["prompt_tokens"]
        counts["sampled"] += usage["completion_tokens"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": order.result}
            for call in said.get("tool_calls", ())
        ]
        messages += [said, *(results or [{"role": "user", "content": order.result}])]


async def _posted(connection: Connection, path: str, key: str, body: Mapping[str, Any]) -> bytes:
    """Return the body of an answer; 204 says that there is none yet. Raises RuntimeError for any other status."""
    while True:
        status, found = await connection.post(path, key, body)
        if status == 200:
            return found
        if status != 204:
            raise RuntimeError(f"{path} was answered with {status}: {found[:500]!r}")


def _read(body: bytes) -> tuple[dict[str, Any], Mapping[str, int]]:
    """Return the message that a stream, or a whole answer, says, and what was used."""
    if not body.startswith(b"data:") and not body.startswith(b":"):
        found = json.loads(body)
        message = {name: one for name, one in found["choices"][0]["message"].items() if one}
        return {"content": "", **message}, found["usage"]
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    usage: Mapping[str, int] = {}
    for line in body.splitlines():
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            said["content"] += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                said.setdefault("tool_calls", []).append(
                    {name: call[name] for name in ("id", "type", "function")}
                )
    return said, usage


async def played(order: ConversationOrder) -> Counter[str]:
    """Play an order, and return what was counted."""
    counts: Counter[str] = Counter()
    numbers = iter(range(order.conversations))
    await asyncio.gather(*(_play(order, numbers, counts) for _ in range(order.at_once)))
    return counts


class Client:
    """The process that plays conversations."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def begin(self, order: ConversationOrder) -> None:
        """Have it play an order."""
        if self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()

    def counted(self) -> dict[str, int]:
        """Wait for the end of the order, and return what was counted. Raises RuntimeError: the process has ended."""
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            raise RuntimeError("the client has ended; what it says stands above")
        found: dict[str, int] = json.loads(line)
        return found


@contextlib.contextmanager
def client() -> Iterator[Client]:
    """Start a client; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.rigs.clients.raw_client"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Client(process)
    finally:
        process.kill()
        process.communicate()


def main() -> int:
    """Play orders until there are no more."""
    for line in sys.stdin.buffer:
        counts = asyncio.run(played(msgspec.json.decode(line, type=ConversationOrder)))
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
