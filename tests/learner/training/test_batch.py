"""From groups to packed rows, to bytes, to the shards of the ranks; how far learner and sampler are apart on them."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch import Tensor

from broker.messages import NO_IDS, Completion, End, FinishReason, ScoredGroup, Segment, Span
from learner.objective.objective import Loss
from learner.reporting.generators import as_record, by_generator
from learner.training.backend import RATIO_EDGES
from learner.training.batch import MICRO_BATCH_COST, Batch, pack
from learner.training.micro_batch import on_device
from learner.training.mismatch import Mismatch
from learner.training.step_statistics import StepStatistics
from tests.support.tiny import completion, group, random_groups

pytestmark = [pytest.mark.model, pytest.mark.together("training")]

TOKEN_FIELDS = ("token_ids", "position_ids", "sampled_logprobs", "advantages", "loss_mask", "lags")


def assert_same(one: Batch, other: Batch) -> None:
    for name in (field.name for field in fields(Batch)):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def packed(
    groups: list[ScoredGroup], advantages: list[list[float | None]], *, tokens: int = 100, **options: Any
) -> Batch:
    settings: dict[str, Any] = {"truncated": "mask", "policy_version": 0} | options
    return pack(groups, advantages, tokens_per_micro_batch=tokens, **settings)


def batch_of(lengths: list[int], budget: int, **options: Any) -> Batch:
    """One group whose sequences (prompt of one token included) have these lengths; the tokens of sequence i are i.

    Without lengths no group trains.
    """
    completions = [completion([i] * (length - 1)) for i, length in enumerate(lengths)]
    groups = [group([99], completions, [0.0] * len(lengths))] if lengths else []
    return packed(groups, [[1.0] * len(lengths)] * len(groups), tokens=budget, truncated="keep", **options)


def rows_of(batch: Batch) -> list[list[int]]:
    """The lengths of the sequences in each micro-batch."""
    ends = [
        [*np.flatnonzero(batch.position_ids[row] == 0), row.stop - row.start] for row in batch.micro_batches()
    ]
    return [np.diff(row).tolist() for row in ends]


def test_a_sequence_is_its_prompt_and_completion_with_all_that_the_loss_needs() -> None:
    spans = (Span(version=3, first=0, count=1), Span(version=5, first=1, count=2))
    scored = group([7, 8], [completion([1, 2, 3], logprobs=[-0.1, -0.2, -0.3], spans=spans)], [1.0])
    batch = packed([scored], [[0.5]], policy_version=5)
    assert batch.token_ids.tolist() == [7, 8, 1, 2, 3]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4]
    assert batch.sampled_logprobs.tolist() == pytest.approx([0, 0, -0.1, -0.2, -0.3])
    assert batch.advantages.tolist() == [0, 0, 0.5, 0.5, 0.5]
    assert batch.loss_mask.tolist() == [False, False, True, True, True]
    assert batch.lags.tolist() == [0, 0, 2, 0, 0]
    assert (batch.micro_batch_starts.tolist(), batch.num_tokens, batch.policy_version) == ([0, 5], 3, 5)


def segment(ids: list[int], logprobs: list[float], spans: list[tuple[int, int, int]], **more: Any) -> Segment:
    return Segment(
        token_ids=np.array(ids, np.int32),
        logprobs=np.array(logprobs, np.float32),
        policy_spans=tuple(
            Span(version=version, first=first, count=count) for version, first, count in spans
        ),
        **more,
    )


# The policy speaks, a tool answers, it speaks again; and what follows another prompt.
TOLD = segment(
    [1, 50, 51, 2, 3],
    [-0.1, 0, 0, -0.2, -0.3],
    [(3, 0, 1), (5, 3, 2)],
    prompt_ids=NO_IDS,
    loss_mask=(1, 2, 2),
)
REWRITTEN = segment([4], [-0.4], [(4, 0, 1)], prompt_ids=np.array([9, 9, 9], np.int32), loss_mask=(1,))


def test_each_segment_is_a_sequence_and_the_completion_is_one() -> None:
    talk = Completion(segments=(TOLD, REWRITTEN), finish_reason=FinishReason.STOP, text="")
    scored = group([7, 8], [talk, completion([6], version=5)], [1.0, 0.0])
    batch = packed([scored], [[0.5, -0.5]], policy_version=5)
    assert batch.token_ids.tolist() == [7, 8, 1, 50, 51, 2, 3, 9, 9, 9, 4, 7, 8, 6]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 0, 1, 2]
    trains = [0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1]
    assert batch.loss_mask.tolist() == list(map(bool, trains))
    assert batch.advantages.tolist() == [0.5 * one for one in trains[:-1]] + [-0.5]
    assert batch.sampled_logprobs[batch.loss_mask].tolist() == pytest.approx([-0.1, -0.2, -0.3, -0.4, -1])
    assert not batch.sampled_logprobs[~batch.loss_mask].any()
    assert batch.lags.tolist() == [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert batch.sequence_ids.tolist() == [0] * 11 + [1] * 3
    assert (batch.prompts.tolist(), batch.generator_ids.tolist(), batch.num_tokens) == ([0, 0], [0, 0], 5)


def test_an_episode_is_of_the_generators_that_sampled_its_turns_and_trains_in_one_optimizer_step() -> None:
    told = Completion(segments=(TOLD,), finish_reason=FinishReason.STOP, text="")
    talks = [replace(told, generators=names) for names in (("b",), ("a", "b"), ("b",), ())]
    batch = packed([group([7], talks, [1.0] * 4)], [[0.5] * 4], policy_version=5)
    player = batch.generators[-1]
    assert batch.generators == ("a+b", "b", player)
    assert batch.generator_ids.tolist() == [1, 0, 1, 2]
    talk = replace(told, segments=(TOLD, REWRITTEN))
    groups = [group([7, 8], [talk], [1.0], group_id="0"), group([7], [completion([6])], [0.0], group_id="1")]
    batch = packed(groups, [[0.5], [-0.5]], policy_version=5, mini_batches=2, tokens=7)
    assert [mini.sequence_ids.tolist() for mini in batch.mini_batches()] == [[0] * 11, [1] * 2]


@pytest.mark.parametrize(
    ("by_length", "lengths", "budget", "rows"),
    [
        (False, [4, 3, 2], 9, [[4, 3, 2]]),
        (False, [2, 3, 4], 5, [[4], [3, 2]]),  # longest first, then what fits
        (False, [2, 6, 2, 6], 8, [[6, 2], [6, 2]]),
        (False, [3, 20, 3], 8, [[20], [3, 3]]),  # longer than the budget: alone, whole
        (False, [], 8, []),
        (
            True,
            [400, 10, 390, 12],
            4096,
            [[400, 390], [12, 10]],
        ),  # padding would cost more than a micro-batch
        (True, [40, 30, 20, 10], 4096, [[40, 30, 20, 10]]),  # together: it would not
        (True, [400, 400, 400], 900, [[400], [400, 400]]),  # the padded grid stays in the budget
        (True, [5000, 4000], 4096, [[5000], [4000]]),  # longer than the budget: alone, whole
        (True, [], 8, []),
    ],
)
def test_rows_are_filled_first_fit_longest_first_and_by_length_with_alike(
    *, by_length: bool, lengths: list[int], budget: int, rows: list[list[int]]
) -> None:
    assert rows_of(batch_of(lengths, budget, by_length=by_length)) == rows


@pytest.mark.parametrize("seed", range(5))
def test_no_cut_by_length_costs_less(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(20, 400, size=9).tolist()
    batch = batch_of(lengths, 1000, by_length=True)

    def cost(rows: list[list[int]]) -> float:
        if any(len(row) > 1 and len(row) * max(row) > 1000 for row in rows):
            return np.inf
        return sum(len(row) * max(row) + MICRO_BATCH_COST for row in rows)

    ordered = sorted(lengths, reverse=True)
    cuts = [np.flatnonzero([cut >> i & 1 for i in range(8)]) + 1 for cut in range(2**8)]
    least = min(cost([row.tolist() for row in np.split(ordered, cut)]) for cut in cuts)
    found = rows_of(batch)
    assert sorted(length for row in found for length in row) == sorted(lengths)
    assert cost(found) == least


def test_what_does_not_train_is_left_out_of_the_rows_and_of_the_mean_and_a_newer_sampler_is_refused() -> None:
    cut = completion([3], finish_reason=FinishReason.LENGTH)
    groups = [group([9], [completion([1, 1]), completion([2, 2, 2]), cut], [1.0, None, 0.0])]
    masked, kept = (packed(groups, [[0.5, None, -0.5]], truncated=how) for how in ("mask", "keep"))
    assert (masked.token_ids.tolist(), masked.num_tokens) == ([9, 1, 1], 2)
    assert (kept.token_ids.tolist(), kept.num_tokens) == ([9, 1, 1, 9, 3], 3)
    bad = group([9], [completion([1], version=6)], [1.0], group_id="17")
    with pytest.raises(ValueError, match="group 17 was sampled by version 6, and the learner is at 5"):
        packed([bad], [[0.0]], policy_version=5)


@pytest.mark.parametrize(("truncated", "trained"), [("mask", []), ("keep", [3, 4]), (None, [4])])
def test_a_truncated_episode_trains_unless_it_may_not(truncated: str | None, trained: list[int]) -> None:
    answer = completion([3], finish_reason=FinishReason.LENGTH)
    episode = replace(completion([4], finish_reason=FinishReason.LENGTH), ended_by=End.TURNS)
    whole = completion([5])
    batch = packed(
        [group([9], [answer, episode, whole], [0.0, 1.0, 1.0])], [[-0.5, 0.5, 0.5]], truncated=truncated
    )
    assert sorted(batch.token_ids[batch.loss_mask].tolist()) == [*trained, 5]


def test_bytes_give_the_same_batch_and_shards_hold_every_row_once() -> None:
    def once() -> Batch:
        groups = random_groups(1, policy_version=4)
        return packed(groups, [[0.25, -0.5, 0.0, 1.0]] * 3, tokens=40, policy_version=4)

    assert once().num_micro_batches > 1
    assert_same(Batch.from_bytes(once().to_bytes()), once())
    assert once().to_bytes() == once().to_bytes()
    batch = batch_of([10, 9, 8, 7, 6], 1)  # five rows: all are longer than the budget
    assert_same(batch.shard(0, 1), batch)
    shards = [batch.shard(rank, 2) for rank in range(2)]
    sizes = [np.diff(shard.micro_batch_starts).tolist() for shard in shards]
    assert sizes == [[10, 7, 6], [9, 8, 1]]  # 23 and 18 tokens
    assert shards[1].loss_mask[-1:].tolist() == [False]  # the made-up row trains nothing
    assert [shard.num_tokens for shard in shards] == [35, 35]  # of the global batch: what the mean divides by
    shards = [batch_of([], 8).shard(rank, 2) for rank in range(2)]
    assert [(shard.num_micro_batches, shard.loss_mask.tolist()) for shard in shards] == [(1, [False])] * 2


@given(st.lists(st.integers(2, 40), max_size=40), st.integers(1, 64), st.integers(1, 5))
def test_no_token_is_lost_or_doubled_for_ranks(lengths: list[int], budget: int, world_size: int) -> None:
    batch = batch_of(lengths, budget)
    shards = [batch.shard(rank, world_size) for rank in range(world_size)]
    assert len({shard.num_micro_batches for shard in shards}) == 1
    trained = np.concatenate([shard.token_ids[shard.loss_mask] for shard in shards])
    expected = [i for i, length in enumerate(lengths) for _ in range(length - 1)]
    assert sorted(trained.tolist()) == sorted(expected)
    assert all(row.stop - row.start <= max(budget, *lengths) for row in batch.micro_batches())


class Alone:
    def reduce(self, values: Tensor, *, largest: bool = False) -> Tensor:
        return values


def batch() -> Batch:
    """Return groups of two generators: three tokens of lag 0 of g0 and one of g1, and what does not count."""
    groups = [
        group([1], [completion([5, 6], version=3), completion([7], version=3)], [1.0, 0.0], group_id="0"),
        group([1], [completion([5], version=3), completion([8, 9], version=2)], [1.0, 0.0], group_id="1"),
        group([1, 2], [completion([5], version=1), completion([8], version=2)], [1.0, 0.0], group_id="2"),
    ]
    for index, name in enumerate(["g0", "g1", "g2"]):
        groups[index] = replace(groups[index], rollout=replace(groups[index].rollout, generator=name))
    return pack(groups, [[0.5, -0.5]] * 3, tokens_per_micro_batch=4, truncated="mask", policy_version=3)


def measured(shard: Batch, by: dict[int, float]) -> dict[str, float]:
    """Return the metrics of a shard in which the learner's log-probability of a token is off by `by[token]`."""
    mismatch = Mismatch(shard)
    for part in on_device(shard, torch.device("cpu")):
        off = torch.tensor([by.get(int(token), 0.0) for token in part.token_ids_T])
        tokens = part.tokens(part.sampled_logprobs_T + off, torch.zeros_like(off), num_tokens=1)
        mismatch.add(tokens, part.sequence_ids_T)
    return mismatch.metrics(Alone())


