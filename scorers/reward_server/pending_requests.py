"""The requests under way between the web and the pool: questions go to Redis, results come back to their clients.

In: questions, as coroutines of one event loop. Out: a result each, in the time that its client has. Redis is spoken to
by two threads, one that writes and one that reads, so the loop never waits for it. While Redis is away questions wait
with it, and those whose time is up get a result that says so; what Redis has lost is put there again. The same
question asked again while it is under way is scored once. Whoever leaves takes the question along, unless it is a
client that comes back (`lingers_s`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from broker.errors import PipelineError
from broker.joining import Joined
from broker.keys import error_field
from config.logs import mask
from scorers.pool.rq_queues import RqQueues
from scorers.registry import queue_of
from scorers.reward_server.questions import Question, RewardResult, bug, reward_result_of, unavailable
from scorers.reward_server.redis_messages import Arrival, Arrivals, admit, discard, missing, rollout_of

log = logging.getLogger(__name__)

MOST: Final = 1024  # questions under way; one more is refused at once
RETRY_S: Final = 0.25  # before Redis is asked again
BLOCK_S: Final = 1.0  # that the reading thread waits for a result, and so for its end
LOOK_S: Final = 1.0  # for a look at who serves what, before a late question is answered
CHECK_S: Final = 2.0  # between two looks whether Redis still has what it was given


@dataclass(slots=True)
class _PendingRequest:
    """A question under way."""

    question: Question
    request_id: str
    verdict: asyncio.Future[RewardResult]
    admission: asyncio.Task[None] | None = None
    waiting: int = 0  # clients


class PendingRequests:
    """One server's questions. For one event loop, on which `open` and `close` are called, too.

    Args:
        joined: the run `api`.
        lingers_s: how long a question whose time was up goes on without a client; its verdict waits as long.
        most: questions under way at once.
    """

    def __init__(self, joined: Joined, *, lingers_s: float = 0.0, most: int = MOST) -> None:
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}".replace("_", "-")
        self._joined = joined
        self._lingers_s = lingers_s
        self._most = most
        self._cases: dict[bytes, _PendingRequest] = {}  # by question
        self._by_id: dict[str, _PendingRequest] = {}
        self._count = 0
        self._trouble = ""  # what Redis said last; "" while it answers
        self._writer = ThreadPoolExecutor(
            1, thread_name_prefix="writer"
        )  # one: what is let in before is let go
        self._stop = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def under_way(self) -> int:
        """The number of questions without a result, or with a result that a client has to come back for."""
        return len(self._cases)

    def open(self) -> None:
        """Begin to read what comes out."""
        self._reader = threading.Thread(
            target=self._read, args=(asyncio.get_running_loop(),), name="reader", daemon=True
        )
        self._reader.start()

    async def close(self) -> None:
        """Let go of all that is under way."""
        for case in list(self._cases.values()):
            self._drop(case)
        self._stop.set()
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, 2 * BLOCK_S)
        await asyncio.to_thread(self._writer.shutdown)

    async def ask(self, question: Question, within_s: float) -> RewardResult:
        """Have a question scored. After `within_s` the result says that there is no score yet, and why."""
        case = self._cases.get(question.key)
        if case is not None and _has_failed(case):  # while nobody waited: another try may do better
            self._drop(case)
            case = None
        if case is None:
            if len(self._cases) >= self._most:
                return unavailable(f"{self._most} requests are under way already")
            case = self._admit(question)
        is_late = False
        case.waiting += 1
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(case.verdict)
        except TimeoutError:
            is_late = True
            why = await self._why_late(case)
            if case.verdict.done() and not case.verdict.cancelled():  # meanwhile
                return case.verdict.result()
            return unavailable(f"not scored within {within_s:.3g} s: {why}")
        finally:
            case.waiting -= 1
            if is_late and self._lingers_s:
                asyncio.get_running_loop().call_later(self._lingers_s, self._drop_unless_asked, case)
            else:
                self._drop_unless_asked(case)

    def _admit(self, question: Question) -> _PendingRequest:
        self._count += 1
        loop = asyncio.get_running_loop()
        case = _PendingRequest(question, f"{self.name}-{self._count}", loop.create_future())
        self._cases[question.key] = self._by_id[case.request_id] = case
        case.admission = loop.create_task(self._let_in(case))
        return case

    async def _let_in(self, case: _PendingRequest) -> None:
        """Put a question into Redis, however often that has to be tried."""
        asked = case.question
        loop = asyncio.get_running_loop()
        try:
            rollout = rollout_of(case.request_id, asked.task, asked.text, asked.info)
            while True:
                try:
                    await loop.run_in_executor(
                        self._writer, admit, self._joined.link, self._joined.keys, rollout
                    )
                except (RedisError, PipelineError) as error:
                    self._say_trouble(error)
                    await asyncio.sleep(RETRY_S)
                else:
                    return
        except Exception as error:
            log.exception("not_admitted request=%s", case.request_id)
            if not case.verdict.done():
                case.verdict.set_result(bug(error))

    def _admit_again(self, request_ids: Sequence[str]) -> None:
        """Put into Redis again what it has lost: it was emptied, or is a replica that did not hear of it."""
        lost = [case for case in map(self._by_id.get, request_ids) if case is not None and _is_in(case)]
        for case in lost:
            case.admission = asyncio.get_running_loop().create_task(self._let_in(case))
        if lost:
            log.warning("redis_forgot requests=%d: asked again", len(lost))

    def _drop_unless_asked(self, case: _PendingRequest) -> None:
        if not case.waiting:
            self._drop(case)

    def _drop(self, case: _PendingRequest) -> None:
        """Discard a question, and its entry in Redis where it has no result yet."""
        if self._by_id.pop(case.request_id, None) is None:
            return
        del self._cases[case.question.key]
        if case.admission is not None:
            case.admission.cancel()
        if not case.verdict.done():
            case.verdict.cancel()
            with contextlib.suppress(RuntimeError):  # closed
                self._writer.submit(self._discard, [case.request_id])

    def _discard(self, request_ids: Sequence[str]) -> None:
        try:
            discard(self._joined.link, self._joined.keys, request_ids)
        except (RedisError, PipelineError) as error:
            log.warning("not_discarded requests=%d error=%s; they go by their age", len(request_ids), error)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """The reading thread takes results to the loop, and their entries out of Redis."""
        arrivals = Arrivals(self._joined.link, self._joined.keys, f"{self.name}-")
        read: list[str] = []
        check_at = time.monotonic() + CHECK_S
        while not self._stop.is_set():
            try:
                found = arrivals.read(block_s=BLOCK_S)
                self._trouble = ""
                if found and not self._stop.is_set():
                    loop.call_soon_threadsafe(self._take, found)
                read += [arrival.request_id for arrival in found]
                discard(self._joined.link, self._joined.keys, read)
                read = []
                if time.monotonic() > check_at:
                    given = [case.request_id for case in list(self._by_id.values()) if _is_in(case)]
                    if lost := missing(self._joined.link, self._joined.keys, given):
                        loop.call_soon_threadsafe(self._admit_again, lost)  # after the verdicts of above
                    check_at = time.monotonic() + CHECK_S
            except (RedisError, PipelineError) as error:
                self._say_trouble(error)
                self._stop.wait(RETRY_S)
            except Exception:  # a bug must not silence every later verdict
                log.exception("not_read")
                self._stop.wait(RETRY_S)

    def _take(self, found: Sequence[Arrival]) -> None:
        for arrival in found:
            case = self._by_id.get(arrival.request_id)
            if case is not None and not case.verdict.done():
                case.verdict.set_result(reward_result_of(arrival.result))

    def _say_trouble(self, error: Exception) -> None:
        if not self._trouble:
            log.warning("redis_away at=%s error=%s", self._joined.link.address, error)
        self._trouble = mask(str(error)) or type(error).__name__

    async def _why_late(self, case: _PendingRequest) -> str:
        """What a client is told whose time is up."""
        if self._trouble:
            return f"Redis is away: {self._trouble}"
        queue = queue_of(self._joined.run.scorers, case.question.task)
        client: Any = self._joined.link.client
        keys = self._joined.keys

        def look() -> tuple[int, bytes | None]:
            return RqQueues(client, keys).serving()[queue], client.hget(
                keys.tries, error_field(case.request_id)
            )

        try:
            serving, failure = await asyncio.wait_for(asyncio.to_thread(look), LOOK_S)
        except (TimeoutError, RedisError) as error:
            return f"Redis does not answer: {error}"
        if not serving:
            return (
                f"no worker serves the queue {queue}; start some with python -m scorers --run "
                f"{self._joined.run.name} --queues {queue}"
            )
        if failure:
            return f"a worker failed at it: {failure.decode(errors='replace').strip().rpartition(chr(10))[2]}"
        workers = "1 worker serves" if serving == 1 else f"{serving} workers serve"
        return f"{workers} the queue {queue}, and {len(self._cases)} requests are under way"


def _has_failed(case: _PendingRequest) -> bool:
    """Whether a question was tried, and can't be scored now."""
    verdict = case.verdict
    return verdict.done() and not verdict.cancelled() and verdict.result().status == "unavailable"


def _is_in(case: _PendingRequest) -> bool:
    """Whether Redis has been given a question, and no result has come yet."""
    return case.admission is not None and case.admission.done() and not case.verdict.done()
