"""The losses, divergences, advantages and corrections beside verl's own functions, called on the same tensors.

verl is no requirement of ours: the tests skip where it can't be imported. They were run with verl 0.9.1, whose
`core_algos` needs of its dependencies only a few:
`pip install --no-deps verl==0.9.1 omegaconf antlr4-python3-runtime==4.9.3 ray tensordict pyvers codetiming orjson`.
verl clamps log-ratios at 20, and a divergence at 10; the tokens here stay below both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from config.learner.objective import AdvantageConfig, CorrectionConfig, ObjectiveConfig
from learner.objective.advantages import batch_advantages
from learner.objective.build import build_objective
from learner.objective.kl import kl_estimate
from learner.objective.rejection import kept_tokens
from tests.support.made_up_tokens import CONSTANT_LENGTH, Answer, Token, made_up, packed, padded

pytestmark = pytest.mark.model

REASON = "verl is not installed: see the first lines of this file"
core_algos = pytest.importorskip("verl.trainer.ppo.core_algos", reason=REASON, exc_type=ImportError)
corrections = pytest.importorskip("verl.trainer.ppo.rollout_corr_helper", reason=REASON, exc_type=ImportError)

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)
AGGREGATES = {"token": "token-mean", "sequence": "seq-mean-token-mean", "constant": "seq-mean-token-sum-norm"}


class Actor(dict[str, Any]):
    """What verl's losses ask of an actor's configuration, by attribute or by `get`."""

    __getattr__ = dict.__getitem__


def verl_loss(
    name: str, batch: list[Answer], aggregate: str, old: Callable[[Token], float], **config: Any
) -> tuple[float, list[float]]:
    """Return verl's loss and its gradient by each token's log-probability.

    Args:
        name: of the loss in verl's registry.
        batch: the completions.
        aggregate: ours.
        old: log-probability of a token in the denominator of verl's ratio.
        config: of the actor, and `weights`, the importance weights of the rollout correction.
    """
    now_BT = padded(batch, lambda token: token.now).requires_grad_()
    mask_BT = padded(batch, lambda _: 1.0)
    advantages_BT = torch.tensor([[one.advantage] for one in batch], dtype=torch.float64).expand_as(mask_BT)
    weights = config.pop("weights", None)
    info = {"loss_scale_factor": CONSTANT_LENGTH} if aggregate == "constant" else {}
    actor = Actor(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, global_batch_info=info) | config
    loss, _ = core_algos.get_policy_loss_fn(name)(
        old_log_prob=padded(batch, old),
        log_prob=now_BT,
        advantages=advantages_BT,
        response_mask=mask_BT,
        loss_agg_mode=AGGREGATES[aggregate],
        config=Actor(actor),
        rollout_is_weights=weights,
    )
    loss.backward()
    assert now_BT.grad is not None
    return loss.item(), now_BT.grad[mask_BT.bool()].tolist()


def our_loss(batch: list[Answer], **keys: Any) -> tuple[float, list[float]]:
    """Return our loss and its gradient by each token's log-probability."""
    config = OBJECTIVE.validate_python(keys)
    tokens = packed(batch, batch, config.aggregate)
    loss = build_objective(config).loss(tokens)
    (gradient_T,) = torch.autograd.grad(loss.value, tokens.logprobs_T)
    return loss.value.item(), gradient_T[tokens.loss_mask_T].tolist()


def clips(low: float, high: float, dual: float | None = None) -> dict[str, float]:
    return {"clip_ratio_low": low, "clip_ratio_high": high} | ({"clip_ratio_c": dual} if dual else {})


CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "grpo": ({"type": "grpo"}, "vanilla", {"clip_ratio_c": 3.0}),
    "grpo, another dual clip": ({"type": "grpo", "dual_clip": 1.5}, "vanilla", {"clip_ratio_c": 1.5}),
    "gspo": ({"type": "gspo", "clip_low": 0.1, "clip_high": 0.2}, "gspo", clips(0.1, 0.2)),
    "cispo": ({"type": "cispo", "clip_low": 0.4, "clip_high": 0.5}, "cispo", clips(0.4, 0.5)),
    "dppo tv": ({"type": "dppo", "max_low": 0.05, "max_high": 0.1}, "dppo_tv", clips(0.05, 0.1, 20.0)),
    "dppo kl": (
        {"type": "dppo", "divergence": "kl", "max_low": 0.02, "max_high": 0.04, "max_weight": 1.5},
        "dppo_kl",
        clips(0.02, 0.04, 1.5),
    ),
}


