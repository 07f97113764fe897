"""Files of weights as the format safetensors says, with types that numpy does not have, and versions of such a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, tuple[str, NDArray[Any]]]  # name -> safetensors' type, and the bits


def content_of(tensors: Mapping[str, tuple[str, NDArray[Any]]]) -> bytes:
    """Return the bytes of a file that holds these tensors in this order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, values) in tensors.items():
        end = len(data) + values.nbytes
        header[name] = {"dtype": dtype, "shape": [values.size], "data_offsets": [len(data), end]}
        data += values.tobytes()
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + data


def made_up(version: int) -> Tensors:
    """Return tensors of several types; each version changes two in a hundred elements of the one before."""
    chance = np.random.default_rng(0)
    tensors: Tensors = {
        "embed": ("BF16", chance.integers(0, 2**16, 5000, dtype=np.uint16)),
        "norm": ("F32", chance.integers(0, 2**32, 300, dtype=np.uint32)),
        "nothing": ("F32", np.zeros(0, np.uint32)),
        "steps": ("I64", np.array([0, -1, 2**62])),
        "mask": ("BOOL", np.array([0, 1, 1], np.uint8)),
        "small": ("F8_E4M3", chance.integers(0, 2**8, 999, dtype=np.uint8)),
        "head": ("BF16", chance.integers(0, 2**16, 7000, dtype=np.uint16)),
        "empty": ("BF16", np.zeros(0, np.uint16)),
    }
    for number in range(1, version + 1):
        for _, values in tensors.values():
            changed = np.random.default_rng(number).random(values.size) < 0.02
            values[changed] = (values[changed] + number).astype(values.dtype)
    return tensors


def write_tensors(file: Path, tensors: Mapping[str, tuple[str, NDArray[Any]]]) -> Path:
    file.write_bytes(content_of(tensors))
    return file


def bfloat16(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of numbers in bfloat16, rounded to nearest, ties to even."""
    bits = numbers.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
