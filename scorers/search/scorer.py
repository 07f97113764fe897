"""Scorer of questions that are answered by search: verl's Search-R1 rows, by exact match.

In: the text of a completion, and `{"type": "qa_em", "answer": {"value": ["Paris", "Paris, France"]}}`. Out: 1.0 where
the last `<answer>` after the thinking is one of these, else 0.0. Both are compared as SQuAD's metric compares: without
case, punctuation and English articles. Source: arXiv:1606.05250, sec. 6.1, and Search-R1, arXiv:2503.09516.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from config.scorer_kinds import SearchConfig
from scorers.short_answer import Decision, SelfTest, ShortAnswer, stated
from scorers.text.extract import last_answer
from tasks.values import shown

RULES: Final = 2  # raise it with any change here, in short_answer or in extract that can change a score
_MOST_TAGS: Final = 10  # of one kind in a response; verl pays a quarter for more, we nothing
_ARTICLE: Final = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


class SearchAnswer(ShortAnswer[tuple[str, ...]]):
    """Scorer of short factual answers, each with the spellings that count."""

    name = "search"
    version = str(RULES)
    types = ("qa_em",)
    self_tests = (
        SelfTest("qa_em", ["The Eiffel Tower"], "<answer>eiffel tower.</answer>", 1.0),
        SelfTest("qa_em", ["The Eiffel Tower"], "<answer>the tower of Eiffel</answer>", 0.0),
    )

    def __init__(self, config: SearchConfig) -> None:
        """Build the scorer, which has no options yet."""
        del config

    def reference(self, answer: Mapping[str, Any], row_type: str) -> tuple[str, ...]:
        """Return the spellings that count. Raises BadMessage where there is none."""
        value = answer["value"]
        if isinstance(value, Mapping):
            value = value.get("target")
        targets = value if isinstance(value, list) else [value]
        if not targets or any(
            isinstance(target, bool) or not isinstance(target, str | int | float) for target in targets
        ):
            raise BadMessage(
                f"no answer: a row of type {row_type!r} needs a list of texts; got {shown(answer)}"
            )
        return tuple(map(str, targets))

    def judge(self, response: str, reference: tuple[str, ...]) -> Decision:
        """Return whether the last `<answer>` is one of the spellings."""
        expected = set(map(normalised, reference)) - {""}
        if not expected:
            return Decision(
                None, f"the reference {shown(list(reference))} is nothing without articles and punctuation"
            )
        answer = stated(last_answer(response), "<answer>")
        tags = max(response.count("<answer>"), response.count("</answer>"))
        if tags > _MOST_TAGS:
            return Decision(0.0, f"{tags} <answer> tags in one response; {_MOST_TAGS} is the limit")
        if normalised(answer) in expected:
            return Decision(1.0, f"answer {shown(answer)} is one of {shown(list(reference))}")
        return Decision(0.0, f"answer {shown(answer)}, expected one of {shown(list(reference))}")


def normalised(text: str) -> str:
    """Return the text as SQuAD's metric compares it; "" where nothing is left of it."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())
