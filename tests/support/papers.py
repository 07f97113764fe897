"""Every loss as its paper has it: plain Python over one token at a time, and slow.

It knows completions as lists of tokens, and a batch as a list of completions. The gradient by each log-probability is
by central differences. Where a paper stops the gradient, that factor is taken from the log-probabilities before the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.support.made_up_tokens import Answer

STEP = 1e-4  # of the central differences, which are right up to its fourth power

# `fixed` is the batch from before the difference: what carries no gradient is taken from it.

Loss = Callable[[Answer, int, Answer], float]  # completion, place of the token, the same completion fixed


def ppo_term(ratio: float, advantage: float, low: float, high: float, dual: float | None) -> float:
    clipped = max(min(ratio, 1 + high), 1 - low)
    gain = min(ratio * advantage, clipped * advantage)
    return max(gain, dual * advantage) if dual is not None and advantage < 0 else gain


def grpo(low: float, high: float, dual: float | None) -> Loss:
    def term(completion: Answer, place: int, fixed: Answer) -> float:
        token = completion.tokens[place]
        return -ppo_term(math.exp(token.now - token.sampled), completion.advantage, low, high, dual)

    return term


def gspo(low: float, high: float) -> Loss:
    def term(completion: Answer, place: int, fixed: Answer) -> float:
        logs = [token.now - token.sampled for token in completion.segment_of(place)]
        ratio = math.exp(sum(logs) / len(logs))  # the sequence's own form, and not that of its tokens
        return -ppo_term(ratio, completion.advantage, low, high, None)

    return term


def cispo(smallest: float, largest: float) -> Loss:
    def term(completion: Answer, place: int, fixed: Answer) -> float:
        stopped = fixed.tokens[place]
        weight = min(max(math.exp(stopped.now - stopped.sampled), smallest), largest)
        return -weight * completion.advantage * completion.tokens[place].now

    return term


def decoupled(
    low: float, high: float, weight_of: Callable[[Answer, int], float], dual: float | None = None
) -> Loss:
    def term(completion: Answer, place: int, fixed: Answer) -> float:
        token = completion.tokens[place]
        ratio = math.exp(token.now - token.start)
        return -weight_of(fixed, place) * ppo_term(ratio, completion.advantage, low, high, dual)

    return term


def token_weight(completion: Answer, place: int) -> float:
    return min(math.exp(completion.tokens[place].start - completion.tokens[place].sampled), 2.0)


def sequence_weight(completion: Answer, place: int) -> float:
    return min(math.exp(sum(token.start - token.sampled for token in completion.segment_of(place))), 3.0)


def dppo(moved: Callable[[float, float], float], low: float, high: float, largest: float) -> Loss:
    def term(completion: Answer, place: int, fixed: Answer) -> float:
        stopped, advantage = fixed.tokens[place], completion.advantage
        now, then = math.exp(stopped.now), math.exp(stopped.sampled)
        if advantage > 0 and now > then and moved(now, then) > high:
            return 0.0
        if advantage < 0 and now < then and moved(now, then) > low:
            return 0.0
        return -min(now / then, largest) * advantage * completion.tokens[place].now

    return term


def total_variation(now: float, then: float) -> float:
    return (abs(now - then) + abs((1 - now) - (1 - then))) / 2


def binary_kl(now: float, then: float) -> float:
    return then * math.log(then / now) + (1 - then) * math.log((1 - then + 1e-8) / (1 - now + 1e-8))


def shares(batch: Sequence[Answer], aggregate: str, constant: int = 12) -> list[float]:
    """Return what one token of each completion weighs."""
    groups = sorted({one.group for one in batch})
    tokens_of = {group: sum(len(one.tokens) for one in batch if one.group == group) for group in groups}
    every = sum(len(one.tokens) for one in batch)
    return [
        {
            "token": 1 / every,
            "sequence": 1 / (len(batch) * len(one.tokens)),
            "prompt": 1 / (len(groups) * tokens_of[one.group]),
            "constant": 1 / (len(batch) * constant),
        }[aggregate]
        for one in batch
    ]


def total(batch: Sequence[Answer], fixed: Sequence[Answer], loss: Loss, aggregate: str) -> float:
    return math.fsum(
        share * loss(one, place, still)
        for one, still, share in zip(batch, fixed, shares(fixed, aggregate), strict=True)
        for place in range(len(one.tokens))
    )


def differences(batch: Sequence[Answer], loss: Loss, aggregate: str) -> list[float]:
    """Return the derivative of the loss by each token's log-probability now."""

    def moved(index: int, place: int, by: float) -> list[Answer]:
        one = batch[index]
        token = replace(one.tokens[place], now=one.tokens[place].now + by)
        tokens = (*one.tokens[:place], token, *one.tokens[place + 1 :])
        return [*batch[:index], replace(one, tokens=tokens), *batch[index + 1 :]]

    def slope(index: int, place: int) -> float:
        far, near = (
            total(moved(index, place, by), batch, loss, aggregate)
            - total(moved(index, place, -by), batch, loss, aggregate)
            for by in (2 * STEP, STEP)
        )
        return (8 * near - far) / (12 * STEP)

    return [slope(index, place) for index, one in enumerate(batch) for place in range(len(one.tokens))]


