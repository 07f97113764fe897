"""What two scorings of the same completions agree on: counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from broker.messages import Score
from tests.support.chain import make_prompt, make_scored
from tests.support.episodes import MESSAGES, episodes
from tests.support.scores import a_score
from tools.rescore.comparison import Rescored, ScoringComparison, score_json

pytestmark = pytest.mark.process

Value = float | None


def scored(value: Value, version: str = "2") -> Score:
    return a_score(value, f"now {value}", version=version)


def compare(
    *groups: tuple[Sequence[Value], Sequence[Value]], samples: int = 10, version: str = "2"
) -> ScoringComparison:
    """Return each group's old values, which are its rewards, and its new ones."""
    comparison = ScoringComparison(samples)
    for number, (old, new) in enumerate(groups):
        group = make_scored(make_prompt(str(number), n=len(old)), old)
        comparison.add(
            number, group, [Rescored(score=scored(value, version), reward=value) for value in new], "none"
        )
    return comparison


def test_a_scoring_that_agrees_changes_nothing() -> None:
    found = compare(([1.0, 0.0, None], [1.0, 0.0, None]), version="1").as_json()
    assert (found["completions"], found["same"], found["changed"], found["groups"]) == (3, 3, 0, 1)
    assert (found["advantages_flipped"], found["mean_absolute_difference"], found["samples"]) == (0, 0.0, [])
    assert found["confusion"] == {
        "right": {"right": 1, "wrong": 0, "unscorable": 0},
        "wrong": {"right": 0, "wrong": 1, "unscorable": 0},
        "unscorable": {"right": 0, "wrong": 0, "unscorable": 1},
    }
    assert found["confusion_by_threshold"] == {}
    assert found["versions"] == [{"old": "math 1", "new": "math 1", "completions": 3}]


def test_every_pair_of_old_and_new_has_its_cell() -> None:
    values: list[Value] = [1.0, 0.0, None]
    found = compare(([old for old in values for _ in values], values * 3)).as_json()
    assert found["confusion"] == {
        old: dict.fromkeys(("right", "wrong", "unscorable"), 1) for old in ("right", "wrong", "unscorable")
    }
    assert (found["same"], found["changed"]) == (3, 6)
    assert found["mean_absolute_difference"] == 0.5  # of the four pairs with two values, two differ by 1


@pytest.mark.parametrize(
    ("old", "new", "flipped", "lost", "gained"),
    [
        ([1.0, 0.0], [1.0, 0.0], 0, 0, 0),
        ([1.0, 0.0], [0.5, 0.25], 0, 0, 0),  # another size, the same signs
        ([1.0, 0.0], [0.0, 1.0], 1, 0, 0),
        ([1.0, 0.0], [1.0, 1.0], 1, 1, 0),
        ([1.0, 1.0], [1.0, 0.0], 1, 0, 1),
        ([1.0, 1.0], [0.0, 0.0], 0, 0, 0),  # neither pushes anything
        ([1.0, 0.0], [1.0, None], 1, 1, 0),  # one that can't be scored does not train, and leaves one alone
        ([1.0, 0.0, 0.0], [1.0, 0.0, None], 1, 0, 0),
        ([1.0, 0.5, 0.0], [0.9, 0.5, 0.1], 0, 0, 0),  # 0.5 is the mean both times: no push, up to rounding
    ],
)
def test_advantages_flip_where_a_completion_is_pushed_another_way(
    old: list[Value], new: list[Value], flipped: int, lost: int, gained: int
) -> None:
    found = compare((old, new)).as_json()
    keys = ("advantages_flipped", "variance_lost", "variance_gained")
    assert [found[key] for key in keys] == [flipped, lost, gained]
    assert found["flipped_groups"] == ["0"] * flipped


def test_fractions_are_right_from_a_threshold_on() -> None:
    found = compare(([0.5, 0.25], [0.75, 0.0])).as_json()
    rights = {
        threshold: (table["right"]["right"], table["wrong"]["right"], table["right"]["wrong"])
        for threshold, table in found["confusion_by_threshold"].items()
    }
    assert rights == {"0.25": (1, 0, 1), "0.5": (1, 0, 0), "0.75": (0, 1, 0), "1.0": (0, 0, 0)}
    assert found["mean_absolute_difference"] == 0.25
    assert "was right       " in "\n".join(compare(([0.5], [0.75])).lines())
    assert "(right from 0.25 on)" in "\n".join(compare(([0.5], [0.75])).lines())


def test_the_most_different_samples_come_first_and_no_more_than_wanted() -> None:
    comparison = compare(([0.5, 0.0], [0.6, 0.3]), ([1.0, 0.0], [None, 1.0]), ([0.5], [0.5]), samples=3)
    assert [
        (sample.step, sample.completion, round(sample.size, 6)) for sample in comparison.most_different()
    ] == [(1, 0, 1.0), (1, 1, 1.0), (0, 1, 0.3)]
    first = comparison.as_json()["samples"][0]
    assert (first["prompt"], first["answer"], first["group"]) == ("2 + 3?", "5", "1")
    assert (first["old"]["value"], first["new"]) == (1.0, score_json(scored(None)))
    assert "step 1, group 1, completion 0: 1 -> unscorable" in "\n".join(comparison.lines())
    assert compare(([1.0], [0.0]), samples=0).most_different() == []


def test_another_score_of_the_same_version_is_pointed_at() -> None:
    assert compare(([1.0, 0.0], [0.0, 0.0]), version="1").changed_at_same_version == 1
    assert compare(([1.0, 0.0], [0.0, 0.0]), version="2").changed_at_same_version == 0


def test_a_completion_without_a_new_score_is_counted_by_reason_and_its_group_is_not_compared() -> None:
    comparison = ScoringComparison(10)
    group = make_scored(make_prompt("0"), [1.0, 0.0])
    new = Rescored(score=scored(0.0), reward=0.0)
    comparison.add(0, group, [new, replace(new, score=None, error="no tests")], "none")
    found = comparison.as_json()
    assert (found["completions"], found["groups"], found["not_scored"]) == (1, 0, {"no tests": 1})
    assert "1 not scored: no tests" in "\n".join(comparison.lines())


def test_the_most_different_episodes_have_their_conversation() -> None:
    comparison = ScoringComparison(samples=2)
    news = [Rescored(score=scored(value), reward=value) for value in (0.0, 1.0)]
    comparison.add(1, episodes("0"), news, "none")
    episode, answer = comparison.as_json()["samples"]
    assert episode["messages"] == list(MESSAGES)
    assert "messages" not in answer
