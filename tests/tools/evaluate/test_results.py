"""What is kept of an evaluation, its numbers by set and source, and what a damaged file is answered with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.evaluated import a_result, a_row
from tests.support.groups import a_prompt, a_rollout, a_scored_group
from tools.evaluate.results import (
    ResultError,
    as_tree,
    digest_of,
    read_result,
    row_of,
    unsampled_row,
    write_result,
)
from tools.evaluate.summary import lines, reasons, summaries


def test_a_row_keeps_what_another_evaluation_would_find_again() -> None:
    row = row_of("aime", a_scored_group())
    assert (row.set, row.row, row.scores) == ("aime", 5, (1.0, None))
    assert (row.tokens, row.cut, row.reasons) == ((3, 1), (False, True), ("judge unreachable",))
    assert (row.scorers, row.min_version, row.max_version) == (("math 1",), 3, 4)
    rollout = replace(a_rollout(), seconds=99.0, generator="g9")
    slower = replace(a_scored_group(rollout), worker="s9", seconds=9.0)
    assert row_of("aime", slower) == row, "who did it, and how long it took, is not of the result"


def test_a_digest_is_of_what_is_asked_and_what_is_right() -> None:
    digest = digest_of(a_prompt())
    assert digest_of(a_prompt(group_id="18", row=9, temperature=0.0, data_source="elsewhere")) == digest
    assert digest_of(a_prompt(messages=({"role": "user", "content": "2 + 3 = ?"},))) != digest
    assert digest_of(a_prompt(verification_info={"type": "math", "answer": {"value": "5"}})) != digest


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [a_row("a", 0, [1.0, None]), unsampled_row("a", "5 attempts"), row_of("b", a_scored_group())]
    result = a_result(rows)
    path = tmp_path / "one.json"
    write_result(path, as_tree(result))
    assert read_result(path) == result
    assert json.loads(path.read_text()) == json.loads(json.dumps(as_tree(result)))
    assert sum('"row"' in line for line in path.read_text().splitlines()) == 3, "a line a row"
    with pytest.raises(ResultError, match="can't be written: No such file"):
        write_result(tmp_path / "none" / "one.json", as_tree(result))


@pytest.mark.parametrize(("text", "said"), [
    (None, "can't be read: No such file"),
    ("{", "is no JSON"),
    ("[]", "its `format` is None"),
    ('{"format": "x"}',
        "no result of `millrace evaluate`: its `format` is 'x', not 'millrace evaluation 1'"),
    ('{"format": "millrace evaluation 1"}', "is damaged: KeyError: 'model'"),
])  # fmt: skip
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "one.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ResultError, match=said):
        read_result(path)


def test_a_score_beyond_its_range_is_damage(tmp_path: Path) -> None:
    tree = as_tree(a_result([a_row("a", 0, [1.0])]))
    tree["rows"][0]["scores"] = [1.5]
    write_result(tmp_path / "one.json", tree)
    with pytest.raises(ResultError, match=r"row 0 of a has the score 1\.5"):
        read_result(tmp_path / "one.json")


ROWS = [
    # A problem that stands there twice is one, of four samples; 3 of 4 are right.
    a_row("twice", 0, [1.0, 0.0], digest="same"),
    a_row("twice", 1, [1.0, 1.0], digest="same"),
    a_row("twice", 2, [0.0, None], source="b"),
    unsampled_row("twice", "5 attempts"),
    a_row("other", 0, [0.5]),
]


def test_a_set_has_its_numbers_and_each_of_several_sources_too() -> None:
    found = {(one.set, one.source): one for one in summaries(a_result(ROWS))}
    assert list(found) == [("twice", None), ("twice", "a"), ("twice", "b"), ("other", None)]
    whole = found["twice", None]
    assert (whole.rows, whole.problems, whole.samples, whole.most) == (4, 2, 6, 4)
    assert (whole.unscorable, whole.unsampled, whole.tokens) == (1, 1, 10.0)
    assert whole.average is not None
    assert whole.average.value == pytest.approx((3 / 4 + 0) / 2)
    assert {k: (each.value, each.problems) for k, each in whole.pass_at.items()} == {
        1: (pytest.approx(3 / 8), 2),
        2: (1.0, 1),  # of 4 with 3 right, no pair is wrong; the other problem has one scored sample
        4: (1.0, 1),
    }
    other = found["other", None]
    assert other.score is not None
    assert other.average is not None
    assert (other.average.value, other.score.value) == (0.0, 0.5), "half a score is not right"


def test_a_set_of_which_nothing_came_back_is_in_the_table() -> None:
    (one,) = summaries(a_result([unsampled_row("a", "5 attempts")]))
    assert (one.average, one.problems, one.unsampled) == (None, 0, 1)
    assert list(lines([one]))[1].split() == ["a", "0", "0", "-", "-", "-", "0", "0", "1"]


def test_the_table_is_for_people() -> None:
    text = "\n".join(lines(summaries(a_result(ROWS))))
    head, *rest = [line.split() for line in text.splitlines() if line]
    assert head == ["problems", "n", "avg@n", "score", "tokens", "cut", "unscorable", "unsampled"]
    assert [line[0] for line in rest[:4]] == ["twice", "a", "b", "other"]
    assert rest[0][:4] == ["twice", "2", "4", "37.5"]
    assert rest[4] == ["pass@2", "pass@4"]
    assert "policy versions" not in text


def test_why_something_is_missing_is_said_the_most_frequent_reason_first() -> None:
    lost = [unsampled_row("a", "5 attempts")] * 2
    rows = [*lost, *(a_row("a", at, [None], reasons=(f"reason {at % 4}",)) for at in range(10))]
    listed = ["3 rows: reason 0", "3 rows: reason 1", "2 rows: 5 attempts"]
    assert list(reasons(a_result(rows))) == [*listed, "and 2 more reasons, in the result"]
    assert not list(reasons(a_result([a_row("a", 0, [1.0])])))


def test_versions_that_sampled_are_told_where_there_were_several() -> None:
    versions = [(3, 4), (4, 6)]
    rows = [a_row("a", 0, [1.0], min_version=low, max_version=high) for low, high in versions]
    assert "Sampled by the policy versions 3 to 6." in list(lines(summaries(a_result(rows))))
