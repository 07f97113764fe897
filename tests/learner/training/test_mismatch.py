"""How far learner and sampler are apart, by generator: by hand, and the same whatever the ranks."""

from __future__ import annotations

import math

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from learner.objective.objective import Loss
from learner.reporting.generators import as_record, by_generator
from learner.training.backend import RATIO_EDGES
from learner.training.batch import Batch, pack
from learner.training.micro_batch import on_device
from learner.training.mismatch import Mismatch
from learner.training.step_statistics import StepStatistics
from tests.support.tiny import completion, group

pytestmark = [pytest.mark.model, pytest.mark.together("training")]


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
