"""This module tells which values must be a place on this machine's disk. A name on the hub is OWNER/NAME, or NAME."""

from __future__ import annotations

from pathlib import Path

from config.run import ModelConfig


def is_path(text: str) -> bool:
    """Return whether `text` can't be a name on the hub."""
    return text.startswith(("/", ".")) or text.count("/") > 1


def lacks_model(model: ModelConfig) -> bool:
    """Return whether the model can only be a folder, and that folder is not here."""
    return is_path(model.path) and not Path(model.path).is_dir()
