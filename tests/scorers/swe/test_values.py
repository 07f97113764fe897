"""The value of an edit: the published ones, the reference's own, and difflib's for those between."""

from __future__ import annotations

import difflib

import pytest

from scorers.swe.scorer import SwePatch
from tests.scorers.swe.texts import (
    ADD,
    ADD_FIXED,
    BOTH_ROW,
    CALC,
    CALC_EDITS,
    CALC_FIXED,
    DIFF,
    LARGER,
    LARGER_FIXED,
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
)

pytestmark = pytest.mark.process


def expected_ratio(before: str, mine: str, reference: str) -> float:
    """Return what difflib says of the two changes."""

    def change(after: str) -> str:
        return "\n".join(list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:])

    return difflib.SequenceMatcher(None, change(mine), change(reference), autojunk=False).ratio()


# What II-Thought's verifier and SWE-RL's reward functions give on these very inputs, -1 as 0.
GOLDEN = [
    (whole(ADD, ADD_FIXED), fenced(ADD_FIXED), 1.0),
    (whole(ADD, ADD_FIXED), fenced("def add_plus_one(a, b):\n    return a + b"), 0.8588235294117647),
    (whole(ADD, ADD_FIXED), fenced(ADD), 0.0),
    (whole(ADD, ADD_FIXED), fenced(ADD_FIXED, tag=""), 0.0),
    (whole(ADD, ADD_FIXED), fenced("#"), 0.6712328767123288),
    (whole(LARGER, LARGER_FIXED), fenced(LARGER_FIXED.replace("return b", "return c")), 0.9888888888888889),
    (
        whole(LARGER, LARGER_FIXED),
        fenced(LARGER_FIXED.replace("return b", "return b(((")),
        0.9836065573770492,
    ),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD)), 1.0),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):")), 0.90625),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD)), 0.0),
    (SORT_ROW, solution(edit("b.py", "def sort(lst):", SORT_FIXED_HEAD)), 0.0),
    (SORT_ROW, edit("b.py", SORT_HEAD, SORT_FIXED_HEAD), 0.0),
    (SORT_ROW, f"<think></think><solution>{edit('b.py', SORT_HEAD, SORT_FIXED_HEAD)}</solution>", 0.0),
    (SORT_ROW, solution(edit("c.py", "", "# dummy")), 0.0),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD + " ")), 0.8663101604278075),
    (BOTH_ROW, solution(*CALC_EDITS, edit("b.py", SORT_HEAD, SORT_FIXED_HEAD)), 1.0),
    (
        BOTH_ROW,
        solution(
            edit("c.py", "", "# dummy"),
            edit("c.py", "# dummy", 'print("hello")'),
            edit("b.py", SORT_HEAD, SORT_FIXED_HEAD),
        ),
        1 / 3,
    ),
    (patches(DIFF), DIFF, 1.0),
    (patches(DIFF), DIFF.replace("foo.txt", "bar.txt"), 0.0),
    (patches(DIFF), DIFF.replace("changed lines", "changed"), 0.9702970297029703),
]


@pytest.mark.parametrize(("row", "text", "value"), GOLDEN)
def test_the_published_values(swe_scorer: SwePatch, row: Row, text: str, value: float) -> None:
    score = swe_scorer.score(text, row)
    assert score.value == pytest.approx(value, abs=1e-9), score.reason


REWRITES = [  # of ADD and LARGER, each worth what difflib says
    (ADD, ADD_FIXED, "def add_plus_one(a, b):\n    return a + b + 1  # one more"),
    (ADD, ADD_FIXED, "def add_plus_one(b, a):\n    return b + a + 1"),
    (ADD, ADD_FIXED, "def add_plus_one(a, b):\n    total = a + b\n    return total + 1"),
    (ADD, ADD_FIXED, "import operator\n\n\ndef add_plus_one(a, b):\n    return operator.add(a, b) + 1"),
    (ADD, ADD_FIXED, "def add_plus_one(a, b): return a + b + 1"),
    (ADD, ADD_FIXED, "add_plus_one = lambda a, b: a + b + 1"),
    (LARGER, LARGER_FIXED, "def f(a, b):\n    return max(a, b)"),
    (LARGER, LARGER_FIXED, "def f(a, b):\n    return a if a > b else b"),
    (LARGER, LARGER_FIXED, LARGER + "\n# done"),
    (LARGER, LARGER_FIXED, "def example():\n    pass"),
    (LARGER, LARGER_FIXED, "pass"),
]


@pytest.mark.parametrize(("before", "after", "mine"), REWRITES)
def test_another_rewrite_is_worth_what_difflib_says(
    swe_scorer: SwePatch, before: str, after: str, mine: str
) -> None:
    score = swe_scorer.score(fenced(mine), whole(before, after))
    assert score.value == pytest.approx(expected_ratio(before, mine, after), abs=1e-9)
    assert score.value is not None
    assert 0.0 < score.value < 1.0


