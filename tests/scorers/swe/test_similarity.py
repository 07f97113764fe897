"""difflib's results, block for block, and in a bounded time."""

from __future__ import annotations

import difflib
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorers.swe import similarity
from scorers.swe.similarity import FastMatcher, ratio, unified_diff

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

FEW_LETTERS = st.text("ab", max_size=60) | st.text("abcd \n", max_size=60) | st.text(max_size=30)
# Long enough for difflib's autojunk, which begins at 200 lines: some of them fill more than a hundredth of the file.
MANY_LINES = st.lists(
    st.sampled_from(["", "", "", "pass", "return", *map(str, range(120))]), min_size=180, max_size=260
)


def standard_diff(before: str, after: str) -> str:
    return "\n".join(
        list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
    )


@pytest.fixture(params=[10, 0, similarity.SMALL], ids=["both", "numpy", "sets"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "SMALL", request.param)


@pytest.mark.usefixtures("small")
class TestAsDifflib:
    @given(FEW_LETTERS, FEW_LETTERS)
    def test_blocks_and_ratio_of_any_two_texts(self, first: str, second: str) -> None:
        theirs = difflib.SequenceMatcher(None, first, second, autojunk=False)
        assert (
            FastMatcher(None, first, second, autojunk=False).get_matching_blocks()
            == theirs.get_matching_blocks()
        )
        assert ratio(first, second) == pytest.approx(theirs.ratio(), abs=1e-9)

    @given(
        st.text("ab \n", max_size=80),
        st.lists(st.tuples(st.integers(0, 80), st.integers(0, 5), st.text("abc", max_size=4)), max_size=6),
    )
    def test_ratio_of_a_text_and_its_edited_copy(self, first: str, edits: list[tuple[int, int, str]]) -> None:
        second = first
        for start, length, text in edits:
            second = second[:start] + text + second[start + length :]
        assert ratio(first, second) == difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()

    @settings(max_examples=15)
    @given(
        MANY_LINES,
        st.lists(
            st.tuples(st.integers(0, 260), st.integers(0, 4), st.sampled_from(["", "pass", "new"])),
            max_size=12,
        ),
    )
    def test_diff_of_a_file_long_enough_for_popular_lines(
        self, lines: list[str], edits: list[tuple[int, int, str]]
    ) -> None:
        edited = list(lines)
        for start, length, line in edits:
            edited[start : start + length] = [line]
        assert unified_diff("\n".join(lines), "\n".join(edited)) == standard_diff(
            "\n".join(lines), "\n".join(edited)
        )

    @settings(max_examples=15)
    @given(MANY_LINES, MANY_LINES)
    def test_diff_of_two_such_files(self, lines: list[str], others: list[str]) -> None:
        assert unified_diff("\n".join(lines), "\n".join(others)) == standard_diff(
            "\n".join(lines), "\n".join(others)
        )


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        ("a", "a", ""),
        ("a", "a\n", ""),  # a missing last line break is no change
        ("a\nb", "a\r\nb\r\n", ""),  # nor is another kind
        *(("", "", ""), ("a", "b", "@@ -1 +1 @@\n-a\n+b"), ("", "a\nb", "@@ -0,0 +1,2 @@\n+a\n+b")),
        ("a\nb", "", "@@ -1,2 +0,0 @@\n-a\n-b"),
        (
            "1\n2\n3\n4\n5\n6\n7\n8\n9",
            "1\n2\n3\n4\nx\n6\n7\n8\n9",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8",
        ),
    ],
)
def test_a_diff_has_three_lines_around_a_change_and_no_names(before: str, after: str, diff: str) -> None:
    assert unified_diff(before, after) == diff == standard_diff(before, after)


def lines_of_code(count: int, seed: int) -> str:
    """Some 17 characters a line, as in the rewrites that difflib takes half a minute for."""
    words = random.Random(seed)
    vocabulary = ("self", "return", "value", "index", "if", "for", "in", "range", "data", "node", "key", "x")
    return "\n".join(
        "    " * words.randint(1, 2) + " ".join(words.choices(vocabulary, k=2)) for _ in range(count)
    )


def test_a_rewrite_of_600_lines_takes_less_than_a_second() -> None:
    before, answer, reference = (lines_of_code(600, seed) for seed in range(3))
    started = time.process_time()
    value = ratio(unified_diff(before, answer), unified_diff(before, reference))
    assert time.process_time() - started < 1.0
    assert 0.5 < value < 0.9


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("a" * 20_000, "a" * 19_999 + "b", 0.99995),
        ("ab" * 10_000, "ba" * 10_000, 0.99995),
        ("a" * 20_000, "ab" * 10_000, 0.5),  # 10,000 blocks of one character
        (("a" * 9 + "b") * 2_000, ("a" * 9 + "c") * 2_000, 0.9),
        (
            "x".join("a" * n for n in range(200)),
            "y".join("a" * n for n in range(200)),
            0.990,
        ),  # every length of block once
        ("\n" * 20_000, " " * 20_000, 0.0),
    ],
    ids=["one run", "shifted", "single characters", "short runs", "all lengths", "nothing"],
)
def test_repetitive_texts_take_seconds_at_most(first: str, second: str, value: float) -> None:
    started = time.process_time()
    assert ratio(first, second) == pytest.approx(value, abs=1e-3)
    assert time.process_time() - started < 5.0
