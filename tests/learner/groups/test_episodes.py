"""What is counted of an episode, by hand and by law."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace as with_fields

from broker.messages import Completion, End, EnvironmentReward, Span
from learner.groups.episodes import (
    EpisodeFacts,
    as_tree,
    episode_metrics,
    facts_of,
    is_episode,
    num_turns,
    spans_by_message,
    turns_of,
)
from tests.support.chain import make_prompt, make_scored
from tests.support.episodes import MESSAGES, an_episode
from tests.support.random_groups import completions

FACTS = EpisodeFacts(
    turns=3,
    tool_calls=2,
    tool_errors=1,
    sampled_tokens=8,
    observed_tokens=3,
    segments=2,
    ended_by=End.ENVIRONMENT,
)


def plain() -> Completion:
    return make_scored(make_prompt("0"), [1.0]).rollout.completions[0]


def test_an_episode_is_counted_as_on_paper() -> None:
    assert facts_of(an_episode()) == FACTS
    assert spans_by_message(an_episode()) == [
        (Span(version=3, first=0, count=1), Span(version=4, first=1, count=3)),
        (),
        (Span(version=4, first=7, count=2),),
        (),
        (Span(version=5, first=0, count=2),),
    ]


def test_where_messages_and_turns_differ_no_tokens_are_ascribed() -> None:
    assert spans_by_message(an_episode(MESSAGES[:-1])) == [()] * 4
    assert as_tree(an_episode(MESSAGES[:-1]))["message_versions"] == [[]] * 4


@settings(max_examples=50)
@given(completions())
def test_turns_hold_every_sampled_token_once_and_a_tree_is_json(completion: Completion) -> None:
    spans = [span for turn in turns_of(completion) for span in turn]
    assert spans == [span for segment in completion.segments for span in segment.policy_spans]
    tree = as_tree(completion)
    assert json.dumps(tree)
    assert bool(tree) == is_episode(completion)
    if tree:
        assert tree["turns"] >= tree["segments"]
        assert len(tree["message_versions"]) == len(completion.messages)


def test_an_answer_of_one_turn_is_no_episode() -> None:
    assert as_tree(plain()) == {}
    assert is_episode(with_fields(plain(), ended_by=End.FAILED))  # which came to no message


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


def test_metrics_are_means_over_episodes_and_shares_of_every_end() -> None:
    other = EpisodeFacts(
        turns=1,
        tool_calls=0,
        tool_errors=0,
        sampled_tokens=2,
        observed_tokens=0,
        segments=1,
        ended_by=End.TURNS,
    )
    found: dict[str, Any] = episode_metrics([FACTS, FACTS, FACTS, other])["episodes"]
    ends = dict.fromkeys(map(str, End), 0.0) | {"environment": 0.75, "turns": 0.25}
    assert found.pop("ended_by") == ends
    assert found == {
        "turns_mean": 2.5,
        "turns_max": 3,
        "tool_calls_mean": 1.5,
        "tool_errors_mean": 0.75,
        "sampled_tokens_mean": 6.5,
        "observed_tokens_mean": 2.25,
        "segments_mean": 1.75,
    }
    assert episode_metrics([]) == {}
    assert set(episode_metrics([replace(FACTS, ended_by=None)])["episodes"]["ended_by"].values()) == {0.0}


def test_a_reward_is_told_in_its_own_unit() -> None:
    reward = EnvironmentReward(value=-3.0, low=-5.0, high=0.0, turns=(None, -3.0))
    tree = as_tree(with_fields(an_episode(), reward=reward))
    assert tree["environment_reward"] == {"value": -3.0, "low": -5.0, "high": 0.0, "turns": (None, -3.0)}
    assert as_tree(with_fields(an_episode(), reward=None))["environment_reward"] is None
