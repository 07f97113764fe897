"""A row over two ranks trains as it does on one: losses, statistics, weights, references, whatever the partitioning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.errors import RunFailed
from config.learner import LearnerConfig
from learner.training.sequence_parallel import SequenceMesh
from tests.support.policy_workshop import LARGE, Workshop, assert_near, open_workshop, zero

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

# The settings of each policy beside its partitioning, and the tokens of its rows: many, and one odd number of them.
FIRST: dict[str, tuple[dict[str, Any], int]] = {"grpo": (zero(1), 97)}
GSPO: dict[str, tuple[dict[str, Any], int]] = {
    "gspo": (zero(3, objective={"type": "gspo", "kl": {"coef": 0.3}}), LARGE)
}
MORE: dict[str, tuple[dict[str, Any], int]] = {
    **GSPO,
    "plain": (zero(0, objective={"entropy_coef": 0.05}), 97),
    "checkpointed": (zero(2, gradient_checkpointing=True), LARGE),
    "rejecting": (
        zero(1, objective={"aggregate": "prompt", "correction": {"rollout_rs": ["token_k1", "seq_sum_k1"]}}),
        97,
    ),
    "lora": (zero(1, lora={"rank": 4}, objective={"kl": {"coef": 0.3}}), 97),
    "minis": (zero(1, mini_batches=2, objective={"type": "decoupled_ppo"}), 97),
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("rows")) as workshop:
        yield workshop


def plan(
    workshop: Workshop, policies: dict[str, tuple[dict[str, Any], int]], suffix: str, **more: Any
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "model": str(workshop.model),
            "learner": learner | more,
            "do": [
                ["step", 0, tokens],
                ["step", 1, tokens],
                ["divergences", 1, tokens] if "kl" in learner.get("objective", {}) else ["keep_alive"],
                ["save_weights", workshop.path(name, suffix)],
            ],
        }
        for name, (learner, tokens) in policies.items()
    }


def compare(workshop: Workshop, policies: dict[str, tuple[dict[str, Any], int]]) -> None:
    one = workshop.do("one", plan(workshop, policies, "one"), ranks=1)
    two = workshop.do("two", plan(workshop, policies, "two", sequence_ranks=2), ranks=2)
    for name in policies:
        assert_near(workshop.weights(name, "two"), workshop.weights(name, "one"), 1e-5)
        for mine, expected in zip(two[name][:2], one[name][:2], strict=True):
            assert mine.keys() == expected.keys()
            for key in mine.keys() - {"seconds"}:
                assert mine[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-5), (name, key)
        if two[name][2] is not None:
            assert two[name][2] == pytest.approx(one[name][2], abs=1e-4), name


def test_two_ranks_train_on_each_row_as_one_does(workshop: Workshop) -> None:
    compare(workshop, FIRST)


@pytest.mark.prove
def test_so_do_they_with_every_other_kind_of_pass(workshop: Workshop) -> None:
    compare(workshop, MORE)


@pytest.mark.prove
def test_a_mesh_lies_beside_data_parallel_ranks(workshop: Workshop) -> None:
    policies = {**GSPO, **FIRST}
    one = workshop.do("alone", plan(workshop, policies, "one"), ranks=1)
    four = workshop.do("four", plan(workshop, policies, "four", sequence_ranks=2), ranks=4)
    for name in policies:
        assert_near(workshop.weights(name, "four"), workshop.weights(name, "one"), 1e-5)
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
    made = Qwen2ForCausalLM(
        Qwen2Config(**{**sizes, "num_attention_heads": 2, "num_key_value_heads": 2} | model)
    )
    mesh = object.__new__(SequenceMesh)  # which would want a process group
    mesh.size = 2
    with pytest.raises(RunFailed, match=why):
        mesh.check(made)
