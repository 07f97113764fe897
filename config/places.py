"""Find the files and folders that a configuration names, from any working directory.

In: a value of the configuration and the file that it was written in. Out: the same value, or the path that it names. A
name on the hub is OWNER/NAME, or NAME. Only looks at the disk; used by `config.loading` and by preflight.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from config.run import ModelConfig, is_template

SHIPPED: Final = Path(__file__).parent / "recipes"  # with the demo's model
SHIPPED_PARTS: Final = ("config", "recipes")  # how pages and recipes write that folder
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
_PATTERN: Final = re.compile(r"[*?\[]")  # characters that make a path a pattern


def is_there(place: Path) -> bool:
    """Return whether a path exists; a name that is too long for a file does not."""
    try:
        return place.exists()
    except OSError:
        return False


def is_path(text: str) -> bool:
    """Return whether `text` can't be a name on the hub."""
    return text.startswith(("/", ".")) or text.count("/") > 1


def lacks_model(model: ModelConfig) -> bool:
    """Return whether the model can only be a folder, and that folder does not exist."""
    return is_path(model.path) and not Path(model.path).is_dir()


def found(text: str, beside: Path | None = None) -> str:
    """Return the path that `text` names: from the working directory, next to the file, or in this program.

    If it does not exist, return `text` unchanged: it is a name on the hub, or preflight reports that it is missing.

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
    """Return the pattern from the working directory, or next to the file if only that folder has matching files."""
    if beside is None or any(Path().glob(text)) or not any(beside.glob(text)):
        return text
    return os.path.relpath(beside / text) if _is_below(beside) else str(beside.resolve() / text)


def shipped(place: Path) -> Path | None:
    """Return this program's own file with the name `config/recipes/...`; None if it has none, or for other names."""
    if place.parts[:2] != SHIPPED_PARTS:
        return None
    here = SHIPPED.joinpath(*place.parts[2:])
    return here if here.exists() else None


def _is_below(folder: Path) -> bool:
    return folder.resolve().is_relative_to(Path.cwd())
