"""Every objective on DeepSpeed: the same step whatever the micro-batches, ranks and partitioning, and the same bits again.

The losses themselves are compared with their papers in `tests/learner/objective/`.
"""

from __future__ import annotations

from typing import Any

import pytest
from safetensors.torch import load_file

from tests.support.policy_workshop import LARGE, SMALL, STEPS, Workshop, assert_near, distance, zero

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

Said = dict[str, list[Any]]
ALONE = 1  # tokens of a micro-batch: every sequence has one to itself
REJECTION = {"rollout_rs": ["seq_mean_k1"], "seq_mean_k1": [0.8, 1.2]}
GSPO = {"type": "gspo", "clip_low": 0.2, "clip_high": 0.2, "correction": REJECTION}
DECOUPLED = {
    "type": "decoupled_ppo",
    "aggregate": "sequence",
    "correction": {"rollout_is": "sequence", "rollout_rs": ["token_k1"], "token_k1": [0.6, 1.6]},
}
LEARNERS: dict[str, dict[str, Any]] = {
    "grpo": {"objective": {"type": "grpo", "kl": {"coef": 0.3}, "entropy_coef": 0.05}},
    "dr_grpo": {
        "objective": {"type": "dr_grpo", "constant_length": 20, "kl": {"coef": 0.2, "estimator": "k1"}}
    },
    "gspo": {"objective": GSPO},
    "cispo": {"objective": {"type": "cispo", "aggregate": "prompt", "kl": {"coef": 0.1, "estimator": "mse"}}},
    "decoupled_ppo": {"objective": DECOUPLED},
    "reinforce": {"objective": {"type": "reinforce", "aggregate": "sequence"}},
    "dppo": {"objective": {"type": "dppo", "divergence": "kl", "max_low": 1e-3, "max_high": 1e-3}},
    "mini_batches": {"objective": DECOUPLED | {"kl": {"coef": 0.1}}, "mini_batches": 3},
}


def lives(workshop: Workshop, suffix: str, stage: int, tokens: int) -> dict[str, dict[str, Any]]:
    """Return a policy's life for each objective, with its weights and a checkpoint under the objective's name."""
    return {
        name: workshop.life(f"{name}-{suffix}", zero(stage, **learner), tokens_per_micro_batch=tokens)
        for name, learner in LEARNERS.items()
    }


@pytest.fixture(scope="module")
def padded(workshop: Workshop) -> Said:
    """Return what one rank says that holds everything and gives each sequence a micro-batch, as padding would."""
    return workshop.do("padded", lives(workshop, "padded", 0, ALONE), ranks=1)


@pytest.fixture(scope="module")
def packed(workshop: Workshop) -> Said:
    """Return what one rank says that packs all sequences into one micro-batch."""
    return workshop.do("packed", lives(workshop, "packed", 1, LARGE), ranks=1)


@pytest.fixture(scope="module")
def together(workshop: Workshop) -> Said:
    """Return what two ranks say that split everything between them."""
    return workshop.do("together", lives(workshop, "together", 3, SMALL), ranks=2)


@pytest.mark.prove
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("other", ["packed", "together"])
def test_a_step_does_not_depend_on_micro_batches_ranks_and_partitioning(
    request: pytest.FixtureRequest, workshop: Workshop, padded: Said, other: str, name: str
) -> None:
    said = request.getfixturevalue(other)[name]
    expected = workshop.weights(f"{name}-padded")
    assert distance(expected, load_file(workshop.model / "model.safetensors")) > 1e-3
    assert_near(workshop.weights(f"{name}-{other}"), expected, 1e-5)
    for measured, step in zip(said[:STEPS], padded[name][:STEPS], strict=True):
        numbers = {key: value for key, value in measured.items() if key != "seconds"}
        assert numbers == pytest.approx({key: step[key] for key in numbers}, rel=1e-3, abs=1e-5)


@pytest.mark.prove
def test_what_each_objective_adds_is_measured(padded: Said) -> None:
    first, second = padded["grpo"][:STEPS]
    assert first["reference_kl"] == pytest.approx(0, abs=1e-6)  # the reference is where the policy begins
    assert second["reference_kl"] > 1e-3
    for name in ("gspo", "decoupled_ppo"):
        assert 0 < padded[name][0]["rejected_fraction"] < 1
    # To the learner at the start of the step.
    assert padded["decoupled_ppo"][0]["ratio_mean"] == pytest.approx(1)
    assert "reference_kl" not in padded["gspo"][0]
    # After its first update the learner is no longer where the step began.
    assert padded["mini_batches"][0]["ratio_mean"] != pytest.approx(1, abs=1e-3)


@pytest.fixture(scope="module")
def again(workshop: Workshop, padded: Said) -> Said:
    """Return a fresh process that takes each last step again, with the first one's settings given to that step."""
    assert padded
    plans = {}
    for name, learner in LEARNERS.items():
        plan = workshop.second_life(f"{name}-padded", zero(0, **learner))
        step = plan["do"][2]
        saved = ["save_weights", workshop.path(name, "again")]
        plans[name] = plan | {"do": [plan["do"][0], [*step[:2], ALONE, step[3]], saved]}
    return workshop.do("again", plans, ranks=1)


@pytest.mark.prove
@pytest.mark.parametrize("name", LEARNERS)
def test_a_step_trains_again_bit_for_bit(workshop: Workshop, again: Said, name: str) -> None:
    assert again
    assert distance(workshop.weights(name, "again"), workshop.weights(f"{name}-padded", "later")) == 0
