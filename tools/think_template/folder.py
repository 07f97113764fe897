"""Copy a model's folder, and replace its chat template, in whichever file it is.

In: a model's folder. Out: a new one, made under a temporary name and renamed: it is complete or missing. Weights are
hard links where both folders are on one file system, since nothing here changes them; every other file is a copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.think_template.chat import CannotThink
from tools.think_template.ends import TOKENIZER, read_json, write_json

WEIGHTS: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
JINJA: Final = "chat_template.jinja"  # newer folders have the template here, and transformers reads it first
OF_PROCESSOR: Final = "chat_template.json"  # of models with image or audio input
KEY: Final = "chat_template"


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `out` after the block has succeeded."""
    part, old = (out.with_name(f".{out.name}.{what}-{os.getpid()}") for what in ("part", "old"))
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if out.exists():
            out.rename(old)
        part.rename(out)
    except BaseException:
        if old.exists() and not out.exists():
            old.rename(out)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def copy_model(source: Path, target: Path, *, with_weights: bool = True, is_linked: bool = True) -> None:
    """Copy a model's files into an existing folder, except hidden ones.

    Args:
        source: a model's folder.
        target: the new one.
        with_weights: also copy the weights and their index.
        is_linked: make weights hard links where possible, else copies.
    """
    for path in sorted(source.rglob("*")):
        place = path.relative_to(source)
        if path.is_dir() or any(part.startswith(".") for part in place.parts):
            continue
        is_weights = path.suffix in WEIGHTS
        if (is_weights or path.name.endswith(".index.json")) and not with_weights:
            continue
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        if not (is_weights and is_linked and _is_linked(path, target / place)):
            shutil.copy2(path, target / place)


def _is_linked(path: Path, target: Path) -> bool:
    """Make a hard link; False where the file system does not support it."""
    try:
        target.hardlink_to(path.resolve())
    except OSError:
        return False
    return True


def put_template(folder: Path, text: str) -> list[str]:
    """Replace the template in the files that have it, and return their names; of several templates, the default.

    Raises:
        CannotThink: the template belongs to a processor.
    """
    if (folder / OF_PROCESSOR).exists():
        raise CannotThink(
            f"{OF_PROCESSOR}: the template of a processor, for more than text, can't be changed here"
        )
    settings = read_json(folder / TOKENIZER)
    written = []
    if (folder / JINJA).exists():
        (folder / JINJA).write_text(text, encoding="utf-8")
        written.append(JINJA)
    if KEY in settings or not written:
        write_json(folder / TOKENIZER, {**settings, KEY: _replaced(settings.get(KEY), text)})
        written.append(TOKENIZER)
    return written


def _replaced(found: Any, text: str) -> Any:
    """Return the key's value with the new text: older folders have a list of named templates."""
    if not isinstance(found, list):
        return text
    return [{**each, "template": text} if each.get("name") == "default" else each for each in found]
