"""The wire's format: bytes and time of a long scored group, beside msgpack with plain lists of numbers.

`broker.codec` writes token ids and log-probabilities as raw little-endian bytes. The peer is what one writes without
thinking: the same numbers with `tolist()`, and arrays made of them again behind; it carries the completions and rewards
alone, ours the whole message with its checks. Pickle is no peer: it runs what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.groups import made_up_rollout, scored
from broker.codec import Raw, decode_scored, encode_scored
from broker.messages import ScoredGroup

LISTS = "peer: msgpack with plain lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    completions: int = 16
    tokens: int = 8192  # of each completion
    rounds: int = 7


FULL, SMOKE = Size(), Size(completions=2, tokens=16, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Compare bytes a token, and the speed of writing and of reading."""
    group = scored(made_up_rollout("0", completions=size.completions, tokens=size.tokens))
    raw = _as_read(group)
    lists = _lists(group)
    tokens = group.rollout.num_tokens
    what = f"{size.completions} x {size.tokens:,} tokens"

    def encode(_: int) -> TimedWork:
        return timed(lambda: tokens if encode_scored(group) else 0)

    def encode_lists(_: int) -> TimedWork:
        return timed(lambda: tokens if _lists(group) else 0)

    def decode(_: int) -> TimedWork:
        return timed(lambda: decode_scored(raw).rollout.num_tokens)

    def decode_lists(_: int) -> TimedWork:
        return timed(lambda: _from_lists(lists))

    rows = [
        Comparison(
            what=f"payload of {what}",
            unit="bytes/token",
            ours=[len(raw[b"payload"]) / tokens],
            beside=LISTS,
            other=[len(lists) / tokens],
            less_is_better=True,
        )
    ]
    for name, ours, other in (("encode", encode, encode_lists), ("decode", decode, decode_lists)):
        mine, others = take_turns(ours, other, rounds=size.rounds)
        rows.append(
            Comparison(
                what=f"{name} {what}",
                unit="ms",
                less_is_better=True,
                beside=LISTS,
                ours=[turn.seconds * 1000 for turn in mine],
                other=[turn.seconds * 1000 for turn in others],
            )
        )
    return rows


def _as_read(group: ScoredGroup) -> Raw:
    """Give the fields as redis-py returns them; in a run a script writes the floor and the policy."""
    return {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in encode_scored(group).items()
    }


def _lists(group: ScoredGroup) -> bytes:
    """Write the peer's payload: the numbers of each completion as lists, and the rewards."""
    completions = [
        {
            "token_ids": completion.segments[0].token_ids.tolist(),
            "logprobs": completion.segments[0].logprobs.tolist(),
            "text": completion.text,
        }
        for completion in group.rollout.completions
    ]
    return bytes(msgpack.packb({"completions": completions, "rewards": list(group.rewards)}))


def _from_lists(payload: bytes) -> int:
    """Make arrays of the peer's lists again; return how many tokens they hold."""
    tree: dict[str, Any] = msgpack.unpackb(payload)
    arrays = [
        (np.array(item["token_ids"], np.int32), np.array(item["logprobs"], np.float32))
        for item in tree["completions"]
    ]
    return sum(len(token_ids) for token_ids, _ in arrays)
