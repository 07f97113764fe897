"""Convert a group of a journal payload of schema 2 to the wire's form.

In schema 2 a group was stored as columns, one list per field for all completions, and a completion had one segment, of
which every token trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.codec import IDS, LOGPROBS, Get, bytes_of

SCORE = ("status", "value", "reason", "scorer", "version", "seconds", "components")


def tree_of(columns: Mapping[str, Any], get: Get) -> dict[str, Any]:
    """Return the wire's form of a scored group. Raises Python's own errors for damaged columns.

    Args:
        get: called for the arrays of each type, in order.
    """
    own = zip(columns["tokens"], columns["spans"], columns["finish_reasons"], strict=True)
    completions = [
        {"segments": [_segment(tokens, numbers, get)], "finish_reason": reason, "text": ""}
        for tokens, numbers, reason in own
    ]
    prompt = {**columns["prompt"], "token_ids": bytes_of(get(columns["prompt"]["token_ids"], IDS))}
    generator, sampling_s, sampled_at, samplings = columns["sampling"]
    worker, scoring_s, scored_at, scorings = columns["scoring"]
    return {
        "rollout": {
            "prompt": prompt,
            "completions": completions,
            "generator": generator,
            "seconds": sampling_s,
            "sampled_at": sampled_at,
            "attempts": samplings,
        },
        "scores": [dict(zip(SCORE, values, strict=True)) for values in zip(*columns["scores"], strict=True)],
        "rewards": columns["rewards"],
        "worker": worker,
        "seconds": scoring_s,
        "scored_at": scored_at,
        "attempts": scorings,
    }


def _segment(tokens: int, numbers: list[int], get: Get) -> dict[str, Any]:
    """Return a completion's one segment, in which each span begins where the previous one ended."""
    spans, first = [], 0
    for version, count in zip(numbers[::2], numbers[1::2], strict=True):
        spans.append([version, first, count])
        first += count
    return {
        "prompt_ids": b"",
        "token_ids": bytes_of(get(tokens, IDS)),
        "logprobs": bytes_of(get(tokens, LOGPROBS)),
        "spans": spans,
        "loss_mask": [tokens],
    }