TAKE_OUT_Y = edit("a.py", "y", "").replace("=======\n\n", "=======\n")  # no line between the marks
BAR_DIFF = DIFF.replace("foo", "bar")
ONE_HUNK = "--- a/o\n+++ b/n\n@@ -1 +1 @@\n-a\n+b"
GUIDE, GUIDE_FIXED = "# Use\n```sh\nrun\n```\nEnd", "# Use\n```sh\nrun --fast\n```\nEnd"
EXACT = [
    (whole(ADD, ADD_FIXED), fenced(ADD_FIXED, tag="py")),
    (whole(ADD, ADD_FIXED), fenced(ADD_FIXED, tag="Python ")),
    (whole(ADD, ADD_FIXED), fenced(f"\n\n{ADD_FIXED}\n\n")),
    (whole(ADD, ADD_FIXED), fenced(ADD_FIXED).replace("\n", "\r\n")),
    (whole(ADD.replace("\n", "\r\n"), ADD_FIXED.replace("\n", "\r\n") + "\r\n"), fenced(ADD_FIXED)),
    (whole(ADD + "\n", ADD_FIXED), fenced(ADD_FIXED)),
    (whole(ADD, ADD_FIXED), f"<think>{fenced(ADD)}</think>{fenced(ADD_FIXED)}<|im_end|>"),
    (whole(ADD, ADD_FIXED), f"I think so.</think>\n{fenced(ADD_FIXED)}"),
    (whole(ADD, ADD_FIXED), fenced("print('first')") + "\n" + fenced(ADD_FIXED)),
    (whole(GUIDE, GUIDE_FIXED), fenced(GUIDE_FIXED, tag="markdown", fence="````")),
    (whole("int f();\n", "int f(void);\n"), fenced("int f(void);", tag="c++")),
    (whole("名 = 1", "名 = 2"), fenced("名 = 2")),
    (SORT_ROW, f"Thought.</think><solution>{edit('b.py', SORT_HEAD, SORT_FIXED_HEAD)}</solution>"),
    (SORT_ROW, solution(edit("./b.py", SORT_HEAD, SORT_FIXED_HEAD))),
    (SORT_ROW, solution(edit("b.py", SORT, SORT_FIXED))),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD)).replace("\n", "\r\n")),
    (
        SORT_ROW,
        solution(edit("b.py", SORT_HEAD, "def tmp(lst):"), edit("b.py", "def tmp(lst):", SORT_FIXED_HEAD)),
    ),
    (SORT_ROW, solution("So:\n```text\njust an example\n```\n" + edit("b.py", SORT_HEAD, SORT_FIXED_HEAD))),
    (
        edits({"b.py": SORT.replace("\n", "\r\n")}, {"b.py": SORT_FIXED.replace("\n", "\r\n")}),
        solution(edit("b.py", SORT, SORT_FIXED)),
    ),
    (edits({"b.py": SORT + "\n"}, {"b.py": SORT_FIXED}), solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD))),
    (
        edits({"a.py": CALC, "b.py": SORT}, {"a.py": CALC, "b.py": SORT_FIXED}),
        solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD)),
    ),
    (
        edits({"a.py": CALC}, {"a.py": CALC_FIXED}),
        solution("".join(CALC_EDITS).replace("```\n```python\n### a.py\n", "")),
    ),  # both under one fence
    (edits({}, {"new/c.py": "x = 1\n"}), solution(edit("new/c.py", "", "x = 1"))),
    (edits({"a.py": "x\ny\nz\n"}, {"a.py": "x\nz\n"}), solution(TAKE_OUT_Y)),
    (edits({"a.py": "x\ny\ny\nz\n"}, {"a.py": "x\nz\n"}), solution(TAKE_OUT_Y)),
    (edits({"a.py": "x\ny\nz\n"}, {"a.py": "x\n\nz\n"}), solution(edit("a.py", "y", ""))),
    (
        edits({"R.md": GUIDE}, {"R.md": GUIDE_FIXED}),
        solution(edit("R.md", "```sh\nrun\n```", "```sh\nrun --fast\n```")),
    ),
    (
        edits({"a.py": "x = 1\ny\nx = 1\n"}, {"a.py": "x = 2\ny\nx = 2\n"}),
        solution(edit("a.py", "x = 1", "x = 2")),
    ),
    (patches(DIFF), f"<think>hm</think>The patch:\n```diff\n{DIFF}```"),
    (patches(DIFF), fenced(DIFF, tag="")),
    (patches(DIFF), f"<solution>\n```patch\n{DIFF}```\n</solution>"),
    (patches(DIFF), DIFF.partition("index")[0] + DIFF[DIFF.index("---") :]),
    (patches(DIFF), DIFF[DIFF.index("---") :]),
    (patches(DIFF), DIFF.replace("\n", "\r\n")),
    (patches(DIFF), DIFF.replace("--- a/foo.txt", "--- a/foo.txt\t2024-01-01 00:00:00")),
    (patches("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"), "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n"),
    (
        patches("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ f\n \n-a\n+b\n c"),
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ f\n\n-a\n+b\n c",
    ),
    (patches(DIFF, BAR_DIFF), fenced(DIFF, "diff") + "\n" + fenced(BAR_DIFF, "diff")),
    ({"type": "swe", "answer": {"oracle_patches": {"foo.txt": DIFF}}}, DIFF),
    (
        patches(f"diff --git a/o b/n\nsimilarity index 90%\nrename from o\nrename to n\n{ONE_HUNK}"),
        f"diff --git a/o b/n\nrename from o\nrename to n\n{ONE_HUNK}",
    ),
    (
        patches("diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a"),
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+a",
    ),
]


@pytest.mark.parametrize(("row", "text"), EXACT)
def test_the_reference_itself_is_1_however_it_is_written(
    swe_scorer: SwePatch, strict_swe_scorer: SwePatch, row: Row, text: str
) -> None:
    score = swe_scorer.score(text, row)
    assert (score.value, score.components) == (1.0, {"edit": 1.0}), score.reason
    assert strict_swe_scorer.score(text, row).value == 1.0
