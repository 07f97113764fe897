"""From groups to packed rows, to bytes, to the shards of the ranks."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages import FinishReason, Span
from learner.training.batch import MICRO_BATCH_COST, Batch, pack
from tests.support.tiny import completion, group, random_groups

pytestmark = [pytest.mark.model, pytest.mark.together("training")]

TOKEN_FIELDS = ("token_ids", "position_ids", "sampled_logprobs", "advantages", "loss_mask", "lags")


def assert_same(one: Batch, other: Batch) -> None:
    for field in fields(Batch):
        np.testing.assert_array_equal(
            getattr(one, field.name), getattr(other, field.name), err_msg=field.name
        )


def batch_of(
    lengths: list[int], *, tokens_per_micro_batch: int, policy_version: int = 0, by_length: bool = False
) -> Batch:
    """One group whose sequences (prompt of one token included) have these lengths; the tokens of sequence i are i."""
    completions = [completion([i] * (length - 1)) for i, length in enumerate(lengths)]
    return pack(
        [group([99], completions, [0.0] * len(lengths))],
        [[1.0] * len(lengths)],
        tokens_per_micro_batch=tokens_per_micro_batch,
        truncated="keep",
        policy_version=policy_version,
        by_length=by_length,
    )


def test_a_sequence_is_its_prompt_and_completion_with_all_that_the_loss_needs() -> None:
    spans = (Span(version=3, first=0, count=1), Span(version=5, first=1, count=2))
    scored = group([7, 8], [completion([1, 2, 3], logprobs=[-0.1, -0.2, -0.3], spans=spans)], [1.0])
    batch = pack([scored], [[0.5]], tokens_per_micro_batch=100, truncated="mask", policy_version=5)
    assert batch.token_ids.tolist() == [7, 8, 1, 2, 3]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4]
    assert batch.sampled_logprobs.tolist() == pytest.approx([0, 0, -0.1, -0.2, -0.3])
    assert batch.advantages.tolist() == [0, 0, 0.5, 0.5, 0.5]
    assert batch.loss_mask.tolist() == [False, False, True, True, True]
    assert batch.lags.tolist() == [0, 0, 2, 0, 0]
    assert (batch.micro_batch_starts.tolist(), batch.num_tokens, batch.policy_version) == ([0, 5], 3, 5)


@pytest.mark.parametrize(
    ("lengths", "tokens_per_micro_batch", "rows"),
    [
        ([4, 3, 2], 9, [[4, 3, 2]]),
        ([2, 3, 4], 5, [[4], [3, 2]]),  # longest first, then what fits
        ([2, 6, 2, 6], 8, [[6, 2], [6, 2]]),
        ([3, 20, 3], 8, [[20], [3, 3]]),  # longer than the budget: alone, whole
        ([], 8, []),
    ],
)
def test_rows_are_filled_first_fit_longest_first(
    lengths: list[int], tokens_per_micro_batch: int, rows: list[list[int]]
) -> None:
    batch = batch_of(lengths, tokens_per_micro_batch=tokens_per_micro_batch)
    starts = [
        [*np.flatnonzero(batch.position_ids[row] == 0), row.stop - row.start] for row in batch.micro_batches()
    ]
    assert [np.diff(row).tolist() for row in starts] == rows


@pytest.mark.parametrize(
    ("lengths", "budget", "rows"),
    [
        (
            [400, 10, 390, 12],
            4096,
            [[400, 390], [12, 10]],
        ),  # apart: padding would cost more than a micro-batch
        ([40, 30, 20, 10], 4096, [[40, 30, 20, 10]]),  # together: it would not
        ([400, 400, 400], 900, [[400], [400, 400]]),  # the padded grid stays in the budget
        ([5000, 4000], 4096, [[5000], [4000]]),  # longer than the budget: alone, whole
        ([], 8, []),
    ],
)
def test_by_length_the_rows_of_a_micro_batch_are_alike(
    lengths: list[int], budget: int, rows: list[list[int]]
) -> None:
    batch = batch_of(lengths, tokens_per_micro_batch=budget, by_length=True)
    found = [
        np.diff([*np.flatnonzero(batch.position_ids[row] == 0), row.stop - row.start]).tolist()
        for row in batch.micro_batches()
    ]
    assert found == rows


@pytest.mark.parametrize("seed", range(5))
def test_no_cut_by_length_costs_less(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(20, 400, size=9).tolist()
    batch = batch_of(lengths, tokens_per_micro_batch=1000, by_length=True)

    def cost(rows: list[list[int]]) -> float:
        if any(len(row) > 1 and len(row) * max(row) > 1000 for row in rows):
            return np.inf
        return sum(len(row) * max(row) + MICRO_BATCH_COST for row in rows)

    ordered = sorted(lengths, reverse=True)
    least = min(
        cost(
            [row.tolist() for row in np.split(ordered, np.flatnonzero([cut >> i & 1 for i in range(8)]) + 1)]
        )
        for cut in range(2**8)
    )
    found = [
        np.diff([*np.flatnonzero(batch.position_ids[row] == 0), row.stop - row.start]).tolist()
        for row in batch.micro_batches()
    ]
    assert sorted(length for row in found for length in row) == sorted(lengths)
    assert cost(found) == least


def test_what_does_not_train_is_left_out_of_the_rows_and_of_the_mean() -> None:
    completions = [
        completion([1, 1]),
        completion([2, 2, 2]),
        completion([3], finish_reason=FinishReason.LENGTH),
    ]
    groups, advantages = [group([9], completions, [1.0, None, 0.0])], [[0.5, None, -0.5]]
    masked = pack(groups, advantages, tokens_per_micro_batch=100, truncated="mask", policy_version=0)
    kept = pack(groups, advantages, tokens_per_micro_batch=100, truncated="keep", policy_version=0)
    assert (masked.token_ids.tolist(), masked.num_tokens) == ([9, 1, 1], 2)
    assert (kept.token_ids.tolist(), kept.num_tokens) == ([9, 1, 1, 9, 3], 3)


def test_a_sampler_newer_than_the_learner_is_refused() -> None:
    with pytest.raises(ValueError, match="group 17 was sampled by version 6, and the learner is at 5"):
        pack(
            [group([9], [completion([1], version=6)], [1.0], group_id="17")],
            [[0.0]],
            tokens_per_micro_batch=8,
            truncated="mask",
            policy_version=5,
        )


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="group 17: a prompt without tokens"):
        pack(
            [group([], [completion([1])], [1.0], group_id="17")],
            [[0.0]],
            tokens_per_micro_batch=8,
            truncated="mask",
            policy_version=0,
        )


def test_bytes_give_the_same_batch_and_the_same_groups_the_same_bytes() -> None:
    def once() -> Batch:
        groups = random_groups(1, policy_version=4)
        return pack(
            groups,
            [[0.25, -0.5, 0.0, 1.0]] * 3,
            tokens_per_micro_batch=40,
            truncated="mask",
            policy_version=4,
        )

    assert once().num_micro_batches > 1
    assert_same(Batch.from_bytes(once().to_bytes()), once())
    assert once().to_bytes() == once().to_bytes()


def test_shards_hold_every_row_once_and_as_many_rows_for_every_rank() -> None:
    batch = batch_of([10, 9, 8, 7, 6], tokens_per_micro_batch=1)  # five rows: all are longer than the budget
    shards = [batch.shard(rank, 2) for rank in range(2)]
    assert [np.diff(shard.micro_batch_starts).tolist() for shard in shards] == [
        [10, 7, 6],
        [9, 8, 1],
    ]  # 23 and 18 tokens
    assert shards[1].loss_mask[-1:].tolist() == [False]  # the made-up row trains nothing
    assert [shard.num_tokens for shard in shards] == [35, 35]  # of the global batch: what the mean divides by


def test_one_rank_gets_all_the_rows_and_no_rank_gets_none() -> None:
    batch = batch_of([5, 4], tokens_per_micro_batch=1)
    assert_same(batch.shard(0, 1), batch)
    nothing = batch_of([], tokens_per_micro_batch=8)
    assert [
        (nothing.shard(rank, 2).num_micro_batches, nothing.shard(rank, 2).loss_mask.tolist())
        for rank in range(2)
    ] == [(1, [False]), (1, [False])]


@given(st.lists(st.integers(2, 40), max_size=40), st.integers(1, 64), st.integers(1, 5))
def test_no_token_is_lost_or_doubled_on_the_way_to_the_ranks(
    lengths: list[int], budget: int, world_size: int
) -> None:
    batch = batch_of(lengths, tokens_per_micro_batch=budget)
    shards = [batch.shard(rank, world_size) for rank in range(world_size)]
    assert len({shard.num_micro_batches for shard in shards}) == 1
    trained = np.concatenate([shard.token_ids[shard.loss_mask] for shard in shards])
    assert sorted(trained.tolist()) == sorted(
        i for i, length in enumerate(lengths) for _ in range(length - 1)
    )
    assert all(row.stop - row.start <= max(budget, *lengths) for row in batch.micro_batches())
