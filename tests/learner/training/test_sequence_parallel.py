"""A row over two ranks trains as it does on one: losses, statistics, weights, references, whatever the partitioning."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import RunFailed
from config.learner import LearnerConfig
from learner.training.sequence_parallel import SequenceMesh
from tests.support.policy_workshop import LARGE, Workshop, assert_near, assert_same_steps, two_steps_of, zero

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

# The settings of each policy beside its partitioning, and the tokens of its rows: many, and one odd number of them.
Policies = dict[str, tuple[dict[str, Any], int]]
FIRST: Policies = {"grpo": (zero(1), 97)}
GSPO: Policies = {"gspo": (zero(3, objective={"type": "gspo", "kl": {"coef": 0.3}}), LARGE)}
REJECTION = {"aggregate": "prompt", "correction": {"rollout_rs": ["token_k1", "seq_sum_k1"]}}
MORE: Policies = {
    **GSPO,
    "plain": (zero(0, objective={"entropy_coef": 0.05}), 97),
    "checkpointed": (zero(2, gradient_checkpointing=True), LARGE),
    "rejecting": (zero(1, objective=REJECTION), 97),
    "lora": (zero(1, lora={"rank": 4}, objective={"kl": {"coef": 0.3}}), 97),
    "minis": (zero(1, mini_batches=2, objective={"type": "decoupled_ppo"}), 97),
}


def trained(
    workshop: Workshop, policies: Policies, suffix: str, *, ranks: int, **more: Any
) -> dict[str, list[Any]]:
    plan = {
        name: two_steps_of(workshop, f"{name}-{suffix}", learner | more, tokens=tokens)
        for name, (learner, tokens) in policies.items()
    }
    return workshop.do(suffix, plan, ranks=ranks)


@pytest.mark.prove
def test_two_ranks_train_on_each_row_as_one_does_beside_data_parallel_ones_too(workshop: Workshop) -> None:
    """`test_deepspeed.py` has the first of them in `make test`."""
    policies = {**MORE, **FIRST}
    one = trained(workshop, policies, "one", ranks=1)
    two = trained(workshop, policies, "two", ranks=2, sequence_ranks=2)
    for name in policies:
        assert_same_steps(workshop, two[name], one[name], names=(f"{name}-two", f"{name}-one"))
    policies = {**GSPO, **FIRST}
    one = trained(workshop, policies, "alone", ranks=1)
    four = trained(workshop, policies, "four", ranks=4, sequence_ranks=2)
    for name in policies:
        assert_near(workshop.weights(f"{name}-four"), workshop.weights(f"{name}-alone"), 1e-5)
        assert four[name][0]["tokens"] == one[name][0]["tokens"]


def test_ranks_and_heads_that_cant_be_divided_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="sequence_ranks=2 does not divide ranks=3"):
        LearnerConfig(ranks=3, sequence_ranks=2)
    with pytest.raises(RunFailed, match="sequence_ranks=2 does not divide the 1 ranks"):
        SequenceMesh(2, rank=0, world_size=1, attention="sdpa")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ({"num_key_value_heads": 1}, "does not divide num_key_value_heads=1 of "),
        (
            {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
            "needs full attention in every layer, and .* has sliding_attention",
        ),
    ],
)
def test_a_model_whose_attention_cant_be_divided_is_refused_by_name(model: dict[str, Any], why: str) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    made = Qwen2ForCausalLM(Qwen2Config(**{**sizes, **heads, **model}))
    mesh = object.__new__(SequenceMesh)  # which would want a process group
    mesh.size = 2
    with pytest.raises(RunFailed, match=why):
        mesh.check(made)
