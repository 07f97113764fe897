"""This module asks a served model on behalf of scorers: judges and rubric models.

In: messages, from a scorer's one thread. Out: a future of the reply, at once. Calls run side by side on a loop in its
own thread, so that one worker keeps dozens of calls under way while it scores. The limits of a run's workers are
counted in Redis (`Shared`); without a run, in this process. A failure of the machinery is the future's exception, never
a reply: `Retryable`, or `Permanent` where a person has to act.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from broker.errors import PipelineError, Retryable
from config.endpoint import EndpointConfig
from config.loading import api_key
from scorers.served_model.admission import Admission
from scorers.served_model.cache import ProcessReplies, Replies, RunReplies
from scorers.served_model.calls import EndpointCalls, EndpointUnavailable
from scorers.served_model.concurrency_limits import (
    Ask,
    ConcurrencyLimits,
    Grant,
    ProcessConcurrencyLimits,
    RunConcurrencyLimits,
    Shared,
    Terms,
)
from scorers.served_model.servers import EndpointServers
from scorers.served_model.wire import EndpointMisused, Refusal, Reply, RequestRefused, Wire

__all__ = [
    "Endpoint",
    "EndpointMisused",
    "EndpointUnavailable",
    "Refusal",
    "Reply",
    "RequestRefused",
    "Shared",
    "has_failed",
    "seconds_of",
]

LEASE_MARGIN_S: Final = 5.0  # from the latest end of a call to the end of its lease
REDIS_THREADS: Final = 4  # that ask Redis for the loop
START_S: Final = 30.0  # for the loop to come up, on a machine with more to do
CLOSE_S: Final = 5.0


class Endpoint:
    """An endpoint asks one served model. Its thread begins with the first question, and anew after `close`.

    One thread uses it.
    """

    def __init__(self, config: EndpointConfig, shared: Shared | None = None) -> None:
        """Contact nothing yet."""
        self._config = config
        self._limits: ConcurrencyLimits = (
            ProcessConcurrencyLimits() if shared is None else RunConcurrencyLimits(shared)
        )
        self._replies: Replies = ProcessReplies() if shared is None else RunReplies(shared)
        self._session: _Session | None = None
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()

    def ask(
        self, messages: Sequence[Mapping[str, str]], key: str | None = None, *, anew: bool = False
    ) -> Future[Reply]:
        """Have the model answer. Returns at once.

        Args:
            messages: of the chat, `role` and `content` each.
            key: the text by which the cache knows this question, say that of the messages without their nonce; None:
                the messages themselves.
            anew: ask even if the cache has a reply: the caller wants to know whether the model answers.
        Returns:
            a future with a deadline of its own: it ends, however the servers behave. It raises
            Retryable: for too long no server has answered, each was busy, or no call was free.
            RequestRefused: a `Permanent`: this one question is not taken, it is too long for the model, say.
            Permanent: the model, the key or an address is wrong.
        """
        if self._session is None:
            self._session = _Session(self._config, self._limits, self._replies, self._count)
        return self._session.ask(messages, key, anew=anew)

    def take_counts(self) -> Mapping[str, int]:
        """Return hits and misses of the cache since the last call, by their names in `ScorerStats`."""
        with self._counting:
            counts, self._counts = self._counts, Counter()
        return counts

    def close(self) -> None:
        """Break off the questions under way: their futures are cancelled."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _count(self, what: str) -> None:
        with self._counting:
            self._counts[what] += 1


def seconds_of(call: Future[Reply]) -> float:
    """Return the seconds of an ended call at the server, without the wait for a turn; 0 for a failed call."""
    return call.result().seconds if call.exception() is None else 0.0


def has_failed(call: Future[Any]) -> bool:
    """Say whether a call was cancelled or ended by a `Retryable`, so that another try may do better."""
    return call.done() and (call.cancelled() or isinstance(call.exception(), Retryable))


class _Session:
    """A session lasts from the first question to `close`: it has a loop, the loop's thread, and all that runs there."""

    def __init__(
        self,
        config: EndpointConfig,
        limits: ConcurrencyLimits,
        replies: Replies,
        count: Callable[[str], None],
    ) -> None:
        servers = EndpointServers(config.urls)
        terms = Terms(
            urls=tuple(server.url for server in servers.all),
            concurrency=config.concurrency,
            requests_per_minute=config.requests_per_minute,
            lease_s=config.timeout_s + LEASE_MARGIN_S,
        )

        def exchange(ask: Ask) -> Awaitable[Grant]:
            return asyncio.to_thread(limits.exchange, terms, ask)

        self._admission = Admission(
            exchange, f"one of {config.concurrency} calls at once to {' '.join(terms.urls)}"
        )
        self._wire = Wire(api_key(config.key_variable), timeout_s=config.timeout_s)
        self._calls = EndpointCalls(config, self._wire, servers, self._admission, replies, count=count)
        self._questions: set[asyncio.Task[Reply]] = set()
        self._stop = asyncio.Event()
        self._start(" ".join(terms.urls))

    def _start(self, urls: str) -> None:
        """Start the loop's thread. Raises EndpointUnavailable where the loop is not there in START_S."""
        is_ready: Future[None] = Future()

        def live() -> None:
            try:
                asyncio.run(self._live(is_ready))
            except Exception as error:
                if is_ready.done():
                    raise
                is_ready.set_exception(error)

        self._thread = threading.Thread(target=live, name="endpoint", daemon=True)
        try:
            self._thread.start()
            is_ready.result(START_S)
        except (OSError, RuntimeError) as error:  # no descriptor, no thread, or TimeoutError
            is_ready.cancel()  # a loop that comes up later ends at once
            why = f"nothing in {START_S:g} s" if isinstance(error, TimeoutError) else error
            raise EndpointUnavailable(f"the endpoint's thread did not start, to ask {urls}: {why}") from error

    def ask(self, messages: Sequence[Mapping[str, str]], key: str | None, *, anew: bool) -> Future[Reply]:
        """Ask the model, from another thread than the loop's."""
        return asyncio.run_coroutine_threadsafe(self._answer(messages, key, anew=anew), self._loop)

    def close(self) -> None:
        """End the loop, from another thread than the loop's."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CLOSE_S)

    async def _answer(self, messages: Sequence[Mapping[str, str]], key: str | None, *, anew: bool) -> Reply:
        question = asyncio.create_task(self._calls.reply(messages, key, anew=anew))
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)
        return await question

    async def _live(self, is_ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(
            ThreadPoolExecutor(REDIS_THREADS, thread_name_prefix="endpoint redis")
        )
        admitting = asyncio.create_task(self._admission.run())
        if not is_ready.set_running_or_notify_cancel():
            admitting.cancel()
            return
        is_ready.set_result(None)
        await self._stop.wait()
        for task in (*self._questions, admitting):
            task.cancel()
        await asyncio.gather(*self._questions, admitting, return_exceptions=True)
        with contextlib.suppress(PipelineError, TimeoutError):  # else the leases of its calls run out
            await asyncio.wait_for(self._admission.give_back(), CLOSE_S / 2)
        await self._wire.close()
