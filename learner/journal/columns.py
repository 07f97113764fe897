"""A scored group as columns, the journal's form: one list a field for all completions, and nobody's text.

In: a `ScoredGroup`. Out: what msgpack can hold of it, and the group again. Used by `learner.journal.payloads`, which
keeps the arrays beside it. The wire's tree has a mapping for each completion and each score; building and packing a
thousand of them took longer than a fast disk takes for the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from broker.codec import checked
from broker.messages import Completion, ScoredGroup
from broker.trees import IDS, LOGPROBS, prompt_tree, scored_of

Get = Callable[[int, str], bytes]  # the next array of that type, so many numbers
SCORE = ("status", "value", "reason", "scorer", "version", "seconds", "components")
_score = attrgetter(*SCORE)


def token_ids_of(group: ScoredGroup) -> list[NDArray[np.int32]]:
    """The arrays of ids in the order in which `group_of` asks for them, the prompt's last."""
    return [
        *(completion.token_ids for completion in group.rollout.completions),
        group.rollout.prompt.token_ids,
    ]


def pack_columns(group: ScoredGroup) -> bytes:
    """The group's columns, in msgpack."""
    rollout = group.rollout
    said = rollout.completions
    packed: bytes = msgpack.packb(
        {
            "tokens": [len(completion.token_ids) for completion in said],
            "spans": [_versions(completion) for completion in said],
            "finish_reasons": [completion.finish_reason for completion in said],
            "scores": list(zip(*map(_score, group.scores), strict=True)),
            "rewards": group.rewards,
            "prompt": prompt_tree(rollout.prompt, lambda ids, _: len(ids)),
            "sampling": [rollout.generator, rollout.seconds, rollout.sampled_at, rollout.attempts],
            "scoring": [group.worker, group.seconds, group.scored_at, group.attempts],
        }
    )
    return packed


def group_of(packed: bytes, get: Get) -> ScoredGroup:
    """The inverse of `pack_columns`; every completion's text is "". Raises BadMessage.

    Args:
        get: asked for the arrays of each type in their order.
    """
    return checked(lambda: scored_of(_tree_of(msgpack.unpackb(packed), get)))


def _versions(completion: Completion) -> list[int]:
    """Version and tokens of one span after the other: each begins where the one before it ends."""
    numbers: list[int] = []
    for span in completion.policy_spans:
        numbers += span.version, span.count
    return numbers


def _tree_of(columns: Mapping[str, Any], get: Get) -> dict[str, Any]:
    """The wire's tree of the group, which `broker.trees` checks value by value.

    Each completion is the tree of its one segment, as in the wire's schema 1: the journal knows no other.
    """
    ids = [get(count, IDS) for count in columns["tokens"]]
    logprobs = [get(count, LOGPROBS) for count in columns["tokens"]]
    completions = [
        {
            "token_ids": own_ids,
            "logprobs": own_logprobs,
            "spans": list(_spans(numbers)),
            "finish_reason": reason,
            "text": "",
        }
        for own_ids, own_logprobs, numbers, reason in zip(
            ids, logprobs, columns["spans"], columns["finish_reasons"], strict=True
        )
    ]
    scores = [dict(zip(SCORE, values, strict=True)) for values in zip(*columns["scores"], strict=True)]
    prompt = {**columns["prompt"], "token_ids": get(columns["prompt"]["token_ids"], IDS)}
    generator, sampling_s, sampled_at, samplings = columns["sampling"]
    worker, scoring_s, scored_at, scorings = columns["scoring"]
    rollout = {
        "prompt": prompt,
        "completions": completions,
        "generator": generator,
        "seconds": sampling_s,
        "sampled_at": sampled_at,
        "attempts": samplings,
    }
    return {
        "rollout": rollout,
        "scores": scores,
        "rewards": columns["rewards"],
        "worker": worker,
        "seconds": scoring_s,
        "scored_at": scored_at,
        "attempts": scorings,
    }


def _spans(numbers: list[int]) -> Iterator[tuple[int, int, int]]:
    first = 0
    for version, count in zip(numbers[::2], numbers[1::2], strict=True):
        yield version, first, count
        first += count
