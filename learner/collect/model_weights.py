"""Publish the model's own weights as version 0, for the generators.

In: `run.model`, a folder or a name on the hub. Out: its safetensors where generators look for a version, hard-linked
where the disk allows. Nothing is loaded, and tensors are read only for the checksum. Used by the collector's publisher.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from broker.errors import RunFailed
from broker.weight_files import INDEX, weight_files
from config.run import ModelConfig
from learner.journal.disk import sync
from learner.weight_sync.transport import SavedWeights

PATTERNS = ["*.safetensors", "*.json"]  # of a model on the hub


class ModelWeights:
    """The model files in a folder, as both `WeightSource` and the `WeightHandle` that it gathers.

    Args:
        folder: with safetensors, named as transformers does.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def gather_weights(self) -> ModelWeights:
        """Return these weights, which never change."""
        return self

    def save_weights(self, folder: Path) -> SavedWeights:
        """Hard-link the files into `folder`, or copy them where that is not possible."""
        files = weight_files(self.folder)
        index = self.folder / INDEX
        for file in (*files, *([index] if len(files) > 1 and index.is_file() else ())):
            _link_or_copy(file.resolve(), folder / file.name)
        return SavedWeights.of(folder)


def _link_or_copy(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # another disk, or one without hard links, or another user's file
        shutil.copyfile(file, name)
        sync(name)


def find_weights(model: ModelConfig) -> ModelWeights:
    """Find the model's weights on this machine; download a hub's.

    Raises:
        RunFailed: there is no such model, or its weights are no safetensors.
    """
    folder = Path(model.path) if Path(model.path).is_dir() else _downloaded(model)
    try:
        weight_files(folder)
    except FileNotFoundError as error:
        raise RunFailed(
            f"model.path={model.path}: there is no {error.filename}: generators load safetensors alone. Load the model "
            "with transformers once, and save it with save_pretrained"
        ) from error
    return ModelWeights(folder)


def _downloaded(model: ModelConfig) -> Path:
    from huggingface_hub import snapshot_download

    token = model.hf_token.get_secret_value() if model.hf_token else None
    try:
        return Path(
            snapshot_download(model.path, revision=model.revision, token=token, allow_patterns=PATTERNS)
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"model.path={model.path}: its weights can't be had: {error}") from error
