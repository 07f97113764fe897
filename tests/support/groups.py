"""Messages for tests: the smallest that have everything."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from broker.messages import (
    Announcement,
    Completion,
    DeadLetter,
    FinishReason,
    JsonObject,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Span,
    Split,
)


def a_score(value: float | None, reason: str, **changes: Any) -> Score:
    """Return a score of mathematics; None: the answer could not be scored."""
    status = ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED
    return replace(Score(status=status, value=value, reason=reason, scorer="math", version="1"), **changes)


def a_prompt(group_id: str = "17", **changes: Any) -> Prompt:
    """Seventeen's prompt, with `changes`; what travels as JSON may be plain mappings."""
    for name in changes.keys() & {"verification_info", "columns"}:
        changes[name] = JsonObject(changes[name])
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
            verification_info=JsonObject({"type": "math", "answer": {"value": "4"}}),
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
    prompt = replace(prompt or a_prompt(), n=len(completions))
    return SampledGroup(prompt=prompt, completions=completions, generator="g1", seconds=1.5)


def a_scored_group(rollout: SampledGroup | None = None) -> ScoredGroup:
    right = a_score(1.0, "answer 4", seconds=0.125, components={"format": 1.0})
    scores = (right, a_score(None, "judge unreachable"))
    return ScoredGroup(
        rollout=rollout or a_rollout(), scores=scores, rewards=(1.0, None), worker="s1", seconds=0.25
    )


def a_dead_letter() -> DeadLetter:
    """Of a group that could not be scored."""
    facts = {
        "group_id": "17",
        "stage": "rollouts",
        "reason": "5 attempts",
        "attempts": 5,
        "traceback": "Boom",
    }
    return DeadLetter(original=b"\x00\xff", **facts)  # type: ignore[arg-type]


def an_announcement(version: int = 4) -> Announcement:
    where = {"path": "runs/x/weights/4", "checksum": "c0ffee", "size_bytes": 1024}
    return Announcement(version=version, announced_at=1_700_000_001.5, **where)  # type: ignore[arg-type]
