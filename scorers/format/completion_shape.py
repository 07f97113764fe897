"""This module judges the shape of a whole completion, whatever it says: thinking, answer, script and end.

It asks in this order: did the completion end by itself, and is its thinking closed and long enough? Does the part after
the thinking look like an answer (`scorers.format.answer_shapes`), in the wanted script (`scorers.format.script`)?

In: a text, its row, and how the text ended. Out: 1.0, or 0.0 with the first thing that is wrong. Pure text work in the
scorer's process; it can't fail. `scorers.reward.combine` makes a reward of this score and the content's;
`scorers.format.scorer` gives it to rows that want nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from broker.scores import FinishReason, Score, ScoreStatus
from config.rewards import FormatConfig, ShapeConfig
from scorers.format.answer_shapes import missing_part
from scorers.format.script import foreign_script
from scorers.text.extract import MAX_RESPONSE_CHARS, Unanswered, closed_part, thought_part, within
from scorers.text.invisible import seen
from tasks.thoughts import THINK_CLOSE

VERSION: Final = "3"  # raise it with any change here or in what this imports that can change a score
# A word, or a letter of a script that writes without spaces.
_WORD: Final = re.compile(
    r"[\u0e01-\u0e30\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u0e01-\u0e30\u3041-\u30ff"
    r"\u3400-\u9fff\uac00-\ud7a3]+"
)


class CompletionShape:
    """Scores the shape of a completion, as a `format` section asks for it."""

    name = "format"
    version = VERSION

    def __init__(self, config: ShapeConfig) -> None:
        """Remember which parts of the shape the config asks for."""
        self._config = config

    def score(
        self, text: str, verification_info: Mapping[str, Any], finish: FinishReason | None = None
    ) -> Score:
        """Score 1.0 where the text has the shape that the config asks for, else 0.0 naming the first thing missing.

        Args:
            text: the response.
            verification_info: its row, whose type says what `answer: auto` means.
            finish: why the text ended; None where nobody knows, as of a recorded text.
        """
        problem = self._problem(text, verification_info, finish)
        return Score(
            status=ScoreStatus.SCORED,
            value=1.0 if problem is None else 0.0,
            reason=problem or "well formed",
            scorer=self.name,
            version=self.version,
        )

    def _problem(self, text: str, info: Mapping[str, Any], finish: FinishReason | None) -> str | None:
        config = self._config
        if config.finish == "required" and finish is FinishReason.LENGTH:
            return "cut off at its longest, it did not end by itself"
        try:
            response = closed_part(within(text, MAX_RESPONSE_CHARS, "a text"))
        except Unanswered as error:
            return str(error)
        if config.think == "required" and (problem := _thought(text, config.min_think)):
            return problem
        shape = (
            ("box" if config.box else "any")
            if isinstance(config, FormatConfig) and config.box is not None
            else (config.answer)
        )
        return missing_part(response, shape, info) or (
            config.language and foreign_script(text, config.language)
        )


def _thought(text: str, min_words: int) -> str | None:
    """Return what is wrong with the thinking span, whose opening mark may stand in the prompt."""
    if (thought := thought_part(text)) is None:
        return f"no closed thinking span ({THINK_CLOSE}, or the model's own marks)"
    words = sum(1 for _ in islice(_WORD.finditer(seen(thought)), min_words))
    return None if words == min_words else f"{words} words of thinking, where at least {min_words} are wanted"
