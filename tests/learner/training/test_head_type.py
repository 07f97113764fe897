"""The type of the output head, in the learner and in the engine `hf`: alike on both sides, and small mismatch only then."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from broker.errors import RunFailed
from config.run import ModelConfig
from generators.engines.hf.model import Float32Head, build_model, check_weights, replace_weights
from learner.training.logprobs import LogprobModel
from learner.training.model_files import load_model
from tests.support.tiny import VOCABULARY_SIZE, write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training")]

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


def test_both_sides_agree_with_the_same_head_and_not_with_another(folder: Path, ids: Tensor) -> None:
    mismatch = {
        (learner, sampler): k3(learned(folder, ids, learner), sampled(folder, ids, sampler))
        for learner in ("float32", "model")
        for sampler in ("float32", "model")
    }
    assert mismatch["float32", "float32"] < mismatch["float32", "model"] / 3
    assert mismatch["float32", "float32"] < mismatch["model", "float32"] / 3


def test_a_float32_head_follows_new_weights_and_keeps_their_names(folder: Path, ids: Tensor) -> None:
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


def test_a_model_in_float32_has_its_own_head(folder: Path) -> None:
    for config in (section(folder, "float32", "float32"), section(folder, "model")):
        assert not isinstance(build_model(config).get_output_embeddings(), Float32Head)


def test_a_head_that_is_not_linear_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "transformers.Qwen2ForCausalLM.get_output_embeddings"
    monkeypatch.setattr(name, lambda self: torch.nn.Identity())
    with pytest.raises(RunFailed, match=r"logits of a Identity in float32.*head_dtype=model"):
        build_model(section(folder, "float32"))
