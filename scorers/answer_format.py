r"""The shape of an answer, beside its content: is the thinking closed, is there a box after it.

In: the text of a completion. Out: 1.0 or 0.0 with the reason. Pure text work in the scorer's process; it can't fail.
`scorers.combine` makes a reward of it and the content's score.
"""

from __future__ import annotations

from typing import Final

from broker.messages import Completion, Score, ScoreStatus
from config.scorers import FormatConfig
from scorers.extract import THINK_CLOSE, last_box, response_part

VERSION: Final = "1"        # raise it with any change here or in scorers.extract that can change a score


class AnswerFormat:
    """Scorer of the shape of one completion."""

    name = "format"
    version = VERSION

    def __init__(self, config: FormatConfig) -> None:
        """Keep which parts are asked for."""
        self._config = config

    def score(self, completion: Completion) -> Score:
        """1.0 where the completion has the shape that the config asks for, else 0.0 naming the first thing missing."""
        problem = self._problem(completion.text)
        return Score(status=ScoreStatus.SCORED, value=1.0 if problem is None else 0.0, reason=problem or "well formed",
                     scorer=self.name, version=self.version)

    def _problem(self, text: str) -> str | None:
        response = response_part(text)
        if response is None:
            return "the thinking was never closed"
        if self._config.think == "required" and THINK_CLOSE not in text:
            return f"no closed thinking span ({THINK_CLOSE})"
        if self._config.box and not (last_box(response) or "").strip():
            return "no closed and filled \\boxed{} after the thinking"
        return None
