"""Texts turned round, letter by letter: the score of the recipe `reverse-text`, by `type: custom`.

In: the text of a completion and a row whose `answer.value` is the text to turn round. Out: how much of the answer, in
its last `<reversed_text>`, is the text from its end to its start, from 0 to 1.

Source: the environment `reverse_text` of PrimeIntellect-ai/verifiers, whose ratio is difflib's, too. There, letters
that are frequent in a text of 200 or more count for nothing (difflib's `autojunk`); here every letter counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, Final

from scorers.text.extract import response_part

_ANSWER: Final = re.compile(r"<reversed_text>(.*?)</reversed_text>", re.DOTALL)
MOST_TIMES: Final = (
    4  # an answer that is so many times longer than its text is wrong, and costs no comparison
)


def score_reversed(text: str, verification_info: Mapping[str, Any]) -> tuple[float, str]:
    """Return the ratio of matching letters, and how it came about."""
    expected = str(verification_info["answer"]["value"])[::-1]
    found = _ANSWER.findall(response_part(text) or "")
    if not found:
        return 0.0, "no <reversed_text>"
    answer = found[-1].strip()
    if len(answer) > MOST_TIMES * len(expected):
        return 0.0, f"{len(answer)} letters, {len(expected)} were expected"
    ratio = SequenceMatcher(None, answer, expected, autojunk=False).ratio()
    return ratio, f"ratio {ratio:.3f} of {len(expected)} letters"
