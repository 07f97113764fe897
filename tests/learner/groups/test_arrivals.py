"""What answers look like, and what everything that came back since a step is summed up to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.messages import FinishReason, ScoredGroup
from learner.groups.answers import length_correlation, repeated_share, same_answer_share
from learner.groups.arrivals import ArrivalCounter, Arrivals
from learner.journal.ledger import Outcome
from tests.support.episodes import episodes
from tests.support.scored_episodes import an_episode
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
    assert repeated_share(completion(token_ids)) == pytest.approx(share)


def test_same_answers_are_counted_within_a_group() -> None:
    one = group([9], [completion([1, 2]), completion([1, 2]), completion([3])], [1.0, 1.0, 0.0])
    other = group([9], [completion([1, 2]), completion([4]), completion([5])], [1.0, 0.0, 0.0])
    assert same_answer_share([one, other]) == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("lengths", "rewards", "correlation"),
    [
        ([1, 2, 3], [0.1, 0.2, 0.3], 1.0),
        ([1, 2, 3], [0.3, 0.2, 0.1], -1.0),
        ([1, 2, 3, 4], [0.0, None, 0.0, 1.0], 0.7559289460184544),  # of 1, 3, 4 with 0, 0, 1
        ([2, 2, 2], [0.1, 0.2, 0.3], None),
        ([1, 2, 3], [0.5, 0.5, 0.5], None),
        ([1, 2], [1.0, None], None),
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
    made = group([9], [an_episode(runs=each) for each in runs], rewards)
    assert length_correlation(made) == (None if correlation is None else pytest.approx(correlation))
    counter = ArrivalCounter()
    counter.add(made)
    expected = sum(sum(each[::2]) / len(each[::2]) for each in runs) / len(runs)
    assert counter.take().facts["turn_tokens_mean"] == pytest.approx(expected)


def of_row(row: int, made: ScoredGroup) -> ScoredGroup:
    return replace(made, rollout=replace(made.rollout, prompt=replace(made.rollout.prompt, row=row)))


def test_arrivals_are_summed_up_whether_they_train_or_not_and_begin_anew() -> None:
    counter = ArrivalCounter()
    cut = completion([5, 6, 7], finish_reason=FinishReason.LENGTH)
    counter.add(of_row(1, group([9], [completion([1]), cut], [1.0, 0.0])))
    counter.add(of_row(2, group([9], [completion([1]), completion([2, 3])], [1.0, None])))
    counter.end(Outcome("dropped", "zero_variance: every reward is 1", facts={"task": "math"}))
    counter.end(Outcome("dead", "no scorer", facts={"task": "math", "source": "mbpp"}))
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


def test_an_answer_that_one_prompt_has_twice_is_not_shared() -> None:
    counter = ArrivalCounter()
    for _ in range(2):  # the same row, in two epochs
        counter.add(of_row(1, group([9], [completion([1]), completion([1])], [1.0, 0.0])))
    assert counter.take().facts["shared_answer_share"] == 0.0


def test_episodes_are_summed_up_where_there_are_some() -> None:
    counter = ArrivalCounter()
    counter.add(episodes("0"))
    counter.add(group([9], [completion([1])], [1.0]))
    facts = counter.take().facts
    assert (facts["completions"], facts["episodes"]["turns_mean"]) == (3, 3.0)
    counter.add(group([9], [completion([1])], [1.0]))
    assert "episodes" not in counter.take().facts