def k3(by: float) -> float:
    return math.exp(by) - 1 - by


def test_each_generator_is_measured_on_its_own_tokens_of_lag_0() -> None:
    found = measured(batch(), {5: 0.5, 6: -0.25, 7: 0.0, 8: 3.0, 9: 3.0, 1: 9.0})
    assert found == {
        "mismatch_kl@g0": pytest.approx((k3(0.5) + k3(-0.25)) / 3),
        "mismatch_max@g0": pytest.approx(0.5),
        "mismatch_kl@g1": pytest.approx(k3(0.5)),
        "mismatch_max@g1": pytest.approx(0.5),
        "mismatch_max": pytest.approx(0.5),
    }
    assert by_generator(found).keys() == {"g0", "g1"}  # g2 sampled with older weights alone


def test_ranks_add_up_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    off = {5: 0.5, 6: -0.25, 7: 0.1, 8: 3.0}
    whole = measured(batch(), off)
    sums: list[Tensor] = []
    maxima: list[Tensor] = []

    def collect(_: Alone, values: Tensor, *, largest: bool = False) -> Tensor:
        (maxima if largest else sums).append(values)
        return values

    monkeypatch.setattr(Alone, "reduce", collect)
    for shard in batch().shards(2):
        measured(shard, off)
    names = batch().generators
    for index, name in enumerate(names[:2]):
        divergence, tokens = (sums[0] + sums[1])[:, index].tolist()
        assert divergence / tokens == pytest.approx(whole[f"mismatch_kl@{name}"])
        assert max(one[index].item() for one in maxima) == pytest.approx(whole[f"mismatch_max@{name}"])


