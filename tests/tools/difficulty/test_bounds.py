"""Bounds are read from words, and hold for rows that have a rate."""

from __future__ import annotations

import pytest

from tools.arguments import UsageError
from tools.difficulty.bounds import are_kept, parse_bounds

MODELS = ["weak", "strong-2.5"]


@pytest.mark.parametrize(
    ("words", "weak", "strong", "is_kept"),
    [
        (["strong-2.5>0,weak<0.9"], 0.5, 1.0, True),
        (["strong-2.5>0,weak<0.9"], 0.9, 1.0, False),
        (["strong-2.5>0,weak<0.9"], 0.5, 0.0, False),
        (["strong-2.5 > 0", "weak <= 0.9"], 0.9, 0.1, True),
        (["weak>=0.25"], 0.25, None, True),
        (["weak<0.9"], None, 1.0, False),  # no rate is not a rate of 0
        (["weak>=0"], None, 1.0, False),
        ([], None, None, True),
    ],
)
def test_a_row_is_kept_within_every_bound(
    words: list[str], weak: float | None, strong: float | None, *, is_kept: bool
) -> None:
    assert are_kept({"weak": weak, "strong-2.5": strong}, parse_bounds(words, MODELS)) is is_kept


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("medium>0", "no model 'medium' is measured; there are weak, strong-2.5"),
        ("weak", "is no bound: write NAME>0"),
        ("weak==1", "is no bound"),
        ("weak<1.5", "with a rate from 0 to 1"),
        ("weak<0.9,", "'' is no bound"),
        ("weak<nan", "is no bound"),
        ("weak<-1", "with a rate from 0 to 1"),
    ],
)
def test_a_bound_that_says_nothing_is_refused_in_words(word: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_bounds([word], MODELS)
