"""What a worker does with a file of weights, by vLLM's own count of what was loaded; no engine is started."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

EMBEDDING, NORM = torch.full((4, 2), 1.0), torch.full((2,), 2.0)
FILE = {"embed.weight": EMBEDDING, "norm.weight": NORM}


class Head(nn.Module):
    """An output layer with a weight of its own, as a packed one has even where it is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 2))
        self.quant_method = SimpleNamespace(process_weights_after_loading=lambda _module: None)


class SmallModel(nn.Module):
    """A model of vLLM's kind: each parameter is filled by its loader."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 2)
        self.norm = nn.LayerNorm(2, bias=False)
        self.lm_head = Head()

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        parameters: dict[str, Any] = dict(self.named_parameters())
        for name, tensor in weights:
            parameters[name].weight_loader(parameters[name], tensor)


def receive(weights: dict[str, Tensor], folder: Path, *, is_tied: bool, load_format: str) -> SmallModel:
    """Have a worker load a file. vLLM is imported here: whoever only collects this test need not wait for it."""
    from vllm.model_executor.model_loader.reload.layerwise import record_metadata_for_reloading

    from generators.engines.vllm.worker import FileEngine, FileUpdate

    file = folder / "model.safetensors"
    save_file(weights, file)
    model = SmallModel()
    record_metadata_for_reloading(model)
    config = SimpleNamespace(tie_word_embeddings=is_tied)
    config.get_text_config = lambda: config
    engine: Any = object.__new__(FileEngine)
    engine.model = model
    engine.model_config = SimpleNamespace(hf_config=config, dtype=torch.float32)
    engine.vllm_config = SimpleNamespace(load_config=SimpleNamespace(load_format=load_format))
    engine.receive_weights(FileUpdate(paths=[str(file)]))
    return model


@pytest.mark.parametrize(
    ("weights", "is_tied", "load_format", "left_out"),
    [
        (FILE, True, "dummy", ""),
        ({"norm.weight": NORM}, True, "dummy", "embed"),
        ({"embed.weight": EMBEDDING}, True, "safetensors", ""),  # the norm is the model's own
        (FILE, False, "dummy", "lm_head"),  # and with it random logits
        (FILE | {"lm_head.weight": torch.zeros(4, 2)}, False, "dummy", ""),
    ],
)
def test_a_layer_that_the_file_has_nothing_for_is_named(
    *,
    weights: dict[str, Tensor],
    is_tied: bool,
    load_format: str,
    left_out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("generators.engines.vllm.worker.ParallelLMHead", Head)
    said = f"no weights of {left_out} are in the file"
    with pytest.raises(RuntimeError, match=said) if left_out else nullcontext():
        model = receive(weights, tmp_path, is_tied=is_tied, load_format=load_format)
        assert torch.equal(model.embed.weight, EMBEDDING)


def test_tied_and_computed_tensors_are_no_warning_at_each_update(tmp_path: Path) -> None:
    from generators.engines.vllm.worker import RELOAD_LOG

    RELOAD_LOG.setLevel(logging.NOTSET)  # as vLLM's engine core leaves it, after it has imported the module
    whole = FILE | {"lm_head.weight": torch.zeros(4, 2)}
    receive(whole, tmp_path, is_tied=False, load_format="dummy")
    assert not RELOAD_LOG.isEnabledFor(logging.WARNING)
