"""Adapters that can't be merged are refused by name, and the file is that of the learner's model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from broker.errors import RunFailed
from config.learner import LoraConfig
from config.run import ModelConfig
from generators.weight_sync.adapter import FOLDER, MergingReceiver, base_files, pairs_of
from generators.weight_sync.receiver import Received

pytestmark = pytest.mark.process

LOW, HIGH = "base_model.model.layer.lora_A.weight", "base_model.model.layer.lora_B.weight"
LORA = LoraConfig(rank=2, alpha=4, publish="adapter")


class Brings:
    is_slow = True

    def __init__(self, file: Path) -> None:
        self._file = file

    def receive(self, announced: Any, *, held: int) -> Received:
        return Received(version=3, files=(self._file,))

    def loaded(self, received: Received) -> None:
        raise AssertionError("nothing was loaded")

    def close(self) -> None: ...


def made(tmp_path: Path, adapter: dict[str, Tensor], *, dtype: str = "float32") -> MergingReceiver:
    model = tmp_path / "model"
    model.mkdir()
    save_file({"layer.weight": torch.ones(3, 4, dtype=getattr(torch, dtype))}, model / "one.safetensors")
    save_file({"other.weight": torch.full((2,), 7.0)}, model / "two.safetensors")
    save_file(adapter, tmp_path / "adapter.safetensors")
    section = ModelConfig.model_validate({"path": str(model), "dtype": dtype})
    return MergingReceiver(Brings(tmp_path / "adapter.safetensors"), section, LORA)


def pair(rows: int = 3, columns: int = 4) -> dict[str, Tensor]:
    return {LOW: torch.full((2, columns), 0.5), HIGH: torch.full((rows, 2), 0.25)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_product_is_added_in_float32_and_the_rest_stays(tmp_path: Path, dtype: str) -> None:
    from safetensors.torch import load_file

    receiver = made(tmp_path, pair(), dtype=dtype)
    found = load_file(receiver.receive([], held=0).files[0])
    receiver.close()
    assert found["layer.weight"].tolist() == [[1 + 2 * 0.25] * 4] * 3  # alpha / rank = 2
    assert found["other.weight"].tolist() == [7.0, 7.0]
    assert {tensor.dtype for tensor in found.values()} == {getattr(torch, dtype)}
    assert receiver.is_slow


@pytest.mark.parametrize(
    ("adapter", "why"),
    [
        (pair(rows=5), "a weight of 5 x 4, and that of .* is \\(3, 4\\)"),
        ({name.replace("layer", "of.9"): one for name, one in pair().items()}, "of.9.weight and 0 more"),
        ({LOW: torch.ones(2, 4)}, f"{LOW} without {HIGH}"),
        ({HIGH: torch.ones(3, 2)}, "1 tensors of an adapter, of which 0 are pairs"),
        ({"layer.weight": torch.ones(3, 4)}, "layer.weight, which is no tensor of an adapter"),
        ({}, r"adapter\.safetensors can't be read"),  # no safetensors file
    ],
)
def test_what_is_no_adapter_of_it_is_named(tmp_path: Path, adapter: dict[str, Tensor], why: str) -> None:
    with closing(made(tmp_path, adapter)) as receiver:
        if not adapter:
            (tmp_path / "adapter.safetensors").write_bytes(b"nonsense")
        with pytest.raises(RunFailed, match=why):
            receiver.receive([], held=0)


def test_a_model_without_safetensors_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"no safetensors here: .* Set learner.lora.publish=merged"):
        base_files(ModelConfig(path=str(tmp_path)))


def test_an_empty_adapter_has_no_pairs() -> None:
    assert pairs_of({}) == {}


def test_what_a_killed_generator_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    dead = temporary / f"{FOLDER}dead"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    (dead / "v000003.safetensors").touch()
    receiver = made(tmp_path, pair())
    living = receiver.receive([], held=0).files[0].parent
    assert list(temporary.iterdir()) == [living]
    receiver.close()
    assert not any(temporary.iterdir())
