"""float16, activations or the optimizer on the host, the fused head, compiled layers: each against the plain step.

Float16 and compiling run here on a processor, where both are slow and all else of them is as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError

from config.learner import LearnerConfig
from learner.training.passes import Passes
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


Say = Callable[[str], Said]


def plan_of(workshop: Workshop, name: str) -> dict[str, Any]:
    """Return what a process does, with the checkpoints of the one before it where it is `again`."""
    match name:
        case "first":
            # The last two: from here on DeepSpeed is configured as on a GPU, and the head is computed so.
            on_a_gpu = {"as_on_a_gpu": True, "torch_adam": True}
            offloaded = {"zero": {"stage": 2, "offload_optimizer": True}, "objective": SMOOTH}
            return {
                "plain": workshop.life("plain", smooth(1)),
                "offload": workshop.life("offload", OFFLOAD),
                "on-the-host": workshop.life("on-the-host", offloaded, dtype="bfloat16") | on_a_gpu,
                "fused": workshop.life("fused", smooth(1), dtype="bfloat16") | {"fused_head": True},
            }
        case "float16":
            large: dict[str, Any] = {
                "model": str(workshop.model),
                "learner": zero(1, objective={"type": "grpo"}),
            }
            return {
                "float16": workshop.life("float16", smooth(1), dtype="float16"),
                "skips": workshop.skipping_life("skips", smooth(2)) | {"dtype": "float16"},
            } | {
                f"large-{dtype}": large
                | {"dtype": dtype}
                | {"do": [["large_step", 0, SMALL], ["save_weights", workshop.path(f"large-{dtype}")]]}
                for dtype in ("float32", "float16")
            }
        case "float16 again":
            return {
                "float16": workshop.second_life("float16", smooth(1), dtype="float16"),
                "skips": workshop.skipping_again("skips", smooth(2)) | {"dtype": "float16"},
            }
        case "compiled":
            plan = {each: workshop.life(each, learner) for each, learner in COMPILED.items()}
            return plan | {"adapter": workshop.life("adapter", smooth(2, lora=LORA))}
        case _:
            return {each: workshop.second_life(each, learner) for each, learner in COMPILED.items()}


@pytest.fixture(scope="module")
def say(workshop: Workshop) -> Say:
    """Return what a process says of its plan; it is started when it is first asked for."""

    @cache
    def say(name: str) -> Said:
        if name.endswith(" again"):
            say(name.removesuffix(" again"))
        return workshop.do(name, plan_of(workshop, name), ranks=1)

    return say


@pytest.mark.prove
def test_float16_follows_float32_and_activations_on_the_host_change_no_bit(
    workshop: Workshop, say: Say
) -> None:
    plain, found = (
        say(name)[policy][:STEPS] for name, policy in (("first", "plain"), ("float16", "float16"))
    )
    weights = workshop.weights("float16")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert_near(weights, workshop.weights("plain"), 2e-3)
    exact = [step["grad_norm"] for step in plain]
    assert [step["grad_norm"] for step in found] == pytest.approx(exact, rel=0.02)
    assert [step["skipped"] for step in found] == [0.0] * STEPS
    assert all(1 < step["loss_scale"] <= 2**16 for step in found)
    assert "loss_scale" not in plain[0]
    assert say("first")
    assert distance(workshop.weights("offload", "later"), workshop.weights("plain", "later")) < 1e-6


@pytest.mark.prove
def test_a_gradient_too_large_for_the_scale_trains(workshop: Workshop, say: Say) -> None:
    exact, found = (say("float16")[f"large-{dtype}"][0] for dtype in ("float32", "float16"))
    assert found["skipped"] == 0.0
    assert found["loss_scale"] < 2**16
    assert found["grad_norm"] == pytest.approx(exact["grad_norm"], rel=0.02)
    assert found["loss"] == pytest.approx(exact["loss"], rel=0.02)
    assert found["ratio_mean"] == pytest.approx(exact["ratio_mean"], rel=0.01)  # counted once
    assert_near(workshop.weights("large-float16"), workshop.weights("large-float32"), 2e-3)


@pytest.mark.prove
def test_a_batch_without_a_finite_gradient_leaves_the_scale_alone(workshop: Workshop, say: Say) -> None:
    before, skipped, later = (say("float16")["skips"][place] for place in (0, 3, 5))
    again = say("float16 again")
    assert (before["skipped"], skipped["skipped"], later["skipped"]) == (0.0, 1.0, 0.0)
    assert before["loss_scale"] == skipped["loss_scale"] == later["loss_scale"]
    assert distance(workshop.weights("skips", "before"), workshop.weights("skips", "skipped")) == 0.0
    assert distance(workshop.weights("skips", "skipped"), workshop.weights("skips", "later")) > 1e-3
    assert distance(workshop.weights("skips", "later"), workshop.weights("skips", "again")) == 0.0
    assert again["skips"][1] | {"seconds": 0} == skipped | {"seconds": 0}
    assert distance(workshop.weights("float16", "later"), workshop.weights("float16", "again")) == 0.0
    assert again["float16"][2] | {"seconds": 0} == say("float16")["float16"][-2] | {"seconds": 0}


@pytest.mark.prove
@pytest.mark.parametrize("name", ["on-the-host", "fused"])
def test_host_and_fused_head_take_the_plain_step(workshop: Workshop, say: Say, name: str) -> None:
    assert_follows(workshop, say("first")[name], say("first")["plain"], name, dtype="bfloat16")
    lines = (workshop.folder / "first.0.log").read_text().splitlines()
    said = [line for line in lines if "head fused=" in line]
    assert ["fused=True" in line for line in said] == [False] * (len(said) - 1) + [True]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("name", "of", "plain"), [("compiled", "first", "plain"), ("compiled-adapter", "compiled", "adapter")]
)
def test_compiled_layers_train_alike(workshop: Workshop, say: Say, name: str, of: str, plain: str) -> None:
    losses = [step["loss"] for step in say(of)[plain][:STEPS]]
    assert [step["loss"] for step in say("compiled")[name][:STEPS]] == pytest.approx(losses, abs=1e-5)
    assert_near(workshop.weights(name, "later"), workshop.weights(plain, "later"), 1e-5)
    assert "layers_compiled" in (workshop.folder / "compiled.0.log").read_text()
    assert say("compiled again")
    assert distance(workshop.weights(name, "later"), workshop.weights(name, "again")) == 0.0


@pytest.mark.parametrize(("device", "pins"), [("cpu", False), ("cuda", True)])
def test_activations_are_moved_if_asked(monkeypatch: pytest.MonkeyPatch, device: str, *, pins: bool) -> None:
    moved: list[bool] = []
    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", lambda *, pin_memory: moved.append(pin_memory))
    for asked in (False, True):
        run = SimpleNamespace(learner=LearnerConfig(offload_activations=asked))
        engine = SimpleNamespace(device=torch.device(device))
        Passes._room_for_activations(cast("Passes", SimpleNamespace(run=run, _engine=engine)))
    assert moved == [pins]


@pytest.mark.parametrize(
    ("learner", "why"),
    [({"zero": {"stage": 3}}, "zero.stage=3"), ({"ranks": 2, "sequence_ranks": 2}, "sequence_ranks=2")],
)
def test_layers_in_which_ranks_talk_are_not_compiled(learner: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=f"torch_compile does not go with {why}"):
        LearnerConfig.model_validate(learner | {"torch_compile": True})
