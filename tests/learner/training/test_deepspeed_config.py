"""The run's config in DeepSpeed's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.errors import RunFailed
from config.learner import OptimizerConfig
from learner.training.deepspeed_config import deepspeed_config, learning_rate
from tests.support.tiny import tiny_run


@pytest.mark.parametrize(
    ("warmup_steps", "rates"), [(0, [1.0, 1.0, 1.0]), (1, [1.0, 1.0, 1.0]), (4, [0.25, 0.5, 0.75, 1.0, 1.0])]
)
def test_the_rate_rises_in_a_line_and_then_stays(warmup_steps: int, rates: list[float]) -> None:
    optimizer = OptimizerConfig(lr=1.0, warmup_steps=warmup_steps)
    assert [learning_rate(optimizer, version) for version in range(len(rates))] == rates


@pytest.mark.parametrize(
    ("dtype", "zero", "reason"),
    [
        ("bfloat16", {"stage": 0}, "bfloat16 needs learner.zero.stage of at least 1"),
        (
            "float32",
            {"stage": 2, "offload_weights": True},
            "offload_weights needs learner.zero.stage=3, not 2",
        ),
        (
            "float32",
            {"stage": 0, "offload_optimizer": True},
            "offload_optimizer needs learner.zero.stage of at least 1",
        ),
    ],
)
def test_combinations_without_a_good_answer_are_refused(
    dtype: str, zero: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RunFailed, match=reason):
        deepspeed_config(tiny_run(Path("m"), dtype=dtype, zero=zero), world_size=1, on_cuda=False)


def test_offloading_is_for_a_gpu_and_brings_deepspeeds_own_optimizer() -> None:
    run = tiny_run(Path("m"), zero={"stage": 3, "offload_optimizer": True, "offload_weights": True})
    on_cuda = deepspeed_config(run, world_size=2, on_cuda=True)
    assert on_cuda["zero_optimization"].keys() == {"stage", "offload_optimizer", "offload_param"}
    assert on_cuda["optimizer"]["params"]["lr"] == run.learner.optimizer.lr
    on_cpu = deepspeed_config(run, world_size=2, on_cuda=False)
    assert on_cpu["zero_optimization"].keys() == {"stage"}
    assert "optimizer" not in on_cpu
