"""Answers that a served verifier scores: a rubric model by the row's criteria (RRM), or TinyV's judge.

In: the text of a completion and a row, `{"type": "rubric", "answer": {"value", "question", "criteria"}}` or `{"type":
"tinyv", "answer": {"value", "question"}}`. Out: a value in [0, 1] with a reason; the components `rule` and `verifier`
say what it is made of, as the mode wants it (`scorers.rubric.modes`). The rule is the row's reference by `prime_math`.
Run by the workers of the queue `judge`: `begin` starts a call and returns, so that a worker has the calls of a whole
job in flight before it waits for the first.

What needs no verifier gets none: where the rule settles it, and an answer with nothing in it. An endpoint that fails
raises `Retryable`, a key or a model that it does not know `Permanent`; a reply without a grade is unscorable, and so is
a reference that the rule can't use. No failure is ever a 0.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.errors import PipelineError
from broker.messages import Score
from config.scorer_kinds import MathConfig, RubricConfig, TinyvConfig
from scorers.judge import prompt
from scorers.judge import reply as judge_reply
from scorers.judge.prompt import Case
from scorers.judge.reply import Ruling
from scorers.judge.rows import PART_OF_VARIANT, JudgeRow, NothingToJudge, answer_to_judge
from scorers.judge.scorer import JudgeGone
from scorers.rubric import prompt as rubric_prompt
from scorers.rubric import reply as rubric_reply
from scorers.rubric.modes import ONLY, combined, settled
from scorers.rubric.prompt import RubricCase
from scorers.rubric.rows import VerifiedRow, nothing_in, row_of, solution_of
from scorers.scorer import SelfTestFailed, make_score
from scorers.served_model.client import Endpoint, Reply, RequestRefused, Shared, seconds_of
from scorers.served_model.prefetch import PrefetchedPlans

if TYPE_CHECKING:
    from scorers.math.scorer import MathAnswer

RULES: Final = 2  # of everything here but the prompts
_GRADED: Final = "rubric"  # the type whose rows have criteria
_RULE_TYPE: Final = "prime_math"  # what TinyV and RRM have for a rule


@dataclass(frozen=True, slots=True)
class _Question:
    """What a verifier is asked about one answer, and how its reply is read."""

    messages: Sequence[Mapping[str, str]]
    key: str
    verdict: Callable[[str | None, str | None], Ruling]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call under way."""

    question: _Question
    reply: Future[Reply]


@dataclass(frozen=True, slots=True)
class _Begun:
    """One answer on its way to a score."""

    plan: _Call | Ruling  # what the verifier says, or will
    rule: float | None = None  # what the rule says; None: not asked
    is_settled: bool = False  # `plan` is the score already
    components: Mapping[str, float] = field(default_factory=dict)  # of the rule, where it has settled it


