"""The head's chunks and its fused function, against the plain one, and its type, in the learner and in the engine `hf`.

The product of 16 bits into float32 exists on a GPU alone. A reference stands in its place here, so that everything
around the product is compared; the product itself is tried on the device by `choose_product`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from broker.errors import RunFailed
from config.run import ModelConfig
from generators.engines.hf.model import Float32Head, build_model, check_weights, replace_weights
from learner.training.head import fused
from learner.training.head.chunks import LARGE_CHUNK, SMALL_CHUNK, logits_at_once
from learner.training.head.fused import choose_product, memory_of, torch_product
from learner.training.logprobs import LogprobModel, TokenLogprobs
from learner.training.model_files import load_model
from tests.support.reference_product import reference_product
from tests.support.tiny import VOCABULARY_SIZE, write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training")]

WIDTH, VOCABULARY, TOKENS = 64, 96, 23
CPU = torch.device("cpu")


def head(*, has_bias: bool = False, is_frozen: bool = False) -> nn.Linear:
    torch.manual_seed(0)
    made = nn.Linear(WIDTH, VOCABULARY, bias=has_bias).bfloat16()
    made.requires_grad_(not is_frozen)
    return made


def values_and_gradients(
    made: nn.Linear,
    product: fused.Product | None,
    *,
    tokens: int = TOKENS,
    at_once: int = VOCABULARY * TOKENS,
) -> tuple[Tensor, Tensor, list[Tensor | None]]:
    """Return log-probabilities, entropies, and the gradients of hidden states, weight and bias."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(tokens, WIDTH, generator=generator).bfloat16().requires_grad_()
    targets = torch.randint(0, VOCABULARY, (tokens,), generator=generator)
    made.zero_grad()
    module = TokenLogprobs(made, temperature=0.7, logits_at_once=at_once, product=product)
    logprobs, entropies = module(hidden, targets)
    assert not entropies.requires_grad
    (logprobs * torch.linspace(-1, 1, tokens)).sum().backward()
    bias = None if made.bias is None else made.bias.grad
    return logprobs.detach(), entropies, [hidden.grad, made.weight.grad, bias]


@pytest.mark.parametrize("at_once", [VOCABULARY * TOKENS, VOCABULARY * 7], ids=["one chunk", "four chunks"])
@pytest.mark.parametrize(("has_bias", "is_frozen"), [(False, False), (True, False), (False, True)])
def test_the_fused_head_is_as_the_plain_one(*, has_bias: bool, is_frozen: bool, at_once: int) -> None:
    made = head(has_bias=has_bias, is_frozen=is_frozen)
    plain, plain_entropies, expected = values_and_gradients(made, None, at_once=at_once)
    logprobs, entropies, gradients = values_and_gradients(made, reference_product, at_once=at_once)
    assert logprobs.dtype is entropies.dtype is torch.float32
    torch.testing.assert_close(logprobs, plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(entropies, plain_entropies, atol=1e-6, rtol=0)
    for found, wanted in zip(gradients, expected, strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert found.dtype is wanted.dtype is torch.bfloat16
            # Both are sums in float32 that are rounded to bfloat16 once: a place of it, 2**-8, apart at most.
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=2**-8)


def test_what_is_not_fused_and_a_row_in_which_nothing_trains() -> None:
    made = head()
    logprobs, entropies, (_, gradient, _) = values_and_gradients(made, reference_product, tokens=0)
    assert (len(logprobs), len(entropies)) == (0, 0)
    assert gradient is not None
    assert not gradient.any()
    module = TokenLogprobs(head(), temperature=1.0, product=reference_product)
    module.trains_entropy = True
    hidden, targets = torch.randn(3, WIDTH).bfloat16(), torch.tensor([1, 2, 3])
    assert module(hidden, targets)[1].requires_grad
    module = TokenLogprobs(head(), temperature=1.0, is_float32=False, product=reference_product)
    plain = TokenLogprobs(head(), temperature=1.0, is_float32=False)
    assert torch.equal(module(hidden, targets)[0], plain(hidden, targets)[0])
    assert choose_product(CPU, torch.bfloat16) == fused.ChosenProduct(None, "the device is cpu")
    assert choose_product(CPU, torch.float32) == fused.ChosenProduct(None, "model.dtype is float32")


@pytest.mark.parametrize(
    ("product", "is_taken", "why"),
    [
        (reference_product, True, "it errs by"),
        (torch_product, False, "torch can't multiply so here: Could not run 'aten::mm.dtype'"),
        (lambda a, b: reference_product(a, b).bfloat16().float(), False, "and 0.0001 may be"),
        (lambda a, b: reference_product(a, b).bfloat16(), False, "it errs by inf"),
        (lambda a, b: reference_product(a, b) * float("nan"), False, "it errs by nan"),
    ],
    ids=["a right one", "none on a CPU", "rounded on its way", "of another type", "not a number"],
)
def test_a_product_is_tried_on_the_device_before_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, *, product: Callable[[Tensor, Tensor], Tensor], is_taken: bool, why: str
) -> None:
    monkeypatch.setitem(fused.PRODUCTS, "cpu", product)
    chosen = choose_product(CPU, torch.bfloat16)
    assert (chosen.product is product) == is_taken
    assert why in chosen.why


