"""float16, activations or the optimizer on the host, the fused head, compiled layers: each against the plain step.

Float16 and compiling run here on a processor, where both are slow and all else of them is as on a GPU.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError

from config.learner import LearnerConfig
from learner.training.deepspeed import DeepSpeedBackend
from tests.support.policy_workshop import (
    SMALL,
    SMOOTH,
    STEPS,
    Workshop,
    assert_follows,
    assert_near,
    distance,
    smooth,
    zero,
)

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

Said = dict[str, list[Any]]
LORA = {"rank": 4, "alpha": 8}
OFFLOAD = smooth(1, offload_activations=True, gradient_checkpointing=True)
COMPILED = {
    "compiled": smooth(1, torch_compile=True),
    "compiled-adapter": smooth(2, torch_compile=True, gradient_checkpointing=True, lora=LORA),
}


@pytest.fixture(scope="module")
def first(workshop: Workshop) -> Said:
    plan = {"plain": workshop.life("plain", smooth(1)), "offload": workshop.life("offload", OFFLOAD)}
    # The last ones: from here on DeepSpeed is configured as on a GPU, and the head is computed so.
    on_a_gpu = {"as_on_a_gpu": True, "torch_adam": True}
    offloaded = {"zero": {"stage": 2, "offload_optimizer": True}, "objective": SMOOTH}
    plan["on-the-host"] = workshop.life("on-the-host", offloaded, dtype="bfloat16") | on_a_gpu
    plan["fused"] = workshop.life("fused", smooth(1), dtype="bfloat16") | {"fused_head": True}
    return workshop.do("first", plan, ranks=1)


@pytest.fixture(scope="module")
def float16(workshop: Workshop) -> Said:
    """One process again, which `make prove-suite` alone has the time for."""
    plan = {
        "float16": workshop.life("float16", smooth(1), dtype="float16"),
        "skips": workshop.skipping_life("skips", smooth(2)) | {"dtype": "float16"},
    }
    for dtype in ("float32", "float16"):
        steps = [["large_step", 0, SMALL], ["save_weights", workshop.path(f"large-{dtype}")]]
        policy = {
            "model": str(workshop.model),
            "dtype": dtype,
            "learner": zero(1, objective={"type": "grpo"}),
        }
        plan[f"large-{dtype}"] = policy | {"do": steps}
    return workshop.do("float16", plan, ranks=1)


@pytest.fixture(scope="module")
def again(workshop: Workshop, float16: Said) -> Said:
    assert float16
    plan = {
        "float16": workshop.second_life("float16", smooth(1), dtype="float16"),
        "skips": workshop.skipping_again("skips", smooth(2)) | {"dtype": "float16"},
    }
    return workshop.do("again", plan, ranks=1)


@pytest.fixture(scope="module")
def compiled(workshop: Workshop) -> Said:
    plan = {name: workshop.life(name, learner) for name, learner in COMPILED.items()}
    plan["adapter"] = workshop.life("adapter", smooth(2, lora=LORA))
    return workshop.do("compiled", plan, ranks=1)


@pytest.fixture(scope="module")
def compiled_again(workshop: Workshop, compiled: Said) -> Said:
    assert compiled
    plan = {name: workshop.second_life(name, learner) for name, learner in COMPILED.items()}
    return workshop.do("compiled_again", plan, ranks=1)


@pytest.mark.prove
def test_float16_follows_float32_at_its_own_scale(workshop: Workshop, first: Said, float16: Said) -> None:
    weights = workshop.weights("float16")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert_near(weights, workshop.weights("plain"), 2e-3)
    exact = [step["grad_norm"] for step in first["plain"][:STEPS]]
    assert [step["grad_norm"] for step in float16["float16"][:STEPS]] == pytest.approx(exact, rel=0.02)
    assert [step["skipped"] for step in float16["float16"][:STEPS]] == [0.0] * STEPS
    assert all(1 < step["loss_scale"] <= 2**16 for step in float16["float16"][:STEPS])
    assert "loss_scale" not in first["plain"][0]


@pytest.mark.prove
def test_a_gradient_too_large_for_the_scale_trains(workshop: Workshop, float16: Said) -> None:
    exact, found = float16["large-float32"][0], float16["large-float16"][0]
    assert found["skipped"] == 0.0
    assert found["loss_scale"] < 2**16
    assert found["grad_norm"] == pytest.approx(exact["grad_norm"], rel=0.02)
    assert found["loss"] == pytest.approx(exact["loss"], rel=0.02)
    assert found["ratio_mean"] == pytest.approx(exact["ratio_mean"], rel=0.01)  # counted once
    assert_near(workshop.weights("large-float16"), workshop.weights("large-float32"), 2e-3)


@pytest.mark.prove
def test_a_batch_without_a_finite_gradient_is_skipped_and_leaves_the_scale_alone(
    workshop: Workshop, float16: Said, again: Said
) -> None:
    before, skipped, later = (float16["skips"][place] for place in (0, 3, 5))
    assert (before["skipped"], skipped["skipped"], later["skipped"]) == (0.0, 1.0, 0.0)
    assert before["loss_scale"] == skipped["loss_scale"] == later["loss_scale"]
    assert distance(workshop.weights("skips", "before"), workshop.weights("skips", "skipped")) == 0.0
    assert distance(workshop.weights("skips", "skipped"), workshop.weights("skips", "later")) > 1e-3
    assert distance(workshop.weights("skips", "later"), workshop.weights("skips", "again")) == 0.0
    assert again["skips"][1] | {"seconds": 0} == skipped | {"seconds": 0}


@pytest.mark.prove
def test_float16_goes_on_from_a_checkpoint_bit_for_bit(
    workshop: Workshop, float16: Said, again: Said
) -> None:
    assert distance(workshop.weights("float16", "later"), workshop.weights("float16", "again")) == 0.0
    assert again["float16"][2] | {"seconds": 0} == float16["float16"][-2] | {"seconds": 0}


def test_activations_on_the_host_change_no_bit(workshop: Workshop, first: Said) -> None:
    assert first
    assert distance(workshop.weights("offload", "later"), workshop.weights("plain", "later")) < 1e-6


@pytest.mark.parametrize("name", ["on-the-host", "fused"])
def test_host_and_fused_head_take_the_plain_step(workshop: Workshop, first: Said, name: str) -> None:
    assert_follows(workshop, first[name], first["plain"], name, dtype="bfloat16")
    lines = (workshop.folder / "first.0.log").read_text().splitlines()
    said = [line for line in lines if "head fused=" in line]
    assert ["fused=True" in line for line in said] == [False] * (len(said) - 1) + [True]


@pytest.mark.prove
@pytest.mark.parametrize(("name", "plain"), [("compiled", "plain"), ("compiled-adapter", "adapter")])
def test_compiled_layers_train_like_plain_ones(
    workshop: Workshop, first: Said, compiled: Said, name: str, plain: str
) -> None:
    expected = first["plain"] if plain == "plain" else compiled["adapter"]
    assert_near(workshop.weights(name, "later"), workshop.weights(plain, "later"), 1e-5)
    losses = [step["loss"] for step in expected[:STEPS]]
    assert [step["loss"] for step in compiled[name][:STEPS]] == pytest.approx(losses, abs=1e-5)
    assert "layers_compiled" in (workshop.folder / "compiled.0.log").read_text()


@pytest.mark.prove
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_layers_go_on_bit_for_bit(workshop: Workshop, compiled_again: Said, name: str) -> None:
    assert compiled_again
    assert distance(workshop.weights(name, "later"), workshop.weights(name, "again")) == 0.0


@pytest.mark.parametrize(("device", "pins"), [("cpu", False), ("cuda", True)])
def test_activations_are_moved_if_asked(monkeypatch: pytest.MonkeyPatch, device: str, *, pins: bool) -> None:
    moved: list[bool] = []
    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", lambda *, pin_memory: moved.append(pin_memory))
    for asked in (False, True):
        run = SimpleNamespace(learner=LearnerConfig(offload_activations=asked))
        backend = cast("DeepSpeedBackend", SimpleNamespace(run=run, _device=torch.device(device)))
        DeepSpeedBackend._room_for_activations(backend)
    assert moved == [pins]


@pytest.mark.parametrize(
    ("learner", "why"),
    [({"zero": {"stage": 3}}, "zero.stage=3"), ({"ranks": 2, "sequence_ranks": 2}, "sequence_ranks=2")],
)
def test_layers_in_which_ranks_talk_are_not_compiled(learner: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=f"torch_compile does not go with {why}"):
        LearnerConfig.model_validate(learner | {"torch_compile": True})
