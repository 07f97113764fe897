"""Messages for tests: the smallest that have everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from broker.messages import (
    Announcement,
    Completion,
    DeadLetter,
    FinishReason,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Span,
    Split,
)


def a_prompt(group_id: str = "17", **changes: Any) -> Prompt:
    """Seventeen's prompt, with `changes`."""
    return replace(
        Prompt(
            group_id=group_id,
            split=Split.TRAIN,
            task="math",
            n=2,
            floor=3,
            issued_at=1_700_000_000.25,
            epoch=1,
            row=5,
            fingerprint="ab12",
            seed=7,
            temperature=0.5,
            max_tokens=16,
            messages=({"role": "user", "content": "2 + 2 = ?"},),
            token_ids=np.array([1, 2, 300_000], np.int32),
            verification_info={"type": "math", "answer": {"value": "4"}},
        ),
        **changes,
    )


def a_rollout(prompt: Prompt | None = None) -> SampledGroup:
    """Two completions: one of two versions, one cut at its limit."""
    completions = (
        Completion.of_one_segment(
            token_ids=np.array([5, 6, 7], np.int32),
            logprobs=np.array([-0.5, -1.0, -0.25], np.float32),
            policy_spans=(Span(version=3, first=0, count=2), Span(version=4, first=2, count=1)),
            finish_reason=FinishReason.STOP,
            text="\\boxed{4} ✓",
        ),
        Completion.of_one_segment(
            token_ids=np.array([8], np.int32),
            logprobs=np.array([-2.0], np.float32),
            policy_spans=(Span(version=4, first=0, count=1),),
            finish_reason=FinishReason.LENGTH,
            text="five",
        ),
    )
    return SampledGroup(prompt=prompt or a_prompt(), completions=completions, generator="g1", seconds=1.5)


def a_scored_group(rollout: SampledGroup | None = None) -> ScoredGroup:
    """One right, one unscorable."""
    scores = (
        Score(
            status=ScoreStatus.SCORED,
            value=1.0,
            reason="answer 4",
            scorer="math",
            version="1",
            seconds=0.125,
            components={"format": 1.0},
        ),
        Score(
            status=ScoreStatus.UNSCORABLE, value=None, reason="judge unreachable", scorer="math", version="1"
        ),
    )
    return ScoredGroup(
        rollout=rollout or a_rollout(), scores=scores, rewards=(1.0, None), worker="s1", seconds=0.25
    )


def a_letter() -> DeadLetter:
    """Of a group that could not be scored."""
    return DeadLetter(
        group_id="17",
        stage="rollouts",
        reason="5 attempts",
        attempts=5,
        traceback="Boom",
        original=b"\x00\xff",
    )


def an_announcement(version: int = 4) -> Announcement:
    """Of version 4."""
    return Announcement(
        version=version,
        path="runs/x/weights/4",
        checksum="c0ffee",
        size_bytes=1024,
        announced_at=1_700_000_001.5,
    )
