"""Put the weights of a safetensors file into a transformers model, all of them or none.

In: a file with Hugging Face names. Called by generators.hf_engine between two batches. A file that does not fit is
refused by name before the first parameter changes, so that the model never holds parts of two versions.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

from broker.errors import RunFailed

NAMES_SHOWN = 5      # of a list of wrong names


def replace_weights(model: PreTrainedModel, file: Path) -> None:
    """Copy every tensor of `file` into `model`, converting to the model's type and device.

    A parameter that is tied to another (`lm_head.weight` to the embedding) may be absent; the other one's values count.

    Raises:
        RunFailed: a name is missing or unexpected, a shape differs, or the file is no safetensors file.
    """
    try:
        with safe_open(str(file), framework="pt") as stored:
            targets = _targets(model, file, set(stored.keys()))
            _check_shapes(targets, file, {name: tuple(stored.get_slice(name).get_shape()) for name in targets})
            with torch.inference_mode():
                for name, tensor in targets.items():
                    tensor.copy_(stored.get_tensor(name))
    except (SafetensorError, OSError) as error:
        raise RunFailed(f"weights {file} can't be read: {error}") from error


def _targets(model: PreTrainedModel, file: Path, stored: set[str]) -> dict[str, torch.Tensor]:
    """Name the tensors to copy into, by their names in the file."""
    expected: dict[str, torch.Tensor] = model.state_dict()
    tied: set[str] = set(model.all_tied_weights_keys)
    missing, unexpected = expected.keys() - tied - stored, stored - expected.keys()
    if missing or unexpected:
        raise RunFailed(f"weights {file} are not of this model: missing {_listed(missing)}; unexpected "
                        f"{_listed(unexpected)}. Does model.path name the learner's model?")
    return {name: expected[name] for name in expected.keys() - tied}


def _check_shapes(targets: dict[str, torch.Tensor], file: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, tensor in targets.items():
        if tuple(tensor.shape) != shapes[name]:
            raise RunFailed(f"weights {file}: {name} has shape {shapes[name]}, the model's is {tuple(tensor.shape)}")


def _listed(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMES_SHOWN]) or "none"
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")
