"""Find a model's number of parameters and its dimensions, the base of every other estimate.

In: the section `model`, a judge's or a reference's name. Out: a `Size` and a `DecoderShape` of the same parameters:
from the model's files, in a folder or the hub's cache, else by its name. Nothing is downloaded. A file that can't be
read counts as missing.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from config.run import ModelConfig

MIB = 1 << 20
BYTES_OF = {"float32": 4, "bfloat16": 2, "float16": 2}
HEADER = struct.Struct("<Q")  # of a safetensors file: the length of its header
BILLIONS = re.compile(r"(\d+(?:\.\d+)?)[bB](?![a-zA-Z])")  # in a model's name: Qwen2.5-0.5B
NEAR = 1.1  # rounding factor of names: Qwen2.5-7B has 7.6 billion


@dataclass(frozen=True, slots=True)
class Size:
    """A model's number of parameters, and its source."""

    parameters: int
    source: str  # of the number


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """The dimensions of a dense decoder."""

    parameters: int
    hidden: int
    layers: int
    intermediate: int
    vocabulary: int
    heads: int  # of queries
    key_value_heads: int  # of keys and values, shared by groups of queries
    head_width: int  # dimension of one head
    positions: int = 0  # the longest sequence that the model supports; 0: unknown
    source: str  # of the dimensions

    @property
    def layer_parameters(self) -> int:
        """Weights in the matrices of all layers."""
        attention = self.hidden * self.head_width * 2 * (self.heads + self.key_value_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def matrix_edges(self) -> int:
        """Rows and columns of these matrices: an adapter of rank r has r times as many parameters."""
        attention = 4 * self.hidden + 2 * self.head_width * (self.heads + self.key_value_heads)
        return self.layers * (attention + 3 * (self.hidden + self.intermediate))

    @property
    def head(self) -> int:
        """Weights of the output head, even if the embedding shares them."""
        return self.vocabulary * self.hidden


# For models without files here, as their publisher's config.json has them: the nearest of the family in the name is
# assumed, else the nearest of all.
KNOWN = tuple(
    DecoderShape(
        parameters=parameters,
        hidden=hidden,
        layers=layers,
        intermediate=intermediate,
        vocabulary=vocabulary,
        heads=heads,
        key_value_heads=key_value_heads,
        head_width=head_width,
        source=f"taken for {name}",
    )
    for name, parameters, hidden, layers, intermediate, vocabulary, heads, key_value_heads, head_width in (
        ("Qwen2.5-0.5B", 494_032_768, 896, 24, 4_864, 151_936, 14, 2, 64),
        ("Qwen2.5-1.5B", 1_543_714_304, 1_536, 28, 8_960, 151_936, 12, 2, 128),
        ("Qwen2.5-3B", 3_085_938_688, 2_048, 36, 11_008, 151_936, 16, 2, 128),
        ("Qwen2.5-7B", 7_615_616_512, 3_584, 28, 18_944, 152_064, 28, 4, 128),
        ("Qwen2.5-14B", 14_770_033_664, 5_120, 48, 13_824, 152_064, 40, 8, 128),
        ("Qwen2.5-32B", 32_763_876_352, 5_120, 64, 27_648, 152_064, 40, 8, 128),
        ("Qwen2.5-72B", 72_706_203_648, 8_192, 80, 29_568, 152_064, 64, 8, 128),
        ("Qwen3-0.6B", 596_049_920, 1_024, 28, 3_072, 151_936, 16, 8, 128),
        ("Qwen3-1.7B", 1_720_574_976, 2_048, 28, 6_144, 151_936, 16, 8, 128),
        ("Qwen3-4B", 4_022_468_096, 2_560, 36, 9_728, 151_936, 32, 8, 128),
        ("Qwen3-8B", 8_190_735_360, 4_096, 36, 12_288, 151_936, 32, 8, 128),
        ("Qwen3-14B", 14_768_307_200, 5_120, 40, 17_408, 151_936, 40, 8, 128),
        ("Qwen3-32B", 32_762_123_264, 5_120, 64, 25_600, 151_936, 64, 8, 128),
    )
)


def size_of(model: ModelConfig) -> Size | None:
    """Find the size of the model: from its files, in a folder or the hub's cache, else from its name."""
    for folder in (Path(model.path), *cached(model.path)):
        files = sorted(folder.glob("*.safetensors"))
        if counted := sum(math.prod(shape) for file in files for shape in _shapes_in(file)):
            return Size(counted, f"as {folder} has them")
    if found := BILLIONS.search(name := Path(model.path).name):
        named = int(float(found[1]) * 1e9)
        known = _nearest(name, named).parameters
        return Size(known if 1 / NEAR < named / known < NEAR else named, f"by the name {name}")
    return None


def shape_of(model: ModelConfig, size: Size) -> DecoderShape:
    """Return the shape of a model: from its `config.json`, in a folder or the hub's cache, else by its name and size.

    Args:
        model: the section.
        size: its number of parameters, from `size_of`, which the shape keeps.
    """
    for folder in (Path(model.path), *cached(model.path)):
        if (found := _read(folder / "config.json", size)) is not None:
            return found
    return replace(_nearest(Path(model.path).name, size.parameters), parameters=size.parameters)


def cached(name: str) -> Iterator[Path]:
    """Yield the snapshots of a hub's model on this machine, the newest first."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    snapshots = (hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*")
    yield from sorted(snapshots, key=lambda path: path.stat().st_mtime, reverse=True)


def _nearest(name: str, parameters: int) -> DecoderShape:
    """Return the known shape of the nearest size, of the family in the name where it has one."""
    family = [shape for shape in KNOWN if shape.source.split()[-1].partition("-")[0].lower() in name.lower()]
    return min(family or KNOWN, key=lambda shape: round(abs(math.log(shape.parameters / parameters)), 2))


def _shapes_in(file: Path) -> list[list[int]]:
    """Read the shapes of all tensors from the header of a safetensors file; none of other files."""
    try:
        with file.open("rb") as stream:
            (length,) = HEADER.unpack(stream.read(HEADER.size))
            described = json.loads(stream.read(min(length, 100 * MIB)))
        return [list(tensor["shape"]) for name, tensor in described.items() if name != "__metadata__"]
    except (OSError, ValueError, RecursionError, struct.error, KeyError, TypeError, AttributeError):
        return []


def _read(file: Path, size: Size) -> DecoderShape | None:
    """Read the shape from a model's own file; None where the file is missing, or has other keys."""
    try:
        described: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        text = described.get("text_config") or described
        hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
        return DecoderShape(
            parameters=size.parameters,
            hidden=hidden,
            layers=int(text["num_hidden_layers"]),
            intermediate=int(text["intermediate_size"]),
            vocabulary=int(text["vocab_size"]),
            heads=heads,
            key_value_heads=int(text.get("num_key_value_heads") or heads),
            head_width=int(text.get("head_dim") or hidden // heads),
            positions=int(text.get("max_position_embeddings") or 0),
            source=f"as {file} has it",
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
