"""The losses beside TRL's own: `GRPOTrainer._compute_loss` is called with the same tokens, padded as TRL has them.

TRL is no requirement of ours: the tests skip where it is not installed. They were run with TRL 1.16.0.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from config.learner.objective import CorrectionConfig, ObjectiveConfig
from learner.objective.build import build_objective
from learner.objective.rejection import kept_tokens
from tests.support.made_up_tokens import CONSTANT_LENGTH, Answer, Token, made_up, packed, padded

pytest.importorskip("trl", reason="TRL is not installed: pip install trl==1.16.0")
from trl.trainer.grpo_trainer import GRPOTrainer

pytestmark = pytest.mark.model

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)


def trl_loss(
    batch: list[Answer], old: Callable[[Token], float], **settings: Any
) -> tuple[float, list[float]]:
    """Return TRL's loss and its gradient by each token's log-probability.

    Args:
        batch: the completions.
        old: log-probability of a token in the denominator of TRL's ratio.
        settings: attributes of the trainer, or inputs of the loss where TRL takes them from there.
    """
    now_BT = padded(batch, lambda token: token.now).requires_grad_()
    mask_BT = padded(batch, lambda _: 1.0)
    blank = torch.zeros(len(batch), 1)
    weights = settings.pop("importance_sampling_ratio", None)
    delta = settings.pop("delta", None)
    arguments = SimpleNamespace(delta=delta, use_bias_correction_kl=False, steps_per_generation=1)
    usual = {"importance_sampling_level": "token", "beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.28}
    trainer = SimpleNamespace(
        **usual | settings,
        args=arguments,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        use_vllm=weights is not None,
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        max_completion_length=CONSTANT_LENGTH,
        accelerator=SimpleNamespace(
            num_processes=1, reduce=lambda values, reduction: values, gather=lambda values: values
        ),
        _entropy_bonus_enabled=False,
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *_, **__: (now_BT, torch.zeros_like(now_BT), None),
    )
    loss = GRPOTrainer._compute_loss(
        trainer,
        None,
        {
            "prompt_ids": blank.long(),
            "prompt_mask": blank,
            "completion_ids": mask_BT.long(),
            "completion_mask": mask_BT,
            "advantages": torch.tensor([one.advantage for one in batch], dtype=torch.float64),
            "old_per_token_logps": padded(batch, old),
            "ref_per_token_logps": padded(batch, lambda token: token.reference),
            "importance_sampling_ratio": weights,
            "num_items_in_batch": mask_BT.sum(),
        },
    )
    loss.backward()
    assert now_BT.grad is not None
    return loss.item(), now_BT.grad[mask_BT.bool()].tolist()


def our_loss(batch: list[Answer], *, kl_coef: float = 0.0, **keys: Any) -> tuple[float, list[float]]:
    """Return our loss and its gradient by each token's log-probability."""
    config = OBJECTIVE.validate_python(keys)
    tokens = replace(packed(batch, batch, config.aggregate), kl_coef=kl_coef)
    loss = build_objective(config).loss(tokens)
    (gradient_T,) = torch.autograd.grad(loss.value, tokens.logprobs_T)
    return loss.value.item(), gradient_T[tokens.loss_mask_T].tolist()


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"aggregate": "sequence", "dual_clip": None}, {"loss_type": "grpo"}),
    "dapo": ({"dual_clip": None}, {"loss_type": "dapo"}),
    "two-sided clip": ({"dual_clip": 3.0}, {"loss_type": "dapo", "delta": 3.0}),
    "dr_grpo": (
        {"type": "dr_grpo", "constant_length": CONSTANT_LENGTH},
        {"loss_type": "dr_grpo", "epsilon_high": 0.2},
    ),
    "gspo": (
        {"type": "gspo", "clip_low": 0.1, "clip_high": 0.2},
        {"importance_sampling_level": "sequence", "epsilon_low": 0.1, "epsilon_high": 0.2},
    ),
    "cispo": ({"type": "cispo", "clip_high": 1.0}, {"loss_type": "cispo", "epsilon_high": 2.0}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("coef", [0.0, 0.4])
def test_a_loss_with_and_without_a_reference_is_that_of_trl(name: str, coef: float) -> None:
    ours, theirs = CASES[name]
    for seed in range(5):
        batch = made_up(seed)
        value, gradient = our_loss(batch, **ours, kl={"coef": coef}, kl_coef=coef)
        expected, expected_gradient = trl_loss(batch, lambda token: token.sampled, **theirs, beta=coef)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert gradient == pytest.approx(expected_gradient, rel=1e-6, abs=1e-6)


def test_a_truncated_weight_beside_the_learners_own_ratio_is_trls_token_truncate() -> None:
    batch = made_up(7)
    weights = (padded(batch, lambda token: token.start) - padded(batch, lambda token: token.sampled)).exp()
    value, gradient = our_loss(batch, type="decoupled_ppo")
    settings = {"loss_type": "dapo", "epsilon_high": 0.2}
    settings["importance_sampling_ratio"] = weights.clamp(max=2.0)
    expected, expected_gradient = trl_loss(batch, lambda token: token.start, **settings)
    assert value == pytest.approx(expected, rel=1e-6)
    assert gradient == pytest.approx(expected_gradient, rel=1e-6, abs=1e-6)


def test_trl_keeps_what_its_sequence_mask_rejects_in_the_denominator_and_we_do_not() -> None:
    batch = made_up(2, spread=1.5)
    logs = padded(batch, lambda token: token.start) - padded(batch, lambda token: token.sampled)
    products = logs.sum(-1, keepdim=True).exp()
    expected, _ = trl_loss(
        batch,
        lambda token: token.start,
        loss_type="dapo",
        epsilon_high=0.2,
        importance_sampling_ratio=torch.where(products <= 3.0, 1.0, 0.0).expand_as(logs),
    )
    config = OBJECTIVE.validate_python({"type": "decoupled_ppo", "correction": {}})
    tokens = packed(batch, batch, "token")
    kept_T = kept_tokens(tokens, CorrectionConfig(rollout_rs=("seq_sum_k1",)))
    every, kept = int(tokens.loss_mask_T.sum()), int(kept_T.sum())
    assert 0 < kept < every
    loss = build_objective(config).loss(replace(tokens, loss_mask_T=kept_T, num_tokens=kept))
    assert loss.value.item() * kept == pytest.approx(expected * every, rel=1e-6)
