"""Pack scored groups into rows: what one optimizer step trains on.

In: groups with their advantages, rank 0 alone. Out: a `Batch`, as arrays here and as bytes to the other ranks, and a
`shard` of it for each rank. The same groups in the same order give the same batch, byte for byte: the journal's replay
relies on it. What can't be trained on (a sampler newer than the learner, a prompt without tokens) is a ValueError.
"""

# N tokens of all rows, R rows.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from broker.messages import Completion, FinishReason, ScoredGroup

# Each array of a batch with its type on the wire; the order is that of the bytes.
_ARRAYS = {
    "token_ids": "<i4",
    "position_ids": "<i4",
    "sampled_logprobs": "<f4",
    "advantages": "<f4",
    "loss_mask": "|b1",
    "lags": "<i4",
    "micro_batch_starts": "<i8",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Rows of packed sequences, one after the other, not padded. Row r is tokens micro_batch_starts[r] to micro_batch_starts[r + 1]."""

    token_ids: NDArray[np.int32]  # [N], prompt then completion, sequence after sequence
    position_ids: NDArray[np.int32]  # [N], 0 at the first token of each sequence: where attention restarts
    sampled_logprobs: NDArray[np.float32]  # [N], nats, of this token when it was sampled; 0 on prompts
    advantages: NDArray[np.float32]  # [N], 0 on prompts
    loss_mask: NDArray[np.bool_]  # [N], True where a token trains
    lags: NDArray[np.int32]  # [N], versions between sampling and now; 0 on prompts
    micro_batch_starts: NDArray[np.int64]  # [R + 1]
    num_tokens: int  # trained tokens of the global batch, also in a shard of it
    policy_version: int  # optimizer steps done before this one

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches in it."""
        return len(self.micro_batch_starts) - 1

    def micro_batches(self) -> Iterator[slice]:
        """The slice of the flat arrays that each row is, in order."""
        for start, stop in zip(self.micro_batch_starts[:-1], self.micro_batch_starts[1:], strict=True):
            yield slice(int(start), int(stop))

    def to_bytes(self) -> bytes:
        """The batch in msgpack, its arrays as raw little-endian bytes."""
        arrays = {
            name: getattr(self, name).astype(dtype, copy=False).tobytes() for name, dtype in _ARRAYS.items()
        }
        packed: bytes = msgpack.packb(
            arrays | {"num_tokens": self.num_tokens, "policy_version": self.policy_version}
        )
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch:
        """The inverse of `to_bytes`. The arrays are read-only views of the bytes."""
        fields: dict[str, Any] = msgpack.unpackb(data)
        for name, dtype in _ARRAYS.items():
            fields[name] = np.frombuffer(fields[name], dtype=dtype)
        return cls(**fields)

    def shard(self, rank: int, world_size: int) -> Batch:
        """The rows of one rank: as many for every rank, about as many tokens.

        ZeRO's collectives run once a micro-batch, so a rank with a row less would leave the others waiting for ever;
        missing rows are made up by rows of one masked token. The longest row goes first, to the rank with the fewest
        tokens that has room: each rank's rows then fall in length, and rows that run at the same time are alike.

        Args:
            rank: which of them, 0 <= rank < world_size.
            world_size: number of ranks.
        """
        rows_per_rank = max(1, -(-self.num_micro_batches // world_size))
        lengths = np.diff(self.micro_batch_starts)
        rows_of: list[list[int]] = [[] for _ in range(world_size)]
        tokens_of = [0] * world_size
        for row in np.argsort(-lengths, kind="stable"):
            to = min(
                (r for r in range(world_size) if len(rows_of[r]) < rows_per_rank), key=lambda r: tokens_of[r]
            )
            rows_of[to].append(int(row))
            tokens_of[to] += int(lengths[row])
        slices = list(self.micro_batches())
        mine = [
            {name: getattr(self, name)[slices[row]] for name in _SEQUENCE_ARRAYS} for row in rows_of[rank]
        ]
        mine += [_EMPTY_ROW] * (rows_per_rank - len(mine))
        return _join(mine, num_tokens=self.num_tokens, policy_version=self.policy_version)


_SEQUENCE_ARRAYS = tuple(name for name in _ARRAYS if name != "micro_batch_starts")
_EMPTY_ROW = {name: np.zeros(1, dtype=_ARRAYS[name]) for name in _SEQUENCE_ARRAYS}  # one token, not trained


def pack(
    groups: Sequence[ScoredGroup],
    advantages: Sequence[Sequence[float | None]],
    *,
    tokens_per_micro_batch: int,
    truncated: Literal["mask", "keep"],
    policy_version: int,
) -> Batch:
    """Put every completion that trains, behind its prompt, into rows of a token budget.

    A completion that does not train (unscorable, or cut off under `mask`) has had its say in the group's baseline, and
    is left out: no computation for it. Rows are filled first-fit, longest sequence first; a sequence longer than the
    budget has a row to itself.

    Args:
        groups: what this step trains on, in the order of the journal.
        advantages: one a completion of each group; None where it must not train.
        tokens_per_micro_batch: the budget of a row, prompts included.
        truncated: `mask`: a completion that was cut at `max_tokens` does not train.
        policy_version: the learner's version now; a token's lag is this less the version that sampled it.
    Raises:
        ValueError: advantages that do not fit the groups, a prompt without tokens, or a sampler newer than the learner.
    """
    sequences: list[dict[str, NDArray[Any]]] = []
    for group, group_advantages in zip(groups, advantages, strict=True):
        prompt = group.rollout.prompt
        if len(prompt.token_ids) < 1:
            raise ValueError(
                f"group {prompt.group_id}: a prompt without tokens, so nothing predicts the first one"
            )
        for completion, advantage in zip(group.rollout.completions, group_advantages, strict=True):
            if advantage is None or (truncated == "mask" and completion.finish_reason is FinishReason.LENGTH):
                continue
            lags = _lags(completion, policy_version, group_id=prompt.group_id)
            sequences.append(_sequence(prompt.token_ids, completion, advantage=advantage, lags=lags))
    rows = [
        _concatenate([sequences[i] for i in row])
        for row in _first_fit_decreasing(
            [len(sequence["token_ids"]) for sequence in sequences], tokens_per_micro_batch
        )
    ]
    num_tokens = sum(int(sequence["loss_mask"].sum()) for sequence in sequences)
    return _join(rows, num_tokens=num_tokens, policy_version=policy_version)


def _lags(completion: Completion, policy_version: int, *, group_id: str) -> NDArray[np.int32]:
    """[T]: versions between the sampling of each token and now."""
    versions = [span.version for span in completion.policy_spans]
    if max(versions) > policy_version:
        raise ValueError(
            f"group {group_id} was sampled by version {max(versions)}, and the learner is at "
            f"{policy_version}: it can't have made it"
        )
    lags = [policy_version - version for version in versions]
    return np.repeat(np.asarray(lags, np.int32), [span.count for span in completion.policy_spans])


def _sequence(
    prompt_ids: NDArray[np.int32], completion: Completion, *, advantage: float, lags: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """One prompt with one completion, as the arrays of a batch."""
    before, after = len(prompt_ids), len(completion.token_ids)
    return {
        "token_ids": np.concatenate([prompt_ids, completion.token_ids]).astype(np.int32),
        "position_ids": np.arange(before + after, dtype=np.int32),
        "sampled_logprobs": np.concatenate([np.zeros(before, np.float32), completion.logprobs]).astype(
            np.float32
        ),
        "advantages": np.repeat(np.asarray([0.0, advantage], np.float32), [before, after]),
        "loss_mask": np.repeat(np.asarray([False, True]), [before, after]),
        "lags": np.concatenate([np.zeros(before, np.int32), lags]),
    }


def _first_fit_decreasing(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of what goes into each row. Ties keep their order, so the result depends on nothing but the arguments."""
    rows: list[list[int]] = []
    room = np.zeros(len(lengths), dtype=np.int64)  # what is left in each row, 0 in those not yet begun
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fits = room[: len(rows)] >= lengths[index]
        row = int(fits.argmax()) if fits.any() else len(rows)
        if row == len(rows):
            rows.append([])
            room[row] = max(budget, lengths[index])
        rows[row].append(index)
        room[row] -= lengths[index]
    return rows


def _concatenate(sequences: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Sequences, or rows, one behind the other; nothing at all gives empty arrays of the right types."""
    return {
        name: np.concatenate(
            [np.zeros(0, _ARRAYS[name]), *(sequence[name] for sequence in sequences)], dtype=_ARRAYS[name]
        )
        for name in _SEQUENCE_ARRAYS
    }


def _join(rows: Sequence[dict[str, NDArray[Any]]], *, num_tokens: int, policy_version: int) -> Batch:
    """A batch of these rows."""
    micro_batch_starts = np.cumsum([0, *(len(row["token_ids"]) for row in rows)], dtype=np.int64)
    return Batch(
        **_concatenate(rows),
        micro_batch_starts=micro_batch_starts,
        num_tokens=num_tokens,
        policy_version=policy_version,
    )
