"""Random scored groups for hypothesis, and messages as plain values to compare."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import Struct

from broker.messages import (
    Completion,
    End,
    EnvironmentReward,
    FinishReason,
    JsonObject,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Segment,
    Span,
    Split,
)


def plain(value: Any) -> Any:
    """Return a message as something that == compares whole, arrays and their types included."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.tolist())
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return (type(value).__name__, str(value)) if isinstance(value, Enum) else value


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)

IDS = st.integers(0, (1 << 31) - 1)

COUNTS = st.integers(1, (1 << 31) - 1)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)

SCORER = {"reason": NAMES, "scorer": NAMES, "version": NAMES}
SCORES = st.one_of(
    st.builds(
        Score,
        status=st.just(ScoreStatus.SCORED),
        value=st.floats(0, 1),
        seconds=NUMBERS,
        components=st.dictionaries(NAMES, NUMBERS, max_size=2),
        **SCORER,
    ),
    st.builds(Score, status=st.just(ScoreStatus.UNSCORABLE), value=st.none(), **SCORER),
)


PARTS = st.lists(st.dictionaries(NAMES, NAMES, max_size=2), max_size=2)
CHATS = st.lists(st.dictionaries(NAMES, NAMES | PARTS | st.none(), max_size=3), max_size=2).map(tuple)


@st.composite
def environment_rewards(draw: st.DrawFn) -> EnvironmentReward:
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    turns = draw(st.lists(NUMBERS | st.none(), max_size=3))
    return EnvironmentReward(value=draw(NUMBERS), low=low, high=high, turns=tuple(turns))


FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Draw runs of tokens: sampled by some version and trained or not, or by nobody."""
    runs = draw(
        st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["trained", "sampled", "read"])), max_size=3)
    )
    runs = [(draw(st.integers(1, 4)), "trained"), *runs]  # somebody sampled something
    draw(st.randoms(use_true_random=False)).shuffle(runs)
    counts = [count for count, _ in runs]
    firsts, tokens = np.cumsum([0, *counts[:-1]]).tolist(), sum(counts)
    is_sampled = np.repeat([kind != "read" for _, kind in runs], counts)
    logprobs = np.array(draw(st.lists(FLOAT32, min_size=tokens, max_size=tokens)), np.float32)
    loss_mask = [0]  # runs of tokens that train and that do not, in turn
    for count, kind in runs:
        if (kind == "trained") == (len(loss_mask) % 2 == 1):
            loss_mask[-1] += count
        else:
            loss_mask.append(count)
    return Segment(
        prompt_ids=np.array(draw(st.lists(IDS, max_size=3)), np.int32),
        token_ids=np.array(draw(st.lists(IDS, min_size=tokens, max_size=tokens)), np.int32),
        logprobs=np.where(is_sampled, logprobs, np.float32(0)),
        policy_spans=tuple(
            Span(version=draw(COUNTS), first=first, count=count)
            for first, (count, kind) in zip(firsts, runs, strict=True)
            if kind != "read"
        ),
        loss_mask=tuple(loss_mask),
    )


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    return Completion(
        segments=tuple(draw(st.lists(segments(), min_size=1, max_size=3))),
        finish_reason=draw(st.sampled_from(FinishReason)),
        text=draw(NAMES),
        messages=draw(CHATS),
        ended_by=draw(st.none() | st.sampled_from(End)),
        remark=draw(NAMES),
        reward=draw(st.none() | environment_rewards()),
    )


@st.composite
def scored_groups(draw: st.DrawFn) -> ScoredGroup:
    n = draw(st.integers(1, 3))
    names: Any = {name: draw(NAMES) for name in ("group_id", "task", "fingerprint", "data_source")}
    numbers: Any = {name: draw(COUNTS) for name in ("epoch", "row", "seed", "max_tokens")}
    prompt = Prompt(
        split=draw(st.sampled_from(Split)),
        n=n,
        floor=draw(st.integers(0, 99)),
        issued_at=draw(NUMBERS),
        temperature=draw(NUMBERS),
        messages=draw(CHATS),
        token_ids=np.array(draw(st.lists(IDS, min_size=1, max_size=5)), np.int32),
        verification_info=JsonObject(draw(st.dictionaries(NAMES, JSON, max_size=3))),
        top_p=draw(st.floats(0, 1, exclude_min=True)),
        **names,
        **numbers,
    )
    rollout = SampledGroup(
        prompt=prompt,
        completions=tuple(draw(completions()) for _ in range(n)),
        generator=draw(NAMES),
        seconds=draw(NUMBERS),
        sampled_at=draw(NUMBERS),
        attempts=draw(st.just(0) | COUNTS),
    )
    return ScoredGroup(
        rollout=rollout,
        scores=tuple(draw(SCORES) for _ in range(n)),
        rewards=tuple(draw(st.none() | NUMBERS) for _ in range(n)),
        worker=draw(NAMES),
        seconds=draw(NUMBERS),
        scored_at=draw(NUMBERS),
        attempts=draw(st.just(0) | COUNTS),
    )
