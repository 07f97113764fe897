"""An OpenAI-compatible endpoint for tests, over real sockets: it plays a script, and counts the calls that it is at.

`with scripted_endpoint("True", Saying("False", delay_s=0.1)) as server:` says these, one a call, the last one for ever;
a script may also be a function of the `Call`, and is replaced at any time: `server.script = lambda call: call.prompt`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
TRUNCATED = b'{"id": "1", "choices": [{"message": {"content": "Tr'


@dataclass(frozen=True, slots=True)
class Saying:
    """One answer, or what comes instead of it."""

    text: str | None = "True"  # the message's content; None: null, as of a model that only reasoned
    finish_reason: str | None = "stop"
    status: int = 200  # another one comes with an error's JSON
    delay_s: float = 0.0  # before the first byte
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # instead of a completion's JSON
    closes_after: int | None = None  # bytes of the body, and then the connection is closed
    is_silent: bool = False  # not one byte, for as long as the client waits
    meets: int = 0  # calls at once, and nothing is said before there were as many: then comes the delay


def busy(retry_after: str | None = "0.05", status: int = 429) -> Saying:
    """Too many requests, and when to come again."""
    return Saying(status=status, headers={} if retry_after is None else {"retry-after": retry_after})


SILENT = Saying(is_silent=True)
FAILING = Saying(status=500)
CUT = Saying(closes_after=20)
GONE = Saying(closes_after=0)
NO_JSON = Saying(body=TRUNCATED)


@dataclass(frozen=True, slots=True)
class Call:
    """What the endpoint was asked."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]  # names in lower case
    at: float  # monotonic, when it had come

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.body["messages"])


Script = Callable[[Call], Saying | str]


def in_turn(*sayings: Saying | str) -> Script:
    """Return each for one call, in order; the last one for all that come after it."""
    rest = list(sayings)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]


class ScriptedEndpoint:
    """One server on a loop and a thread of its own.

    Attributes:
        url: with `/v1`, as OpenAI's clients want it.
        models: what it lists and knows; another one is answered 404.
        api_key: where set, whoever does not bear it is answered 401.
        calls: chat completions that were asked for, in order.
        most_at_once: the highest number of them that were under way at the same time.
        listings: how often the models were asked for.
        connections: how many were opened.
    """

    def __init__(
        self,
        *sayings: Saying | str,
        models: Sequence[str] = ("judge",),
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        self.script: Script = in_turn(*(sayings or ("True",)))
        self.models = models
        self.api_key = api_key
        self._port = port
        self.calls: list[Call] = []
        self.at_once = self.most_at_once = self.listings = self.connections = 0
        self._came = asyncio.Condition()
        self._loop = asyncio.new_event_loop()
        is_ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(is_ready,), name="endpoint under test", daemon=True
        )
        self._thread.start()
        assert is_ready.wait(10)
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    def _run(self, is_ready: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen(is_ready))  # and what is still under way is cancelled

    async def _listen(self, is_ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
        self._port = server.sockets[0].getsockname()[1]
        is_ready.set()
        await self._stop.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            goes_on = True
            while goes_on:
                goes_on = await self._exchange(reader, writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. False: the connection is done with."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = urlsplit(first.split()[1]).path  # a proxy is asked for a whole URL
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            return await self._say(Saying(status=401), writer)
        if path == MODELS:
            self.listings += 1
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
            return await self._say(Saying(body=json.dumps(listed).encode()), writer)
        if path != CHAT:
            return await self._say(Saying(status=404), writer)
        call = Call(json.loads(body), headers, time.monotonic())
        self.calls.append(call)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        async with self._came:
            self._came.notify_all()
        try:
            return await self._answer(call, reader, writer)
        finally:
            self.at_once -= 1

    async def _answer(self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if call.body["model"] not in self.models:
            return await self._say(Saying(status=404), writer)
        if any("\ud800" <= char <= "\udfff" for char in call.prompt):  # as vLLM does, in a tokenizer's words
            return await self._say(Saying(status=400), writer)
        found = self.script(call)
        saying = Saying(found) if isinstance(found, str) else found
        async with self._came:
            await self._came.wait_for(lambda: self.most_at_once >= saying.meets)
        if saying.is_silent or saying.delay_s:
            with suppress(TimeoutError):  # a client that has said all says more only by going away
                await asyncio.wait_for(reader.read(1), None if saying.is_silent else saying.delay_s)
                return False
        return await self._say(saying, writer)

    @staticmethod
    async def _say(saying: Saying, writer: asyncio.StreamWriter) -> bool:
        message = {"role": "assistant", "content": saying.text}
        choice = {"index": 0, "finish_reason": saying.finish_reason, "message": message}
        found: dict[str, Any] = {"id": "1", "object": "chat.completion", "choices": [choice]}
        if saying.status != 200:
            found = {"error": {"message": "told to", "code": saying.status}}
        body = json.dumps(found).encode() if saying.body is None else saying.body
        headers = {"content-type": "application/json", "content-length": str(len(body)), **saying.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if saying.closes_after != 0:
            first = f"HTTP/1.1 {saying.status} As told\r\n{head}\r\n".encode()
            writer.write(first + body[: saying.closes_after])
            await writer.drain()
        return saying.closes_after is None


@contextmanager
def scripted_endpoint(
    *sayings: Saying | str, models: Sequence[str] = ("judge",), api_key: str | None = None
) -> Iterator[ScriptedEndpoint]:
    """Return a server for the length of a `with`."""
    server = ScriptedEndpoint(*sayings, models=models, api_key=api_key)
    try:
        yield server
    finally:
        server.close()
