"""Every loss beside a slow implementation that was written from its paper: plain Python over one token at a time.

The slow side knows completions as lists and groups as lists of completions; ours gets them packed. Both give a value,
and a gradient by each log-probability: ours by autograd, the slow side's by central differences. Where a paper stops
the gradient, the slow side takes that factor from the log-probabilities before the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from config.learner import Aggregate, CorrectionConfig, KlConfig, ObjectiveConfig
from learner.objective.aggregate import token_weights
from learner.objective.build import build_objective
from learner.objective.kl_coefficient import next_coefficient, penalized
from learner.objective.rejection import kept_tokens
from tests.support.made_up_tokens import Answer, made_up, packed

pytestmark = pytest.mark.model

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)
STEP = 1e-6  # of the central differences


# The slow side. `fixed` is the batch from before the difference: what carries no gradient is taken from it.

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
        up, down = (total(moved(index, place, by), batch, loss, aggregate) for by in (STEP, -STEP))
        return (up - down) / (2 * STEP)

    return [slope(index, place) for index, one in enumerate(batch) for place in range(len(one.tokens))]


def measured(
    batch: list[Answer], config: ObjectiveConfig, parts: int = 1, **more: Any
) -> tuple[float, list[float]]:
    """Return the loss and its gradient by each sampled token, with the batch in so many micro-batches."""
    value, gradient = 0.0, [[0.0]] * len(batch)
    for part in range(parts):
        own = batch[part::parts]
        tokens = replace(packed(own, batch, config.aggregate), **more)
        loss = build_objective(config).loss(tokens)
        (gradient_T,) = torch.autograd.grad(loss.value, tokens.logprobs_T)
        assert not gradient_T[~tokens.loss_mask_T].any()
        value += loss.value.item()
        flat = iter(gradient_T[tokens.loss_mask_T].tolist())
        for index, one in zip(range(part, len(batch), parts), own, strict=True):
            gradient[index] = [next(flat) for _ in one.tokens]
    return value, [number for own in gradient for number in own]


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


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("parts", [1, 2, 8])
@pytest.mark.parametrize("talks", [False, True], ids=["one segment", "several"])
def test_a_loss_and_its_gradient_are_the_papers_in_any_number_of_micro_batches(
    name: str, talks: bool, parts: int
) -> None:
    keys, loss = CASES[name]
    config = OBJECTIVE.validate_python(keys)
    for seed in range(4):
        batch = made_up(seed, talks=talks)
        value, gradient = measured(batch, config, min(parts, len(batch)))
        assert value == pytest.approx(total(batch, batch, loss, config.aggregate), abs=1e-9)
        assert gradient == pytest.approx(differences(batch, loss, config.aggregate), abs=1e-9)


@pytest.mark.parametrize("aggregate", ["token", "sequence", "prompt", "constant"])
@pytest.mark.parametrize("name", CASES)
def test_the_shares_of_all_tokens_make_the_mean_that_is_named(aggregate: str, name: str) -> None:
    keys, loss = CASES[name]
    keys = keys | {"aggregate": aggregate, "constant_length": 12 if aggregate == "constant" else None}
    config = OBJECTIVE.validate_python(keys)
    batch = made_up(11, talks=True)
    value, gradient = measured(batch, config, parts=2)
    assert value == pytest.approx(total(batch, batch, loss, aggregate), abs=1e-9)
    assert gradient == pytest.approx(differences(batch, loss, aggregate), abs=1e-9)


KL_TERMS: dict[str, Callable[[float, float], float]] = {
    "k1": lambda p, q: p - q,
    "k2": lambda p, q: (p - q) ** 2 / 2,
    "k3": lambda p, q: math.exp(q - p) - 1 - (q - p),
    "abs": lambda p, q: abs(p - q),
}


@pytest.mark.parametrize("estimator", KL_TERMS)
@pytest.mark.parametrize("aggregate", ["token", "sequence"])
def test_a_divergence_in_the_loss_is_aggregated_like_the_loss(estimator: str, aggregate: str) -> None:
    kl = {"coef": 9.0, "estimator": estimator}
    config = OBJECTIVE.validate_python({"type": "grpo", "aggregate": aggregate, "kl": kl})

    def loss(completion: Answer, place: int, fixed: Answer) -> float:
        token = completion.tokens[place]
        own = grpo(0.2, 0.28, 3.0)(completion, place, fixed)
        return own + 0.7 * KL_TERMS[estimator](token.now, token.reference)

    batch = made_up(5)
    value, gradient = measured(batch, config, kl_coef=0.7)  # that of the step, and not that of the section
    assert value == pytest.approx(total(batch, batch, loss, aggregate), abs=1e-6)
    assert gradient == pytest.approx(differences(batch, loss, aggregate), abs=1e-6)


def test_an_entropy_bonus_is_taken_from_the_loss_and_has_a_gradient() -> None:
    config = OBJECTIVE.validate_python({"type": "grpo", "aggregate": "sequence", "entropy_coef": 0.3})
    batch = made_up(6)
    tokens = replace(packed(batch, batch, "sequence"), reference_logprobs_T=None)
    loss = build_objective(config).loss(tokens)
    plain = total(batch, batch, grpo(0.2, 0.28, 3.0), "sequence")
    entropy = total(batch, batch, lambda one, place, _: one.tokens[place].entropy, "sequence")
    assert loss.value.item() == pytest.approx(plain - 0.3 * entropy, abs=1e-6)
    (gradient_T,) = torch.autograd.grad(loss.value, tokens.entropy_T)
    weighed = zip(batch, shares(batch, "sequence"), strict=True)
    expected = [-0.3 * share for one, share in weighed for _ in one.tokens]
    assert gradient_T[tokens.loss_mask_T].tolist() == pytest.approx(expected, rel=1e-6)


def test_a_divergence_is_taken_from_the_reward_of_its_own_completion() -> None:
    assert penalized([[1.0, None, 0.5], [0.0]], [0.3, 2.0, 1.0], 0.1) == [
        [pytest.approx(0.97), None, pytest.approx(0.3)],
        [pytest.approx(-0.1)],
    ]


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [
        (0.1, 0.2),
        (0.11, 0.2 * (1 + 0.1 * 5 / 100)),
        (9.0, 0.2 * (1 + 0.2 * 5 / 100)),
        (0.0, 0.2 * (1 - 0.2 * 5 / 100)),
    ],
)
def test_a_coefficient_follows_the_divergence_by_at_most_a_fifth(divergence: float, expected: float) -> None:
    kl = KlConfig(coef=0.2, target=0.1, horizon=100)
    assert next_coefficient(kl, 0.2, divergence=divergence, completions=5) == pytest.approx(expected)
    assert next_coefficient(KlConfig(coef=0.2), 0.2, divergence=divergence, completions=5) == 0.2


def slow_keep(one: Answer, place: int, rules: Sequence[str]) -> bool:
    """Return whether a token is kept, by the bands [0.7, 1.4], [0.2, 3] and [0.9, 1.1]."""
    ratios = [math.exp(token.start - token.sampled) for token in one.segment_of(place)]
    token = one.tokens[place]
    return all(
        {
            "token_k1": 0.7 <= math.exp(token.start - token.sampled) <= 1.4,
            "seq_sum_k1": 0.2 <= math.prod(ratios) <= 3.0,
            "seq_mean_k1": 0.9 <= math.prod(ratios) ** (1 / len(ratios)) <= 1.1,
        }[rule]
        for rule in rules
    )


@pytest.mark.parametrize(
    "rules", [["token_k1"], ["seq_sum_k1"], ["seq_mean_k1"], ["token_k1", "seq_sum_k1", "seq_mean_k1"]]
)
def test_what_is_rejected_is_what_the_bands_say(rules: list[str]) -> None:
    correction = CorrectionConfig.model_validate(
        {"rollout_rs": rules, "token_k1": [0.7, 1.4], "seq_sum_k1": [0.2, 3.0], "seq_mean_k1": [0.9, 1.1]}
    )
    kept, of = 0, 0
    for seed in range(8):
        batch = made_up(seed, spread=0.8, talks=seed % 2 == 1)
        tokens = packed(batch, batch, "token")
        expected = [slow_keep(one, place, rules) for one in batch for place in range(len(one.tokens))]
        assert kept_tokens(tokens, correction)[tokens.loss_mask_T].tolist() == expected
        assert not kept_tokens(tokens, correction)[~tokens.loss_mask_T].any()
        kept, of = kept + sum(expected), of + len(expected)
    assert 0 < kept < of


@pytest.mark.parametrize("aggregate", ["token", "sequence", "prompt", "constant"])
def test_a_loss_of_what_is_kept_is_that_of_a_batch_without_the_rest(aggregate: Aggregate) -> None:
    """The slow side never sees what the band rejects, and a completion that loses all its tokens is not there."""
    correction = CorrectionConfig(rollout_rs=("token_k1",), token_k1=(0.7, 1.4))
    keys = {"aggregate": aggregate} | ({"constant_length": 12} if aggregate == "constant" else {})
    for seed in range(6):
        batch = made_up(seed)
        tokens = packed(batch, batch, "token")
        kept_T = kept_tokens(tokens, correction)
        ids_T = np.repeat(np.arange(len(batch)), [one.prompt_tokens + len(one.tokens) for one in batch])
        tokens_S = np.bincount(ids_T[kept_T.numpy()], minlength=len(batch))
        weights = token_weights(
            ids_T.astype(np.int32),
            tokens_S,
            np.array([one.group for one in batch], np.int32),
            aggregate=aggregate,
            constant_length=12,
        )
        left = replace(
            tokens,
            loss_mask_T=kept_T,
            num_tokens=int(tokens_S.sum()),
            weights_T=None if weights is None else torch.tensor(weights),
        )
        rest = [
            replace(one, tokens=tuple(t for i, t in enumerate(one.tokens) if slow_keep(one, i, ["token_k1"])))
            for one in batch
        ]
        rest = [one for one in rest if one.tokens]
        loss = build_objective(OBJECTIVE.validate_python({"type": "grpo"} | keys)).loss(left)
        expected = total(rest, rest, grpo(0.2, 0.28, 3.0), aggregate)
        assert loss.value.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("aggregate", ["sequence", "prompt", "constant"])
def test_what_is_rejected_leaves_the_denominator(aggregate: str) -> None:
    tokens_S = np.array([3, 0, 2, 5])  # the second completion has lost all its tokens, and the third some
    ids_N, prompts_S = np.array([0, 2, 3], np.int32), np.array([0, 0, 0, 1], np.int32)
    name: Any = aggregate
    found = token_weights(ids_N, tokens_S, prompts_S, aggregate=name, constant_length=10)
    expected = {
        "sequence": [1 / 9, 1 / 6, 1 / 15],
        "prompt": [1 / 10, 1 / 10, 1 / 10],
        "constant": [1 / 30, 1 / 30, 1 / 30],
    }[aggregate]
    assert found is not None
    assert found.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_micro_batch_in_which_nothing_trains_adds_nothing(name: str) -> None:
    config = OBJECTIVE.validate_python(CASES[name][0])
    batch = made_up(3)
    tokens = packed(batch, batch, config.aggregate)
    tokens = replace(tokens, loss_mask_T=torch.zeros_like(tokens.loss_mask_T))
    loss = build_objective(config).loss(tokens)
    loss.value.backward()
    assert loss.value.item() == 0
    assert tokens.logprobs_T.grad is not None
    assert not tokens.logprobs_T.grad.any()
    assert {value.item() for value in (*loss.sums.values(), *loss.maxima.values())} == {0}
