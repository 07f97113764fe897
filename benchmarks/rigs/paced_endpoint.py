"""A served judge that takes its time and answers so many calls a second, however many it is asked at once.

In: chat completions, by OpenAI's API. Out: a verdict for each, and when it came and how many were under way. It runs in
a thread of the benchmark's process, which does nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

WRONG = "five"  # in the answer; every other one is right
START_S = 10.0


@dataclass(slots=True)
class PacedEndpoint:
    """A judge's pace, and the calls that it has seen."""

    latency_s: float  # of a call, at least
    rate: float  # answers a second, at most
    url: str = ""
    at_once: int = 0
    most_at_once: int = 0
    came_at: list[float] = field(default_factory=list)  # monotonic
    next_at: float = 0.0  # of an answer

    async def complete(self, request: Request) -> JSONResponse:
        """Answer one call."""
        self.came_at.append(time.monotonic())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            body = await request.body()
            ready_at = time.monotonic() + self.latency_s
            self.next_at = max(self.next_at + 1 / self.rate, ready_at)
            await asyncio.sleep(self.next_at - time.monotonic())
            says = f"Final Decision: {'No' if WRONG.encode() in body else 'Yes'}"
            return JSONResponse({"choices": [{"finish_reason": "stop", "message": {"content": says}}]})
        finally:
            self.at_once -= 1

    @property
    def middle_rate(self) -> float:
        """The calls a second over the middle eight tenths of the calls, without the first and the last job."""
        first, last = len(self.came_at) // 10, len(self.came_at) * 9 // 10
        return (last - first) / (self.came_at[last] - self.came_at[first])

    def most_within(self, seconds: float) -> int:
        """Return the highest number of calls that came in any time of that length."""
        most, first = 0, 0
        for last, at in enumerate(self.came_at):
            while self.came_at[first] <= at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


@contextlib.contextmanager
def paced_endpoint(*, latency_s: float, rate: float) -> Iterator[PacedEndpoint]:
    """Start an endpoint that listens on loopback."""
    endpoint = PacedEndpoint(latency_s, rate)
    app = Starlette(routes=[Route("/v1/chat/completions", endpoint.complete, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, name="paced endpoint", daemon=True)
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started:
        if time.monotonic() > deadline:
            raise RuntimeError("the endpoint did not start")
        time.sleep(0.01)
    endpoint.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.should_exit = True
        thread.join()
