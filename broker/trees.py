"""This module turns messages into trees that msgpack can hold, and back: the payloads of entries and of steps.

A tree is made of mappings, lists, text and numbers. The writer chooses what stands for an array; a reader finds the
array's bytes. Trees come from other processes, so each value is checked as it is read. A value that is missing or wrong
raises Python's own error for it (KeyError, TypeError, ValueError and the like); `broker.codec` makes a BadMessage of
that error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.messages import (
    NO_IDS,
    Completion,
    FinishReason,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Segment,
    Span,
    Split,
)

IDS, LOGPROBS = "<i4", "<f4"
# Looked up for each completion: calling an enumeration takes ten times as long.
_FINISH_REASONS = {str(reason): reason for reason in FinishReason}
_SCORE_STATUSES = {str(status): status for status in ScoreStatus}
Put = Callable[[NDArray[Any], str], Any]  # an array and its type to what stands for it in a tree


def prompt_tree(prompt: Prompt, put: Put) -> dict[str, Any]:
    """Return the tree of a prompt."""
    return {
        "group_id": prompt.group_id,
        "split": str(prompt.split),
        "task": prompt.task,
        "n": prompt.n,
        "floor": prompt.floor,
        "issued_at": prompt.issued_at,
        "epoch": prompt.epoch,
        "row": prompt.row,
        "fingerprint": prompt.fingerprint,
        "seed": prompt.seed,
        "temperature": prompt.temperature,
        "max_tokens": prompt.max_tokens,
        "messages": [dict(turn) for turn in prompt.messages],
        "token_ids": put(prompt.token_ids, IDS),
        "verification_info": json.dumps(prompt.verification_info),
        **_said(
            data_source=prompt.data_source,
            columns=json.dumps(prompt.columns) if prompt.columns else "",
            top_p=0.0 if prompt.top_p == 1 else prompt.top_p,  # 1, the whole distribution, is not said
        ),
    }


def prompt_of(tree: dict[str, Any], *, floor: int | None = None) -> Prompt:
    """Read the prompt of a tree; `floor`, where it is given, is the floor that the script `issue` has set."""
    return Prompt(
        group_id=_is(tree["group_id"], str),
        split=Split(tree["split"]),
        task=_is(tree["task"], str),
        n=_at_least_one(tree["n"]),
        floor=_is(tree["floor"], int) if floor is None else floor,
        issued_at=_number(tree["issued_at"]),
        epoch=_is(tree["epoch"], int),
        row=_is(tree["row"], int),
        fingerprint=_is(tree["fingerprint"], str),
        seed=_is(tree["seed"], int),
        temperature=_number(tree["temperature"]),
        max_tokens=_at_least_one(tree["max_tokens"]),
        messages=tuple(_is(turn, dict) for turn in tree["messages"]),
        token_ids=_token_ids(tree["token_ids"], at_least=1),
        verification_info=_is(json.loads(tree["verification_info"]), dict),
        data_source=_is(tree.get("data_source", ""), str),
        columns=_is(json.loads(tree.get("columns", "{}")), dict),
        top_p=_share(tree.get("top_p", 1.0)),
    )


def rollout_tree(rollout: SampledGroup, put: Put) -> dict[str, Any]:
    """Return the tree of a sampled group, with the tree of its prompt."""
    completions = [
        {
            "segments": [_segment_tree(segment, put) for segment in completion.segments],
            "finish_reason": str(completion.finish_reason),
            "text": completion.text,
        }
        for completion in rollout.completions
    ]
    return {
        "prompt": prompt_tree(rollout.prompt, put),
        "completions": completions,
        "generator": rollout.generator,
        "seconds": rollout.seconds,
        **_said(sampled_at=rollout.sampled_at, attempts=rollout.attempts),
    }


def _segment_tree(segment: Segment, put: Put) -> dict[str, Any]:
    return {
        "prompt_ids": put(segment.prompt_ids, IDS),
        "token_ids": put(segment.token_ids, IDS),
        "logprobs": put(segment.logprobs, LOGPROBS),
        "spans": [[span.version, span.first, span.count] for span in segment.policy_spans],
        "loss_mask": list(segment.loss_mask),
    }


def _segment_of(tree: dict[str, Any]) -> Segment:
    """Read a segment. In schema 1 a completion's own tree was that of its one segment, of which every token trained."""
    ids, runs = _token_ids(tree["token_ids"]), tree.get("loss_mask")
    return Segment(
        prompt_ids=_token_ids(tree["prompt_ids"]) if "prompt_ids" in tree else NO_IDS,
        token_ids=ids,
        logprobs=_finite(_from_bytes(tree["logprobs"], LOGPROBS)),
        policy_spans=tuple(
            Span(version=_is(version, int), first=_is(first, int), count=_is(count, int))
            for version, first, count in tree["spans"]
        ),
        loss_mask=(len(ids),) if runs is None else tuple(_is(run, int) for run in runs),
    )


