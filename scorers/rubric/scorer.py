"""Whole solutions that a served rubric model (RRM) grades by the row's criteria.

In: the text of a completion and a row, `{"type": "rubric", "answer": {"value", "question", "criteria"}}`. Out: a value
in [0, 1] with a reason, as the mode makes it of the grade and the rule (`scorers.rubric.verifier`).
`scorers.served_model.scorer` asks; the protocol here words the question and reads the grade.
"""

from __future__ import annotations

from dataclasses import replace

from config.scorer_kinds import RubricConfig
from scorers.rubric.prompt import PROMPTS, RubricCase, messages_of
from scorers.rubric.reply import verdict_of
from scorers.rubric.rows import VerifiedRow, solution_of
from scorers.rubric.verifier import VerifierProtocol
from scorers.served_model.client import Reply, Shared
from scorers.served_model.protocol import PLAIN_ANSWER, Question, Ruling
from scorers.served_model.scorer import ServedModelScorer


class RubricProtocol(VerifierProtocol[RubricCase]):
    """The rubric model is shown question, criteria and solution, and gives points out of ten."""

    def __init__(self, config: RubricConfig) -> None:
        super().__init__(config, needs=("question", "criteria"), prompts=PROMPTS)

    def ask(self, text: str, row: VerifiedRow) -> Question[RubricCase]:
        """Ask for the grade of a solution. Raises NothingToJudge."""
        case = RubricCase(row.question, row.criteria, solution_of(text, row, self._config.max_answer_chars))
        return Question(case, messages_of(case), case.key)

    def plain_question(self, question: Question[RubricCase]) -> Question[RubricCase]:
        """Ask about a short solution in place of this one."""
        case = replace(question.case, solution=PLAIN_ANSWER)
        return Question(case, messages_of(case), case.key)

    def verdict_on(self, reply: Reply, case: RubricCase) -> Ruling:
        """Read the grade, from 0 to 1."""
        return verdict_of(reply.text, reply.finish_reason, case)


class RubricAnswer(ServedModelScorer[VerifiedRow, RubricCase]):
    """This scorer has a rubric model grade solutions."""

    def __init__(self, config: RubricConfig, shared: Shared | None = None) -> None:
        """Contact nothing yet.

        Args:
            config: the section.
            shared: limits and cache of the run; None: this process's own.
        """
        super().__init__(RubricProtocol(config), config.endpoint, shared)
