"""The score of texts turned round."""

from __future__ import annotations

import pytest

from scorers.text.reversed_text import score_reversed

pytestmark = pytest.mark.prove(after=3)

ROW = {"type": "reverse-text", "answer": {"value": "abcd"}}


def test_the_value_is_the_share_of_letters_that_match(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("<reversed_text>dcba</reversed_text>", 1.0),
        ("<think>d, c</think><reversed_text>\ndcba\n</reversed_text>", 1.0),
        ("<reversed_text>abcd</reversed_text> no: <reversed_text>dcba</reversed_text>", 1.0),
        ("<reversed_text>dcb</reversed_text>", 6 / 7),  # 2 x 3 letters that match, of 3 + 4
        ("<reversed_text>abcd</reversed_text>", 0.25),  # one letter matches in order: 2 / 8
        ("<reversed_text></reversed_text>", 0.0),
        ("<reversed_text>" + "dcba" * 5 + "</reversed_text>", 0.0),  # 20 letters for 4
        ("dcba", 0.0),
        ("<think><reversed_text>dcba</reversed_text>", 0.0),  # a thought that never ended
        ("", 0.0),
    ]:
        with subtests.test(text=text):
            assert score_reversed(text, ROW)[0] == pytest.approx(value)


def test_a_frequent_letter_of_a_long_text_counts() -> None:
    row = {"answer": {"value": "ab" * 150}}
    assert score_reversed(f"<reversed_text>{'ba' * 150}</reversed_text>", row)[0] == 1.0
