"""Clients of a reward server, as many at once as one likes, in one thread: for `benchmarks.measures.server`.

In: a server's port and questions whose score is known. Out: how many got it in time, and how long `/ping` took beside
them. Every client asks one question after the other, each over a connection of its own and with II-Thought's patience:
30 seconds. The bytes are written here, so that the clients take little of the cores that the servers are measured on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import quantiles

PATIENCE_S = 30.0
PING_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class KnownResponse:
    """One response, and the score that it deserves."""

    text: str
    reference: str
    score: float
    hangs: bool = False

    def body(self) -> bytes:
        """Return the request as II-Thought's client sends it."""
        info = json.dumps({"type": "math_verifiable", "answer": {"value": self.reference}})
        return json.dumps({"llm_output": self.text, "verification_info": info}).encode()


@dataclass(slots=True)
class Load:
    """The outcome of some seconds of questions."""

    seconds: float
    right: int = 0  # honest ones, answered before the seconds were over
    hanging: int = 0  # asked
    wrong: list[str] = field(default_factory=list)  # honest ones without their score, with what came instead
    pings_s: list[float] = field(default_factory=list)

    @property
    def goodput(self) -> float:
        """The right answers to honest questions a second."""
        return self.right / self.seconds

    @property
    def ping_p99_ms(self) -> float:
        """The 99th percentile of all pings, in milliseconds."""
        return 1000 * quantiles(self.pings_s, n=100)[98]


def load(port: int, questions: Iterator[KnownResponse], *, clients: int, seconds: float) -> Load:
    """Have `clients` ask for `seconds`, and wait for the answers to what they asked."""
    return asyncio.run(_load(port, questions, clients, seconds))


async def _load(port: int, questions: Iterator[KnownResponse], clients: int, seconds: float) -> Load:
    found = Load(seconds)
    until = time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < until:
            question = next(questions)
            found.hanging += question.hangs
            said = await _ask(port, question.body())
            if question.hangs:
                continue
            if said != str(question.score):
                found.wrong.append(
                    f"{question.text!r} against {question.reference!r}: {said}, not {question.score}"
                )
            elif time.monotonic() < until:
                found.right += 1

    async def pinger() -> None:
        while time.monotonic() < until:
            started = time.monotonic()
            await _exchange(port, b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            found.pings_s.append(time.monotonic() - started)
            await asyncio.sleep(PING_EVERY_S)

    await asyncio.gather(pinger(), *(client() for _ in range(clients)))
    return found


async def _ask(port: int, body: bytes) -> str:
    """Return the score as text, or what came instead."""
    head = (
        f"POST /reward HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await _exchange(port, head.encode() + body)
    except (TimeoutError, OSError) as error:
        return f"{type(error).__name__} {error}"
    try:
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["score"])
    except (ValueError, KeyError, TypeError):
        return repr(answer[:200])


async def _exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()
