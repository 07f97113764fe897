"""Packed rows against one forward pass of transformers per sequence: the same values, the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from broker.errors import RunFailed
from config.run import ModelConfig
from learner.training.logprobs import LogprobModel, what_changes_logits
from learner.training.model_files import load_model
from tests.support.tiny import VOCABULARY_SIZE, write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.prove(after=1)]

TEMPERATURE = 0.7
LENGTHS = ((3, 9), (1, 5), (6, 17))  # (prompt, completion) of each sequence
WHOLE = 2**26  # entries of logits at once: all of them here


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"), tied=request.param)


@pytest.fixture
def reference(folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = Qwen2ForCausalLM.from_pretrained(folder).eval()
    return model


def sequences() -> Iterator[tuple[Tensor, int]]:
    """Token ids of each sequence, and the length of its prompt."""
    generator = torch.Generator().manual_seed(5)
    for prompt, completion in LENGTHS:
        yield torch.randint(0, VOCABULARY_SIZE, (prompt + completion,), generator=generator), prompt


def unpacked(model: PreTrainedModel) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of all completions' tokens, a forward pass for each sequence."""
    logprobs, entropies = [], []
    for token_ids, prompt in sequences():
        logits = model(input_ids=token_ids[None], use_cache=False).logits[0, prompt - 1 : -1] / TEMPERATURE
        distribution = torch.distributions.Categorical(logits=logits)
        logprobs.append(distribution.log_prob(token_ids[prompt:]))
        entropies.append(distribution.entropy())
    return torch.cat(logprobs), torch.cat(entropies)


def packed_row() -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, positions and mask of a row of all sequences."""
    token_ids, prompts = zip(*sequences(), strict=True)
    positions = torch.cat([torch.arange(len(ids)) for ids in token_ids])
    masks = [torch.arange(len(ids)) >= prompt for ids, prompt in zip(token_ids, prompts, strict=True)]
    return torch.cat(token_ids), positions, torch.cat(masks)


def places(mask: Tensor) -> Tensor:
    """Indices at which a mask is True."""
    return mask.nonzero()[:, 0]


def wrap(
    folder: Path, *, dtype: Any = "float32", checkpointing: bool = False, **options: Any
) -> LogprobModel:
    """Return the learner's model."""
    config = ModelConfig(path=str(folder), dtype=dtype)
    model = load_model(config, attention="sdpa", gradient_checkpointing=checkpointing)
    return LogprobModel(model, temperature=TEMPERATURE, **options)


def packed(folder: Path, **options: Any) -> tuple[LogprobModel, Tensor, Tensor]:
    """Return the learner's model, and the same from one row of all sequences."""
    wrapped = wrap(folder, **options)
    token_ids, positions, mask = packed_row()
    logprobs, entropies = wrapped(token_ids, positions, places(mask))
    assert not logprobs[~mask].any()
    assert not entropies[~mask].any()
    return wrapped, logprobs[mask], entropies[mask]


@pytest.mark.parametrize("gradient_checkpointing", [False, True])
@pytest.mark.parametrize("logits_at_once", [WHOLE, 7 * VOCABULARY_SIZE])  # in one piece, in five
def test_packed_equals_unpacked_in_values_and_gradients(
    folder: Path, reference: PreTrainedModel, logits_at_once: int, gradient_checkpointing: bool
) -> None:
    expected, expected_entropy = unpacked(reference)
    options = {"logits_at_once": logits_at_once, "checkpointing": gradient_checkpointing}
    model, logprobs, entropy = packed(folder, **options)
    torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, expected_entropy, atol=1e-5, rtol=0)
    assert not entropy.requires_grad
    weights = torch.linspace(-1, 1, len(expected))  # a gradient that differs from token to token
    (expected * weights).sum().backward()
    (logprobs * weights).sum().backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    assert len(gradients) > 20
    for name, parameter in model.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-4, msg=name)


def test_a_padded_grid_gives_the_same_values_and_gradients_as_a_packed_row(folder: Path) -> None:
    model, logprobs, entropy = packed(folder)
    weights = torch.linspace(-1, 1, len(logprobs))
    (logprobs * weights).sum().backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    token_ids, positions, mask = packed_row()
    cells = positions + positions.eq(0).cumsum(0).sub(1) * 23  # rows of the longest sequence
    padded, padded_entropy = model(token_ids, positions, places(mask), cells, (3, 23))
    torch.testing.assert_close(padded[mask], logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(padded_entropy[mask], entropy, atol=1e-5, rtol=0)
    (padded[mask] * weights).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-5, rtol=1e-4, msg=name)


