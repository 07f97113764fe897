"""The value of an edit: the published ones, the reference's own, and difflib's for those between."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any

import pytest

from broker.messages import Score
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig, TaskConfig
from scorers.reward.combine import combine_scores, reward
from scorers.swe.scorer import SwePatch
from tests.scorers.swe.texts import (
    ADD,
    ADD_FIXED,
    ADD_ROW,
    BOTH_ROW,
    CALC,
    CALC_EDITS,
    CALC_FIXED,
    DIFF,
    LARGER,
    LARGER_FIXED,
    LARGER_ROW,
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

pytestmark = pytest.mark.process


def expected_ratio(before: str, mine: str, reference: str) -> float:
    def change(after: str) -> str:
        return "\n".join(list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:])

    return difflib.SequenceMatcher(None, change(mine), change(reference), autojunk=False).ratio()


# What II-Thought's verifier and SWE-RL's reward functions give on these very inputs, -1 as 0.
GOLDEN = [
    (ADD_ROW, fenced(ADD_FIXED), 1.0),
    (ADD_ROW, fenced("def add_plus_one(a, b):\n    return a + b"), 0.8588235294117647),
    (ADD_ROW, fenced(ADD), 0.0),
    (ADD_ROW, fenced(ADD_FIXED, tag=""), 0.0),
    (ADD_ROW, fenced("#"), 0.6712328767123288),
    (LARGER_ROW, fenced(LARGER_FIXED.replace("return b", "return c")), 0.9888888888888889),
    (LARGER_ROW, fenced(LARGER_FIXED.replace("return b", "return b(((")), 0.9836065573770492),
    (SORT_ROW, solution(RIGHT_EDIT), 1.0),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):")), 0.90625),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD)), 0.0),
    (SORT_ROW, solution(edit("b.py", "def sort(lst):", SORT_FIXED_HEAD)), 0.0),
    (SORT_ROW, RIGHT_EDIT, 0.0),
    (SORT_ROW, f"<think></think><solution>{RIGHT_EDIT}</solution>", 0.0),
    (SORT_ROW, solution(edit("c.py", "", "# dummy")), 0.0),
    (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD + " ")), 0.8663101604278075),
    (BOTH_ROW, solution(*CALC_EDITS, RIGHT_EDIT), 1.0),
    (BOTH_ROW, solution(edit("c.py", "", "# x"), edit("c.py", "# x", "print(1)"), RIGHT_EDIT), 1 / 3),
    (PATCH_ROW, DIFF, 1.0),
    (PATCH_ROW, DIFF.replace("foo.txt", "bar.txt"), 0.0),
    (PATCH_ROW, DIFF.replace("changed lines", "changed"), 0.9702970297029703),
]


def test_the_published_examples_get_their_published_values(
    swe_scorer: SwePatch, subtests: pytest.Subtests
) -> None:
    for row, text, value in GOLDEN:
        with subtests.test(text=text, row=row):
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


def test_a_rewrite_is_worth_difflibs_ratio(swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    for before, after, mine in REWRITES:
        with subtests.test(mine=mine):
            score = swe_scorer.score(fenced(mine), whole(before, after))
            assert score.value == pytest.approx(expected_ratio(before, mine, after), abs=1e-9)
            assert score.value is not None
            assert 0.0 < score.value < 1.0


TAKE_OUT_Y = edit("a.py", "y", "").replace("=======\n\n", "=======\n")  # no line between the marks
BAR_DIFF = DIFF.replace("foo", "bar")
X_DIFF = "--- a/x\n+++ b/x\n"
ONE_HUNK = "--- a/o\n+++ b/n\n@@ -1 +1 @@\n-a\n+b"
NEW_FILE = "--- /dev/null\n+++ b/n\n@@ -0,0 +1{} @@\n+a"
RENAMED = "diff --git a/o b/n\n{}rename from o\nrename to n\n" + ONE_HUNK
GUIDE, GUIDE_FIXED = "# Use\n```sh\nrun\n```\nEnd", "# Use\n```sh\nrun --fast\n```\nEnd"
UNDER_ONE_FENCE = "".join(CALC_EDITS).replace("```\n```python\n### a.py\n", "")
IN_TWO_STEPS = edit("b.py", SORT_HEAD, "def tmp(lst):"), edit("b.py", "def tmp(lst):", SORT_FIXED_HEAD)
SORT_CRLF, SORT_FIXED_CRLF = SORT.replace("\n", "\r\n"), SORT_FIXED.replace("\n", "\r\n")
# Texts of one row, then rows of their own.
OF_ADD = [
    fenced(ADD_FIXED, tag="py"), fenced(ADD_FIXED, tag="Python "), fenced(f"\n\n{ADD_FIXED}\n\n"),
    fenced(ADD_FIXED).replace("\n", "\r\n"),
    f"<think>{fenced(ADD)}</think>{fenced(ADD_FIXED)}<|im_end|>",
    f"I think so.</think>\n{fenced(ADD_FIXED)}",
    fenced("print('first')") + "\n" + fenced(ADD_FIXED),
]  # fmt: skip
OF_SORT = [
    f"Thought.</think><solution>{RIGHT_EDIT}</solution>",
    solution(edit("./b.py", SORT_HEAD, SORT_FIXED_HEAD)),
    solution(edit("b.py", SORT, SORT_FIXED)),
    solution(RIGHT_EDIT).replace("\n", "\r\n"),
    solution(*IN_TWO_STEPS),
    solution("So:\n```text\njust an example\n```\n" + RIGHT_EDIT),
]
OF_PATCH = [
    f"<think>hm</think>The patch:\n```diff\n{DIFF}```",
    fenced(DIFF, tag=""),
    f"<solution>\n```patch\n{DIFF}```\n</solution>",
    DIFF.partition("index")[0] + DIFF[DIFF.index("---") :],
    DIFF[DIFF.index("---") :],
    DIFF.replace("\n", "\r\n"),
    DIFF.replace("--- a/foo.txt", "--- a/foo.txt\t2024-01-01 00:00:00"),
]
EXACT = [
    *((ADD_ROW, text) for text in OF_ADD),
    *((SORT_ROW, text) for text in OF_SORT),
    *((PATCH_ROW, text) for text in OF_PATCH),
    (whole(ADD.replace("\n", "\r\n"), ADD_FIXED.replace("\n", "\r\n") + "\r\n"), fenced(ADD_FIXED)),
    (whole(ADD + "\n", ADD_FIXED), fenced(ADD_FIXED)),
    (whole(GUIDE, GUIDE_FIXED), fenced(GUIDE_FIXED, tag="markdown", fence="````")),
    (whole("int f();\n", "int f(void);\n"), fenced("int f(void);", tag="c++")),
    (whole("名 = 1", "名 = 2"), fenced("名 = 2")),
    (edits({"b.py": SORT_CRLF}, {"b.py": SORT_FIXED_CRLF}), solution(edit("b.py", SORT, SORT_FIXED))),
    (edits({"b.py": SORT + "\n"}, {"b.py": SORT_FIXED}), solution(RIGHT_EDIT)),
    (edits({"a.py": CALC, "b.py": SORT}, {"a.py": CALC, "b.py": SORT_FIXED}), solution(RIGHT_EDIT)),
    (edits({"a.py": CALC}, {"a.py": CALC_FIXED}), solution(UNDER_ONE_FENCE)),
    (edits({}, {"new/c.py": "x = 1\n"}), solution(edit("new/c.py", "", "x = 1"))),
    (edits({"a.py": "x\ny\nz\n"}, {"a.py": "x\nz\n"}), solution(TAKE_OUT_Y)),
    (edits({"a.py": "x\ny\ny\nz\n"}, {"a.py": "x\nz\n"}), solution(TAKE_OUT_Y)),
    (edits({"a.py": "x\ny\nz\n"}, {"a.py": "x\n\nz\n"}), solution(edit("a.py", "y", ""))),
    (edits({"R.md": GUIDE}, {"R.md": GUIDE_FIXED}), solution(edit("R.md", GUIDE[6:-4], GUIDE_FIXED[6:-4]))),
    (
        edits({"a.py": "x = 1\ny\nx = 1"}, {"a.py": "x = 2\ny\nx = 2"}),
        solution(edit("a.py", "x = 1", "x = 2")),
    ),
    (patches(f"{X_DIFF}@@ -1 +1 @@\n-a\n+b"), f"{X_DIFF}@@ -1,1 +1,1 @@\n-a\n+b\n"),
    (patches(f"{X_DIFF}@@ -1,3 +1,3 @@ f\n \n-a\n+b\n c"), f"{X_DIFF}@@ -1,3 +1,3 @@ f\n\n-a\n+b\n c"),
    (patches(DIFF, BAR_DIFF), fenced(DIFF, "diff") + "\n" + fenced(BAR_DIFF, "diff")),
    ({"type": "swe", "answer": {"oracle_patches": {"foo.txt": DIFF}}}, DIFF),
    (patches(RENAMED.format("similarity index 90%\n")), RENAMED.format("")),
    (patches("diff --git a/n b/n\nnew file mode 100644\n" + NEW_FILE.format("")), NEW_FILE.format(",1")),
]


def test_a_reference_is_1_however_it_is_written(
    swe_scorer: SwePatch, strict_swe_scorer: SwePatch, subtests: pytest.Subtests
) -> None:
    for row, text in EXACT:
        with subtests.test(text=text, row=row):
            score = swe_scorer.score(text, row)
            assert (score.value, score.components) == (1.0, {"edit": 1.0}), score.reason
            assert strict_swe_scorer.score(text, row).value == 1.0


@cache
def with_options(*options: tuple[str, Any]) -> SwePatch:
    return SwePatch(SweConfig(**dict(options)), ScorersConfig())


def scored(text: str, row: Row, **options: Any) -> Score:
    """Score by a scorer that all tests with these options share; its child ends with this process."""
    return with_options(*options.items()).score(text, row)


def test_an_edit_that_does_nothing_in_place_is_the_floor(
    swe_scorer: SwePatch, subtests: pytest.Subtests
) -> None:
    cases: list[tuple[Row, str]] = [
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_HEAD + " "))),
        (whole(SORT, SORT_FIXED), fenced(SORT.replace(":\n", ": \n"))),
        (PATCH_ROW, DIFF.replace("+Hello World", "+Hello world ").replace("changed lines", "lines ")),
    ]
    for row, text in cases:
        with subtests.test(text=text):
            assert (swe_scorer.score(text, row).value or 0.0) > 0.7
            assert scored(text, row, subtract_floor=True).value == 0.0


def test_what_is_above_the_floor_is_stretched(swe_scorer: SwePatch) -> None:
    text = solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):"))
    floor = 0.8663101604278075
    score = scored(text, SORT_ROW, subtract_floor=True)
    assert score.value == pytest.approx((0.90625 - floor) / (1 - floor))


def test_a_python_file_that_is_broken_is_0(swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Row, str, bool]] = [
        (ADD_ROW, fenced(ADD_FIXED + ")"), True),
        (ADD_ROW, fenced(ADD_FIXED + ")", tag="text"), True),  # a tag does not hide it
        (ADD_ROW, fenced("def add_plus_one(a, b):\nreturn 1"), True),
        (whole(ADD + ")", ADD_FIXED), fenced(ADD + "]"), False),  # it was no Python before
        (whole("{ int a; }", "{ int b; }"), fenced("{ int c; "), False),
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, SORT_FIXED_HEAD + "(")), True),
        (SORT_ROW, solution(edit("b.py", SORT_HEAD, "def sort_list(lst: list):")), False),
        (edits({"b.c": SORT}, {"b.c": SORT_FIXED}), solution(edit("b.c", SORT_HEAD, SORT_HEAD + "(")), False),
        (PATCH_ROW, DIFF.replace("World", "("), False),
    ]
    for row, text, is_gated in cases:
        with subtests.test(text=text, row=row):
            without, gated = swe_scorer.score(text, row).value, scored(text, row, syntax_gate=True)
            assert without
            assert gated.value == (0.0 if is_gated else without)
            assert ("breaks" in gated.reason) == is_gated


def test_the_penalty_is_a_reward_and_no_score(strict_swe_scorer: SwePatch, subtests: pytest.Subtests) -> None:
    for text, paid in [
        ("", -1.0), ("I don't know", -1.0), (fenced(ADD), 0.0), (fenced(ADD_FIXED), 1.0),
        ("<think>x", -1.0),
    ]:  # fmt: skip
        with subtests.test(text=text):
            task = TaskConfig(scorer=SweConfig(format_penalty=True))
            score = strict_swe_scorer.score(text, ADD_ROW)
            total, got = reward(task, combine_scores(task, score, {}), None, [])
            assert got == paid
            assert total.value == max(paid, 0.0)
            assert total.components == {"edit": 0.0 if paid < 0 else 1.0, "swe": total.value}
            assert reward(TaskConfig(scorer=SweConfig()), score, None, [])[1] == max(paid, 0.0)


def test_an_empty_search_inserts_everywhere_as_swe_rl_has_it() -> None:
    score = scored(solution(edit("b.py", "", "# x")), SORT_ROW, compatible=True)
    assert score.value == pytest.approx(0.5555555555555556)


def test_a_thought_can_be_optional() -> None:
    assert scored(f"<solution>{RIGHT_EDIT}</solution>", SORT_ROW, think="optional").value == 1.0
