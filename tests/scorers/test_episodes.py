"""Episodes in a group: what each end is worth, row by row, and how much of an episode each scorer is asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from broker.errors import Retryable
from broker.messages import Completion, End, FinishReason, SampledGroup, Score, ScoreStatus
from config.scorers import ScorersConfig
from scorers.custom import SimpleScorer
from scorers.group import GroupScorer
from scorers.scorer import Conversation
from tests.support.scored_episodes import an_episode, reward_of

Group = Callable[..., SampledGroup]
LAKE = {"type": "custom", "import_path": "lake:Lake"}
ROW = {"type": "lake"}
PLAYED = [end for end in End if end is not End.FAILED]
asked_of_last: list[str] = []
asked_of_all: list[Conversation] = []


class LastMessage(SimpleScorer):
    """Pays `done` as a policy's last message, and notes what it is asked of."""

    name, version = "last", "1"

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        asked_of_last.append(text)
        return self.scored(text == "done", f"it ended with {text}")


class WholeEpisode(SimpleScorer):
    """Pays episodes in which a tool said 42, and notes what it is asked of; fails the first time of `flaky`."""

    name, version = "whole", "1"

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        return self.scored(0.25, "a text alone")

    def score_conversation(self, conversation: Conversation, verification_info: Mapping[str, Any]) -> Score:
        asked_of_all.append(conversation)
        if conversation.text == "flaky" and asked_of_all.count(conversation) == 1:
            raise Retryable("the index is away")
        return self.scored(any(turn["content"] == "42" for turn in conversation.messages), "looked")

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        raise AssertionError("told of a text that it will never be asked of")


LAST = {"type": "custom", "import_path": f"{__name__}:LastMessage"}
WHOLE = {"type": "custom", "import_path": f"{__name__}:WholeEpisode"}
OWN = {"type": "environment"}


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    asked_of_last.clear()
    asked_of_all.clear()


@pytest.fixture
def score(group: Group) -> Iterator[Callable[..., Any]]:
    """Return what scores episodes by the sections of a task `lake`, which has an environment."""
    built: list[GroupScorer] = []

    def scored(*episodes: Completion, **task: Any) -> Any:
        section = {"environment": LAKE, **task}
        config = {"retries": 1, "retry_backoff_s": 0.0, "tasks": {"lake": section}}
        built.append(GroupScorer(ScorersConfig.model_validate(config)))
        texts = [episode.text for episode in episodes]
        rollout = replace(group(*texts, task="lake", verification_info=ROW), completions=episodes)
        return built[-1].score(rollout, worker="w")

    yield scored
    for one in built:
        one.close()


def test_an_end_that_was_played_is_worth_what_environment_or_scorer_say(score: Callable[..., Any]) -> None:
    """Both rewards of a crash too: it is the policy's doing, and scored as it stands."""
    for ended_by in PLAYED:
        episode = an_episode(ended_by=ended_by, reward=reward_of(0.5))
        assert score(episode, scorer=OWN).rewards == (0.75,)
        assert score(episode, scorer=LAST).rewards == (1.0,)
        assert score(replace(episode, text=""), scorer=LAST).rewards == (0.0,)


def test_an_end_at_a_limit_counts_as_truncated_and_no_other(score: Callable[..., Any]) -> None:
    for ended_by in PLAYED:
        cut = {End.TURNS, End.CONTEXT, End.TOKENS, End.DEADLINE}
        assert ended_by.is_cut == (ended_by in cut)
        found = score(an_episode(ended_by=ended_by), scorer=LAST, format={"answer": "any"})
        assert found.rollout.completions[0].finish_reason is (
            FinishReason.LENGTH if ended_by in cut else FinishReason.STOP
        )
        assert found.rewards == (0.0 if ended_by in cut else 1.0,), "`finish: required` tells them apart"


