"""Greedy and nucleus sampling by numbers that can be checked on paper."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Qwen2ForCausalLM

from broker.messages import Prompt
from generators.answers import params_of
from generators.engines.hf.sampling import Request, nucleus, sample_groups
from tests.support.byte_model import STOP_ID, make_prompt, random_model

pytestmark = pytest.mark.model

ENDS: Any = SimpleNamespace(stop_token_ids=frozenset({STOP_ID}))  # what a chat knows of the sampling

SHARES = [0.1, 0.4, 0.3, 0.15, 0.05]  # by token id; by likelihood: 1, 2, 3, 0, 4


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return random_model(seed=0)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1e-6, [1]),  # never empty
        (0.39, [1]),
        (0.5, [1, 2]),  # 0.4 is not enough
        (0.69, [1, 2]),
        (0.71, [1, 2, 3]),
        (0.9, [1, 2, 3, 0]),
        (1.0, [1, 2, 3, 0, 4]),
    ],
)
def test_a_nucleus_is_the_fewest_tokens_of_its_probability(top_p: float, kept: list[int]) -> None:
    logprobs = nucleus(torch.tensor([SHARES]).log(), torch.tensor([[top_p]], dtype=torch.float64))[0]
    together = sum(SHARES[token] for token in kept)
    for token, share in enumerate(SHARES):
        expected = math.log(share / together) if token in kept else -math.inf
        assert float(logprobs[token]) == pytest.approx(expected, abs=1e-6)


def test_among_equals_the_smaller_id_is_in_the_nucleus() -> None:
    logprobs = nucleus(torch.full((1, 4), 0.25).log(), torch.tensor([[0.49]], dtype=torch.float64))[0]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 0.5, 0, 0])


def sampled(model: Qwen2ForCausalLM, *prompts: Prompt) -> list[list[list[tuple[int, float]]]]:
    """Return the tokens of each prompt's completions with their log-probabilities."""
    requests = [Request(prompt.token_ids, params_of(prompt, ENDS), prompt.n) for prompt in prompts]
    groups = sample_groups(model, requests, lambda: False)
    return [
        [list(zip(each.token_ids.tolist(), each.logprobs.tolist(), strict=True)) for each in group]
        for group in groups
    ]


@torch.inference_mode()
def next_token(model: Qwen2ForCausalLM, prompt: Prompt, before: list[int]) -> torch.Tensor:
    """Return the model's log-probabilities [V] behind a prompt and the tokens before, at the prompt's temperature."""
    ids = torch.tensor([[*prompt.token_ids.tolist(), *before]])
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0, -1]
    return torch.log_softmax(logits.float() / (prompt.temperature or 1.0), -1)


def test_greedy_is_argmax_with_the_models_own_log_probabilities(model: Qwen2ForCausalLM) -> None:
    prompt = make_prompt("1+2=", n=2, temperature=0.0, max_tokens=12)
    [[first, second]] = sampled(model, prompt)
    ids = [token for token, _ in first]
    assert [token for token, _ in second] == ids
    for position, rows in enumerate(zip(first, second, strict=True)):
        expected = next_token(model, prompt, ids[:position])
        for token, logprob in rows:
            assert token == int(expected.argmax())
            assert logprob == pytest.approx(float(expected.max()), abs=1e-5)


def test_only_a_nucleus_is_sampled_with_log_probabilities_within_it(model: Qwen2ForCausalLM) -> None:
    prompt = make_prompt("1+2=", n=2000, max_tokens=1, temperature=0.8, top_p=0.5)
    whole = next_token(model, prompt, [])
    within = nucleus(whole[None], torch.tensor([[0.5]], dtype=torch.float64))[0]
    assert 1 < int(torch.isfinite(within).sum()) < len(whole)
    counts = torch.zeros(len(whole))
    for [(token, logprob)] in sampled(model, prompt)[0]:
        counts[token] += 1
        assert logprob == pytest.approx(float(within[token]), abs=1e-5)
    expected = 2000 * within.exp()
    assert bool(((counts - expected).abs() <= 4.5 * expected.sqrt() + 1).all())


def test_a_group_that_trains_is_sampled_beside_held_out_ones_as_alone(model: Qwen2ForCausalLM) -> None:
    trains = make_prompt("1+2=", seed=3)
    held_out = [make_prompt("3+4=", seed=4, temperature=0.0), make_prompt("5+6=", seed=5, top_p=0.6)]
    together, *others = sampled(model, trains, *held_out)
    assert [len(group) for group in others] == [4, 4]
    for one, alone in zip(together, sampled(model, trains)[0], strict=True):
        assert [token for token, _ in one] == [token for token, _ in alone]
        assert [value for _, value in one] == pytest.approx([value for _, value in alone], abs=1e-5)
