"""What a worker does with a file of weights, by the names that vLLM's model says it has loaded; no engine is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from generators.engines.vllm import worker
from generators.engines.vllm.worker import FileEngine, FileUpdate

FILE = {"embed.weight": torch.full((4, 2), 1.0), "norm.weight": torch.full((2,), 2.0)}


class Embedding(nn.Module):
    """A model of vLLM's kind: it takes what it knows from the file, and says which parameters it has filled."""

    def __init__(self, *, is_tied: bool = True, says: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 2)
        self.norm = nn.LayerNorm(2, bias=False)
        self.lm_head = Head()
        self.config = SimpleNamespace(tie_word_embeddings=is_tied)
        self.says = says

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> set[str] | None:
        parameters = dict(self.named_parameters())
        loaded = set()
        for name, tensor in weights:
            parameters[name].copy_(tensor)
            loaded.add(name)
        return loaded if self.says else None


class Head(nn.Module):
    """An output layer with a weight of its own, as a packed one has even where it is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 2))
        self.quant_method = SimpleNamespace(process_weights_after_loading=lambda _module: None)


@pytest.fixture(autouse=True)
def _plain_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the layers as they are: vLLM's own reload wants layers of vLLM."""
    monkeypatch.setattr(worker, "ParallelLMHead", Head)
    monkeypatch.setattr(worker, "initialize_layerwise_reload", lambda _model: None)
    monkeypatch.setattr(worker, "finalize_layerwise_reload", lambda _model, _config: None)


def receive(model: Embedding, weights: dict[str, Tensor], folder: Path) -> None:
    save_file(weights, folder / "model.safetensors")
    engine = object.__new__(FileEngine)
    engine.model = model
    engine.model_config = None  # type: ignore[assignment]
    engine.receive_weights(FileUpdate(path=str(folder / "model.safetensors")))


@pytest.mark.parametrize(
    ("model", "weights", "left_out"),
    [
        (Embedding(), FILE, ""),
        (Embedding(), {"norm.weight": FILE["norm.weight"]}, r"embed\.weight"),
        (Embedding(is_tied=False), FILE, r"lm_head\.weight"),  # and with it random logits
        (Embedding(is_tied=False), FILE | {"lm_head.weight": torch.zeros(4, 2)}, ""),
        (Embedding(is_tied=False, says=False), FILE, ""),  # a model that does not say can't be asked
    ],
)
def test_a_weight_that_the_file_does_not_fill_is_named(
    model: Embedding, weights: dict[str, Tensor], left_out: str, tmp_path: Path
) -> None:
    if left_out:
        with pytest.raises(RuntimeError, match=f"the file has no weights for {left_out}$"):
            receive(model, weights, tmp_path)
    else:
        receive(model, weights, tmp_path)
        assert model.embed.weight.unique().item() == 1.0
