"""Mathematical equality with a reference, which some protocols ask before a served model or beside one.

In: a completion's text and a reference. Out: the math scorer's score. `scorers.served_model.scorer` owns the rule and
has it asked from one thread. The math scorer and its libraries are imported when the rule is first asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.scores import Score
from config.scorer_kinds import MathConfig

if TYPE_CHECKING:
    from scorers.math.scorer import MathAnswer


class MathRule:
    """This rule belongs to one scorer, and is used from one thread."""

    def __init__(self) -> None:
        self._scorer: MathAnswer | None = None

    def score(self, text: str, reference: str, row_type: str = "math") -> Score:
        """Compare a completion's answer with the reference, as the rows of `row_type` are compared.

        Returns:
            A score of 1 or 0; unscorable where the rule can't use the reference.
        Raises:
            Retryable: the rule's process was killed.
        """
        if self._scorer is None:
            from scorers.math.scorer import MathAnswer

            self._scorer = MathAnswer(MathConfig())
        return self._scorer.score_text(text, reference, row_type)

    def close(self) -> None:
        """End the rule's child process. The rule can be asked again afterwards."""
        if self._scorer is not None:
            self._scorer.close()


def rule_version() -> str:
    """Name the version of the rule and of its libraries."""
    from scorers.math.scorer import VERSION

    return VERSION
