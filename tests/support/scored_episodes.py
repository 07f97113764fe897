"""Episodes for scorers: what was said, how it ended, and what the environment gave; their tokens are made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.messages import NO_IDS, Completion, End, EnvironmentReward, FinishReason, Segment, Span, Turn


def reward_of(value: float, low: float = -1.0, high: float = 1.0) -> EnvironmentReward:
    """Return a reward in an environment's own unit."""
    return EnvironmentReward(value=value, low=low, high=high)


def an_episode(
    text: str = "done",
    *,
    ended_by: End = End.ENVIRONMENT,
    reward: EnvironmentReward | None = None,
    remark: str = "",
    said: Sequence[str] = (),
    runs: tuple[int, ...] = (2, 3, 1),
) -> Completion:
    """Return an episode.

    Args:
        text: the policy's last message.
        ended_by: and by it whether the episode was truncated.
        reward: None: the environment has given none.
        remark: on its end.
        said: what a tool answered on the way.
        runs: tokens that the policy sampled, that it read, that it sampled, and so on.
    """
    tool: list[Turn] = [{"role": "tool", "content": content} for content in said]
    firsts, tokens = np.cumsum([0, *runs[:-1]]).tolist(), sum(runs)
    is_sampled = np.repeat([place % 2 == 0 for place in range(len(runs))], runs)
    segment = Segment(
        prompt_ids=NO_IDS,
        token_ids=np.arange(1, tokens + 1, dtype=np.int32),
        logprobs=np.where(is_sampled, np.float32(-0.5), np.float32(0)),
        policy_spans=tuple(
            Span(version=3, first=firsts[place], count=runs[place]) for place in range(0, len(runs), 2)
        ),
        loss_mask=runs,
    )
    return Completion(
        segments=(segment,),
        finish_reason=FinishReason.LENGTH if ended_by.is_cut else FinishReason.STOP,
        text=text,
        messages=(*tool, {"role": "assistant", "content": text}),
        ended_by=ended_by,
        remark=remark,
        reward=reward,
    )
