"""Free answers, judged by a served model against the row's reference.

In: the text of a completion, or a whole episode, and a row, `{"type": "llm_judge", "answer": {"value": "the reference",
"question": "..."}}`. Out: 1.0 or 0.0 as the judge says, with a reason. `scorers.served_model.scorer` asks; the protocol
here reads and words.

What needs no judge gets none: no answer, or an answer without content, is 0; the reference itself is 1; and for
`math_llm_judge` the math scorer is asked first. A reply without a clear verdict is unscorable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from config.scorer_kinds import JudgeConfig
from scorers.judge.prompt import PROMPTS, JudgeCase, Variant, question_on
from scorers.judge.reply import verdict_of
from scorers.judge.rows import MATH, PART_OF_VARIANT, VARIANT_OF_TYPE, JudgeRow, answer_to_judge, row_of
from scorers.scorer import OVER_LIMIT, Conversation
from scorers.served_model.client import Reply, Shared
from scorers.served_model.protocol import ModelQuestion, NothingToJudge, Ruling
from scorers.served_model.rule import MathRule
from scorers.served_model.scorer import ServedModelScorer
from scorers.served_model.transcript import RENDERING, transcript_of

RULES: Final = 4  # of everything here but the prompts
_SELF_TEST: Final = {"four": 1.0, "five": 0.0}  # two plus two


class JudgeProtocol:
    """The judge is shown question, reference and answer, and says right or wrong."""

    name = "judge"
    asked = "the judge"

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config

    def version(self, model: str) -> str:
        """Name the version of rules, prompts and `model`."""
        whole = f" conversations {RENDERING}" if self.reads_conversations else ""
        return f"{RULES} prompts {PROMPTS}{whole} model {model}"

    @property
    def reads_conversations(self) -> bool:
        """Whether the section says so."""
        return self._config.sees == "conversation"

    def read_row(self, verification_info: Mapping[str, Any]) -> JudgeRow:
        """Read a row. Raises BadMessage where it is of no known type or has no usable `answer.value`."""
        return row_of(verification_info)

    def asks_rule(self, row: JudgeRow) -> bool:
        """Say whether the math scorer is asked first."""
        return row.type == MATH

    def question_of(self, text: str, row: JudgeRow, rule: MathRule) -> ModelQuestion[JudgeCase] | Ruling:
        """Word the question; a ruling where there is no answer, or the reference or the rule decides it.

        A reference that the rule can't read leaves the question to the judge.
        """
        variant = self._variant(row)
        part = self._config.part or PART_OF_VARIANT[variant]
        try:
            answer = answer_to_judge(text, row, part, self._config.max_answer_chars)
        except NothingToJudge as error:
            return Ruling(error.value, str(error))
        return self._ruled(text, row, rule, JudgeCase(row.question, row.reference, answer, variant))

    def question_of_conversation(
        self, conversation: Conversation, row: JudgeRow, rule: MathRule
    ) -> ModelQuestion[JudgeCase] | Ruling:
        """Word the question about a whole episode; no text of it decides it, but the rule by the last message."""
        try:
            transcript = transcript_of(conversation, row.reference).bounded(self._config.max_answer_chars)
        except NothingToJudge as error:
            return Ruling(error.value, str(error))
        case = JudgeCase(row.question, row.reference, transcript.text, self._variant(row), transcript)
        return self._ruled(conversation.text, row, rule, case)

    def _variant(self, row: JudgeRow) -> Variant:
        return VARIANT_OF_TYPE[row.type] or self._config.variant

    def _ruled(
        self, text: str, row: JudgeRow, rule: MathRule, case: JudgeCase
    ) -> ModelQuestion[JudgeCase] | Ruling:
        """Ask about a case, unless the rule finds the text right where the row has one."""
        components = {}
        if self.asks_rule(row):
            ruled = rule.score(text, row.reference)
            if ruled.value is not None:
                components["rule"] = ruled.value
            if ruled.value == 1.0:
                return Ruling(1.0, ruled.reason, components)
        return question_on(case, components)

    def ruling_of(self, reply: Reply, question: ModelQuestion[JudgeCase]) -> Ruling:
        """Read the verdict: 1.0, 0.0 or none."""
        return verdict_of(reply.text, reply.finish_reason, question.case)

    def plain_question(self, question: ModelQuestion[JudgeCase]) -> ModelQuestion[JudgeCase]:
        """Ask about a short answer in place of this one."""
        return question_on(question.case.plain())

    def refused(self, question: ModelQuestion[JudgeCase], reason: str) -> Ruling:  # noqa: ARG002 - as the protocol has it
        """Rule an answer wrong that no server takes, as one that is over `max_answer_chars`."""
        return Ruling(0.0, reason, {OVER_LIMIT: 1.0})

    def self_test_questions(self) -> Sequence[ModelQuestion[JudgeCase]]:
        """Ask whether 2 + 2 is four, and whether it is five."""
        return [
            question_on(JudgeCase("What is two plus two?", "4", answer, self._config.variant))
            for answer in _SELF_TEST
        ]

    def self_test_problem(self, rulings: Sequence[Ruling]) -> str | None:
        """Name the first answer whose ruling is not the right one."""
        for (answer, expected), ruling in zip(_SELF_TEST.items(), rulings, strict=True):
            if ruling.value != expected:
                return f"for 2 + 2, {answer!r} against 4 gave {ruling.value} ({ruling.reason}), expected {expected}"
        return None


class JudgeAnswer(ServedModelScorer[JudgeRow, JudgeCase]):
    """This scorer asks a judge about answers that only a reader can compare."""

    def __init__(self, config: JudgeConfig, shared: Shared | None = None) -> None:
        """Contact nothing yet.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        super().__init__(JudgeProtocol(config), config.endpoint, shared)
