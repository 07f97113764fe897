"""Keep the calls of one episode's agent, for any source of answers: from the gateway's requests to the play's end.

In: a call in the form of `ApiRequest`, with its digest. Out: a task that ends with a `PolicyAnswer` or `CallRefused`. A
client that retries, and says so, gets the answer of its first call. A call whose client has disconnected is still
answered: it is part of the episode. At a limit the agent is told in its own API, and should end; one that continues is
refused. In `agents.gateway.session` the policy answers. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.gateway.auxiliary import is_auxiliary
from agents.gateway.dialects.dialect import ENDED, ApiRequest, Begun, CallRefused, PolicyAnswer, TokenUsage
from broker.messages import End
from broker.messages import Turn as Message
from config.episodes.own_loop import AuxiliaryCall

LIMITS: Final = {
    End.TURNS: "This episode's turns are used up. Stop here.",
    End.CONTEXT: "The context of this episode is full. Stop here.",
    End.DEADLINE: "The time of this episode is over. Stop here.",
}
MOST_BEHIND_END: Final = 16  # calls at a limit that get the message; further ones are refused


@dataclass(frozen=True, slots=True, eq=False)
class AgentCall:
    """One call of an agent."""

    begun: Begun
    answer: asyncio.Task[PolicyAnswer]  # or `CallRefused`; its waiters must not cancel it


class PlayCalls(ABC):
    """The calls of one play of an episode.

    Args:
        model: the model name in answers.
        created: the Unix time in answers; the same in each play.
        beside: conditions for calls outside the task.
    Attributes:
        failure: what ended the play, for its driver; None: nothing.
        refusal: why the last refused call was refused; "": none was.
        ended_by: the limit that was reached; None: none.
        auxiliary: number of calls outside the task.
    """

    def __init__(self, *, model: str, created: int, beside: Sequence[AuxiliaryCall] = ()) -> None:
        self._model, self._created, self._beside = model, created, beside
        self.auxiliary = 0
        self._calls: dict[bytes, AgentCall] = {}  # the last call with this digest
        self._begun: Counter[bytes] = Counter()  # number of calls, by digest
        self._in_flight: set[asyncio.Task[PolicyAnswer]] = set()
        self._kept: dict[str, tuple[Message, ...]] = {}  # answer's id -> all messages up to it, as shown
        self._told = 0  # calls that were told about a limit
        self.refusal = ""
        self.failure: Exception | None = None
        self.failed = asyncio.Event()
        self.ended_by: End | None = None
        self._is_closed = False

    @abstractmethod
    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        """Answer a call. Raises CallRefused."""

    @abstractmethod
    def count(self, asked: ApiRequest) -> int:
        """Count the tokens of a call's prompt, without requesting or recording anything. Raises CallRefused."""

    @property
    def is_at_work(self) -> bool:
        """Whether a call is in progress: the agent waits for its answer."""
        return bool(self._in_flight)

    def call(self, asked: ApiRequest, digest: bytes, *, is_retry: bool) -> AgentCall:
        """Start to answer a call, or return the one that a client retries.

        Args:
            digest: of the request.
            is_retry: whether its client says that it retries.
        Raises:
            CallRefused: the episode has ended.
        """
        if is_retry and digest in self._calls:
            return self._calls[digest]
        if self._is_closed or self.failure is not None:
            raise CallRefused("this episode has ended", status=ENDED, code="episode_ended")
        self._begun[digest] += 1
        name = hashlib.blake2b(digest + b"%d" % self._begun[digest], digest_size=16).hexdigest()
        begun = Begun(id=name, model=self._model, created=self._created)
        call = self._calls[digest] = AgentCall(begun, asyncio.create_task(self._answered(asked, begun)))
        self._in_flight.add(call.answer)
        call.answer.add_done_callback(self._is_done)
        return call

    async def close(self) -> None:
        """Accept no more calls, and wait for those in progress; not where the play failed."""
        self._is_closed = True
        if self.failure is not None:
            self.abandon()
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def abandon(self) -> None:
        """Accept no more calls, and do not wait. Turns in progress are sampled and recorded for the next play."""
        self._is_closed = True
        for task in self._in_flight:
            task.cancel()

    def _is_done(self, task: asyncio.Task[PolicyAnswer]) -> None:
        self._in_flight.discard(task)
        error = None if task.cancelled() else task.exception()  # retrieved, though no client may be left
        if error is not None:
            self.refusal = str(error)

    def _is_beside(self, asked: ApiRequest) -> bool:
        """Return whether a call is outside the task, and count it."""
        found = is_auxiliary(asked, self._beside)
        self.auxiliary += found
        return found

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.failed.set()

    def _said_before(self, asked: ApiRequest) -> tuple[Message, ...]:
        """Return all messages up to the answer that a call names. Raises CallRefused."""
        if not asked.previous:
            return ()
        if (found := self._kept.get(asked.previous)) is None:
            raise CallRefused(
                "previous_response_id names no response of this episode that was stored",
                code="previous_response_not_found",
                where="previous_response_id",
            )
        return found

    def _keep(self, asked: ApiRequest, answer: PolicyAnswer) -> None:
        """Keep all messages up to an answer that later calls may name."""
        if asked.is_kept:
            self._kept[answer.id] = (*self._said_before(asked), *asked.messages, answer.message)

    def _at_limit(self, limit: End, begun: Begun, *, given: int, is_beside: bool) -> PolicyAnswer:
        """Tell the agent about a limit, in a last message. Raises CallRefused for one that keeps calling.

        Args:
            given: number of prompt tokens of the call.
            is_beside: whether it is outside the task, which then does not end.
        """
        if not is_beside:
            self.ended_by = self.ended_by or limit
        self._told += 1
        if self._told > MOST_BEHIND_END:
            raise CallRefused(f"{LIMITS[limit]} This was said before.", status=ENDED, code="episode_ended")
        return PolicyAnswer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message={"role": "assistant", "content": LIMITS[limit]},
            is_cut=False,
            stopped_at=None,
            usage=TokenUsage(given=given, cached=0, sampled=0),
        )
