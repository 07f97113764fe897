"""This module tells which values must be a place on this machine's disk, and finds it from any folder.

In: a value of the configuration, and the file that it was written in. Out: the same value, or the place that it means.
A name on the hub is OWNER/NAME, or NAME. It only looks at the disk; called by `config.loading` and by preflight.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from config.run import ModelConfig, is_template

SHIPPED: Final = Path(__file__).parent / "recipes"  # with the demo's model
SHIPPED_PARTS: Final = ("config", "recipes")  # how pages and recipes name that folder
# Keys whose value may be a file or a folder that a run reads.
KEYS: Final = frozenset(
    {
        ("model", "path"),
        ("model", "chat_template"),
        ("model", "chat_template", "file"),
        ("data", "train", "path"),
        ("data", "held_out", "path"),
        ("learner", "objective", "kl", "reference"),
        ("learner", "lora", "adapter"),
        ("judge", "serve", "model"),
    }
)
# Keys that may hold a list of sources, each with a path.
LISTS: Final = frozenset({("data", "train"), ("data", "held_out")})
_PATTERN: Final = re.compile(r"[*?\[]")  # what makes a path a pattern


def is_there(place: Path) -> bool:
    """Return whether something lies at a place; nothing does under a name that is too long for any file."""
    try:
        return place.exists()
    except OSError:
        return False


def is_path(text: str) -> bool:
    """Return whether `text` can't be a name on the hub."""
    return text.startswith(("/", ".")) or text.count("/") > 1


def lacks_model(model: ModelConfig) -> bool:
    """Return whether the model can only be a folder, and that folder is not here."""
    return is_path(model.path) and not Path(model.path).is_dir()


def found(text: str, beside: Path | None = None) -> str:
    """Return the place that `text` names: from the folder of the start, beside the file, or in this program.

    Where there is none, `text` stays: it is a name on the hub, or preflight says that it is missing.

    Args:
        text: as it was written.
        beside: the folder of the file that it was written in; None: it was not written in a file.
    """
    if is_template(text):
        return text
    place = Path(text)
    if not text or place.is_absolute() or is_there(place):
        return text
    if is_pattern(text):
        return _found_pattern(text, beside)
    if beside is not None and is_there(beside / place):
        return os.path.relpath(beside / place) if _is_below(beside) else str((beside / place).resolve())
    return str(shipped(place) or text)


def is_pattern(text: str) -> bool:
    """Return whether `text` is a pattern of files, such as `data/*.parquet`."""
    return _PATTERN.search(text) is not None


def _found_pattern(text: str, beside: Path | None) -> str:
    """Return the pattern from the folder of the start; beside the file where only the file's folder has such files."""
    if beside is None or any(Path().glob(text)) or not any(beside.glob(text)):
        return text
    return os.path.relpath(beside / text) if _is_below(beside) else str(beside.resolve() / text)


def shipped(place: Path) -> Path | None:
    """Return what this program has under the name `config/recipes/...`; None where the name is another, or unknown."""
    if place.parts[:2] != SHIPPED_PARTS:
        return None
    here = SHIPPED.joinpath(*place.parts[2:])
    return here if here.exists() else None


def _is_below(folder: Path) -> bool:
    return folder.resolve().is_relative_to(Path.cwd())