@pytest.mark.parametrize(
    "task",
    [
        *({"scorer": OWN}, {"scorer": LAST}, {"scorer": WHOLE}),
        {"scorer": LAST, "extra_scorers": {"won": {"scorer": OWN, "weight": 0.5}}},
    ],
    ids=["environment", "last message", "conversation", "both"],
)
def test_an_episode_that_failed_is_unscorable_by_its_remark_and_nobody_is_asked(
    score: Callable[..., Any], task: dict[str, Any]
) -> None:
    remark = "reset failed in 3 attempts: ConnectionError: no route to the lake"
    failed = an_episode(ended_by=End.FAILED, remark=remark, reward=reward_of(1.0))
    found = score(failed, failed, **task)
    assert found.rewards == (None, None)
    assert [(one.status, one.reason) for one in found.scores] == [(ScoreStatus.UNSCORABLE, remark)] * 2
    assert (asked_of_last, asked_of_all) == ([], [])
    beside = score(failed, an_episode(said=["42"], reward=reward_of(1.0)), **task)
    assert beside.rewards == (None, 1.0)


def test_a_scorer_of_texts_is_asked_once_of_equal_last_messages(score: Callable[..., Any]) -> None:
    episodes = [an_episode(said=[str(number)]) for number in range(3)]
    assert score(*episodes, an_episode("gave up"), scorer=LAST).rewards == (1.0, 1.0, 1.0, 0.0)
    assert asked_of_last == ["done", "gave up"]


def test_a_scorer_of_conversations_is_asked_once_of_equal_ones(score: Callable[..., Any]) -> None:
    same = [an_episode(said=["42"]), an_episode(said=["41"]), an_episode(said=["42"])]
    cut = an_episode(said=["42"], ended_by=End.TURNS)
    assert score(*same, cut, scorer=WHOLE).rewards == (1.0, 0.0, 1.0, 1.0)
    assert [(one.messages[0]["content"], one.ended_by) for one in asked_of_all] == [
        ("42", End.ENVIRONMENT),
        ("41", End.ENVIRONMENT),
        ("42", End.TURNS),
    ]


def test_a_scorer_of_conversations_is_tried_again_as_any_other(score: Callable[..., Any]) -> None:
    found = score(an_episode("flaky", said=["42"]), an_episode(said=["42"]), scorer=WHOLE)
    assert found.rewards == (1.0, 1.0)
    assert len(asked_of_all) == 3


def test_answers_of_one_turn_are_texts_to_it(score: Callable[..., Any], group: Group) -> None:
    (answer,) = group("so it is 42").completions
    scorer = {**WHOLE, "import_path": f"{__name__}:{Quiet.__name__}"}
    assert score(answer, scorer=scorer).rewards == (0.25,)
    assert asked_of_all == []


class Quiet(WholeEpisode):
    """It may be told of texts."""

    def prefetch(self, text: str, verification_info: Mapping[str, Any]) -> None:
        """Begin nothing."""


def test_an_environments_reward_has_a_weight_beside_a_scorers_or_gates_it(score: Callable[..., Any]) -> None:
    episodes = [an_episode(reward=reward_of(0.0)), an_episode("lost", reward=reward_of(1.0))]
    weighed = score(*episodes, scorer=LAST, extra_scorers={"won": {"scorer": OWN, "weight": 0.5}})
    assert weighed.rewards == (0.75, 0.5)
    assert weighed.scores[0].components == {"custom": 1.0, "won": 0.5, "won.environment_reward": 0.0}
    gated = score(*episodes, scorer=OWN, extra_scorers={"said": {"scorer": LAST, "gate": 1.0}})
    assert gated.rewards == (0.5, 0.0)
    none = score(an_episode(), scorer=LAST, extra_scorers={"won": {"scorer": OWN, "weight": 0.5}})
    assert none.scores[0].reason.startswith("won: the environment gave no reward")
    reported = score(an_episode(), scorer=LAST, extra_scorers={"won": {"scorer": OWN}})
    assert reported.rewards == (1.0,), "what is only reported costs no score"


def test_penalties_count_the_tokens_that_the_policy_sampled(score: Callable[..., Any]) -> None:
    """Of 16 tokens: 4 sampled, and 12 that a tool said."""
    episode = an_episode(reward=reward_of(1.0), runs=(3, 12, 1))
    found = score(episode, scorer=OWN, penalties={"length": {"weight": 1.0}})
    assert found.rewards == (0.75,)
    assert "4 tokens of 16" in found.scores[0].reason
