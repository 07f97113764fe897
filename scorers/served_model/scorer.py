"""One scorer asks a served model about answers, by any protocol: judge, rubric, TinyV.

In: the text of a completion and a row; all of an episode, where the protocol reads conversations. Out: a score, as the
protocol's ruling says. The workers of the queue `judge` run it. `prefetch` starts a call and returns, so that a worker
has all calls of a job under way before it waits for the first (`scorers.served_model.client`).

Where no model is needed, none is asked: the protocol then rules at once. An endpoint that fails raises `Retryable`, a
key or a model that it does not know `Permanent`. A reply without a clear verdict leaves the answer unscorable. So does
a question that the servers refuse, unless the answer is what they refuse: then it is ruled on as the protocol says
(`scorers.served_model.refusals`). No failure is ever a 0.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

from broker.errors import PipelineError, Retryable
from broker.scores import Score
from config.endpoint import EndpointConfig
from scorers.scorer import Asked, SelfTestFailed, make_score
from scorers.served_model.client import Endpoint, EndpointMisused, Refusal, Reply, Shared, seconds_of
from scorers.served_model.prefetch import PrefetchedPlans
from scorers.served_model.protocol import (
    Case,
    ModelQuestion,
    ReadingConversations,
    Row,
    Ruling,
    ServedModelProtocol,
)
from scorers.served_model.refusals import Refusals
from scorers.served_model.rule import MathRule


class JudgeGone(Retryable):
    """This is raised where the endpoint was closed while a call was under way."""


@dataclass(frozen=True, slots=True)
class _Call(Generic[Case]):
    """A call that is under way: its question, and its reply to come."""

    question: ModelQuestion[Case]
    reply: Future[Reply]


class ServedModelScorer(Generic[Row, Case]):
    """This scorer asks a served model, by one protocol. Used from one thread."""

    def __init__(
        self, protocol: ServedModelProtocol[Row, Case], endpoint: EndpointConfig, shared: Shared | None = None
    ) -> None:
        """Contact nothing yet.

        Args:
            protocol: how rows and replies are read, and what is asked.
            endpoint: the served model.
            shared: limits and cache of the run; None: this process's own.
        """
        self._protocol = protocol
        self._model = endpoint.model or "as served"
        self._endpoint = Endpoint(endpoint, shared)
        self._asking = threading.Lock()  # an endpoint is for one thread at a time, and the rule's asks too
        self._rule = MathRule()
        self._refusals = Refusals(
            protocol, lambda question, anew: self._ask(question, anew=anew).reply.result()
        )
        self._begun = PrefetchedPlans[_Call[Case] | Ruling](
            lambda begun: None if isinstance(begun, Ruling) else begun.reply
        )
        self._reader = protocol if isinstance(protocol, ReadingConversations) else None
        if self._reader is not None and self._reader.reads_conversations:
            self.score_conversation = self._score  # by which the pool knows what to ask of
            self.prefetch_conversation = self._prefetch

    @property
    def name(self) -> str:
        """The protocol's name."""
        return self._protocol.name

    @property
    def version(self) -> str:
        """The version of rules, prompts and model; "as served" stands for a model that the config does not name."""
        return self._protocol.version(self._model)

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Refuse a row that the protocol can't read. Raises BadMessage that names what the row lacks."""
        self._protocol.read_row(verification_info)

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Start what `score` will want of the same text and row. What fails here fails again there, and says so.

        What was begun and has failed since begins anew, beside all others: in `score` each would wait for itself.
        """
        self._prefetch(text, verification_info)

    def _prefetch(self, asked: Asked, verification_info: Mapping[str, Any]) -> None:
        with suppress(PipelineError):
            row = self._protocol.read_row(verification_info)
            self._begun.begin(*self._plan(asked, row), is_aside=self._protocol.asks_rule(row))

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Score one completion by what the served model says; the module says what becomes of everything else.

        Raises:
            Retryable: the endpoint gave no reply, or the rule's process was killed; the next try begins anew.
            Permanent: the endpoint does not know the model or the key, or there is no endpoint.
            BadMessage: the row lacks something.
        """
        return self._score(text, verification_info)

    def _score(self, asked: Asked, verification_info: Mapping[str, Any]) -> Score:
        started = time.monotonic()
        row = self._protocol.read_row(verification_info)
        begun = self._begun.take(*self._plan(asked, row), is_aside=self._protocol.asks_rule(row))
        try:
            found = begun.result()
            ruling = found if isinstance(found, Ruling) else self._ruling(found)
        except CancelledError as error:
            raise JudgeGone(
                f"the endpoint of the {self.name} scorer was closed while it was asked"
            ) from error
        seconds = time.monotonic() - started if isinstance(found, Ruling) else seconds_of(found.reply)
        return make_score(self, ruling.value, ruling.reason, seconds=seconds, components=ruling.components)

    def self_test(self) -> None:
        """Have the served model rule on questions whose right rulings are known.

        Raises:
            SelfTestFailed: the model rules otherwise, or says nothing that can be read.
            Retryable: the endpoint is away; the worker waits for it.
        """
        questions = self._protocol.self_test_questions()
        calls = [self._ask(question, anew=True) for question in questions]  # an old reply proves nothing
        if (problem := self._protocol.self_test_problem(list(map(self._ruling, calls)))) is not None:
            raise SelfTestFailed(
                f"the {self.name} scorer's self-test failed: {problem}; version: {self.version}"
            )

    def take_counts(self) -> Mapping[str, int]:
        """Return the hits and misses of the cache of replies since the last call."""
        return self._endpoint.take_counts()

    def close(self) -> None:
        """End every call and the rule's child."""
        self._begun.close()  # first: a plan asks the endpoint, which would begin anew
        self._rule.close()
        self._endpoint.close()

    def _plan(self, asked: Asked, row: Row) -> tuple[bytes, Callable[[], _Call[Case] | Ruling]]:
        key = hashlib.blake2b(repr((asked, row)).encode()).digest()
        return key, partial(self._planned, asked, row)

    def _planned(self, asked: Asked, row: Row) -> _Call[Case] | Ruling:
        """Have the protocol rule, or begin a call where a model is needed. A rule is asked in a thread of its own."""
        question: ModelQuestion[Case] | Ruling
        if isinstance(asked, str):
            question = self._protocol.question_of(asked, row, self._rule)
        elif self._reader is not None:
            question = self._reader.question_of_conversation(asked, row, self._rule)
        else:
            raise TypeError(f"the scorer {self.name} reads no conversations")
        return question if isinstance(question, Ruling) else self._ask(question)

    def _ask(self, question: ModelQuestion[Case], *, anew: bool = False) -> _Call[Case]:
        with self._asking:
            return _Call(question, self._endpoint.ask(question.messages, question.key, anew=anew))

    def _ruling(self, call: _Call[Case]) -> Ruling:
        """Wait for the reply, and have the protocol read it. Raises what the call raises."""
        question = call.question
        try:
            ruling = self._protocol.ruling_of(call.reply.result(), question)
        except Refusal as error:
            found = self._refusals.ruling_on(question, error)
            if found is None and isinstance(error, EndpointMisused):
                raise
            ruling = found or Ruling(
                None, f"{self._protocol.asked}'s server does not take the question: {error}"
            )
        return replace(
            ruling,
            reason=f"{ruling.reason}; {question.remark}" if question.remark else ruling.reason,
            components={**question.components, **ruling.components},
        )
