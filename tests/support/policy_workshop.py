"""A workshop for tests of the DeepSpeed backend: plans of policies, run in fresh processes, and what they left.

Processes are dear, so that each goes through several policies; their imports are done once for all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from learner.launch.ranks import launch, shared_environment
from tests.conftest import ROOT
from tests.support.forked_roles import forked_roles
from tests.support.redis_servers import free_port
from tests.support.tiny import tiny_run, write_tiny_model

Weights = dict[str, Tensor]
DRIVER = "tests.support.policy_driver"
PLAN_S = 280.0
STEPS = 2  # before the checkpoint; one more after it
TOY = "tests.support.toy_seams:ToyObjective"
SMALL, LARGE = 48, 4096  # tokens of a row: many rows, or one (so that one of two ranks has none)
# Clips no token here. Else a rounding moves a token over a clip on one processor and not on another, and its gradient
# is there or not: without AVX-512 one of 120 does so in float16 or bfloat16, and makes 7% of the gradient's norm.
SMOOTH = {"type": "grpo", "clip_low": 0.99, "clip_high": 100.0, "dual_clip": None}


def zero(stage: int, **more: Any) -> dict[str, Any]:
    return {"zero": {"stage": stage}} | more


def smooth(stage: int, **learner: Any) -> dict[str, Any]:
    return zero(stage, objective=SMOOTH, **learner)


def steps_from(version: int, count: int, tokens_per_micro_batch: int) -> list[list[Any]]:
    return [["step", version + i, tokens_per_micro_batch] for i in range(count)]


class Workshop:
    """A folder with the model, plans, and what they left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = write_tiny_model(folder / "model")

    def life(
        self,
        name: str,
        learner: dict[str, Any],
        *,
        tokens_per_micro_batch: int = SMALL,
        dtype: str = "float32",
    ) -> dict[str, Any]:
        """Return a policy's first life: some steps, a checkpoint, one more step. Weights of both moments."""
        return {
            "model": str(self.model),
            "dtype": dtype,
            "learner": learner,
            "do": [
                *steps_from(0, STEPS, tokens_per_micro_batch),
                ["save_weights", self.path(name)],
                ["keep_alive"],
                ["save_checkpoint", self.path(name, "checkpoint"), {"version": STEPS, "of": name}],
                ["draw"],
                [
                    "step_behind_which_weights_are_saved",
                    self.path(name, "behind"),
                    STEPS,
                    tokens_per_micro_batch,
                ],
                ["save_weights", self.path(name, "later")],
            ],
        }

    def second_life(
        self, name: str, learner: dict[str, Any], *, dtype: str = "float32", again: str = "again"
    ) -> dict[str, Any]:
        """Return the checkpoint, and the step after it once more: with the first life's settings, given to that step.

        The policy's own settings are others, as after a change of the run's configuration.
        """
        first = tiny_run(self.model, dtype=dtype, **learner).learner.model_dump(mode="json")
        other = learner | {
            "objective": {"clip_low": 0.01, "clip_high": 0.01, "dual_clip": 1.01},
            "optimizer": {"lr": 1.0, "betas": [0.5, 0.5], "eps": 1.0, "warmup_steps": 0, "grad_clip": 1e-3}
            | {"weight_decay": 0.5},
        }
        return {
            "model": str(self.model),
            "dtype": dtype,
            "learner": other,
            "do": [
                ["load_checkpoint", self.path(name, "checkpoint")],
                ["draw"],
                ["step", STEPS, SMALL, first],
                ["save_weights", self.path(name, again)],
                ["save_model", self.path(name, "model")],
            ],
        }

    def skipping_life(self, name: str, learner: dict[str, Any]) -> dict[str, Any]:
        """Return a step, a checkpoint, a step whose gradient is not finite, and one more step. Weights of three moments."""
        return {
            "model": str(self.model),
            "learner": learner,
            "do": [
                *steps_from(0, 1, SMALL),
                ["save_weights", self.path(name, "before")],
                ["save_checkpoint", self.path(name, "checkpoint"), {"version": 1}],
                ["poisoned_step", 1, SMALL],
                ["save_weights", self.path(name, "skipped")],
                *steps_from(2, 1, SMALL),
                ["save_weights", self.path(name, "later")],
            ],
        }

    def skipping_again(self, name: str, learner: dict[str, Any]) -> dict[str, Any]:
        """Return the same from its checkpoint on, as a replay trains it."""
        return {
            "model": str(self.model),
            "learner": learner,
            "do": [
                ["load_checkpoint", self.path(name, "checkpoint")],
                ["poisoned_step", 1, SMALL],
                *steps_from(2, 1, SMALL),
                ["save_weights", self.path(name, "again")],
            ],
        }

    def failure(self, learner: dict[str, Any], *, broken_rank: int) -> dict[str, Any]:
        """Return a step that raises in one rank, while the other is in the middle of it."""
        plan = {"model": str(self.model), "learner": learner, "do": steps_from(0, 1, SMALL)}
        return {**plan, "broken_rank": broken_rank}

    def path(self, name: str, what: str = "weights") -> str:
        return str(self.folder / f"{name}.{what}")

    def weights(self, name: str, what: str = "weights") -> Weights:
        return load_file(self.path(name, what))

    def do(
        self, name: str, plan: Mapping[str, dict[str, Any]], *, ranks: int, code: int = 0
    ) -> dict[str, list[Any]]:
        """Run a plan in fresh processes. Returns what the methods returned, for each policy that came to its end.

        Ranks of which one is to fail are started as the learner starts them; others only share their imports.
        """
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(list(plan.values())))
        results = file.with_suffix(".results.json")
        results.write_text("[]")  # what it stays where the first policy already fails
        if code:
            assert launch([sys.executable, "-m", DRIVER, str(file)], ranks) == code
        else:
            _run_forked(file, ranks)
        return dict(zip(plan, json.loads(results.read_text()), strict=code == 0))


