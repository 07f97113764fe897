"""Free answers, judged by a served model against the row's reference.

In: the text of a completion and `{"type": "llm_judge", "answer": {"value": "the reference", "question": "..."}}`. Out:
1.0 or 0.0 as the judge says, with a reason. Run by the workers of the queue `judge`: `begin` starts a call and returns,
so one worker has the calls of a whole job in flight before it waits for the first (`scorers.served_model.client`).

What needs no judge gets none: no answer, or an answer without content, is 0; the reference itself is 1; and for
`math_llm_judge` the math scorer is asked first. An endpoint that fails raises `Retryable`, a key or a model that it
does not know `Permanent`; a reply without a clear verdict is unscorable. No failure is ever a 0.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.errors import PipelineError, Retryable
from broker.messages import Score
from config.scorer_kinds import JudgeConfig, MathConfig
from scorers.judge.prompt import PROMPTS, Case, messages_of
from scorers.judge.reply import Ruling, verdict_of
from scorers.judge.rows import (
    MATH,
    PART_OF_VARIANT,
    VARIANT_OF_TYPE,
    JudgeRow,
    NothingToJudge,
    answer_to_judge,
    row_of,
)
from scorers.scorer import SelfTestFailed, make_score
from scorers.served_model.client import Endpoint, Reply, RequestRefused, Shared, seconds_of
from scorers.served_model.prefetch import PrefetchedPlans

if TYPE_CHECKING:
    from scorers.math.scorer import MathAnswer

RULES: Final = 2  # of everything here but the prompts
_SELF_TEST: Final = {"four": 1.0, "five": 0.0}  # two plus two


class JudgeGone(Retryable):
    """The endpoint was closed while a call was under way."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call under way."""

    case: Case
    call: Future[Reply]


@dataclass(frozen=True, slots=True)
class _Begun:
    """One completion on its way to a score."""

    plan: _Asked | Ruling  # a verdict where no judge is needed
    components: Mapping[str, float] = field(default_factory=dict)


class JudgeAnswer:
    """Scorer of answers that only a reader can compare. Used from one thread."""

    name = "judge"

    def __init__(self, config: JudgeConfig, shared: Shared | None = None) -> None:
        """Nothing is contacted here.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        self._config = config
        self._endpoint = Endpoint(config.endpoint, shared)
        self._asking = threading.Lock()  # an endpoint is for one thread at a time, and the rule's asks too
        self._rule: MathAnswer | None = None
        self._begun = PrefetchedPlans[_Begun](
            lambda begun: begun.plan.call if isinstance(begun.plan, _Asked) else None
        )

    @property
    def version(self) -> str:
        """Of rules, prompts and model; of a model that the config does not name, whatever the endpoint serves."""
        return f"{RULES} prompts {PROMPTS} model {self._config.endpoint.model or 'as served'}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row is of no known type or has no usable `answer.value`."""
        row_of(verification_info)

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Start what `score` will want of the same text and row. What fails here fails again there, and says so.

        What was begun and has failed since begins anew, beside all others: in `score` each would wait for itself.
        """
        with suppress(PipelineError):
            row = row_of(verification_info)
            self._begun.begin(*self._plan(text, row), is_aside=self._is_ruled(row))

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """What the judge says; see the module for what becomes of everything else.

        Raises:
            Retryable: the endpoint gave no reply; the next try asks it anew.
            Permanent: the endpoint does not know the model or the key, or there is no endpoint.
            BadMessage: the row has no answer.
        """
        started = time.monotonic()
        row = row_of(verification_info)
        begun = self._begun.take(*self._plan(text, row), is_aside=self._is_ruled(row))
        try:
            found = begun.result()
            verdict = found.plan if isinstance(found.plan, Ruling) else _verdict(found.plan)
        except CancelledError as error:
            raise JudgeGone("the judge's endpoint was closed while it was asked") from error
        seconds = (
            seconds_of(found.plan.call) if isinstance(found.plan, _Asked) else time.monotonic() - started
        )
        return make_score(self, verdict.value, verdict.reason, seconds=seconds, components=found.components)

    def self_test(self) -> None:
        """Have the judge say that 2 + 2 is four, and not five.

        Raises:
            SelfTestFailed: it says otherwise, or nothing that can be read.
            Retryable: it is away; the worker waits for it.
        """
        cases = [Case("What is two plus two?", "4", answer, self._config.variant) for answer in _SELF_TEST]
        for asked in [
            self._ask(case, anew=True) for case in cases
        ]:  # whether it says so now, not whether it has
            verdict, expected = _verdict(asked), _SELF_TEST[asked.case.answer]
            if verdict.value != expected:
                raise SelfTestFailed(
                    f"the judge's self-test failed: for 2 + 2, {asked.case.answer!r} against 4 gave "
                    f"{verdict.value} ({verdict.reason}), expected {expected}; version: "
                    f"{self.version}"
                )

    def take_counts(self) -> Mapping[str, int]:
        """Hits and misses of the cache of verdicts since the last call."""
        return self._endpoint.take_counts()

    def close(self) -> None:
        """End every call and the rule's child."""
        self._begun.close()  # first: it asks the endpoint, which would begin anew
        if self._rule is not None:
            self._rule.close()
        self._endpoint.close()

    def _plan(self, text: str, row: JudgeRow) -> tuple[bytes, Callable[[], _Begun]]:
        return _key(text, row), partial(self._planned, text, row)

    def _is_ruled(self, row: JudgeRow) -> bool:
        return row.type == MATH

    def _planned(self, text: str, row: JudgeRow) -> _Begun:
        """Whether a judge is needed, who then has been asked. For MATH in the rule's thread, which has its child."""
        variant = VARIANT_OF_TYPE[row.type] or self._config.variant
        part = self._config.part or PART_OF_VARIANT[variant]
        try:
            answer = answer_to_judge(text, row, part, self._config.max_answer_chars)
        except NothingToJudge as error:
            return _Begun(Ruling(error.value, str(error)))
        case = Case(row.question, row.reference, answer, variant)
        if row.type != MATH:
            return _Begun(self._ask(case))
        ruled = self._ruled(text, row.reference)
        if ruled.value == 1.0:
            return _Begun(Ruling(1.0, ruled.reason), {"rule": 1.0})
        return _Begun(self._ask(case), {} if ruled.value is None else {"rule": ruled.value})

    def _ruled(self, text: str, reference: str) -> Score:
        """What the math scorer says. Of a reference that it can't read, nothing: a judge may."""
        if self._rule is None:
            from scorers.math.scorer import MathAnswer

            self._rule = MathAnswer(MathConfig())
        return self._rule.score_text(text, reference)

    def _ask(self, case: Case, *, anew: bool = False) -> _Asked:
        with self._asking:
            return _Asked(case, self._endpoint.ask(messages_of(case), case.key, anew=anew))


def _verdict(asked: _Asked) -> Ruling:
    """Wait for the reply, and read it. Raises what the call raises."""
    try:
        reply = asked.call.result()
    except RequestRefused as error:
        return Ruling(None, f"the judge's server does not take the question: {error}")
    return verdict_of(reply.text, reply.finish_reason, asked.case)


def _key(text: str, row: JudgeRow) -> bytes:
    return hashlib.blake2b(json.dumps([text, row.type, row.reference, row.question]).encode()).digest()
