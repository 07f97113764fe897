"""Adapt the weight of the divergence to a reference model, and subtract the divergence from rewards.

In: the measurements of a step. Out: the next step's coefficient; rewards minus the divergence. Runs in rank 0. Pure,
and needs no torch.

Source: D. M. Ziegler et al., arXiv:1909.08593, sec. 2.2, for the adaptive coefficient. Its gain is not constant here:
it is the step's completions divided by the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.learner.objective import KlConfig

LARGEST_ERROR = 0.2  # of the divergence to its target: the most that one step of the controller corrects


def penalized(
    rewards: Sequence[Sequence[float | None]], divergences: Sequence[float], coef: float
) -> list[list[float | None]]:
    """Subtract each completion's divergence from its reward.

    Args:
        rewards: a list per group, a number per completion, None where unscorable.
        divergences: summed over the tokens of each scored completion, nats, in the same order.
        coef: weight of the divergence.
    Source: DeepSeekMath, arXiv:2402.03300, eq. 2, which is PPO's penalty, summed over the completion.
    """
    remaining = iter(divergences)
    return [
        [None if reward is None else reward - coef * next(remaining) for reward in group] for group in rewards
    ]


def next_coefficient(kl: KlConfig, coef: float, *, divergence: float, completions: int) -> float:
    """Return the coefficient after a step: larger where the divergence exceeds the target, smaller where it is below.

    Args:
        kl: with `target` and `horizon`; without a target the coefficient is constant.
        coef: the coefficient of the step.
        divergence: mean over the step's tokens, nats.
        completions: number of completions in the step.
    """
    if kl.target is None:
        return coef
    error = min(max(divergence / kl.target - 1, -LARGEST_ERROR), LARGEST_ERROR)
    return coef * (1 + error * completions / kl.horizon)


class KlCoefficient:
    """The weight of the divergence, updated by each step; a checkpoint keeps its state."""

    def __init__(self, kl: KlConfig, state: Mapping[str, Any] | None = None) -> None:
        """Start with the section's coefficient, or continue from a state of the same section.

        Args:
            kl: the section.
            state: as returned by `state`; ignored if the section's `coef` or `target` has changed.
        """
        self._kl = kl
        self._begins = {"begins": kl.coef, "target": kl.target, "horizon": kl.horizon}
        self.value = kl.coef
        if state is not None and self._begins.items() <= state.items():
            self.value = float(state["value"])

    @property
    def state(self) -> dict[str, Any] | None:
        """The state from which a later `KlCoefficient` continues, JSON; None where the coefficient is constant."""
        return None if self._kl.target is None else {**self._begins, "value": self.value}

    def update(self, *, divergence: float, completions: int) -> None:
        """Adapt the coefficient to the divergence of a step; see `next_coefficient`."""
        self.value = next_coefficient(self._kl, self.value, divergence=divergence, completions=completions)