PPO: dict[str, Any] = {"type": "decoupled_ppo"}
BY_SEQUENCE = {"rollout_is": "sequence", "rollout_is_threshold": 3.0}
CASES: dict[str, tuple[dict[str, Any], Loss]] = {
    "grpo": ({"type": "grpo"}, grpo(0.2, 0.28, 3.0)),
    "grpo without a dual clip": (
        {"type": "grpo", "clip_low": 0.1, "clip_high": 0.4, "dual_clip": None},
        grpo(0.1, 0.4, None),
    ),
    "dr_grpo": ({"type": "dr_grpo", "constant_length": 12}, grpo(0.2, 0.2, None)),
    "gspo": ({"type": "gspo", "clip_low": 0.1, "clip_high": 0.15}, gspo(0.1, 0.15)),
    "cispo": ({"type": "cispo", "clip_high": 0.5}, cispo(0.0, 1.5)),
    "cispo with a lower bound": ({"type": "cispo", "clip_low": 0.3, "clip_high": 0.5}, cispo(0.7, 1.5)),
    "decoupled_ppo": (PPO, decoupled(0.2, 0.2, token_weight)),
    "decoupled_ppo with a dual clip": (PPO | {"dual_clip": 1.3}, decoupled(0.2, 0.2, token_weight, 1.3)),
    "decoupled_ppo by sequence": (PPO | {"correction": BY_SEQUENCE}, decoupled(0.2, 0.2, sequence_weight)),
    "decoupled_ppo without weights": (PPO | {"correction": {}}, decoupled(0.2, 0.2, lambda *_: 1.0)),
    "reinforce": ({"type": "reinforce"}, cispo(0.0, 2.0)),
    "reinforce without weights": (
        {"type": "reinforce", "max_weight": None},
        lambda completion, place, _: -completion.advantage * completion.tokens[place].now,
    ),
    "dppo tv": ({"type": "dppo", "max_low": 0.05, "max_high": 0.1}, dppo(total_variation, 0.05, 0.1, 20.0)),
    "dppo kl": (
        {"type": "dppo", "divergence": "kl", "max_low": 0.02, "max_high": 0.04, "max_weight": 1.5},
        dppo(binary_kl, 0.02, 0.04, 1.5),
    ),
}


KL_TERMS: dict[str, Callable[[float, float], float]] = {
    "k1": lambda p, q: p - q,
    "k2": lambda p, q: (p - q) ** 2 / 2,
    "k3": lambda p, q: math.exp(q - p) - 1 - (q - p),
    "abs": lambda p, q: abs(p - q),
}