def _run_forked(file: Path, ranks: int) -> None:
    shared = shared_environment(ranks, free_port())
    with forked_roles(ROOT, os.environ | shared, logs=file.parent) as roles:
        names = [f"{file.stem}.rank-{rank}" for rank in range(ranks)]
        for rank, name in enumerate(names):
            roles.start(DRIVER, str(file), name=name, RANK=str(rank), LOCAL_RANK=str(rank))
        for name in names:
            roles.wait(name, PLAN_S)


@contextmanager
def open_workshop(folder: Path) -> Iterator[Workshop]:
    """Yield a workshop in the folder; its processes run in the project's root, on one thread, and leave nothing in shared memory."""
    before = set(Path("/dev/shm").glob("deepspeed*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield Workshop(folder)
    assert set(Path("/dev/shm").glob("deepspeed*")) == before


def assert_near(measured: Weights, expected: Weights, tolerance: float) -> None:
    assert measured.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(measured[name].float(), weight.float(), atol=tolerance, rtol=0, msg=name)


def distance(one: Weights, other: Weights) -> float:
    return max((one[name].float() - other[name].float()).abs().max().item() for name in one)


def assert_follows(workshop: Workshop, steps: list[Any], plain: list[Any], name: str, *, dtype: str) -> None:
    """Compare a life with the plain one, in float32: its first steps, and the weights after them.

    In bfloat16 they agree as far as that type can follow. The plain one's weights have the name `plain`.
    """
    exact = dtype == "float32"
    weights = workshop.weights(name)
    assert {weight.dtype for weight in weights.values()} == {getattr(torch, dtype)}
    assert_near(weights, workshop.weights("plain"), 1e-5 if exact else 1e-2)
    for key in ("loss", "grad_norm"):
        found, expected = ([step[key] for step in some[:STEPS]] for some in (steps, plain))
        assert found == pytest.approx(expected, rel=1e-4 if exact else 0.05), key
    assert distance(workshop.weights(name, "later"), weights) > 1e-3  # and it goes on training


def assert_same_steps(
    workshop: Workshop, one: list[Any], other: list[Any], *, names: tuple[str, str]
) -> None:
    """Compare two lives of `two_steps_of`: what they said, and the weights that they saved under these names."""
    assert_near(workshop.weights(names[0]), workshop.weights(names[1]), 1e-5)
    for mine, expected in zip(one[:2], other[:2], strict=True):
        assert mine.keys() == expected.keys()
        for key in mine.keys() - {"seconds"}:
            assert mine[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-5), key
    if one[2] is not None:
        assert one[2] == pytest.approx(other[2], abs=1e-4)


def two_steps_of(
    workshop: Workshop, name: str, learner: dict[str, Any], *, tokens: int = SMALL
) -> dict[str, Any]:
    """Return a life of two steps and, where there is a reference, a comparison with it. Its weights go to `name`."""
    has_reference = "kl" in learner.get("objective", {})
    return {
        "model": str(workshop.model),
        "learner": learner,
        "do": [
            *steps_from(0, 2, tokens),
            ["divergences", 1, tokens] if has_reference else ["keep_alive"],
            ["save_weights", workshop.path(name)],
        ],
    }