def rollout_of(tree: dict[str, Any]) -> SampledGroup:
    """Read the sampled group of a tree."""
    prompt = prompt_of(tree["prompt"])
    completions = tuple(
        Completion(
            segments=tuple(map(_segment_of, item.get("segments", [item]))),
            finish_reason=_FINISH_REASONS.get(item["finish_reason"]) or FinishReason(item["finish_reason"]),
            text=_is(item["text"], str),
        )
        for item in tree["completions"]
    )
    if len(completions) != prompt.n:
        raise ValueError(f"{len(completions)} completions of {prompt.n}")
    return SampledGroup(
        prompt=prompt,
        completions=completions,
        generator=_is(tree["generator"], str),
        seconds=_number(tree["seconds"]),
        sampled_at=_number(tree.get("sampled_at", 0.0)),
        attempts=_is(tree.get("attempts", 0), int),
    )


def scored_tree(group: ScoredGroup, put: Put) -> dict[str, Any]:
    """Return the tree of a scored group, with the tree of its sampled group."""
    return {
        "rollout": rollout_tree(group.rollout, put),
        "scores": [_score_tree(score) for score in group.scores],
        "rewards": list(group.rewards),
        "worker": group.worker,
        "seconds": group.seconds,
        **_said(scored_at=group.scored_at, attempts=group.attempts),
    }


def _score_tree(score: Score) -> dict[str, Any]:
    return {
        "status": str(score.status),
        "value": score.value,
        "reason": score.reason,
        "scorer": score.scorer,
        "version": score.version,
        "seconds": score.seconds,
        "components": dict(score.components),
    }


def scored_of(tree: dict[str, Any]) -> ScoredGroup:
    """Read the scored group of a tree."""
    scores = tuple(
        Score(
            status=_SCORE_STATUSES.get(item["status"]) or ScoreStatus(item["status"]),
            value=_number_or_none(item["value"]),
            reason=_is(item["reason"], str),
            scorer=_is(item["scorer"], str),
            version=_is(item["version"], str),
            seconds=_number(item["seconds"]),
            components={_is(name, str): _number(part) for name, part in item["components"].items()},
        )
        for item in tree["scores"]
    )
    rewards = tuple(_number_or_none(reward) for reward in tree["rewards"])
    return ScoredGroup(
        rollout=rollout_of(tree["rollout"]),
        scores=scores,
        rewards=rewards,
        worker=_is(tree["worker"], str),
        seconds=_number(tree["seconds"]),
        scored_at=_number(tree.get("scored_at", 0.0)),
        attempts=_is(tree.get("attempts", 0), int),
    )


def _said(**facts: float | str) -> dict[str, float | str]:
    """Return the facts that are known; a fact that is not said takes no room."""
    return {name: value for name, value in facts.items() if value}


def _from_bytes(raw: Any, dtype: str) -> NDArray[Any]:
    return np.frombuffer(_is(raw, bytes), dtype=dtype)


def _token_ids(raw: Any, *, at_least: int = 0) -> NDArray[Any]:
    """Read token ids that a step can train on.

    A negative id has no embedding, and the first sampled token needs a token before it, which predicts it.
    """
    ids = _from_bytes(raw, IDS)
    if len(ids) < at_least:
        raise ValueError(f"{len(ids)} tokens, expected at least {at_least}")
    if len(ids) and ids.min() < 0:
        raise ValueError(f"token id {ids.min()}")
    return ids


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{np.count_nonzero(~np.isfinite(values))} of {len(values)} log-probabilities are not finite"
        )
    return values


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, got {value!r:.40}")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _share(value: Any) -> float:
    if not 0 < (share := _number(value)) <= 1:
        raise ValueError(f"expected a share in (0, 1], got {share}")
    return share


def _at_least_one(value: Any) -> int:
    if (count := _is(value, int)) < 1:
        raise ValueError(f"expected at least 1, got {count}")
    return int(count)


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
