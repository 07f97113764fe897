"""A verifier is a served model with a rule beside it: rubric models and TinyV's judge, in one of four modes.

In: rows that may have a reference, and what the verifier says. Out: a value in [0, 1] with a reason; the components
`rule` and `verifier` say what the value is made of, as the mode wants it (`scorers.rubric.modes`). The rule is the
row's reference by `prime_math`.

What needs no verifier gets none: where the rule settles it, and an answer with nothing in it. A reply without a grade
is unscorable, and so is a reference that the rule can't use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic

from config.scorer_kinds import RubricConfig, TinyvConfig
from scorers.rubric.modes import ONLY, combined, settled
from scorers.rubric.rows import VerifiedRow, nothing_in, row_of
from scorers.scorer import OVER_LIMIT, Conversation
from scorers.served_model.client import Reply
from scorers.served_model.protocol import Case, ModelQuestion, NothingToJudge, Ruling
from scorers.served_model.rule import MathRule, rule_version
from scorers.served_model.transcript import RENDERING, Transcript, transcript_of

RULES: Final = 4  # of rows, modes and replies; prompts have a number of their own
_RULE_TYPE: Final = "prime_math"  # what TinyV and RRM have for a rule
_SELF_TEST: Final = VerifiedRow(
    "4",
    "What is two plus two? Show how you get there.",
    "1. Counts on from two, or adds in another way that is shown (5 points)\n"
    "2. States the right sum, which is 4 (5 points)",
)


class VerifierProtocol(ABC, Generic[Case]):
    """All verifiers share this part of a protocol: rows, the rule, the mode. Their prompts and replies differ.

    Args:
        config: the section.
        needs: what an answer has to hold, by its keys.
        prompts: the version of the prompts.
    """

    asked = "the verifier"

    def __init__(self, config: RubricConfig | TinyvConfig, *, needs: Sequence[str], prompts: int) -> None:
        self._config = config
        self._has_rule = config.mode != ONLY
        self._needs = tuple(dict.fromkeys((*needs, *(("value",) if self._has_rule else ()))))
        self._prompts = prompts

    @abstractmethod
    def ask(self, asked: str | Transcript, row: VerifiedRow) -> ModelQuestion[Case]:
        """Word the question about one completion, or one conversation. Raises NothingToJudge: there is nothing."""

    @abstractmethod
    def verdict_on(self, reply: Reply, case: Case) -> Ruling:
        """Read the verifier's reply, whatever the rule says."""

    @abstractmethod
    def plain_question(self, question: ModelQuestion[Case]) -> ModelQuestion[Case]:
        """Ask about a short answer in place of this one."""

    @property
    def name(self) -> str:
        """The section's type: `rubric` or `tinyv`."""
        return self._config.type

    def version(self, model: str) -> str:
        """Name the version of rules, prompts and `model`, and of the rule where the mode has one."""
        whole = f" conversations {RENDERING}" if self.reads_conversations else ""
        version = f"{RULES} prompts {self._prompts}{whole} model {model}"
        return f"{version} rule {rule_version()}" if self._has_rule else version

    @property
    def reads_conversations(self) -> bool:
        """Whether the section says so."""
        return self._config.sees == "conversation"

    def read_row(self, verification_info: Mapping[str, Any]) -> VerifiedRow:
        """Read a row. Raises BadMessage that names what the row lacks."""
        return row_of(verification_info, self.name, self._needs)

    def asks_rule(self, row: VerifiedRow) -> bool:  # noqa: ARG002 - every row of a scorer has the rule, or none has
        """Say whether the mode has a rule."""
        return self._has_rule

    def question_of(self, text: str, row: VerifiedRow, rule: MathRule) -> ModelQuestion[Case] | Ruling:
        """Ask the rule where there is one, and word a question where the rule settles nothing."""
        if self._has_rule and (problem := nothing_in(text, row)) is not None:
            return Ruling(0.0, problem)
        return self._ruled(text, row, rule, lambda: self.ask(text, row))

    def question_of_conversation(
        self, conversation: Conversation, row: VerifiedRow, rule: MathRule
    ) -> ModelQuestion[Case] | Ruling:
        """Word a question about a whole episode; the rule reads its last message."""
        try:
            transcript = transcript_of(conversation, row.reference)
        except NothingToJudge as error:
            return Ruling(error.value, str(error))
        return self._ruled(conversation.text, row, rule, lambda: self.ask(transcript, row))

    def _ruled(
        self, text: str, row: VerifiedRow, rule: MathRule, ask: Callable[[], ModelQuestion[Case]]
    ) -> ModelQuestion[Case] | Ruling:
        components: dict[str, float] = {}
        remark = ""
        if self._has_rule:
            ruled = rule.score(text, row.reference, _RULE_TYPE)
            if ruled.value is None:
                return Ruling(None, ruled.reason)
            if (value := settled(self._config.mode, ruled.value)) is not None:
                return Ruling(value, ruled.reason, {**ruled.components, "rule": ruled.value})
            components["rule"] = ruled.value
            remark = f"the rule says {'right' if ruled.value else 'wrong'}"
        try:
            return replace(ask(), components=components, remark=remark)
        except NothingToJudge as error:
            ruling = self._with_rule(Ruling(error.value, str(error)), components)
            return Ruling(
                ruling.value,
                f"{ruling.reason}; {remark}" if remark else ruling.reason,
                {**components, **ruling.components},
            )

    def ruling_of(self, reply: Reply, question: ModelQuestion[Case]) -> Ruling:
        """Read the verifier's reply, and weigh it with what the rule has said."""
        return self._with_rule(self.verdict_on(reply, question.case), question.components)

    def refused(self, question: ModelQuestion[Case], reason: str) -> Ruling:
        """Rule on an answer that no server takes, as on one that is over `max_answer_chars`."""
        ruling = self._with_rule(Ruling(0.0, reason), question.components)
        return replace(ruling, components={**ruling.components, OVER_LIMIT: 1.0})

    def _with_rule(self, verdict: Ruling, components: Mapping[str, float]) -> Ruling:
        if verdict.value is None:
            return verdict
        rule = components.get("rule")
        value = verdict.value
        if rule is not None:
            value = combined(self._config.mode, self._config.weight, rule, value)
        return replace(verdict, value=value, components={"verifier": verdict.value})

    def self_test_questions(self) -> Sequence[ModelQuestion[Case]]:
        """Ask about two plus two: four first, then five. No rule is asked."""
        return [
            self.ask(
                f"Counting on from two by two: three, {sum_}. So the sum is \\boxed{{{sum_}}}.", _SELF_TEST
            )
            for sum_ in ("four", "five")
        ]

    def self_test_problem(self, rulings: Sequence[Ruling]) -> str | None:
        """Say so where 2 + 2 = 4 is not preferred to 2 + 2 = 5."""
        right, wrong = rulings
        if right.value is not None and wrong.value is not None and right.value > wrong.value:
            return None
        return f"2 + 2 = 4 gave {right.value} ({right.reason}), 2 + 2 = 5 gave {wrong.value} ({wrong.reason})"
