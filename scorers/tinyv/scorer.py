"""Answers that a rule may have taken for wrong, judged again by a served TinyV.

In: the text of a completion and a row, `{"type": "tinyv", "answer": {"value", "question"}}`. Out: a value in [0, 1]
with a reason, as the mode makes it of the verdict and the rule (`scorers.rubric.verifier`). TinyV is the judge's
variant `tinyv`: `scorers.judge` has its prompt and reads its replies, here and where a judge is asked so.
"""

from __future__ import annotations

from config.scorer_kinds import TinyvConfig
from scorers.judge.prompt import PROMPTS, JudgeCase, question_on
from scorers.judge.reply import verdict_of
from scorers.judge.rows import PART_OF_VARIANT, JudgeRow, answer_to_judge
from scorers.rubric.rows import VerifiedRow
from scorers.rubric.verifier import VerifierProtocol
from scorers.served_model.client import Reply, Shared
from scorers.served_model.protocol import ModelQuestion, Ruling
from scorers.served_model.scorer import ServedModelScorer
from scorers.served_model.transcript import Transcript


class TinyvProtocol(VerifierProtocol[JudgeCase]):
    """TinyV is shown question, reference and boxed answer, and says True or False."""

    def __init__(self, config: TinyvConfig) -> None:
        super().__init__(config, needs=("value",), prompts=PROMPTS)

    def ask(self, asked: str | Transcript, row: VerifiedRow) -> ModelQuestion[JudgeCase]:
        """Ask whether the boxed answer is right, or what a conversation comes to. Raises NothingToJudge."""
        judged, most = JudgeRow("judge", row.reference, row.question or None), self._config.max_answer_chars
        if isinstance(asked, Transcript):
            whole = asked.bounded(most)
            return question_on(JudgeCase(judged.question, judged.reference, whole.text, "tinyv", whole))
        answer = answer_to_judge(asked, judged, PART_OF_VARIANT["tinyv"], most)
        return question_on(JudgeCase(judged.question, judged.reference, answer, "tinyv"))

    def plain_question(self, question: ModelQuestion[JudgeCase]) -> ModelQuestion[JudgeCase]:
        """Ask about a short answer in place of this one."""
        return question_on(question.case.plain())

    def verdict_on(self, reply: Reply, case: JudgeCase) -> Ruling:
        """Read the verdict: 1.0, 0.0 or none."""
        return verdict_of(reply.text, reply.finish_reason, case)


class TinyvAnswer(ServedModelScorer[VerifiedRow, JudgeCase]):
    """This scorer has TinyV judge answers."""

    def __init__(self, config: TinyvConfig, shared: Shared | None = None) -> None:
        """Contact nothing yet.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        super().__init__(TinyvProtocol(config), config.endpoint, shared)
