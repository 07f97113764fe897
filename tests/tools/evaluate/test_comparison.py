"""Two evaluations of the same problems: what is shared, what is unlike, and what is no comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.evaluated import a_result, a_row, a_set
from tests.support.told import Capsys
from tools.evaluate.comparison import compare
from tools.evaluate.results import EvaluatedRow, ResultError, as_tree, unsampled_row, write_result
from tools.main import main

NAMES = ("A.json", "B.json")
# Four problems that both have: the second model is better at two of them, by a half each.
FIRST = [a_row("a", number, scores) for number, scores in enumerate(([0, 0], [1, 0], [0, 0], [1, 1]))]
SECOND = [a_row("a", number, scores) for number, scores in enumerate(([1, 0], [1, 0], [0, 1], [1, 1]))]


def test_the_same_problems_are_compared_one_by_one() -> None:
    found = compare(a_result([*FIRST, a_row("a", 9, [1])]), a_result(SECOND), names=NAMES)
    (one,) = found.sets
    assert (one.set, one.shared, one.only_first, one.only_second) == ("a", 4, 1, 0)
    assert (one.first, one.second) == (0.375, 0.625)
    gain = one.difference
    assert (gain.value, gain.p, gain.better, gain.worse) == (0.25, 0.5, 2, 0)
    assert not found.notes


def test_several_sets_are_compared_each_and_together() -> None:
    others = [a_row("b", 0, [1.0], digest="a-0")]  # the same problem in another set is another one
    found = compare(a_result([*FIRST, *others]), a_result([*SECOND, *others]), names=NAMES)
    assert [(one.set, one.shared) for one in found.sets] == [("a", 4), ("b", 1), ("all", 5)]
    assert found.sets[2].difference.value == pytest.approx(0.2)


def test_partial_credit_counts_where_it_is_asked_for() -> None:
    first, second = ([a_row("a", 0, scores)] for scores in ([0.25, 1.0], [0.75, 1.0]))
    whole, partial = (
        compare(a_result(first), a_result(second), names=NAMES, by=by).sets[0] for by in ("right", "score")
    )
    assert (whole.first, whole.second, whole.difference.value) == (0.5, 0.5, 0.0)
    assert (partial.first, partial.second, partial.difference.value) == (0.625, 0.875, 0.25)


def test_rows_in_another_order_and_rows_without_a_score_are_no_difference() -> None:
    moved = [a_row("a", 3 - number, row.scores, digest=row.digest) for number, row in enumerate(SECOND)]
    lost = [a_row("a", 0, [None, None], digest=moved[3].digest), unsampled_row("a", "5 attempts")]
    unscored = [*moved[:3], *lost]
    (one,) = compare(a_result(FIRST), a_result(unscored), names=NAMES).sets
    assert (one.shared, one.only_first, one.only_second) == (3, 1, 0)


@pytest.mark.parametrize(("second", "said"), [
    ([a_row("a", 0, [1.0], digest="new"), *SECOND[1:]],
        r"row 0 of the set a is not the same in A.json and B.json \(digest a-0, then new\)"),
    ([a_row("b", 0, [1.0])], "have no set in common: a, and b"),
    ([a_row("a", 7, [1.0])], "share no problem that both have a score of"),
    ([a_row("a", 0, [None])], "share no problem that both have a score of"),
])  # fmt: skip
def test_what_can_not_be_compared_is_refused_by_name(second: list[EvaluatedRow], said: str) -> None:
    with pytest.raises(ResultError, match=said):
        compare(a_result(FIRST), a_result(second), names=NAMES)


def test_what_else_is_unlike_is_said() -> None:
    first = a_result(FIRST, a_set("a"), a_set("only"))
    rows = [a_row("a", number, row.scores, scorers=("math 2",)) for number, row in enumerate(SECOND)]
    second = a_result(rows, a_set("a", n=4, temperature=0.6))
    assert compare(first, second, names=NAMES).notes == [
        "a was not sampled alike: n 2 and 4, temperature 1.0 and 0.6",
        "a was not scored alike: math 1; math 2",
        "only in A.json: only",
    ]


def test_two_files_are_compared_by_the_verb(tmp_path: Path, capsys: Capsys) -> None:
    paths = [tmp_path / name for name in NAMES]
    for path, rows in zip(paths, (FIRST, SECOND), strict=True):
        write_result(path, as_tree(a_result(rows)))
    words = ["evaluate", "--compare", *map(str, paths)]
    assert main(words) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[4][:5] == ["a", "4", "37.5", "62.5", "+25.0"]
    assert main([*words, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["sets"]
    assert (one["shared"], one["difference"]["better"]) == (4, 2)
    paths[1].unlink()
    assert main(words) == 1
    assert "can't be read" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main(["evaluate", "run.yaml", *words[1:]])
    assert refused.value.code == 2
