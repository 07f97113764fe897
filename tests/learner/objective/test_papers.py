"""Every loss beside a slow implementation that was written from its paper: plain Python over one token at a time.

The slow side knows completions as lists and groups as lists of completions; ours gets them packed. Both give a value,
and a gradient by each log-probability: ours by autograd, the slow side's by central differences. Where a paper stops
the gradient, the slow side takes that factor from the log-probabilities before the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from config.learner.objective import Aggregate, CorrectionConfig, KlConfig, ObjectiveConfig
from learner.objective.aggregate import token_weights
from learner.objective.build import build_objective
from learner.objective.kl_coefficient import next_coefficient, penalized
from learner.objective.rejection import kept_tokens
from tests.support.made_up_tokens import Answer, made_up, packed
from tests.support.papers import CASES, KL_TERMS, differences, grpo, shares, total

pytestmark = pytest.mark.model

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)


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


@pytest.mark.prove(after=2 * len(CASES))
@pytest.mark.parametrize("name", CASES)  # the upper one varies fastest: in `make test` each has the first two
@pytest.mark.parametrize(
    ("parts", "talks"), [(8, True), (1, False), (2, True), (1, True), (2, False), (8, False)]
)
def test_a_loss_and_its_gradient_are_the_papers_in_any_parts(name: str, talks: bool, parts: int) -> None:
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
    assert penalized([[1.0, None, 0.5], [0.0]], [0.3, 2.0, 1.0], 0.1) == [  # of its own completion
        [pytest.approx(0.97), None, pytest.approx(0.3)],
        [pytest.approx(-0.1)],
    ]


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
