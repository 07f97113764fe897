"""What a held-out round says."""

from __future__ import annotations

from learner.groups.evaluation import Round, Rounds, result_of, version_of
from tests.support.chain import make_prompt, make_scored


def make_round(version: int, *rewards: list[float | None], dead: int = 0, missing: int = 0) -> Round:
    rounds = Rounds()
    total = len(rewards) + dead + missing
    ids = [f"eval-{version}-{i}" for i in range(total)]
    rounds.begin(version, ids)
    for group_id, some in zip(ids, rewards, strict=False):
        prompt = make_prompt(group_id, floor=version, n=len(some))
        assert rounds.add(group_id, make_scored(prompt, some, version=version + 1))
    for group_id in ids[len(rewards) : len(rewards) + dead]:
        assert rounds.add(group_id, None)
    return rounds.open[version]


def test_the_pass_rate_is_the_share_of_full_scores_among_those_that_could_be_scored() -> None:
    result = result_of(make_round(3, [1.0, 0.0, None], [1.0, 0.5, 1.0], dead=1, missing=2))
    assert (result["pass_rate"], result["mean_score"]) == (3 / 5, 3.5 / 5)
    assert (result["prompts"], result["samples"], result["unscorable"]) == (2, 6, 1)
    assert (result["dead"], result["missing"]) == (1, 2)
    assert result["ids"] == [f"eval-3-{i}" for i in range(5)]
    assert (result["min_version"], result["max_version"]) == (4, 4)  # sampled with newer weights, and says so


def test_a_round_without_a_score_has_no_pass_rate() -> None:
    for current in (make_round(3, [None, None]), make_round(3, missing=2)):
        result = result_of(current)
        assert result["pass_rate"] is result["mean_score"] is None


def test_a_group_counts_once_and_only_in_an_open_round() -> None:
    rounds = Rounds()
    rounds.begin(3, ["eval-3-0", "eval-3-1"])
    rounds.begin(4, [])  # no prompts: no round
    group = make_scored(make_prompt("eval-3-0"), [1.0])
    assert rounds.add("eval-3-0", group)
    assert not rounds.add("eval-3-0", group)
    assert not rounds.add("eval-4-0", group)
    assert rounds.ended() == []
    assert rounds.add("eval-3-1", None)
    assert [current.version for current in rounds.ended()] == [3]
    rounds.close(3)
    assert rounds.open == {}
    rounds.close(3)  # harmless when repeated


def test_a_round_begins_again_with_all_of_its_groups() -> None:
    current = make_round(3, [1.0], dead=1, missing=1)
    current.asked_again = current.is_given_up = True
    current.begin_again()
    assert (current.asked_again, current.has_ended, current.groups, current.dead) == (False, False, {}, [])
    assert current.missing == {"eval-3-0", "eval-3-1", "eval-3-2"}


def test_an_evaluation_group_is_known_by_its_id() -> None:
    assert version_of("eval-40-7") == 40
    others = ["17", "17-r1", "eval-x-7", "eval-4", "eval-\u00b2-1", "?"]
    assert [version_of(group_id) for group_id in others] == [-1] * len(others)
