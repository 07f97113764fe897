"""Pack scored groups into the micro-batches of one optimizer step.

In: groups with their advantages, in rank 0 alone. Out: a `Batch` of the whole step, and its shard for each rank, as
arrays or as bytes. The same groups in the same order give the same batch, byte for byte: the journal's replay relies on
this. Groups that can't be trained on (a sampler newer than the learner) are a ValueError.
"""

# N: tokens of all micro-batches. M: micro-batches. B: mini-batches. S: trained completions. T: tokens of a completion.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from broker.messages import Completion, FinishReason, ScoredGroup, Segment

MICRO_BATCH_COST = 128  # padding tokens that cost about as much as one more micro-batch on a CPU
# Each array of a batch with its type on the wire, in the order of the bytes.
_ARRAYS = {
    "token_ids": "<i4",
    "position_ids": "<i4",
    "sampled_logprobs": "<f4",
    "advantages": "<f4",
    "loss_mask": "|b1",
    "lags": "<i4",
    "sequence_ids": "<i4",
    "micro_batch_starts": "<i8",
    "mini_batch_starts": "<i8",
    "mini_batch_tokens": "<i8",
    "prompts": "<i4",
    "generator_ids": "<i4",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Micro-batches of packed sequences, concatenated, without padding.

    Micro-batch m holds the tokens from `micro_batch_starts[m]` to `micro_batch_starts[m + 1]`.
    """

    token_ids: NDArray[np.int32]  # [N], prompt then segment, for each sequence in turn
    position_ids: NDArray[np.int32]  # [N], 0 at the first token of each sequence: where attention restarts
    sampled_logprobs: NDArray[np.float32]  # [N], nats, of this token when it was sampled; 0 on prompts
    advantages: NDArray[np.float32]  # [N], 0 where a token does not train
    loss_mask: NDArray[np.bool_]  # [N], True where a token trains
    lags: NDArray[np.int32]  # [N], versions between sampling and now; 0 on prompts
    sequence_ids: NDArray[np.int32]  # [N], the completion, 0 <= id < S; equal in all shards
    micro_batch_starts: NDArray[np.int64]  # [M + 1]
    mini_batch_starts: NDArray[np.int64]  # [B + 1], in micro-batches
    mini_batch_tokens: NDArray[np.int64]  # [B], trained tokens of each in the global batch, also in a shard
    prompts: NDArray[np.int32]  # [S], the group of each completion of the global batch, also in a shard
    generator_ids: NDArray[np.int32]  # [S], the generator of each completion, an index of `generators`
    generators: tuple[str, ...]
    num_tokens: int  # trained tokens of the global batch, also in a shard
    policy_version: int  # optimizer steps done before this one
    kl_coef: float = 0.0  # weight of the divergence to the reference model in this step

    @property
    def num_micro_batches(self) -> int:
        """The number of micro-batches."""
        return len(self.micro_batch_starts) - 1

    def mini_batches(self) -> Iterator[Batch]:
        """Yield the batch of each optimizer step, in order; the batch itself where there is one step."""
        if len(self.mini_batch_tokens) == 1:
            yield self
            return
        slices = list(self.micro_batches())
        for start, stop, tokens in zip(
            self.mini_batch_starts[:-1], self.mini_batch_starts[1:], self.mini_batch_tokens, strict=True
        ):
            parts = [self._arrays_of(slices[i]) for i in range(int(start), int(stop))]
            yield replace(self, **_joined([parts], [int(tokens)]), num_tokens=int(tokens))

    def _arrays_of(self, part: slice) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name)[part] for name in _TOKEN_ARRAYS}

    def micro_batches(self) -> Iterator[slice]:
        """Yield the slice of the flat arrays of each micro-batch, in order."""
        for start, stop in zip(self.micro_batch_starts[:-1], self.micro_batch_starts[1:], strict=True):
            yield slice(int(start), int(stop))

    def to_bytes(self) -> bytes:
        """Encode the batch in msgpack, its arrays as raw little-endian bytes."""
        arrays = {
            name: getattr(self, name).astype(dtype, copy=False).tobytes() for name, dtype in _ARRAYS.items()
        }
        packed: bytes = msgpack.packb(
            arrays
            | {
                "num_tokens": self.num_tokens,
                "policy_version": self.policy_version,
                "kl_coef": self.kl_coef,
                "generators": self.generators,
            }
        )
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch:
        """Decode the output of `to_bytes`. The arrays are read-only views of the bytes."""
        fields: dict[str, Any] = msgpack.unpackb(data)
        for name, dtype in _ARRAYS.items():
            fields[name] = np.frombuffer(fields[name], dtype=dtype)
        return cls(**fields | {"generators": tuple(fields["generators"])})

    def shard(self, rank: int, world_size: int) -> Batch:
        """Return the micro-batches of one rank, as assigned by `shards`.

        Args:
            rank: rank of the shard, 0 <= rank < world_size.
            world_size: number of ranks.
        """
        return self.shards(world_size)[rank]

    def shards(self, world_size: int) -> list[Batch]:
        """Assign micro-batches to ranks: the same number for every rank, and about as many tokens.

        ZeRO's collectives run once per micro-batch, so the other ranks would wait for ever for a rank with fewer
        micro-batches. Micro-batches of one masked token fill the gaps. The longest micro-batch is placed first, on the
        rank with the fewest tokens that has room. So lengths decrease within each rank, and micro-batches that run
        together have similar lengths.

        Args:
            world_size: number of ranks.
        """
        slices = list(self.micro_batches())
        lengths = np.diff(self.micro_batch_starts)
        of_rank: list[list[list[dict[str, NDArray[Any]]]]] = [[] for _ in range(world_size)]
        for start, stop in zip(self.mini_batch_starts[:-1], self.mini_batch_starts[1:], strict=True):
            chosen, most = _dealt(lengths[start:stop], world_size)
            for own, indices in zip(of_rank, chosen, strict=True):
                parts = [self._arrays_of(slices[start + i]) for i in indices]
                own.append([*parts, *[_EMPTY_MICRO_BATCH] * (most - len(parts))])
        return [replace(self, **_joined(own, self.mini_batch_tokens.tolist())) for own in of_rank]


def _dealt(lengths: NDArray[np.int64], world_size: int) -> tuple[list[list[int]], int]:
    """Distribute micro-batches of these lengths. Returns the indices of each rank, and the largest number per rank."""
    most = max(1, -(-len(lengths) // world_size))
    chosen: list[list[int]] = [[] for _ in range(world_size)]
    tokens_of = [0] * world_size
    for index in np.argsort(-lengths, kind="stable"):
        to = min((r for r in range(world_size) if len(chosen[r]) < most), key=lambda r: tokens_of[r])
        chosen[to].append(int(index))
        tokens_of[to] += int(lengths[index])
    return chosen, most


_TOKEN_ARRAYS = tuple(
    name
    for name in _ARRAYS
    if name
    not in ("micro_batch_starts", "mini_batch_starts", "mini_batch_tokens", "prompts", "generator_ids")
)
_EMPTY_MICRO_BATCH = {
    name: np.zeros(1, dtype=_ARRAYS[name]) for name in _TOKEN_ARRAYS
}  # one token, not trained


def pack(
    groups: Sequence[ScoredGroup],
    advantages: Sequence[Sequence[float | None]],
    *,
    tokens_per_micro_batch: int,
    truncated: Literal["mask", "keep"] | None,
    policy_version: int,
    mini_batches: int = 1,
    kl_coef: float = 0.0,
    by_length: bool = False,
) -> Batch:
    """Pack every trained completion, each segment after its prompt, into micro-batches of a token budget.

    A completion that does not train (unscorable, or truncated under `mask`) has counted in the group's baseline and is
    left out, so it costs no computation. Micro-batches are filled first-fit, the longest sequence first, or by length.
    A sequence longer than the budget gets its own micro-batch.

    Args:
        groups: the step's groups, in the order of the journal.
        advantages: one for each completion of each group; None where the completion must not train.
        tokens_per_micro_batch: the budget in tokens, prompts included.
        truncated: `mask`: truncated completions do not train. None: this holds for those of one turn alone.
        policy_version: the learner's current version; a token's lag is this minus the version that sampled it.
        mini_batches: optimizer steps; the groups are distributed over them in order, as evenly as possible.
        kl_coef: weight of the divergence to the reference model in this step.
        by_length: put sequences of similar length in a micro-batch, whose padded grid stays within the budget.
    Raises:
        ValueError: advantages that do not match the groups, or a sampler newer than the learner.
    """
    completions, prompts, samplers = _sequences(
        groups, advantages, truncated=truncated, policy_version=policy_version
    )
    of_mini: list[list[_Sequence]] = [[] for _ in range(mini_batches)]
    for sequences, index in zip(completions, prompts, strict=True):
        of_mini[index * mini_batches // len(groups)] += sequences
    names = sorted({*samplers})
    tokens = [sum(sum(one.segment.loss_mask[::2]) for one in own) for own in of_mini]
    return Batch(
        **_joined([_packed(own, tokens_per_micro_batch, by_length=by_length) for own in of_mini], tokens),
        num_tokens=sum(tokens),
        policy_version=policy_version,
        prompts=np.asarray(prompts, np.int32),
        generator_ids=np.asarray([names.index(sampler) for sampler in samplers], np.int32),
        generators=tuple(names),
        kl_coef=kl_coef,
    )


def _sequences(
    groups: Sequence[ScoredGroup],
    advantages: Sequence[Sequence[float | None]],
    *,
    truncated: Literal["mask", "keep"] | None,
    policy_version: int,
) -> tuple[list[list[_Sequence]], list[int], list[str]]:
    """Return the trained completions, in order, one sequence per segment, with their groups' indices and samplers."""
    completions: list[list[_Sequence]] = []
    prompts: list[int] = []
    samplers: list[str] = []
    for index, (group, group_advantages) in enumerate(zip(groups, advantages, strict=True)):
        prompt = group.rollout.prompt
        for completion, advantage in zip(group.rollout.completions, group_advantages, strict=True):
            if advantage is None or _is_masked(completion, truncated):
                continue
            number = len(completions)
            completions.append(
                [
                    _Sequence(
                        prompt.token_ids if not len(segment.prompt_ids) else segment.prompt_ids,
                        segment,
                        number,
                        advantage,
                        _lags(segment, policy_version, group_id=prompt.group_id),
                    )
                    for segment in completion.segments
                ]
            )
            prompts.append(index)
            samplers.append(group.rollout.sampler(completion))
    return completions, prompts, samplers


def _is_masked(completion: Completion, truncated: Literal["mask", "keep"] | None) -> bool:
    """Return whether a completion does not train because it was truncated."""
    masks = truncated == "mask" or (truncated is None and completion.ended_by is None)
    return masks and completion.finish_reason is FinishReason.LENGTH


def _packed(sequences: Sequence[_Sequence], budget: int, *, by_length: bool) -> list[dict[str, NDArray[Any]]]:
    """Pack sequences into micro-batches of a token budget."""
    lengths = [one.num_tokens for one in sequences]
    bins = _by_length(lengths, budget) if by_length else _first_fit_decreasing(lengths, budget)
    return [_filled([sequences[i] for i in indices]) for indices in bins]


def _lags(segment: Segment, policy_version: int, *, group_id: str) -> list[int]:
    """Return the policy versions between the sampling of each span and now."""
    lags = [policy_version - span.version for span in segment.policy_spans]
    if min(lags) < 0:
        raise ValueError(
            f"group {group_id} was sampled by version {policy_version - min(lags)}, and the learner is at "
            f"{policy_version}: it can't have made it"
        )
    return lags


class _Sequence(NamedTuple):
    """One segment after its prompt."""

    prompt_ids: NDArray[np.int32]
    segment: Segment
    number: int  # of the completion
    advantage: float
    lags: Sequence[int]  # one a span

    @property
    def num_tokens(self) -> int:
        """Count its tokens, the prompt's included."""
        return len(self.prompt_ids) + len(self.segment.token_ids)


def _filled(sequences: Sequence[_Sequence]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a micro-batch: each is made once, and filled a sequence at a time."""
    size = sum(one.num_tokens for one in sequences)
    arrays = {name: np.zeros(size, _ARRAYS[name]) for name in _TOKEN_ARRAYS}
    end = 0
    for prompt_ids, segment, number, advantage, lags in sequences:
        start, first = end, end + len(prompt_ids)
        end = first + len(segment.token_ids)
        arrays["token_ids"][start:first] = prompt_ids
        arrays["token_ids"][first:end] = segment.token_ids
        arrays["position_ids"][start:end] = np.arange(end - start)
        arrays["sampled_logprobs"][first:end] = segment.logprobs
        arrays["loss_mask"][first:end] = trains = segment.trains
        arrays["advantages"][first:end] = np.where(trains, np.float32(advantage), np.float32(0))
        arrays["sequence_ids"][start:end] = number
        for span, lag in zip(segment.policy_spans, lags, strict=True):
            arrays["lags"][first + span.first : first + span.first + span.count] = lag
    return arrays


def _first_fit_decreasing(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return the indices of the sequences in each bin. Ties keep their order, so the result is deterministic."""
    bins: list[list[int]] = []
    room = np.zeros(len(lengths), dtype=np.int64)  # tokens left in each bin, 0 in unused bins
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fits = room[: len(bins)] >= lengths[index]
        chosen = int(fits.argmax()) if fits.any() else len(bins)
        if chosen == len(bins):
            bins.append([])
            room[chosen] = max(budget, lengths[index])
        bins[chosen].append(index)
        room[chosen] -= lengths[index]
    return bins


def _by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return the indices of the sequences in each bin, of similar length, with the least cost of padding and bins.

    The sequences are sorted by length, and each bin is a contiguous range of them. Dynamic programming finds the
    cheapest cuts, from the shortest sequence on. A range of n sequences costs n times its longest one, plus the cost of
    a bin.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    longest = np.asarray([lengths[i] for i in order], np.int64)
    least = np.zeros(len(order) + 1)  # the cost of the first n sequences
    cuts = np.zeros(len(order) + 1, np.int64)  # where the last bin of the first n begins
    first = 0  # a bin that begins before it would be too large, and for each later end, too
    for end in range(1, len(order) + 1):
        while first < end - 1 and (end - first) * longest[first] > budget:
            first += 1
        cost = least[first:end] + np.arange(end - first, 0, -1) * longest[first:end]
        cut = int(cost.argmin())
        cuts[end], least[end] = first + cut, cost[cut] + MICRO_BATCH_COST
    bins, end = [], len(order)
    while end:
        bins.append(order[cuts[end] : end])
        end = int(cuts[end])
    return bins[::-1]


def _joined(
    mini_batches: Sequence[Sequence[dict[str, NDArray[Any]]]], tokens: Sequence[int]
) -> dict[str, Any]:
    """Return the arrays of a batch of these micro-batches.

    Args:
        mini_batches: the micro-batches of each optimizer step.
        tokens: trained tokens of each optimizer step, in the global batch.
    """
    micro_batches = [micro_batch for mini_batch in mini_batches for micro_batch in mini_batch]
    return {
        **{
            name: np.concatenate(
                [np.zeros(0, _ARRAYS[name]), *(part[name] for part in micro_batches)], dtype=_ARRAYS[name]
            )
            for name in _TOKEN_ARRAYS
        },
        "micro_batch_starts": np.cumsum(
            [0, *(len(part["token_ids"]) for part in micro_batches)], dtype=np.int64
        ),
        "mini_batch_starts": np.cumsum([0, *map(len, mini_batches)], dtype=np.int64),
        "mini_batch_tokens": np.asarray(tokens, np.int64),
    }
