"""A model's folder is copied, and its chat template is replaced, wherever the folder keeps one.

In: a model's folder. Out: another one, made beside its place and renamed: it is there whole or not at all. Weights are
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
JINJA: Final = "chat_template.jinja"  # newer folders keep the template here, and transformers reads it first
OF_PROCESSOR: Final = "chat_template.json"  # of models that see or hear
KEY: Final = "chat_template"


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder that is at `out`, in place of whatever was there, when the block has ended well."""
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
    """Copy a model's files into a folder that is there; hidden ones are left out.

    Args:
        source: a model's folder.
        target: the new one.
        with_weights: copy the weights too, and their index.
        is_linked: weights are hard links where that is possible, else copies.
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
    """Make a hard link; False where the file system has none, or is another one."""
    try:
        target.hardlink_to(path.resolve())
    except OSError:
        return False
    return True


def put_template(folder: Path, text: str) -> list[str]:
    """Replace the template in the files that have it, and return their names; of several templates, the default.

    Raises:
        CannotThink: the template is a processor's.
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
    """Return the value of the key with the new text: older folders have a list of named templates."""
    if not isinstance(found, list):
        return text
    return [{**each, "template": text} if each.get("name") == "default" else each for each in found]
