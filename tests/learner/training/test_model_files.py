"""What goes into files, apart from what the tests of the backend see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from broker.checksums import weights_checksum, weights_digest
from broker.errors import RunFailed
from broker.weight_files import INDEX, weight_files
from config.run import ModelConfig
from learner.training.model_files import (
    _TYPES,
    in_parts,
    load_model,
    write_model,
    write_safetensors,
    write_weights,
)
from tests.support.tiny import write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training")]


@pytest.mark.parametrize(
    ("sizes", "limit", "parts"),
    [
        ([3, 3, 3], 6, [[3, 3], [3]]),
        ([3, 9, 3], 6, [[3], [9], [3]]),  # larger than the limit: alone
        ([6, 1], 6, [[6], [1]]),
        ([], 6, []),
    ],
)
def test_parameters_come_in_order_and_in_parts(sizes: list[int], limit: int, parts: list[list[int]]) -> None:
    parameters = {str(i): torch.zeros(size) for i, size in enumerate(sizes)}
    measured = list(in_parts(parameters, limit))
    assert [[len(parameter) for parameter in part.values()] for part in measured] == parts
    assert [name for part in measured for name in part] == list(parameters)


def test_a_file_of_weights_is_that_of_safetensors_and_its_checksum_needs_no_second_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.training.model_files.BLOCK_BYTES", 100)  # tensors in several pieces
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"{place}.{name}.ä": (100 * torch.rand(shape, generator=generator)).to(dtype)
        for place, (dtype, name) in enumerate(_TYPES.items())
        for shape in [(3, 7 + place)]
    }
    tensors |= {
        "b.same_type": torch.rand(5, 40, generator=generator),
        "a.same_type": torch.rand(2, 2, generator=generator),
        "a.transposed": torch.rand(8, 9, generator=generator).to(torch.bfloat16).T,
        "a.scalar": torch.tensor(3.0),
        "a.empty": torch.zeros(0, 4),
    }
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, tmp_path / "theirs", metadata={"format": "pt"})
    digest = weights_digest()
    size_bytes = write_safetensors(tensors, tmp_path / "ours", digest)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert digest.hexdigest() == weights_checksum([tmp_path / "theirs"])
    assert size_bytes == (tmp_path / "theirs").stat().st_size


def test_weights_of_several_files_have_one_checksum_over_all_of_them(tmp_path: Path) -> None:
    buffer = torch.arange(5000.0)  # as DeepSpeed's, which holds all of them
    tensors = {f"layer.{number}": part for number, part in enumerate(buffer.split(1000))}  # 4000 bytes each
    (tmp_path / "parts").mkdir()
    (tmp_path / "whole").mkdir()
    saved = write_weights(tensors, tmp_path / "parts", shard_bytes=8000)
    files = weight_files(tmp_path / "parts")
    assert [len(load_file(file)) for file in files] == [2, 2, 1]
    size_bytes = sum(file.stat().st_size for file in files)
    assert (saved.checksum, saved.size_bytes) == (weights_checksum(files), size_bytes)
    assert {name for file in files for name in load_file(file)} == tensors.keys()
    whole = write_weights(tensors, tmp_path / "whole", shard_bytes=20_000)
    assert [path.name for path in (tmp_path / "whole").iterdir()] == ["model.safetensors"]
    assert whole.checksum != saved.checksum


@pytest.mark.parametrize(("shard_bytes", "dtype"), [(600_000, "float32"), (5 * 10**9, "bfloat16")])
def test_a_large_model_is_several_files_to_read(tmp_path: Path, shard_bytes: int, dtype: Any) -> None:
    source = write_tiny_model(tmp_path / "tiny")
    tensors, out = load_file(source / "model.safetensors"), tmp_path / "out"
    write_model(tensors, out, source=ModelConfig(path=str(source), dtype=dtype), shard_bytes=shard_bytes)
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "tokenizer.json"} <= names
    assert json.loads((out / "config.json").read_text())["dtype"] == dtype
    if dtype == "bfloat16":
        assert "model.safetensors" in names
        assert INDEX not in names
        return
    assert len(list(out.glob("*.safetensors"))) > 2
    assert json.loads((out / INDEX).read_text())["weight_map"].keys() == tensors.keys()
    loaded: Any = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    model, problems = loaded
    assert not any(problems.values())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, tensors.get(name, tensors["model.embed_tokens.weight"])), name


class Touch:
    """What a pickled file may do when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.file,))


@pytest.mark.parametrize("weights", ["tensors", "program"])
def test_weights_that_are_no_safetensors_are_refused_unread(tmp_path: Path, weights: str) -> None:
    folder, touched = write_tiny_model(tmp_path / "model"), tmp_path / "touched"
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors if weights == "tensors" else Touch(touched), folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load_model(ModelConfig(path=str(folder)), attention="sdpa", gradient_checkpointing=False)
    assert not touched.exists()


@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_weight_that_is_in_no_file_is_named_and_not_made_up(tmp_path: Path, name: str) -> None:
    folder = write_tiny_model(tmp_path / "model", tied=False)
    weights = load_file(folder / "model.safetensors")
    del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RunFailed, match=f"its files have no {name} \\(1 of its weights are missing\\)"):
        load_model(ModelConfig(path=str(folder)), attention="sdpa", gradient_checkpointing=False)
