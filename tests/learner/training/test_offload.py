"""Offload, stage by stage in fresh processes, with the configuration that DeepSpeed has on a GPU, against the plain step.

On CPU ranks the host's memory is the device's own, so what is compared is all that offload does but the copies between
the two: which optimizer runs, on which gradients, and what reaches the weights. The long form compiles DeepSpeed's
CPU-Adam, as a GPU machine does at its first start.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.support.policy_workshop import STEPS, Workshop, assert_near, distance, open_workshop, zero

pytestmark = pytest.mark.timeout(300)

OPTIMIZER = {"offload_optimizer": True}
ALL = {"offload_optimizer": True, "offload_weights": True}
# Stage, what is offloaded, ranks. Weights go to the host under ZeRO-3 alone.
MATRIX = {
    "zero-1": (1, {}, 1),
    "zero-1-optimizer": (1, OPTIMIZER, 1),
    "zero-2": (2, {}, 1),
    "zero-2-optimizer": (2, OPTIMIZER, 1),
    "zero-3": (3, {}, 2),
    "zero-3-optimizer": (3, OPTIMIZER, 2),
    "zero-3-all": (3, ALL, 2),
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("offload")
    with open_workshop(folder) as workshop, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "extensions"))  # CPU-Adam is compiled once for all
        patch.setenv("MAX_JOBS", "2")
        yield workshop


@pytest.fixture(scope="module")
def first(workshop: Workshop) -> dict[str, list[Any]]:
    """Return, of one process, the plain steps in float32, and what `make test` compares with them."""
    plan = {
        "plain": workshop.life("plain", zero(1)),  # `test_deepspeed.py` compares it with plain torch
        "zero-2-optimizer": life(workshop, "zero-2-optimizer", "bfloat16", torch_adam=True),
        "zero-1": life(workshop, "zero-1", "bfloat16", fused_head=True),
    }
    return workshop.do("first", plan, ranks=1)


def life(workshop: Workshop, name: str, dtype: str, **more: Any) -> dict[str, Any]:
    stage, offloaded, _ = MATRIX[name]
    learner = {"zero": {"stage": stage, **offloaded}, "gradient_checkpointing": True}
    return workshop.life(f"{name}-{dtype}", learner, dtype=dtype) | {"as_on_a_gpu": True} | more


def assert_follows(workshop: Workshop, steps: list[Any], plain: list[Any], name: str, dtype: str) -> None:
    """Compare two steps and the weights after them; in bfloat16 as far as that type can follow float32."""
    exact = dtype == "float32"
    weights = workshop.weights(f"{name}-{dtype}")
    assert {weight.dtype for weight in weights.values()} == {getattr(torch, dtype)}
    assert_near(weights, workshop.weights("plain"), 1e-5 if exact else 1e-2)
    for key, tolerance in (("loss", 1e-4), ("grad_norm", 1e-4)):
        expected = [step[key] for step in plain[:STEPS]]
        found = [step[key] for step in steps[:STEPS]]
        assert found == pytest.approx(expected, rel=tolerance if exact else 0.05), key
    assert distance(workshop.weights(f"{name}-{dtype}", "later"), weights) > 1e-3  # and it goes on training


@pytest.mark.parametrize("name", ["zero-2-optimizer", "zero-1"])
def test_an_optimizer_on_the_host_and_a_fused_head_take_the_plain_step(
    workshop: Workshop, first: dict[str, list[Any]], name: str
) -> None:
    assert_follows(workshop, first[name], first["plain"], name, "bfloat16")
    assert "head fused=True" in (workshop.folder / "first.0.log").read_text()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MATRIX)
def test_whatever_is_offloaded_at_whatever_stage_the_step_is_the_plain_one(
    workshop: Workshop, first: dict[str, list[Any]], name: str, dtype: str
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine, which compiles CPU-Adam")
    ranks = MATRIX[name][2]
    steps = workshop.do(f"{name}-{dtype}", {name: life(workshop, name, dtype)}, ranks=ranks)[name]
    assert_follows(workshop, steps, first["plain"], name, dtype)


@pytest.mark.parametrize("name", ["zero-3", "zero-3-all"])
def test_the_fused_head_takes_the_same_step_at_every_stage(
    workshop: Workshop, first: dict[str, list[Any]], name: str
) -> None:
    ranks = MATRIX[name][2]
    more = {"fused_head": True, "torch_adam": True}
    steps = workshop.do(f"fused-{name}", {name: life(workshop, name, "bfloat16", **more)}, ranks=ranks)[name]
    assert_follows(workshop, steps, first["plain"], name, "bfloat16")
    assert "head fused=True" in (workshop.folder / f"fused-{name}.0.log").read_text()
