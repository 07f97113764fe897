"""The objective, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from learner.objective.losses import LossStatistics, grpo_loss, k3_divergence

CLIPS = {"clip_low": 0.2, "clip_high": 0.28}


def loss_of(
    ratios: list[float],
    advantages: list[float],
    *,
    mask: list[bool] | None = None,
    num_tokens: int = 1,
    dual_clip: float | None = 3.0,
) -> tuple[float, list[float], LossStatistics]:
    """The loss of tokens with these ratios, its gradient by each log-probability, and the statistics."""
    sampled = torch.full((1, len(ratios)), -2.0)
    logprobs = (sampled + torch.tensor([ratios]).log()).requires_grad_()
    loss, statistics = grpo_loss(
        logprobs,
        sampled,
        torch.tensor([advantages]),
        torch.tensor([mask or [True] * len(ratios)]),
        dual_clip=dual_clip,
        num_tokens=num_tokens,
        **CLIPS,
    )
    (gradient,) = torch.autograd.grad(loss, logprobs)
    return loss.item(), gradient[0].tolist(), statistics


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),  # the plain policy gradient: -A d ln p
        (1.0, -2.0, 2.0, 2.0),
        (1.1, 2.0, -2.2, -2.2),  # inside the clip: -r A
        (1.5, 2.0, -2.56, 0.0),  # above 1.28 with A > 0: no more gain
        (0.5, 2.0, -1.0, -1.0),  # below with A > 0: still pulled back
        (0.5, -2.0, 1.6, 0.0),  # below 0.8 with A < 0: no more gain
        (1.5, -2.0, 3.0, 3.0),  # above with A < 0: still pushed down
        (5.0, -2.0, 6.0, 0.0),  # beyond the dual clip of 3: bounded
        (5.0, 0.0, 0.0, 0.0),
    ],
)
def test_loss_and_gradient_of_one_token(ratio: float, advantage: float, loss: float, gradient: float) -> None:
    measured_loss, measured_gradient, _ = loss_of([ratio], [advantage])
    assert measured_loss == pytest.approx(loss, rel=1e-5)
    assert measured_gradient == pytest.approx([gradient], rel=1e-5)


def test_without_a_dual_clip_a_large_ratio_counts_in_full() -> None:
    loss, gradient, _ = loss_of([5.0], [-2.0], dual_clip=None)
    assert [loss, *gradient] == pytest.approx([10.0, 10.0], rel=1e-5)


def test_the_loss_is_a_sum_over_the_tokens_of_the_global_batch() -> None:
    one, _, _ = loss_of([1.0, 1.1], [1.0, -1.0], num_tokens=10)
    two = sum(
        loss_of([ratio], [advantage], num_tokens=10)[0] for ratio, advantage in ((1.0, 1.0), (1.1, -1.0))
    )
    assert one == pytest.approx(two) == pytest.approx((-1.0 + 1.1) / 10, rel=1e-5)


@pytest.mark.parametrize("garbage", [math.inf, -math.inf, math.nan])
def test_what_stands_in_a_masked_place_reaches_neither_loss_nor_gradient(garbage: float) -> None:
    logprobs = torch.tensor([-2.0, -3.0], requires_grad=True)
    loss, statistics = grpo_loss(
        logprobs,
        torch.tensor([-2.0, garbage]),
        torch.tensor([1.0, garbage]),
        torch.tensor([True, False]),
        dual_clip=3.0,
        num_tokens=1,
        **CLIPS,
    )
    loss.backward()
    assert loss.item() == -1.0
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [-1.0, 0.0]
    assert (statistics.tokens.item(), statistics.ratio_max.item()) == (1, 1.0)


@pytest.mark.parametrize(("advantage", "expected"), [(1.0, -1.28), (-1.0, 3.0)])
def test_a_ratio_beyond_all_numbers_leaves_loss_and_gradient_finite(
    advantage: float, expected: float
) -> None:
    logprobs = torch.tensor([-1.0], requires_grad=True)
    loss, _ = grpo_loss(
        logprobs,
        torch.tensor([-300.0]),
        torch.tensor([advantage]),
        torch.tensor([True]),
        dual_clip=3.0,
        num_tokens=1,
        **CLIPS,
    )
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0]


def test_an_empty_batch_is_the_callers_to_skip() -> None:
    with pytest.raises(ValueError, match="num_tokens must be positive, got 0"):
        loss_of([1.0], [1.0], num_tokens=0)


def test_statistics_count_each_clip_where_it_stopped_the_gradient() -> None:
    _, _, statistics = loss_of(
        [0.5, 0.5, 1.5, 1.5, 4.0, 9.0],
        [-1.0, 1.0, 1.0, -1.0, -1.0, 1.0],
        mask=[True, True, True, True, True, False],
    )
    assert {name: getattr(statistics, name).item() for name in LossStatistics.__slots__} == {
        "tokens": 5,
        "ratio_sum": pytest.approx(8.0),
        "ratio_max": pytest.approx(4.0),
        "clipped_low": 1,
        "clipped_high": 1,
        "clipped_dual": 1,
    }


def test_statistics_of_a_row_without_a_token_are_zero() -> None:
    nothing = torch.zeros(0)
    loss, statistics = grpo_loss(
        nothing, nothing, nothing, nothing.bool(), dual_clip=3.0, num_tokens=4, **CLIPS
    )
    assert loss.item() == statistics.tokens.item() == statistics.ratio_max.item() == 0


def test_the_gradient_agrees_with_finite_differences() -> None:
    generator = torch.Generator().manual_seed(3)
    sampled = -torch.rand(4, 7, generator=generator, dtype=torch.float64)
    advantages = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    mask = torch.rand(4, 7, generator=generator) < 0.8
    logprobs = (sampled + 0.8 * torch.randn(4, 7, generator=generator, dtype=torch.float64)).requires_grad_()

    def objective(logprobs_BT: Tensor) -> Tensor:
        return grpo_loss(logprobs_BT, sampled, advantages, mask, dual_clip=3.0, num_tokens=20, **CLIPS)[0]

    assert torch.autograd.gradcheck(objective, (logprobs,))


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.0, 0.0), (2.0, 1 - math.log(2)), (0.5, -0.5 + math.log(2))]
)
def test_k3_is_never_negative_and_zero_only_at_agreement(ratio: float, expected: float) -> None:
    sampled = torch.tensor([-2.0, -2.0])
    k3 = k3_divergence(sampled + math.log(ratio), sampled, torch.tensor([True, False]))
    assert k3.tolist() == pytest.approx([expected, 0.0], abs=1e-6)