class RubricAnswer:
    """Scorer of answers that a rubric model or TinyV's judge verifies. Used from one thread."""

    def __init__(self, config: RubricConfig | TinyvConfig, shared: Shared | None = None) -> None:
        """Nothing is contacted here.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        self._config = config
        self._endpoint = Endpoint(config.endpoint, shared)
        self._asking = threading.Lock()
        self._rule: MathAnswer | None = None
        self._begun = PrefetchedPlans[_Begun](
            lambda begun: begun.plan.reply if isinstance(begun.plan, _Call) else None
        )

    @property
    def name(self) -> str:
        """`rubric` or `tinyv`."""
        return self._config.type

    @property
    def version(self) -> str:
        """Of rules, prompts and model; of the rule where there is one."""
        prompts = rubric_prompt.PROMPTS if self.name == _GRADED else prompt.PROMPTS
        version = f"{RULES} prompts {prompts} model {self._config.endpoint.model or 'as served'}"
        if not self._has_rule:
            return version
        from scorers.math.scorer import VERSION

        return f"{version} rule {VERSION}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage that names what the row lacks."""
        self._row(verification_info)

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Start what `score` will want of the same text and row. What fails here fails again there, and says so.

        What was begun and has failed since begins anew, beside all others: in `score` each would wait for itself.
        """
        with suppress(PipelineError):
            row = self._row(verification_info)
            self._begun.begin(*self._plan(text, row), is_aside=self._has_rule)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """What rule and verifier come to; see the module for what becomes of everything else.

        Raises:
            Retryable: the endpoint gave no reply, or the rule's process was killed; the next try begins anew.
            Permanent: the endpoint does not know the model or the key, or there is no endpoint.
            BadMessage: the row lacks something.
        """
        started = time.monotonic()
        row = self._row(verification_info)
        begun = self._begun.take(*self._plan(text, row), is_aside=self._has_rule)
        try:
            found = begun.result()
            verdict = found.plan if isinstance(found.plan, Ruling) else _verdict(found.plan)
        except CancelledError as error:
            raise JudgeGone(
                f"the endpoint of the {self.name} scorer was closed while it was asked"
            ) from error
        value, components = self._combined(found, verdict)
        seconds = (
            seconds_of(found.plan.reply) if isinstance(found.plan, _Call) else time.monotonic() - started
        )
        reasons = (
            [verdict.reason]
            if found.rule is None or found.is_settled
            else [verdict.reason, f"the rule says {'right' if found.rule else 'wrong'}"]
        )
        return make_score(self, value, "; ".join(reasons), seconds=seconds, components=components)

    def self_test(self) -> None:
        """Have the verifier prefer two plus two is four to two plus two is five.

        Raises:
            SelfTestFailed: it does not, or says nothing that can be read.
            Retryable: it is away; the worker waits for it.
        """
        row = VerifiedRow(
            "4",
            "What is two plus two? Show how you get there.",
            "1. Counts on from two, or adds in another way that is shown (5 points)\n"
            "2. States the right sum, which is 4 (5 points)",
        )
        texts = [
            f"Counting on from two by two: three, {sum_}. So the sum is \\boxed{{{sum_}}}."
            for sum_ in ("four", "five")
        ]
        right, wrong = [_verdict(self._ask(self._question(text, row), anew=True)) for text in texts]
        if right.value is None or wrong.value is None or right.value <= wrong.value:
            raise SelfTestFailed(
                f"the {self.name} scorer's self-test failed: 2 + 2 = 4 gave {right.value} "
                f"({right.reason}), 2 + 2 = 5 gave {wrong.value} ({wrong.reason}); version: "
                f"{self.version}"
            )

    def take_counts(self) -> Mapping[str, int]:
        """Hits and misses of the cache of replies since the last call."""
        return self._endpoint.take_counts()

    def close(self) -> None:
        """End every call and the rule's child."""
        self._begun.close()  # first: it asks the endpoint, which would begin anew
        if self._rule is not None:
            self._rule.close()
        self._endpoint.close()

    @property
    def _has_rule(self) -> bool:
        return self._config.mode != ONLY

    def _row(self, verification_info: Mapping[str, Any]) -> VerifiedRow:
        return row_of(verification_info, self.name, has_rule=self._has_rule)

    def _plan(self, text: str, row: VerifiedRow) -> tuple[bytes, Callable[[], _Begun]]:
        planned = (
            partial(self._planned, text, row)
            if self._has_rule
            else partial(self._verified, text, row, rule=None)
        )
        return _key(text, row), planned

    def _planned(self, text: str, row: VerifiedRow) -> _Begun:
        """The rule's verdict, and a call where it settles nothing. In the rule's thread, which has its child."""
        if (problem := nothing_in(text, row)) is not None:
            return _Begun(Ruling(0.0, problem), is_settled=True)
        if self._rule is None:
            from scorers.math.scorer import MathAnswer

            self._rule = MathAnswer(MathConfig())
        ruled = self._rule.score_text(text, row.reference, _RULE_TYPE)
        if ruled.value is None:
            return _Begun(Ruling(None, ruled.reason), is_settled=True)
        if (value := settled(self._config.mode, ruled.value)) is not None:
            return _Begun(
                Ruling(value, ruled.reason), ruled.value, is_settled=True, components=ruled.components
            )
        return self._verified(text, row, rule=ruled.value)

    def _verified(self, text: str, row: VerifiedRow, *, rule: float | None) -> _Begun:
        """Whether there is anything to verify, about which the verifier then has been asked."""
        try:
            question = self._question(text, row)
        except NothingToJudge as error:
            return _Begun(Ruling(error.value, str(error)), rule)
        return _Begun(self._ask(question), rule)

    def _combined(self, found: _Begun, verdict: Ruling) -> tuple[float | None, dict[str, float]]:
        """The score's value, and what it is made of."""
        components = {**found.components, **({} if found.rule is None else {"rule": found.rule})}
        if found.is_settled:
            return verdict.value, components
        if verdict.value is None:
            return None, components
        components["verifier"] = verdict.value
        return combined(self._config.mode, self._config.weight, found.rule, verdict.value), components

    def _question(self, text: str, row: VerifiedRow) -> _Question:
        """What the verifier is asked about an answer. Raises NothingToJudge."""
        if self.name == _GRADED:
            graded = RubricCase(
                row.question, row.criteria, solution_of(text, row, self._config.max_answer_chars)
            )
            return _Question(
                rubric_prompt.messages_of(graded),
                graded.key,
                lambda said, finish: rubric_reply.verdict_of(said, finish, graded),
            )
        judged = JudgeRow("judge", row.reference, row.question or None)
        answer = answer_to_judge(text, judged, PART_OF_VARIANT["tinyv"], self._config.max_answer_chars)
        case = Case(judged.question, judged.reference, answer, "tinyv")
        return _Question(
            prompt.messages_of(case),
            case.key,
            lambda said, finish: judge_reply.verdict_of(said, finish, case),
        )

    def _ask(self, question: _Question, *, anew: bool = False) -> _Call:
        with self._asking:
            return _Call(question, self._endpoint.ask(question.messages, question.key, anew=anew))


def _verdict(call: _Call) -> Ruling:
    """Wait for the reply, and read it. Raises what the call raises."""
    try:
        reply = call.reply.result()
    except RequestRefused as error:
        return Ruling(None, f"the verifier's server does not take the question: {error}")
    return call.question.verdict(reply.text, reply.finish_reason)


def _key(text: str, row: VerifiedRow) -> bytes:
    return hashlib.blake2b(json.dumps([text, row.reference, row.question, row.criteria]).encode()).digest()
