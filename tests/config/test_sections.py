"""The sections of the objective: what each loss begins with, and what excludes what."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from config.learner import KlConfig, LearnerConfig, ObjectiveConfig
from config.run import Run

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)


def objective(**keys: Any) -> ObjectiveConfig:
    return OBJECTIVE.validate_python(keys)


@pytest.mark.parametrize(
    ("type_", "aggregate"),
    [
        *((type_, "token") for type_ in ("grpo", "cispo", "decoupled_ppo", "reinforce", "dppo")),
        ("dr_grpo", "constant"),
        ("gspo", "sequence"),
    ],
)
def test_each_loss_aggregates_as_its_paper_does_and_has_no_reference(type_: str, aggregate: str) -> None:
    found = objective(type=type_)
    assert (found.aggregate, found.kl.coef, found.correction.rollout_rs) == (aggregate, 0.0, ())


def test_a_section_without_a_type_is_grpo_with_its_old_defaults() -> None:
    found = objective(clip_low=0.1).model_dump(include={"type", "clip_low", "clip_high", "dual_clip"})
    assert found == {"type": "grpo", "clip_low": 0.1, "clip_high": 0.28, "dual_clip": 3.0}


@pytest.mark.parametrize(
    ("name", "estimator"),
    [("kl", "k1"), ("mse", "k2"), ("low_var_kl", "k3"), ("abs", "abs"), ("k1", "k1"), ("k2", "k2")],
)
def test_verls_names_of_the_estimators_are_taken(name: str, estimator: str) -> None:
    assert KlConfig.model_validate({"estimator": name}).estimator == estimator


@pytest.mark.parametrize("type_", ["grpo", "dr_grpo", "gspo", "cispo", "reinforce", "dppo"])
def test_a_weight_on_top_of_a_ratio_to_the_sampler_is_refused_by_name(type_: str) -> None:
    with pytest.raises(ValidationError, match=r"rollout_is: token would correct twice.*decoupled_ppo"):
        objective(type=type_, correction={"rollout_is": "token"})


def test_decoupled_ppo_weighs_tokens_unless_told_otherwise() -> None:
    assert objective(type="decoupled_ppo").correction.rollout_is == "token"
    found = objective(type="decoupled_ppo", correction={"rollout_is": "sequence", "rollout_is_threshold": 5})
    assert (found.correction.rollout_is, found.correction.rollout_is_threshold) == ("sequence", 5.0)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"constant_length": 8}, "constant_length is for aggregate: constant, not for aggregate: token"),
        ({"kl": {"target": 0.1}}, "kl.target adapts kl.coef, which is 0"),
        ({"kl": {"estimator": "k4"}}, "k1"),
        ({"correction": {"token_k1": [2.0, 0.5]}}, r"0 <= low < high, got \[2.0, 0.5\]"),
        ({"correction": {"rollout_rs": ["seq_max_k3"]}}, "seq_mean_k1"),
    ],
)
def test_what_excludes_each_other_is_named(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        objective(**keys)


def test_a_constant_is_asked_for_with_the_number_that_the_paper_would_take() -> None:
    run = {"name": "r", "model": {"path": "m"}, "sampling": {"max_tokens": 77}}
    run |= {"data": {"train": {"type": "procedural"}}}
    with pytest.raises(ValidationError, match=r"constant needs learner\.objective\.constant_length.*here 77"):
        Run.model_validate(run | {"learner": {"objective": {"type": "dr_grpo"}}})
    learner = {"objective": {"type": "dr_grpo", "constant_length": 77}}
    assert Run.model_validate(run | {"learner": learner}).learner == LearnerConfig.model_validate(learner)
