"""What answers, episodes and held-out rounds are summed up to, and rewards that are all the same. By hand and by law."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from msgspec.structs import replace as with_fields

from broker.messages import Completion, End, EnvironmentReward, FinishReason, ScoredGroup, Span
from learner.groups.arrival_statistics import ArrivalCounter, Arrivals
from learner.groups.evaluation import Round, Rounds, result_of, version_of
from learner.groups.facts.answers import length_correlation, repeated_shares, same_answer_share
from learner.groups.facts.episodes import (
    EpisodeFacts,
    as_tree,
    episode_metrics,
    facts_of,
    is_episode,
    num_turns,
    spans_by_message,
    turns_of,
)
from learner.groups.facts.same_reward import IN_A_ROW, WARNING, SameRewardWatch
from learner.journal.ledger import GroupOutcome
from tests.learner.conftest import MakeChain
from tests.support.chain import make_prompt, make_scored
from tests.support.episodes import MESSAGES, an_episode, episodes
from tests.support.random_groups import completions
from tests.support.scored_episodes import an_episode as of_runs
from tests.support.tiny import completion, group

NOTHING = Arrivals(reward_mean=None, facts={}, dropped={}, dropped_by_source={})


@pytest.mark.parametrize(
    ("token_ids", "share"),
    [
        ([1, 2, 3], 0.0),  # too short to repeat itself
        ([1, 2, 3, 4, 5, 6, 7], 0.0),
        ([1, 2, 3, 4, 1, 2, 3, 4], 1 / 5),  # one of five stretches
        ([7] * 13, 9 / 10),
    ],
)
def test_repetition_is_the_share_of_stretches_that_came_before(token_ids: list[int], share: float) -> None:
    alone = completion(token_ids)
    assert repeated_shares([alone, completion([1, 2, 3, 4]), alone]) == pytest.approx([share, 0.0, share])


def test_same_answers_are_counted_within_a_group_and_shared_ones_among_prompts() -> None:
    one = group([9], [completion([1, 2]), completion([1, 2]), completion([3])], [1.0, 1.0, 0.0])
    other = group([9], [completion([1, 2]), completion([4]), completion([5])], [1.0, 0.0, 0.0])
    assert same_answer_share([one, other]) == pytest.approx(2 / 6)
    counter = ArrivalCounter()
    for _ in range(2):  # the same row, in two epochs
        counter.add(of_row(1, group([9], [completion([1]), completion([1])], [1.0, 0.0])))
    assert counter.take().facts["shared_answer_share"] == 0.0


@pytest.mark.parametrize(
    ("lengths", "rewards", "correlation"),
    [
        ([1, 2, 3], [0.1, 0.2, 0.3], 1.0),
        ([1, 2, 3], [0.3, 0.2, 0.1], -1.0),
        ([1, 2, 3, 4], [0.0, None, 0.0, 1.0], 0.7559289460184544),  # of 1, 3, 4 with 0, 0, 1
        ([2, 2, 2], [0.1, 0.2, 0.3], None),
        ([1, 2, 3], [0.5, 0.5, 0.5], None),
        ([1, 2], [1.0, None], None),
        ([1, 2], [0.0, 1e-200], 1.0),  # whose square is 0
    ],
)
def test_length_and_reward_are_correlated_within_a_group(
    lengths: list[int], rewards: list[float | None], correlation: float | None
) -> None:
    made = group([9], [completion([1] * length) for length in lengths], rewards)
    assert length_correlation(made) == (None if correlation is None else pytest.approx(correlation))


GUESS, LOOK, LONG_LOOK = (2,), (2, 3, 2), (2, 3, 6)  # what was sampled, read, and sampled


@pytest.mark.parametrize(
    ("runs", "rewards", "correlation"),
    [
        (
            [GUESS, GUESS, LOOK, LOOK],
            [0.0, 0.0, 1.0, 1.0],
            None,
        ),  # paid for a turn more, and not for its length
        ([GUESS, LOOK, LONG_LOOK], [0.0, 0.0, 1.0], 1.0),
        ([GUESS, LOOK, LONG_LOOK], [1.0, 1.0, 0.0], -1.0),
        ([GUESS, LONG_LOOK], [0.0, 1.0], None),
    ],
)
def test_episodes_of_as_many_turns_alone_say_whether_length_is_paid(
    runs: list[tuple[int, ...]], rewards: list[float], correlation: float | None
) -> None:
    made = group([9], [of_runs(runs=each) for each in runs], rewards)
    assert length_correlation(made) == (None if correlation is None else pytest.approx(correlation))
    counter = ArrivalCounter()
    counter.add(made)
    expected = sum(sum(each[::2]) / len(each[::2]) for each in runs) / len(runs)
    assert counter.take().facts["turn_tokens_mean"] == pytest.approx(expected)


def of_row(row: int, made: ScoredGroup) -> ScoredGroup:
    return replace(made, rollout=replace(made.rollout, prompt=replace(made.rollout.prompt, row=row)))


def test_arrivals_are_summed_up_whether_they_train_or_not() -> None:
    counter = ArrivalCounter()
    cut = completion([5, 6, 7], finish_reason=FinishReason.LENGTH)
    counter.add(of_row(1, group([9], [completion([1]), cut], [1.0, 0.0])))
    counter.add(of_row(2, group([9], [completion([1]), completion([2, 3])], [1.0, None])))
    counter.end(GroupOutcome("dropped", "zero_variance: every reward is 1", facts={"task": "math"}))
    counter.end(GroupOutcome("dead", "no scorer", facts={"task": "math", "source": "mbpp"}))
    found = counter.take()
    assert found.reward_mean == pytest.approx(2 / 3)
    assert found.dropped == {"dead": 1, "zero_variance": 1}
    assert found.dropped_by_source == {"math": {"zero_variance": 1}, "mbpp": {"dead": 1}}
    facts = found.facts
    assert facts["completions"] == 4
    assert facts["response_tokens_mean"] == pytest.approx(7 / 4)
    assert facts["truncated_share"] == 1 / 4
    assert facts["shared_answer_share"] == 2 / 4  # [1] answers row 1 and row 2
    assert facts["length_correlation"] == pytest.approx(-1.0)  # of the first group alone
    assert facts["by_version"] == {"0": {"groups": 2, "reward_mean": 0.75, "reward_std": 0.25}}
    assert counter.take() == NOTHING
    counter = ArrivalCounter()
    counter.add(episodes("0"))
    counter.add(group([9], [completion([1])], [1.0]))
    facts = counter.take().facts
    assert (facts["completions"], facts["episodes"]["turns_mean"]) == (3, 3.0)
    counter.add(group([9], [completion([1])], [1.0]))
    assert "episodes" not in counter.take().facts


FLAT, VARIED = [0.0, 0.0], [1.0, 0.0]
TOP_FLAT = [1.0, 1.0]


def said_of(*rows: Sequence[float | None]) -> list[str]:
    said: list[str] = []
    watch = SameRewardWatch(said.append)
    for number, rewards in enumerate(rows):
        group = make_scored(make_prompt(str(number)), rewards)
        watch.take(group, has_variance=len({each for each in rewards if each is not None}) > 1)
    return said


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        ([FLAT] * (IN_A_ROW - 1), 0),
        ([FLAT] * IN_A_ROW, 1),
        ([FLAT] * (2 * IN_A_ROW - 1), 1),
        ([FLAT] * 2 * IN_A_ROW, 2),
        ([FLAT] * 50 * IN_A_ROW, 6),  # at 20, 40, 80 … 640
        ([FLAT] * (IN_A_ROW - 1) + [VARIED] + [FLAT] * (IN_A_ROW - 1), 0),
        ([[0.5]] * 3 * IN_A_ROW, 0),  # a single completion is always alike
        ([[None, None]] * 3 * IN_A_ROW, 0),  # no score: the scorers say why
        ([[None, 0.5, 0.5]] * IN_A_ROW, 1),
        ([TOP_FLAT] * 50 * IN_A_ROW, 0),  # all right alike
        ([[0.95, 0.95]] * IN_A_ROW, 0),  # a penalty below it
        ([TOP_FLAT] * (IN_A_ROW - 2) + [FLAT] * 2, 0),  # 0.9
        ([TOP_FLAT] * (IN_A_ROW - 3) + [FLAT] * 3, 1),  # 0.85
        (([TOP_FLAT] * IN_A_ROW + [VARIED]) * 50, 0),
        ([TOP_FLAT] * IN_A_ROW + [FLAT] * IN_A_ROW, 1),  # it fell: at 40, by the newest 20
    ],
)
def test_twenty_flat_groups_are_a_warning(rows: list[Sequence[float | None]], warnings: int) -> None:
    assert len(said_of(*rows)) == warnings


def test_the_warning_has_an_answer_with_its_reason_and_is_taken_back_once() -> None:
    (said,) = said_of(*([FLAT, [1.0, 1.0]] * (IN_A_ROW // 2)))
    told = "for 20 groups in a row, so nothing is learnt: mean reward 0.5. One answer: '"
    assert said.startswith(f"{WARNING}, {told}")
    assert "reward 1, because: '" in said
    for better in ([VARIED, VARIED], [*[TOP_FLAT] * IN_A_ROW, VARIED]):
        assert said_of(*[FLAT] * IN_A_ROW, *better)[1:] == [""]


@pytest.mark.parametrize("filters", [{}, {"zero_variance": "keep"}])
def test_the_learner_advises_it_whether_such_groups_train_or_not(
    make_chain: MakeChain, caplog: pytest.LogCaptureFixture, filters: dict[str, str]
) -> None:
    chain = make_chain(learner={"filters": filters, "groups_per_step": 16, "max_lag": 1})
    said: list[str] = []
    chain.filters._same_reward = SameRewardWatch(said.append)
    with caplog.at_level(logging.WARNING):
        for group_id in chain.issue(IN_A_ROW):
            chain.score(group_id, FLAT)
        chain.read()
    assert len(said) == 1
    assert f"same_reward groups={IN_A_ROW}" in caplog.text


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


def test_a_rounds_pass_rate_is_the_share_of_full_scores() -> None:
    result = result_of(make_round(3, [1.0, 0.0, None], [1.0, 0.5, 1.0], dead=1, missing=2))
    assert (result["pass_rate"], result["mean_score"]) == (3 / 5, 3.5 / 5)
    assert (result["prompts"], result["samples"], result["unscorable"]) == (2, 6, 1)
    assert (result["dead"], result["missing"]) == (1, 2)
    assert result["ids"] == [f"eval-3-{i}" for i in range(5)]
    assert (result["min_version"], result["max_version"]) == (4, 4)  # sampled with newer weights, and says so
    for current in (make_round(3, [None, None]), make_round(3, missing=2)):
        result = result_of(current)
        assert result["pass_rate"] is result["mean_score"] is None
    current = make_round(3, [1.0], dead=1, missing=1)
    current.asked_again = current.is_given_up = True
    current.begin_again()
    assert (current.asked_again, current.has_ended, current.groups, current.dead) == (False, False, {}, [])
    assert current.missing == {"eval-3-0", "eval-3-1", "eval-3-2"}
    assert version_of("eval-40-7") == 40
    others = ["17", "17-r1", "eval-x-7", "eval-4", "eval-\u00b2-1", "?"]
    assert [version_of(group_id) for group_id in others] == [-1] * len(others)


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


ENDED: Any = {"turns": 3, "tool_calls": 2, "tool_errors": 1, "sampled_tokens": 8, "observed_tokens": 3}
FACTS = EpisodeFacts(**ENDED, segments=2, ended_by=End.ENVIRONMENT)


def test_an_episode_is_counted_as_on_paper() -> None:
    assert spans_by_message(an_episode(MESSAGES[:-1])) == [()] * 4
    assert as_tree(an_episode(MESSAGES[:-1]))["message_versions"] == [[]] * 4
    plain = make_scored(make_prompt("0"), [1.0]).rollout.completions[0]
    assert as_tree(plain) == {}, "an answer of one turn is no episode"
    assert is_episode(with_fields(plain, ended_by=End.FAILED))  # which came to no message
    assert facts_of(an_episode()) == FACTS
    assert spans_by_message(an_episode()) == [
        (Span(version=3, first=0, count=1), Span(version=4, first=1, count=3)),
        (),
        (Span(version=4, first=7, count=2),),
        (),
        (Span(version=5, first=0, count=2),),
    ]


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("most", [15, 100])
def test_turns_hold_every_sampled_token_once_and_a_tree_is_json(most: int) -> None:
    @settings(max_examples=most)
    @given(completions())
    def law(completion: Completion) -> None:
        spans = [span for turn in turns_of(completion) for span in turn]
        assert spans == [span for segment in completion.segments for span in segment.policy_spans]
        tree = as_tree(completion)
        assert json.dumps(tree)
        assert bool(tree) == is_episode(completion)
        if tree:
            assert tree["turns"] >= tree["segments"]
            assert len(tree["message_versions"]) == len(completion.messages)

    law()


ROLES = {"a": "assistant", "t": "tool", "u": "user"}


@pytest.mark.parametrize(
    ("roles", "turns"),
    [
        ("", 1),
        ("a", 2),
        ("ata", 4),
        ("atta", 4),  # two tools that answer one turn
        ("atuata", 6),
        ("at", 3),
        ("ua", 2),  # what an environment says first is of the prompt
        ("aa", 3),
    ],
)
def test_turns_are_counted_as_verl_counts_them(roles: str, turns: int) -> None:
    messages = tuple({"role": ROLES[role], "content": ""} for role in roles)
    assert num_turns(an_episode(messages)) == turns


def test_metrics_are_means_over_episodes_and_a_reward_has_its_own_unit() -> None:
    none = dict.fromkeys(ENDED, 0) | {"turns": 1, "sampled_tokens": 2}
    other = EpisodeFacts(**none, segments=1, ended_by=End.TURNS)
    found: dict[str, Any] = episode_metrics([FACTS, FACTS, FACTS, other])["episodes"]
    ends = dict.fromkeys(map(str, End), 0.0) | {"environment": 0.75, "turns": 0.25}
    assert found.pop("ended_by") == ends
    means = {"turns": 2.5, "tool_calls": 1.5, "tool_errors": 0.75, "sampled_tokens": 6.5}
    means |= {"observed_tokens": 2.25, "segments": 1.75}
    assert found == {"count": 4, "turns_max": 3} | {f"{name}_mean": mean for name, mean in means.items()}
    assert episode_metrics([]) == {}
    assert set(
        episode_metrics([dataclasses.replace(FACTS, ended_by=None)])["episodes"]["ended_by"].values()
    ) == {0.0}
    reward = EnvironmentReward(value=-3.0, low=-5.0, high=0.0, turns=(None, -3.0))
    tree = as_tree(with_fields(an_episode(), reward=reward))
    assert tree["environment_reward"] == {"value": -3.0, "low": -5.0, "high": 0.0, "turns": (None, -3.0)}
    assert as_tree(with_fields(an_episode(), reward=None))["environment_reward"] is None