@pytest.fixture(autouse=True)
def _actors_need_no_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_algos, "ActorConfig", Actor)  # some losses ask for their configuration's class


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_loss_and_its_gradient_are_those_of_verl(name: str, aggregate: str) -> None:
    ours, theirs, config = CASES[name]
    more = {"constant_length": CONSTANT_LENGTH} if aggregate == "constant" else {}
    for seed in range(5):
        batch = made_up(seed)
        value, gradient = our_loss(batch, aggregate=aggregate, **ours, **more)
        expected, expected_gradient = verl_loss(theirs, batch, aggregate, lambda one: one.sampled, **config)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert gradient == pytest.approx(expected_gradient, rel=1e-6, abs=1e-6)


def logs_of(batch: list[Answer]) -> tuple[Tensor, Tensor]:
    """Return [B, T], log-ratios of the learner at the start of the step to the sampler, and the mask."""
    logs = padded(batch, lambda token: token.start) - padded(batch, lambda token: token.sampled)
    return logs, padded(batch, lambda _: 1.0)


@pytest.mark.parametrize(("level", "threshold"), [("token", 2.0), ("sequence", 3.0)])
def test_the_weights_of_the_decoupled_loss_are_verls_rollout_correction(level: str, threshold: float) -> None:
    for seed in range(5):
        batch = made_up(seed)
        weights, _ = corrections.compute_rollout_correction_weights(
            *logs_of(batch), rollout_is=level, rollout_is_threshold=threshold
        )
        correction = {"rollout_is": level, "rollout_is_threshold": threshold}
        value, gradient = our_loss(batch, type="decoupled_ppo", dual_clip=3.0, correction=correction)
        config = {"clip_ratio_high": 0.2, "clip_ratio_c": 3.0, "weights": weights}
        expected, expected_gradient = verl_loss("vanilla", batch, "token", lambda one: one.start, **config)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert gradient == pytest.approx(expected_gradient, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "rules", [["token_k1"], ["seq_sum_k1"], ["seq_mean_k1"], ["token_k1", "seq_mean_k1"]], ids="+".join
)
def test_what_is_rejected_is_what_verl_rejects_with_inverse_bounds(rules: list[str]) -> None:
    """verl bounds the sampler's probability over the learner's; ours, as IcePop's and TRL's, is the other way round."""
    bands = {"token_k1": (0.5, 5.0), "seq_sum_k1": (0.3, 3.0), "seq_mean_k1": (0.9, 1.1)}
    config = CorrectionConfig.model_validate({"rollout_rs": rules, **bands})
    threshold = ",".join(f"{1 / bands[rule][1]!r}_{1 / bands[rule][0]!r}" for rule in rules)
    kept = 0
    for seed in range(5):
        batch = made_up(seed)
        # Ours is measured in the pass before the step: `now` is then the learner at the start.
        at_start = [[replace(token, now=token.start) for token in one.tokens] for one in batch]
        start = [replace(one, tokens=tuple(own)) for one, own in zip(batch, at_start, strict=True)]
        tokens = packed(start, start, "token")
        own = kept_tokens(tokens, config)[tokens.loss_mask_T]
        logs_BT, mask_BT = logs_of(batch)
        mask, _ = corrections.compute_rollout_rejection_mask(
            logs_BT, mask_BT, rollout_rs=",".join(rules), rollout_rs_threshold=threshold
        )
        assert own.tolist() == mask.bool()[mask_BT.bool()].tolist()
        kept += int(own.sum())
    assert kept


@pytest.mark.parametrize("name", ["k1", "k2", "k3", "abs", "kl", "mse", "low_var_kl"])
def test_a_divergence_is_verls_of_that_name(name: str) -> None:
    config = OBJECTIVE.validate_python({"type": "grpo", "kl": {"estimator": name}}).kl
    numbers = [[-0.1, -2.0, -3.5, -0.7], [-0.3, -1.0, -3.5, -2.7]]
    now, reference = (torch.tensor(own, dtype=torch.float64) for own in numbers)
    found = kl_estimate(now, reference, torch.ones(4, dtype=torch.bool), config.estimator)
    torch.testing.assert_close(found, core_algos.kl_penalty_forward(now, reference, name))


@pytest.mark.parametrize(
    ("config", "estimator", "options"),
    [
        (AdvantageConfig(scale="std"), "compute_grpo_outcome_advantage", {}),
        (AdvantageConfig(), "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
        (AdvantageConfig(baseline="leave_one_out"), "compute_rloo_outcome_advantage", {}),
    ],
)
def test_advantages_are_verls(config: AdvantageConfig, estimator: str, options: dict[str, Any]) -> None:
    rewards = [[1.0, 0.0, 0.0, 0.5], [0.25, 0.75, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]]
    flat = torch.tensor([reward for group in rewards for reward in group], dtype=torch.float64)[:, None]
    index = np.repeat(np.arange(3), 4)
    expected, _ = getattr(core_algos, estimator)(
        flat.clone(), torch.ones_like(flat), index, epsilon=0.0, **options
    )
    found = [one for group in batch_advantages(rewards, config) for one in group]
    assert found == pytest.approx(expected[:, 0].tolist(), abs=1e-6)
