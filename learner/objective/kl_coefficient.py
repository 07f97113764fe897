"""This module steers the weight of the divergence to a reference model, and takes the divergence from rewards.

In: what a step measured. Out: the next step's coefficient; rewards less the divergence. Runs in rank 0. Pure, and needs
no torch.

Source: D. M. Ziegler et al., arXiv:1909.08593, sec. 2.2, for the adaptive coefficient. Its gain is not fixed here: it
is the step's completions divided by the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.learner.objective import KlConfig

LARGEST_ERROR = 0.2  # of the divergence to its target, by which one step of the controller goes at most


def penalized(
    rewards: Sequence[Sequence[float | None]], divergences: Sequence[float], coef: float
) -> list[list[float | None]]:
    """Take each completion's divergence from its reward.

    Args:
        rewards: one list a group, one number a completion, None where unscorable.
        divergences: summed over the tokens of each scored completion, nats, in the same order.
        coef: weight of the divergence.
    Source: DeepSeekMath, arXiv:2402.03300, eq. 2, which is PPO's penalty, summed over the completion.
    """
    remaining = iter(divergences)
    return [
        [None if reward is None else reward - coef * next(remaining) for reward in group] for group in rewards
    ]


def next_coefficient(kl: KlConfig, coef: float, *, divergence: float, completions: int) -> float:
    """Return the coefficient after a step: larger where the policy went farther than the target, and the reverse.

    Args:
        kl: with `target` and `horizon`; without a target the coefficient stays.
        coef: the coefficient of the step.
        divergence: mean over the step's tokens, nats.
        completions: completions of the step.
    """
    if kl.target is None:
        return coef
    error = min(max(divergence / kl.target - 1, -LARGEST_ERROR), LARGEST_ERROR)
    return coef * (1 + error * completions / kl.horizon)


class KlCoefficient:
    """The weight of the divergence, from step to step; a checkpoint keeps its state."""

    def __init__(self, kl: KlConfig, state: Mapping[str, Any] | None = None) -> None:
        """Begin with the section's coefficient, or go on from a state of the same section.

        Args:
            kl: the section.
            state: as `state` returned it; of a section with another `coef` or `target` it counts for nothing.
        """
        self._kl = kl
        self._begins = {"begins": kl.coef, "target": kl.target, "horizon": kl.horizon}
        self.value = kl.coef
        if state is not None and self._begins.items() <= state.items():
            self.value = float(state["value"])

    @property
    def state(self) -> dict[str, Any] | None:
        """What a later `KlCoefficient` goes on from, JSON; None where the coefficient is constant."""
        return None if self._kl.target is None else {**self._begins, "value": self.value}

    def update(self, *, divergence: float, completions: int) -> None:
        """Adapt the coefficient to the divergence of a step; see `next_coefficient`."""
        self.value = next_coefficient(self._kl, self.value, divergence=divergence, completions=completions)