def test_the_comparison_sees_rows_not_kept_apart_and_bfloat16_is_near(
    folder: Path, reference: PreTrainedModel
) -> None:
    """Positions that do not restart are the mistake that the tests above have to be able to notice."""
    model, logprobs, _ = packed(folder)
    token_ids, _, mask = packed_row()
    contaminated, _ = model(token_ids, torch.arange(len(token_ids)), places(mask))
    assert (contaminated[mask] - logprobs).abs().max() > 1e-2
    model = wrap(folder, dtype="bfloat16")
    token_ids, positions, mask = packed_row()
    logprobs, _ = model(token_ids, positions, places(mask))
    assert logprobs.dtype is torch.float32
    torch.testing.assert_close(logprobs[mask], unpacked(reference)[0], atol=5e-2, rtol=0)


def test_a_row_in_which_nothing_trains_still_reaches_every_weight(folder: Path) -> None:
    """Under ZeRO-3 each rank has to take part in the collectives of every weight, also with a made-up row."""
    model, zero = wrap(folder, checkpointing=True), torch.zeros(1, dtype=torch.int64)
    assert model.model.training
    assert model.model.config.attention_dropout == 0.0  # the folder's config says 0.1
    logprobs, _ = model(zero, zero, places(torch.tensor([False])))
    assert logprobs.tolist() == [0.0]
    logprobs.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


LAYERS: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
TINY: dict[str, Any] = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8} | LAYERS
SOFTCAP = "final_logit_softcapping"


class Nested(Qwen2ForCausalLM):
    """A model that scales by what lies in a nested config, where no list of attributes looks."""

    scale = 1.0

    def forward(self, *arguments: Any, **options: Any) -> Any:
        output = super().forward(*arguments, **options)
        output.logits = output.logits * self.scale
        return output


class ScalesBefore(Qwen2ForCausalLM):
    """A model that scales the hidden state before its head."""

    def forward(self, input_ids: Tensor, **options: Any) -> Any:
        hidden = self.model(input_ids, **options).last_hidden_state
        return type("Output", (), {"logits": self.lm_head(hidden / 4)})


@pytest.mark.prove(after=3)
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: Qwen2ForCausalLM(Qwen2Config(**TINY | {"logits_scaling": 8.0})),
            "CausalLM sets logits_scaling",
        ),
        (lambda: nested(1.2), "Nested changes the logits behind its head"),
        (lambda: made(ScalesBefore), "ScalesBefore changes the hidden state before its head"),
        (lambda: falcon_h1(0.5), "FalconH1ForCausalLM changes the logits behind its head"),
        (lambda: Qwen2ForCausalLM(Qwen2Config(**TINY | {SOFTCAP: 8.0})), f"Qwen2ForCausalLM sets {SOFTCAP}"),
    ],
    ids=["a scale", "a nested scale", "a scaled state", "a multiplier", "a cap"],
)
def test_a_model_whose_logits_are_not_those_of_its_head_is_refused(
    make: Callable[[], PreTrainedModel], why: str
) -> None:
    with pytest.raises(RunFailed, match=why):
        LogprobModel(make(), temperature=1.0)


def falcon_h1(multiplier: float) -> PreTrainedModel:
    from transformers import FalconH1Config, FalconH1ForCausalLM

    sizes: dict[str, Any] = {
        "vocab_size": 16,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
    }
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1, "mamba_n_heads": 2}
    mamba: dict[str, Any] = {"mamba_d_ssm": 16, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
    config = FalconH1Config(**sizes, **heads, **mamba, mamba_n_groups=1, lm_head_multiplier=multiplier)
    return FalconH1ForCausalLM(config)


def made(kind: Any) -> Any:
    """Return a tiny model of a class: transformers' own constructors have no annotations."""
    return kind(Qwen2Config(**TINY))


def nested(scale: float) -> Any:
    model = made(Nested)
    model.scale = scale
    return model


@pytest.mark.parametrize("make", [lambda: falcon_h1(1.0), lambda: nested(1.0)], ids=["falcon", "qwen2"])
def test_a_model_whose_logits_are_those_of_its_head_is_taken_as_it_was(
    make: Callable[[], PreTrainedModel], caplog: pytest.LogCaptureFixture
) -> None:
    model = make()
    head, token_ids = model.get_output_embeddings(), torch.arange(5)[None]
    expected = model(input_ids=token_ids, use_cache=False).logits
    assert what_changes_logits(model) == ""
    assert "logits_not_compared" not in caplog.text
    assert model.get_output_embeddings() is head
    torch.testing.assert_close(model(input_ids=token_ids, use_cache=False).logits, expected)
    LogprobModel(model, temperature=1.0)


def test_a_model_that_can_not_be_compared_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Picky(Qwen2ForCausalLM):
        def forward(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("only whole sequences")

    LogprobModel(made(Picky), temperature=1.0)
    assert "logits_not_compared model=Picky" in caplog.text
