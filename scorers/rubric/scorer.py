"""Whole solutions that a served rubric model (RRM) grades by the row's criteria.

In: the text of a completion and a row, `{"type": "rubric", "answer": {"value", "question", "criteria"}}`. Out: a value
in [0, 1] with a reason, as the mode makes it of the grade and the rule (`scorers.rubric.verifier`).
`scorers.served_model.scorer` asks; the protocol here words the question and reads the grade.
"""

from __future__ import annotations

from config.scorer_kinds import RubricConfig
from scorers.rubric.prompt import PROMPTS, RubricCase, messages_of
from scorers.rubric.reply import verdict_of
from scorers.rubric.rows import VerifiedRow, solution_of
from scorers.rubric.verifier import VerifierProtocol
from scorers.served_model.client import Reply, Shared
from scorers.served_model.protocol import ModelQuestion, Ruling
from scorers.served_model.scorer import ServedModelScorer
from scorers.served_model.transcript import Transcript


class RubricProtocol(VerifierProtocol[RubricCase]):
    """The rubric model is shown question, criteria and solution, and gives points out of ten."""

    def __init__(self, config: RubricConfig) -> None:
        super().__init__(config, needs=("question", "criteria"), prompts=PROMPTS)

    def ask(self, asked: str | Transcript, row: VerifiedRow) -> ModelQuestion[RubricCase]:
        """Ask for the grade of a solution, or of a conversation. Raises NothingToJudge."""
        most = self._config.max_answer_chars
        if isinstance(asked, Transcript):
            whole = asked.bounded(most)
            return _question_on(RubricCase(row.question, row.criteria, whole.text, whole))
        return _question_on(RubricCase(row.question, row.criteria, solution_of(asked, row, most)))

    def plain_question(self, question: ModelQuestion[RubricCase]) -> ModelQuestion[RubricCase]:
        """Ask about a short solution in place of this one."""
        return _question_on(question.case.plain())

    def verdict_on(self, reply: Reply, case: RubricCase) -> Ruling:
        """Read the grade, from 0 to 1."""
        return verdict_of(reply.text, reply.finish_reason, case)


def _question_on(case: RubricCase) -> ModelQuestion[RubricCase]:
    return ModelQuestion(case, messages_of(case), case.key)


class RubricAnswer(ServedModelScorer[VerifiedRow, RubricCase]):
    """This scorer has a rubric model grade solutions."""

    def __init__(self, config: RubricConfig, shared: Shared | None = None) -> None:
        """Contact nothing yet.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        super().__init__(RubricProtocol(config), config.endpoint, shared)
