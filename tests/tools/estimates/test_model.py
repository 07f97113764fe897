"""A model's size and dimensions: from its own files, else by its name; and one number of each for plan and doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from config.run import ModelConfig
from tools.estimates.model import KNOWN, DecoderShape, Size, shape_of, size_of


@pytest.mark.parametrize("shape", KNOWN, ids=lambda shape: shape.source)
def test_the_known_shapes_have_the_parameters_that_their_sizes_make(shape: DecoderShape) -> None:
    is_third = "Qwen3-" in shape.source
    is_tied = shape.parameters < 5e9 - is_third * 0.5e9
    if is_third:
        beside = 2 * shape.head_width  # norms of queries and keys, and no biases
    else:
        assert shape.heads * shape.head_width == shape.hidden
        beside = shape.hidden + 2 * shape.key_value_heads * shape.head_width  # biases
    beside = shape.layers * (beside + 2 * shape.hidden) + shape.hidden  # and the norms
    embeddings = shape.head * (1 if is_tied else 2)
    assert shape.parameters == embeddings + shape.layer_parameters + beside


def test_the_edges_are_those_of_a_layers_seven_matrices() -> None:
    shape = KNOWN[0]
    wide, narrow, inner = (
        (896, 896),
        (896, 128),
        (896, 4864),
    )  # queries and output; keys and values; three of the MLP
    assert shape.matrix_edges == 24 * (2 * sum(wide) + 2 * sum(narrow) + 3 * sum(inner))


@pytest.mark.parametrize(
    ("name", "taken", "parameters"),
    [
        ("Qwen/Qwen3-4B-Base", "Qwen3-4B", 4_022_468_096),
        ("Qwen/Qwen3-14B", "Qwen3-14B", 14_768_307_200),
        ("Qwen/Qwen2.5-14B-Instruct", "Qwen2.5-14B", 14_770_033_664),
        ("Qwen/Qwen2.5-Coder-7B", "Qwen2.5-7B", 7_615_616_512),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "Qwen2.5-14B", 14_770_033_664),  # as near as Qwen3's
        ("meta-llama/Llama-3.1-8B", "Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-235B-A22B", "Qwen3-32B", 235_000_000_000),  # its number is kept
        ("me/Some-1B", "Qwen2.5-1.5B", 1_000_000_000),
    ],
)
def test_a_name_is_taken_for_the_nearest_of_its_family_and_size_and_shape_agree(
    name: str, taken: str, parameters: int
) -> None:
    model = ModelConfig(path=name)
    size = size_of(model)
    assert size == Size(parameters, f"by the name {name.rpartition('/')[2]}")
    shape = shape_of(model, size)
    assert (shape.source, shape.parameters) == (f"taken for {taken}", parameters)


def test_a_shape_is_read_from_the_models_file(tmp_path: Path) -> None:
    size = Size(7_000_000_000, "by a test")
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 16}
    sizes |= {"vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2}
    for described in (sizes, {"text_config": sizes}):
        (tmp_path / "config.json").write_text(json.dumps(described))
        read = shape_of(ModelConfig(path=str(tmp_path)), size)
        assert (read.hidden, read.layers, read.intermediate, read.vocabulary) == (8, 2, 16, 100)
        assert (read.parameters, read.head) == (size.parameters, 800)
        assert (read.heads, read.key_value_heads, read.head_width, read.positions) == (4, 2, 2, 0)
    more = {"num_key_value_heads": None, "head_dim": 16, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(sizes | more))
    read = shape_of(ModelConfig(path=str(tmp_path)), size)
    assert (read.key_value_heads, read.head_width, read.positions) == (4, 16, 4096)
    (tmp_path / "config.json").write_text("{}")
    assert shape_of(ModelConfig(path=str(tmp_path)), size).hidden == 3584
