"""What is worth nothing, and what must not take long: no edit, no change, attacks, limits, broken rows."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

import pytest

from broker.errors import BadMessage, Retryable
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from scorers.scorer import OVER_LIMIT
from scorers.swe.compare import MAX_DIFF_CHARS
from scorers.swe.edits import MAX_CHARS, MAX_EDITS
from scorers.swe.scorer import SwePatch
from scorers.text.extract import MAX_RESPONSE_CHARS
from tests.scorers.swe.texts import (
    ADD,
    ADD_FIXED,
    ADD_ROW,
    DIFF,
    PATCH_ROW,
    RIGHT_EDIT,
    SORT,
    SORT_FIXED,
    SORT_FIXED_HEAD,
    SORT_HEAD,
    SORT_ROW,
    Row,
    edit,
    edits,
    fenced,
    patches,
    solution,
    whole,
)  # fmt: skip
from tests.support.child_waits import child_waits
from tests.support.tried_again import unless_starved

pytestmark = pytest.mark.process

NULL = [
    "", "\n", "I don't know", "</think>", "pass", "<think>So I would", "<think>\n</think>\n",
    f"<think>{fenced(ADD_FIXED)}{DIFF}{RIGHT_EDIT}",
]  # fmt: skip
EMPTY_ROWS = [patches(), edits({"b.py": SORT}, {"b.py": SORT}), edits({}, {}), whole("", ""), whole(ADD, ADD)]


def test_saying_nothing_is_worth_0(
    swe_scorer: SwePatch, strict_swe_scorer: SwePatch, subtests: pytest.Subtests
) -> None:
    for row in (ADD_ROW, SORT_ROW, PATCH_ROW, *EMPTY_ROWS):
        for text in NULL:
            with subtests.test(text=text, row=row):
                for swe in (swe_scorer, strict_swe_scorer):
                    score = swe.score(text, row)
                    assert (score.value, score.components) == (0.0, {"edit": 0.0})
                    assert score.reason.startswith("no edit: ")


def test_a_change_on_one_side_only_is_0(swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Row, str]] = [
        (whole(ADD, ADD), fenced(ADD)),
        (whole(ADD, ADD), fenced(ADD_FIXED)),
        (ADD_ROW, fenced(ADD + "\n\n")),
        (edits({"b.py": SORT}, {"b.py": SORT}), solution(RIGHT_EDIT)),
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, "x"), edit("b.py", "x", SORT_HEAD))),
        (patches(), DIFF),
        (patches(""), DIFF),
    ]
    for row, text in cases:
        with subtests.test(text=text, row=row):
            assert swe_scorer.score(text, row).value == 0.0


WRONG = [  # no edit: what could be read, with its reason
    (ADD_ROW, ADD_FIXED, "no closed fenced block"),
    (ADD_ROW, f"```python\n{ADD_FIXED}", "no closed fenced block"),
    (ADD_ROW, fenced(" \n"), "is empty"),
    (ADD_ROW, f"<think>{fenced(ADD_FIXED)}</think> done", "no closed fenced block"),
    (ADD_ROW, f"{fenced(ADD_FIXED)}<think>no, wait", "never closed"),
    (ADD_ROW, fenced("x" * (MAX_RESPONSE_CHARS + 1)), "is the limit"),
    (ADD_ROW, fenced(ADD_FIXED) + "\n```" * (MAX_RESPONSE_CHARS // 4), "is the limit"),
    (SORT_ROW, f"<think>x</think>{RIGHT_EDIT}", "0 times <solution>"),
    (SORT_ROW, f"<think>x</think><solution>{RIGHT_EDIT}", "0 times </solution>"),
    (SORT_ROW, solution(RIGHT_EDIT, "</solution><solution>", RIGHT_EDIT), "2 times <solution>"),
    (SORT_ROW, f"<think>x</think></solution>{RIGHT_EDIT}<solution>", "before"),
    (SORT_ROW, f"<solution>{RIGHT_EDIT}</solution>", "no closed and filled thinking"),
    (SORT_ROW, solution(""), "no SEARCH/REPLACE edit"),
    (SORT_ROW, solution(RIGHT_EDIT.replace("```python\n", "").replace("```", "")), "no SEARCH/REPLACE edit"),
    (SORT_ROW, solution(RIGHT_EDIT.replace("### b.py\n", "")), "does not begin with"),
    (SORT_ROW, solution(RIGHT_EDIT.replace(">>>>>>> REPLACE\n", "")), "never closed"),
    (SORT_ROW, solution(RIGHT_EDIT.replace("=======\n", "")), "never closed"),
    (SORT_ROW, solution(RIGHT_EDIT.removesuffix("```\n")), "never closed"),
    (SORT_ROW, solution(RIGHT_EDIT, RIGHT_EDIT), "was not found"),
    (SORT_ROW, solution(edit("b.py", "    return sorted(list)", "    return lst")), "was not found"),
    (
        SORT_ROW,
        solution(edit("b.py", "return sorted(lst)", "return lst")),
        "was not found",
    ),  # its indentation
    (SORT_ROW, solution(edit("c.py", SORT_HEAD, SORT_FIXED_HEAD)), "has no file 'c.py'"),
    (SORT_ROW, solution(edit("b.py", "", "# a comment")), "an empty SEARCH"),
    (SORT_ROW, solution(edit("b.py", "", "")), "are the same"),
    (SORT_ROW, solution(edit("c.py", "", "x"), edit("c.py", "", "y")), "an empty SEARCH"),
    (SORT_ROW, solution(fenced(SORT_FIXED)), "no SEARCH/REPLACE edit"),
    (SORT_ROW, solution(fenced(DIFF, "diff")), "no SEARCH/REPLACE edit"),
    (PATCH_ROW, "@@ -1 +1 @@\n-a\n+b", "before any file"),
    (PATCH_ROW, "+++ b/foo.txt\n@@ -1 +1 @@\n-a\n+b", "without a '---' line"),
    (PATCH_ROW, DIFF.replace(" End\n", ""), "shorter"),
    (PATCH_ROW, DIFF.replace("-1,4 +1,4", "-1,4 +1,3"), "longer"),
    (PATCH_ROW, DIFF.replace(" This is", "This is"), "where a line of the file should be"),
    (PATCH_ROW, DIFF + "and so on\n@@ -9 +9 @@\n-a\n+b", "after lines that belong to no patch"),
    (PATCH_ROW, fenced("print(1)"), "no unified diff"),
    (PATCH_ROW, "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "no unified diff"),
    (PATCH_ROW, fenced(ADD_FIXED), "no unified diff"),
]


def test_what_is_no_edit_is_0_and_says_why(swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    for row, text, reason in WRONG:
        with subtests.test(text=text[:500], reason=reason):
            score = swe_scorer.score(text, row)
            assert (score.value, score.components) == (0.0, {"edit": 0.0})
            assert score.reason.startswith("no edit: ")
            assert reason in score.reason


DOUBLING = [edit("b.py", SORT_HEAD, f"{SORT_HEAD}\n{SORT_HEAD}")] * 40
ATTACKS = {
    "leaving the folder": (SORT_ROW, solution(edit("../../etc/passwd", "", "root::0:0::/:/bin/sh"))),
    "an absolute path": (SORT_ROW, solution(edit("/etc/passwd", "", "root::0:0::/:/bin/sh"))),
    "up and down again": (SORT_ROW, solution(edit("x/../b.py", SORT_HEAD, SORT_FIXED_HEAD))),
    "backslashes": (SORT_ROW, solution(edit("..\\b.py", SORT_HEAD, SORT_FIXED_HEAD))),
    "a null byte in a path": (SORT_ROW, solution(edit("b.py\0", SORT_HEAD, SORT_FIXED_HEAD))),
    "a path of dots": (SORT_ROW, solution(edit(".", "", "x"))),
    "edits in the thought": (SORT_ROW, f"<think><solution>{RIGHT_EDIT}</solution></think> done"),
    "a thought opened again": (SORT_ROW, solution(RIGHT_EDIT) + "<think>"),
    "doubling a file 40 times": (SORT_ROW, solution(*DOUBLING)),
    "100,000 edits": (SORT_ROW, solution(RIGHT_EDIT * 100_000)),
    "100,000 fences": (SORT_ROW, solution("```\n" * 100_001)),
    "100,000 open tags": (SORT_ROW, "<solution>" * 100_000),
    "100,000 thoughts": (ADD_ROW, "<think></think>" * 100_000),
    "a file of 5 MB": (ADD_ROW, fenced("a\n" * 2_500_000)),
    "a line of 5 MB": (ADD_ROW, fenced("a" * 5_000_000)),
    "a search of 5 MB": (SORT_ROW, solution(edit("b.py", "a" * 5_000_000, "b"))),
    "a patch of 5 MB": (PATCH_ROW, "@" * 5_000_000),
    "5 MB of hunks": (PATCH_ROW, "--- a/x\n+++ b/x\n" + "@@ -0,0 +1 @@\n+\n" * 300_000),
    "a hunk of a billion lines": (PATCH_ROW, "--- a/x\n+++ b/x\n@@ -1,999999999 +1,999999999 @@\n-a"),
    "a hunk of more digits": (PATCH_ROW, f"--- a/x\n+++ b/x\n@@ -1,{'9' * 5000} +1 @@\n-a"),
    "a change over the limit": (ADD_ROW, fenced("x = 1\n" * (MAX_DIFF_CHARS // 6))),
    "the reference's header and nothing": (PATCH_ROW, DIFF[: DIFF.index("-Hello")]),
    "an end mark in front": (ADD_ROW, f"<|im_end|>{ADD_FIXED}"),
    "half a surrogate in a path": (SORT_ROW, solution(edit("\ud800.py", SORT_HEAD, SORT_FIXED_HEAD))),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_nothing_and_takes_seconds(swe_scorer: SwePatch, name: str) -> None:
    row, text = ATTACKS[name]
    started = time.process_time()
    score = swe_scorer.score(text, row)
    assert time.process_time() - started < 10.0
    assert OVER_LIMIT not in score.components, "its child took less, too"
    assert score.value == 0.0, score.reason
    assert len(score.reason) < 500


@pytest.mark.prove(after=3)
@pytest.mark.parametrize(
    "text", ["a\x00b = 1\nc", "a\ud800\nb", "\ufeffa\u2028b\x0bc\x1cd", "(" * 100_000, "\t" * 50_000 + "x"]
)
def test_strange_characters_are_only_characters(
    swe_scorer: SwePatch, strict_swe_scorer: SwePatch, text: str
) -> None:
    after = f"{ADD}\n{text}"
    assert swe_scorer.score(fenced(after), whole(ADD, after.strip())).value == 1.0
    # It is no Python any more.
    assert strict_swe_scorer.score(fenced(after), ADD_ROW).value == 0.0


def test_more_edits_than_the_limit_are_refused(swe_scorer: SwePatch) -> None:
    one_by_one = [edit("c.py", str(n) if n else "", str(n + 1)) for n in range(MAX_EDITS + 1)]
    assert "is the limit" in swe_scorer.score(solution(*one_by_one), SORT_ROW).reason
    row = edits({}, {"c.py": str(MAX_EDITS)})
    assert swe_scorer.score(solution(*one_by_one[:MAX_EDITS]), row).value == 1.0


def test_a_length_over_the_limit_never_pays(swe_scorer: SwePatch) -> None:
    """The reference in front of ever more lines: less and less, then nothing."""
    values = [
        swe_scorer.score(fenced(ADD_FIXED + "\nx = 1" * lines), ADD_ROW).value
        for lines in (0, 10, 1_000, MAX_DIFF_CHARS // 7, MAX_DIFF_CHARS)
    ]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    assert (values[0], values[-1]) == (1.0, 0.0)


def test_a_reference_over_the_limit_is_unscorable(swe_scorer: SwePatch) -> None:
    score = swe_scorer.score(fenced("a = 2"), whole("a = 1", "x = 1\n" * (MAX_DIFF_CHARS // 6)))
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert "the reference's change" in score.reason


@pytest.mark.prove
def test_the_deadline_ends_a_comparison_that_takes_longer() -> None:
    slow = "x".join("a" * n for n in range(600))

    with closing(SwePatch(SweConfig(deadline_s=1.0), ScorersConfig())) as hasty:

        def comparison() -> tuple[Score, list[float]]:
            with child_waits() as waits:
                return hasty.score(fenced(slow), whole("", slow.replace("x", "y"))), waits

        score, waits = unless_starved(comparison)
        assert waits == [0.5, 0.5]
        assert (score.value, score.components) == (0.0, {"edit": 1.0, OVER_LIMIT: 1.0})
        assert "exceeded its deadline" in score.reason
        assert hasty.score(fenced(ADD_FIXED), ADD_ROW).value == 1.0


def test_a_child_that_is_killed_is_retryable_and_the_next_answer_is_scored() -> None:
    with closing(SwePatch(SweConfig(), ScorersConfig())) as swe:
        swe.score(fenced(ADD_FIXED), ADD_ROW)
        assert swe.child_pid is not None
        os.kill(swe.child_pid, signal.SIGKILL)
        with pytest.raises(Retryable):
            swe.score(fenced(ADD_FIXED), ADD_ROW)
        assert swe.score(fenced(ADD_FIXED), ADD_ROW).value == 1.0


def test_the_self_test_passes(swe_scorer: SwePatch) -> None:
    swe_scorer.self_test()


def test_a_row_that_no_answer_could_match_is_refused(swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Row, str]] = [
        ({"type": "code", "answer": {}}, "of type 'swe'"),
        ({"type": "swe"}, "without an answer"),
        ({"type": "swe", "answer": "x"}, "without an answer"),
        ({"type": "swe", "answer": {}}, "neither of"),
        ({"type": "swe", "answer": {"input": "x"}}, "it has ['input']"),
        (whole(None, "x"), "`input` of a swe row must be text"),  # type: ignore[arg-type]
        (whole("x", "y" * (MAX_CHARS + 1)), "is the limit"),
        (edits(["x"], {}), "must be an object of path and text"),  # type: ignore[arg-type]
        (edits({"a.py": 1}, {}), "must be text"),  # type: ignore[dict-item]
        (edits({}, {"../a.py": ""}), "leads out of its folder"),
        (edits({"a.py": "", "./a.py": ""}, {}), "names one file twice"),
        ({"type": "swe", "answer": {"oracle_patches": "x"}}, "must be a list of unified diffs"),
        (patches("@@ -1 +1 @@\n-a\n+b"), "can't be read"),
    ]
    for row, names in cases:
        with subtests.test(names):
            with pytest.raises(BadMessage) as refusal:
                swe_scorer.check_row(row)
            assert names in str(refusal.value)
            with pytest.raises(BadMessage):
                swe_scorer.score(fenced("x"), row)