@pytest.mark.parametrize(
    ("device_bytes", "expected"),
    [
        (None, SMALL_CHUNK),
        (25_757_220_864, SMALL_CHUNK),  # 24,564 MiB, a card of 24 GB
        (42_298_834_944, LARGE_CHUNK),  # 40,339 MiB, one of 40 GB
        (85_028_765_696, LARGE_CHUNK),
    ],
)
def test_a_large_card_has_large_chunks(device_bytes: int | None, expected: int) -> None:
    assert logits_at_once(device_bytes) == expected
    assert memory_of(CPU) is None


HeadType = Literal["float32", "model"]
LENGTH = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("head") / "model")


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, VOCABULARY_SIZE, (LENGTH,), generator=torch.Generator().manual_seed(0))


def section(folder: Path, head_dtype: HeadType, dtype: str = "bfloat16") -> ModelConfig:
    return ModelConfig.model_validate({"path": str(folder), "dtype": dtype, "head_dtype": head_dtype})


def sampled(folder: Path, ids: Tensor, head_dtype: HeadType) -> Tensor:
    """Return the log-probability of each token but the first, as the engine would record it."""
    model = build_model(section(folder, head_dtype))
    replace_weights(model, [folder / "model.safetensors"])
    with torch.inference_mode():
        logits = model(input_ids=ids[None]).logits[0, :-1]
    assert logits.dtype is (torch.float32 if head_dtype == "float32" else torch.bfloat16)
    logprobs: Tensor = logits.float().log_softmax(-1).gather(-1, ids[1:, None])[:, 0].clone()
    return logprobs


def learned(folder: Path, ids: Tensor, head_dtype: HeadType) -> Tensor:
    """Return the same of the learner."""
    model = load_model(section(folder, head_dtype), attention="sdpa", gradient_checkpointing=False)
    wrapped = LogprobModel(model, temperature=1.0, head_dtype=head_dtype)
    with torch.no_grad():
        found: Tensor = wrapped(ids, torch.arange(LENGTH), torch.arange(1, LENGTH))[0]
    return found[1:]


def k3(learner: Tensor, sampler: Tensor) -> float:
    difference = (learner - sampler).double()
    return (difference.expm1() - difference).mean().item()


def test_both_sides_agree_with_the_same_head_which_follows_new_weights(folder: Path, ids: Tensor) -> None:
    mismatch = {
        (learner, sampler): k3(learned(folder, ids, learner), sampled(folder, ids, sampler))
        for learner in ("float32", "model")
        for sampler in ("float32", "model")
    }
    assert mismatch["float32", "float32"] < mismatch["float32", "model"] / 3
    assert mismatch["float32", "float32"] < mismatch["model", "float32"] / 3
    model = build_model(section(folder, "float32"))
    replace_weights(model, [folder / "model.safetensors"])
    with torch.inference_mode():
        before = model(input_ids=ids[None]).logits
        again = model(input_ids=ids[None]).logits
        assert torch.equal(before, again)
    head = model.get_output_embeddings()
    assert isinstance(head, Float32Head)
    assert head.weight is model.get_input_embeddings().weight  # still tied
    assert "lm_head.weight" not in check_weights(model, [folder / "model.safetensors"])
    other = write_tiny_model(folder.parent / "other", seed=1)
    replace_weights(model, [other / "model.safetensors"])
    with torch.inference_mode():
        assert not torch.allclose(model(input_ids=ids[None]).logits, before, atol=0.1)


def test_a_model_in_float32_has_its_own_head_and_one_not_linear_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for config in (section(folder, "float32", "float32"), section(folder, "model")):
        assert not isinstance(build_model(config).get_output_embeddings(), Float32Head)
    name = "transformers.Qwen2ForCausalLM.get_output_embeddings"
    monkeypatch.setattr(name, lambda self: torch.nn.Identity())
    with pytest.raises(RunFailed, match=r"logits of a Identity in float32.*head_dtype=model"):
        build_model(section(folder, "float32"))
