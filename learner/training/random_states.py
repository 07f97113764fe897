"""Save and load the random number generators of one rank, for a checkpoint.

In: this process's generators (python, numpy, torch's on the CPU and on this rank's GPU). Out: a JSON file, and back.
Used by the backend on every rank. The learner draws from none of them today: dropout is off, and the data's order is a
function of seed and ordinal. But a model's own code may draw, and a resumed step must repeat exactly.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch


def save(folder: Path, rank: int, device: torch.device) -> None:
    """Write this rank's states into a checkpoint's folder."""
    _file(folder, rank).write_text(json.dumps(_capture(device)), encoding="utf-8")


def load(folder: Path, rank: int, device: torch.device) -> None:
    """Restore the states that `save` wrote. A rank that did not exist then keeps its seed."""
    if (file := _file(folder, rank)).is_file():
        _restore(json.loads(file.read_text(encoding="utf-8")), device)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"random-{rank}.json"


def _capture(device: torch.device) -> dict[str, Any]:
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002 - the global one
    return {
        "python": [version, list(internal), gauss],
        "numpy": [np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": torch.cuda.get_rng_state(device).numpy().tobytes().hex() if device.type == "cuda" else None,
    }


def _restore(states: dict[str, Any], device: torch.device) -> None:
    """Restore the states; a GPU's state is unchanged where the checkpoint has none."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state(("MT19937", np.asarray(keys, np.uint32), position, has_gauss, cached))  # noqa: NPY002
    torch.set_rng_state(_tensor(states["torch"]))
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(_tensor(states["cuda"]), device)


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
