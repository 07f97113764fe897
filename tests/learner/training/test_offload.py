"""Offload, stage by stage in fresh processes, with the configuration that DeepSpeed has on a GPU, against the plain step.

On CPU ranks the host's memory is the device's own, so what is compared is all that offload does but the copies between
the two: which optimizer runs, on which gradients, and what reaches the weights. DeepSpeed compiles its CPU-Adam for it,
as on a GPU machine at the first start. `test_engine_options.py` has a short form, without the compiler.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.policy_workshop import SMOOTH, Workshop, assert_follows, open_workshop, smooth

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

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
def plain(workshop: Workshop) -> list[Any]:
    """Return steps that nothing is offloaded from, in float32; `test_deepspeed.py` compares such with plain torch."""
    return workshop.do("plain", {"plain": workshop.life("plain", smooth(1))}, ranks=1)["plain"]


def life(workshop: Workshop, name: str, dtype: str, label: str, **more: Any) -> dict[str, Any]:
    """Return the life of a case of the matrix; its weights have the name `label`."""
    stage, offloaded, _ = MATRIX[name]
    learner = {"zero": {"stage": stage, **offloaded}, "objective": SMOOTH, "gradient_checkpointing": True}
    return workshop.life(label, learner, dtype=dtype) | {"as_on_a_gpu": True} | more


@pytest.mark.prove
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MATRIX)
def test_whatever_is_offloaded_at_whatever_stage_the_step_is_the_plain_one(
    workshop: Workshop, plain: list[Any], name: str, dtype: str
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine, which compiles CPU-Adam")
    label = f"{name}-{dtype}"
    steps = workshop.do(label, {name: life(workshop, name, dtype, label)}, ranks=MATRIX[name][2])[name]
    assert_follows(workshop, steps, plain, label, dtype=dtype)


@pytest.mark.prove
@pytest.mark.parametrize("name", ["zero-3", "zero-3-all"])
def test_ranks_share_a_fused_head_in_the_plain_step(workshop: Workshop, plain: list[Any], name: str) -> None:
    label = f"{name}-fused"
    made = life(workshop, name, "bfloat16", label, fused_head=True, torch_adam=True)
    steps = workshop.do(label, {name: made}, ranks=MATRIX[name][2])[name]
    assert_follows(workshop, steps, plain, label, dtype="bfloat16")
    assert "head fused=True" in (workshop.folder / f"{label}.0.log").read_text()
