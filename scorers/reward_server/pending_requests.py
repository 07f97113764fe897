"""This module has the requests under way between HTTP and the pool: questions go to Redis, results to their clients.

In: questions, as coroutines of one event loop. Out: a result for each, in the time that its client has. Two threads
speak to Redis, one that writes and one that reads, so the loop never waits for Redis. While Redis is away questions
wait, and a question whose time is up gets a result that says so. A question that Redis has lost is put there again.
Equal questions under way are scored once. A question whose last client has left is discarded, after `lingers_s` where
clients come back.
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
from scorers.build import queue_of
from scorers.pool.rq_queues import RqQueues
from scorers.reward_server.questions import RewardQuestion, RewardResult, bug, reward_result_of, unavailable
from scorers.reward_server.redis_messages import Arrival, Arrivals, admit, discard, missing, rollout_of

log = logging.getLogger(__name__)

MOST: Final = 1024  # questions under way; one more is refused at once
RETRY_S: Final = 0.25  # before Redis is asked again
BLOCK_S: Final = 1.0  # for which a read waits for results; the reading thread ends after at most one read
LOOK_S: Final = 1.0  # for a look at the workers' queues, before a late question is answered
CHECK_S: Final = 2.0  # between two checks that Redis still has every question


@dataclass(slots=True)
class _PendingRequest:
    """A pending request is a question under way, with the clients that wait for its result."""

    question: RewardQuestion
    request_id: str
    future: asyncio.Future[RewardResult]
    admission: asyncio.Task[None] | None = None
    waiting: int = 0  # clients


class PendingRequests:
    """This object has one server's pending requests. One event loop uses it, and calls `open` and `close` too.

    Args:
        joined: the run `api`.
        lingers_s: seconds for which a question whose time was up, and later its result, waits for a client.
        most: questions under way at once.
    """

    def __init__(self, joined: Joined, *, lingers_s: float = 0.0, most: int = MOST) -> None:
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}".replace("_", "-")
        self._joined = joined
        self._lingers_s = lingers_s
        self._most = most
        self._by_question: dict[bytes, _PendingRequest] = {}  # by the question's key
        self._by_id: dict[str, _PendingRequest] = {}
        self._count = 0
        self._trouble = ""  # the last error of Redis; "" while Redis answers
        # One thread: a request is put into Redis before it is discarded there.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._stop = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def under_way(self) -> int:
        """Count the questions without a result, and those whose result waits for a client to come back."""
        return len(self._by_question)

    def open(self) -> None:
        """Begin to read results."""
        self._reader = threading.Thread(
            target=self._read, args=(asyncio.get_running_loop(),), name="reader", daemon=True
        )
        self._reader.start()

    async def close(self) -> None:
        """Discard all questions under way."""
        for request in list(self._by_question.values()):
            self._drop(request)
        self._stop.set()
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, 2 * BLOCK_S)
        await asyncio.to_thread(self._writer.shutdown)

    async def ask(self, question: RewardQuestion, within_s: float) -> RewardResult:
        """Have a question scored. After `within_s` the result says that there is no score yet, and why."""
        request = self._by_question.get(question.key)
        if request is not None and _has_failed(request):  # while no client waited: another try may do better
            self._drop(request)
            request = None
        if request is None:
            if len(self._by_question) >= self._most:
                return unavailable(f"{self._most} requests are under way already")
            request = self._admit(question)
        is_late = False
        request.waiting += 1
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(request.future)
        except TimeoutError:
            is_late = True
            why = await self._why_late(request)
            if request.future.done() and not request.future.cancelled():  # meanwhile
                return request.future.result()
            return unavailable(f"not scored within {within_s:.3g} s: {why}")
        finally:
            request.waiting -= 1
            if is_late and self._lingers_s:
                asyncio.get_running_loop().call_later(self._lingers_s, self._drop_unless_asked, request)
            else:
                self._drop_unless_asked(request)

    def _admit(self, question: RewardQuestion) -> _PendingRequest:
        self._count += 1
        loop = asyncio.get_running_loop()
        request = _PendingRequest(question, f"{self.name}-{self._count}", loop.create_future())
        self._by_question[question.key] = self._by_id[request.request_id] = request
        request.admission = loop.create_task(self._put_into_redis(request))
        return request

    async def _put_into_redis(self, request: _PendingRequest) -> None:
        """Put a question into Redis, however many tries that takes."""
        asked = request.question
        loop = asyncio.get_running_loop()
        try:
            rollout = rollout_of(request.request_id, asked.task, asked.text, asked.info)
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
            log.exception("not_admitted request=%s", request.request_id)
            if not request.future.done():
                request.future.set_result(bug(error))

    def _admit_again(self, request_ids: Sequence[str]) -> None:
        """Put into Redis again what it has lost: Redis was emptied, or is a replica that lacks these requests."""
        lost = [
            request
            for request in map(self._by_id.get, request_ids)
            if request is not None and _is_in_redis(request)
        ]
        for request in lost:
            request.admission = asyncio.get_running_loop().create_task(self._put_into_redis(request))
        if lost:
            log.warning("redis_forgot requests=%d: asked again", len(lost))

    def _drop_unless_asked(self, request: _PendingRequest) -> None:
        if not request.waiting:
            self._drop(request)

    def _drop(self, request: _PendingRequest) -> None:
        """Discard a question, and its entry in Redis where it has no result yet."""
        if self._by_id.pop(request.request_id, None) is None:
            return
        del self._by_question[request.question.key]
        if request.admission is not None:
            request.admission.cancel()
        if not request.future.done():
            request.future.cancel()
            with contextlib.suppress(RuntimeError):  # closed
                self._writer.submit(self._discard, [request.request_id])

    def _discard(self, request_ids: Sequence[str]) -> None:
        try:
            discard(self._joined.link, self._joined.keys, request_ids)
        except (RedisError, PipelineError) as error:
            log.warning("not_discarded requests=%d error=%s; they go by their age", len(request_ids), error)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take results to the loop and their entries out of Redis, in the reading thread."""
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
                    given = [
                        request.request_id for request in list(self._by_id.values()) if _is_in_redis(request)
                    ]
                    if lost := missing(self._joined.link, self._joined.keys, given):
                        loop.call_soon_threadsafe(self._admit_again, lost)  # after the results of above
                    check_at = time.monotonic() + CHECK_S
            except (RedisError, PipelineError) as error:
                self._say_trouble(error)
                self._stop.wait(RETRY_S)
            except Exception:  # a bug must not keep back every later result
                log.exception("not_read")
                self._stop.wait(RETRY_S)

    def _take(self, found: Sequence[Arrival]) -> None:
        for arrival in found:
            request = self._by_id.get(arrival.request_id)
            if request is not None and not request.future.done():
                request.future.set_result(reward_result_of(arrival.result))

    def _say_trouble(self, error: Exception) -> None:
        if not self._trouble:
            log.warning("redis_away at=%s error=%s", self._joined.link.address, error)
        self._trouble = mask(str(error)) or type(error).__name__

    async def _why_late(self, request: _PendingRequest) -> str:
        """Say why a request has no result in its client's time."""
        if self._trouble:
            return f"Redis is away: {self._trouble}"
        queue = queue_of(self._joined.run.scorers, request.question.task)
        client: Any = self._joined.link.client
        keys = self._joined.keys

        def look() -> tuple[int, bytes | None]:
            return RqQueues(client, keys).serving()[queue], client.hget(
                keys.tries, error_field(request.request_id)
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
        return f"{workers} the queue {queue}, and {len(self._by_question)} requests are under way"


def _has_failed(request: _PendingRequest) -> bool:
    """Say whether a question was tried, and can't be scored now."""
    future = request.future
    return future.done() and not future.cancelled() and future.result().status == "unavailable"


def _is_in_redis(request: _PendingRequest) -> bool:
    """Say whether Redis has been given a question, and no result has come yet."""
    return request.admission is not None and request.admission.done() and not request.future.done()
