"""Episodes are scored here by the reward that their own environment gave.

In: an episode with its environment's reward, in a unit of its own, and the range that the environment states. Out:
where in the range the reward lies, from 0 to 1. The reward itself is the component `environment_reward`; what each turn
gave stays in the completion. Pure arithmetic in the scorer's process.

An episode that was cut at a limit, or that its policy crashed, before its environment had given a reward is 0: the
policy brought that about. A reward outside its range, and none where the episode came to its end, are the environment's
fault: unscorable, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from msgspec.structs import replace

from broker.scores import End, EnvironmentReward, Score
from config.scorer_kinds import EnvironmentRewardConfig
from scorers.custom import SimpleScorer
from scorers.scorer import Conversation, SelfTestFailed

RULES: Final = 1  # raise it with any change here that can change a score


class EnvironmentScorer(SimpleScorer):
    """Scorer of episodes by their environment's reward."""

    name = "environment"
    version = str(RULES)

    def __init__(self, config: EnvironmentRewardConfig) -> None:
        """Start nothing: the environment was at work before."""

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:  # noqa: ARG002 - as the seam has it
        """Say that a text alone has no score."""
        return self.unscorable(
            "a scorer of type environment scores episodes, which agents play; a text alone has no environment's reward"
        )

    def score_conversation(
        self,
        conversation: Conversation,
        verification_info: Mapping[str, Any],  # noqa: ARG002 - as the seam has it
    ) -> Score:
        """Return where in its range the episode's reward lies."""
        reward, end = conversation.reward, conversation.ended_by
        if reward is None:
            if end.is_cut or end is End.CRASH:
                return self.scored(0.0, f"no reward before the episode ended by {end}")
            return self.unscorable(f"the environment gave no reward, and the episode ended by {end}")
        if not reward.low <= reward.value <= reward.high:
            found = self.unscorable(
                f"a reward of {reward.value:g} lies outside of {reward.low:g} to {reward.high:g}, the range that the "
                "environment states, or `environment.reward_range` of the task"
            )
        else:
            found = self.scored(
                share_of_range(reward), f"reward {reward.value:g} of {reward.low:g} to {reward.high:g}"
            )
        return replace(found, components={"environment_reward": reward.value})

    def self_test(self) -> None:
        """Raises SelfTestFailed unless the greatest reward is 1 and the least 0."""
        for value in (1.0, 0.0):
            reward = EnvironmentReward(value=4.0 * value - 3.0, low=-3.0, high=1.0)
            won = Conversation(text="", messages=(), ended_by=End.ENVIRONMENT, reward=reward)
            if (score := self.score_conversation(won, {})).value != value:
                raise SelfTestFailed(
                    f"the environment scorer gives {score.value} for {reward}, where {value} is right"
                )


def share_of_range(reward: EnvironmentReward) -> float:
    """Return where in its range a reward lies, in [0, 1]; exact, as two floats may be too far apart to subtract."""
    low = Fraction(reward.low)
    return float((Fraction(reward.value) - low) / (Fraction(reward.high) - low))
