"""Decoding with the engine's attention and masks says what each architecture itself says of the whole sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from generators.engine import SamplingParams
from generators.engines.hf.attention import attend, use_decoding_attention
from generators.engines.hf.sampling import SampledCompletion, SampleRequest, sample_groups

pytestmark = pytest.mark.model

SIZES = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.3,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen2": SIZES,
    "qwen3": SIZES,
    "llama": {**SIZES, "num_key_value_heads": 6},
    "mistral": {**SIZES, "sliding_window": 6},
    "gemma3_text": {
        **SIZES,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 8,
    },
    "gpt2": {"vocab_size": 97, "n_embd": 48, "n_layer": 2, "n_head": 6, "initializer_range": 0.3},
    "falcon": {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6},
    "bloom": {"vocab_size": 97, "hidden_size": 48, "n_layer": 2, "n_head": 6, "initializer_range": 0.3},
}
STOPS = frozenset(range(14))  # often: rows are dropped on the way


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave other tests transformers' own registers."""
    for register in (AttentionInterface, AttentionMaskInterface):
        monkeypatch.setattr(register, "_global_mapping", dict(register._global_mapping))
    use_decoding_attention()


def tiny(architecture: str, attention: str | None) -> PreTrainedModel:
    config = AutoConfig.for_model(architecture, **ARCHITECTURES[architecture])
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    model.eval()
    return model


@torch.inference_mode()
def own_logprobs(model: PreTrainedModel, prompt: list[int], said: list[int]) -> torch.Tensor:
    """Return a model's log-probabilities of a completion [T], by one pass over it alone, without a cache."""
    logits: torch.Tensor = model(input_ids=torch.tensor([prompt + said]), use_cache=False).logits[
        0, len(prompt) - 1 : -1
    ]
    return (logits.float() / 2).log_softmax(-1).gather(-1, torch.tensor(said)[:, None])[:, 0]


@pytest.mark.parametrize("lengths", [(9, 3, 14), (5, 5)], ids=["padded", "even"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_batch_is_what_each_completion_is_alone(architecture: str, lengths: tuple[int, ...]) -> None:
    model, plain = tiny(architecture, None), tiny(architecture, "eager")
    prompts = [np.arange(10 + size, 10 + 2 * size, dtype=np.int32) for size in lengths]
    requests = [
        SampleRequest(prompt, params(seed=i, max_tokens=20 + i), n=6) for i, prompt in enumerate(prompts)
    ]
    groups = sample_groups(model, requests, lambda: False)
    counts = sorted(len(each.token_ids) for group in groups for each in group)
    assert counts[len(counts) // 2] < counts[-1]  # half of the rows are dropped before the others end
    for request, group in zip(requests, groups, strict=True):
        assert len(group) == 6
        for each in group:
            check_end(each, request.params.max_tokens)
            expected = own_logprobs(plain, request.token_ids.tolist(), each.token_ids.tolist())
            np.testing.assert_allclose(each.logprobs, expected.numpy(), atol=1e-4, rtol=0)


def params(*, seed: int, max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, stop_token_ids=STOPS, temperature=2.0, top_p=1.0, seed=seed)


def check_end(completion: SampledCompletion, limit: int) -> None:
    *inside, last = completion.token_ids.tolist()
    assert STOPS.isdisjoint(inside)
    assert completion.stopped == (last in STOPS)
    assert completion.stopped or len(completion.token_ids) == limit


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("shape", [(3, 1, 7), (3, 6, 7), None], ids=["by row", "by head", "no mask"])
@pytest.mark.parametrize("shared", [1, 2, 6])
def test_attention_is_that_of_transformers(shared: int, shape: tuple[int, ...] | None, queries: int) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, *size) for size in ((6, queries, 8), (shared, 7, 8), (shared, 7, 4)))
    mask = None
    if shape is not None:
        rows, heads, keys = shape
        mask = torch.rand(rows, heads, 1, keys) < 0.6
        mask[..., -1] = True
        mask = mask.expand(-1, -1, queries, -1)
    layer: Any = torch.nn.Module()
    layer.num_key_value_groups = 6 // shared
    mine, _ = attend(layer, query, key, value, mask, scaling=0.5)
    others, _ = sdpa_attention_forward(layer, query, key, value, mask, scaling=0.5)
    torch.testing.assert_close(mine, others, atol=1e-6, rtol=1e-5)


def test_a_models_own_code_is_given_the_mask_that_it_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen2", **SIZES)).eval()
    seen: list[Any] = []
    forward = model.forward

    def noting(*, attention_mask: Any, **options: Any) -> Any:
        seen.append(attention_mask)
        return forward(attention_mask=attention_mask, **options)

    monkeypatch.setattr(model, "forward", noting)
    params = SamplingParams(temperature=1.0, top_p=1.0, max_tokens=3, stop_token_ids=frozenset(), seed=0)
    request = SampleRequest(np.array([1, 2, 3], np.int32), params, 2)
    sample_groups(model, [request], lambda: False)
    assert seen[-1] is None
    monkeypatch.setattr(type(model), "__module__", "transformers_modules.somebodys")
    sample_groups(model, [request], lambda: False)
    assert seen[-1].shape == (2, 5)  # type: ignore[attr-defined]