def test_ratios_are_counted_by_bin_and_ranks_add_up() -> None:
    whole = batch()
    off = {5: math.log(0.05), 6: 0.0, 7: math.log(1.3), 8: math.log(100), 9: math.log(1.08)}

    def counted(shard: Batch) -> list[float]:
        statistics = StepStatistics(shard)
        for part in on_device(shard, torch.device("cpu")):
            by = torch.tensor([off.get(int(token), 0.0) for token in part.token_ids_T])
            tokens = part.tokens(part.sampled_logprobs_T + by, torch.zeros_like(by), num_tokens=1)
            statistics.add(tokens, Loss(value=tokens.logprobs_T.sum()), part.sequence_ids_T)
        means = statistics.means(Alone())
        return [means[f"ratio_bin@{index}"] for index in range(len(RATIO_EDGES) + 1)]

    found = counted(whole)
    assert sum(found) == whole.num_tokens
    by_edge = dict(zip([*RATIO_EDGES, math.inf], found, strict=True))
    assert {edge: count for edge, count in by_edge.items() if count} == {
        0.1: 3,  # token 5, three times
        1.01: 1,  # token 6
        1.1: 1,  # token 9
        2.0: 1,  # token 7
        math.inf: 2,  # token 8, twice
    }
    shards = [counted(shard) for shard in whole.shards(2)]
    assert [sum(counts) for counts in zip(*shards, strict=True)] == found
    record = as_record({f"ratio_bin@{index}": count for index, count in enumerate(found)}, whole)
    assert record["histograms"] == {"ratio": {"edges": list(RATIO_EDGES), "counts": found}}
    assert "ratio_bin" not in str(record["generators"])
    assert as_record({"loss": 1.0}, whole)["histograms"] == {}
