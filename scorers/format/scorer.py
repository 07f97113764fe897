"""The scorer of the task `format`, whose rows ask for the shape of a completion and nothing else.

In: the text of a completion, and a row `{"type": "format", "of": {...}}` around another row's `verification_info`,
which says what shape is wanted: a box for mathematics, a block in its language for a program. A row of another type,
which a task gives to this scorer, is that other row itself. Out: 1 or 0 (`scorers.format.completion_shape`). A text
does not say how it ended: a row about a recorded text may (`"finish_reason": "length"`). In a run, `format:` of a task
sees how a completion ended, beside any scorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from broker.errors import BadMessage
from broker.scores import FinishReason, Score
from config.scorer_kinds import FormatTaskConfig
from scorers.custom import SimpleScorer
from scorers.format.completion_shape import VERSION, CompletionShape
from scorers.scorer import SelfTestFailed
from tasks.values import shown


class FormatAnswer(SimpleScorer):
    """Scores completions by their shape alone, as any other scorer does by their content."""

    name = "format"
    version = VERSION

    def __init__(self, config: FormatTaskConfig) -> None:
        """Start nothing yet."""
        self._format = CompletionShape(config)

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where there is no other row's verification_info, or no such finish reason."""
        self._of(verification_info)
        self._finish(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Score 1 where the answer looks as its row wants. Raises BadMessage as `check_row`."""
        found = self._format.score(text, self._of(verification_info), self._finish(verification_info))
        return replace(found, scorer=self.name)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless an unfinished thought and nothing at all are 0."""
        row = {"type": "format", "of": {"type": "math", "answer": {"value": "5"}}}
        for text in ("", "<think>so it is \\boxed{5}"):
            if (score := self.score(text, row)).value != 0.0:
                raise SelfTestFailed(f"the format scorer gives {score.value} for {text!r}, where 0 is right")

    def _of(self, verification_info: Mapping[str, Any]) -> Mapping[str, Any]:
        if verification_info.get("type", self.name) != self.name:
            return verification_info
        of = verification_info.get("of")
        if not isinstance(of, Mapping) or not isinstance(of.get("type"), str):
            raise BadMessage(
                "a format row needs `of`, the verification_info of the row whose shape is wanted; got "
                f"{of!r:.80}"
            )
        return of

    def _finish(self, verification_info: Mapping[str, Any]) -> FinishReason | None:
        said = verification_info.get("finish_reason") if verification_info.get("type") == self.name else None
        try:
            return None if said is None else FinishReason(said)
        except ValueError:
            raise BadMessage(
                f"finish_reason of a format row is one of {', '.join(FinishReason)}; got {shown(said)}"
            ) from None
