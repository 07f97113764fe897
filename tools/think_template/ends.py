"""Make the three files of a model's folder agree on what ends a completion.

In: a folder's tokenizer_config.json, config.json and generation_config.json, and the token that ends the model's turn.
Out: the same files: the token first, followed by every id that any of them had. Readers use different files: vLLM and
transformers generation_config.json, others the tokenizer's or config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.think_template.chat import CannotThink

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
TOKENIZER: Final = "tokenizer_config.json"
SPECIAL: Final = "special_tokens_map.json"  # in folders older than this field of tokenizer_config.json
KEY: Final = "eos_token_id"


def read_json(file: Path) -> dict[str, Any]:
    """Read a file's object; an empty one for a missing file. Raises CannotThink, ValueError, OSError."""
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise CannotThink(f"{file}: {error}") from error
    if not isinstance(found, dict):
        raise CannotThink(f"{file}: not an object")
    return found


def write_json(file: Path, tree: Mapping[str, Any]) -> None:
    """Write an object in the form of Hugging Face's files."""
    file.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def all_ends(folder: Path, *first: int | None) -> list[int]:
    """Return every id that ends a completion, without duplicates.

    Args:
        folder: to read.
        first: ids that come first, in order.
    """
    config = read_json(folder / CONFIG)
    trees = (read_json(folder / GENERATION), config, config.get("text_config") or {})
    named = [number for tree in trees for number in _ids(tree.get(KEY))]
    return list(dict.fromkeys(number for number in (*first, *named) if number is not None))


def write_ends(folder: Path, end: str, ids: Sequence[int]) -> list[str]:
    """Write the end of a turn into the existing files, and return their names.

    Args:
        folder: of the model.
        end: the token.
        ids: its own first, then the others.
    """
    written = [TOKENIZER]
    for name in (TOKENIZER, SPECIAL):
        if tree := read_json(folder / name):
            write_json(folder / name, {**tree, "eos_token": end})
    value = ids[0] if len(ids) == 1 else list(ids)
    if config := read_json(folder / CONFIG):
        inner = config.get("text_config")
        if isinstance(inner, dict) and KEY in inner:
            config["text_config"] = {**inner, KEY: value}
        write_json(folder / CONFIG, {**config, KEY: value})
        kept = {key: config[key] for key in ("bos_token_id", "pad_token_id") if config.get(key) is not None}
        write_json(folder / GENERATION, {**(read_json(folder / GENERATION) or kept), KEY: value})
        written += [CONFIG, GENERATION]
    return written


def _ids(value: object) -> list[int]:
    if isinstance(value, int):
        return [value]
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []
