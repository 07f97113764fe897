"""What ends a completion is said in three files of a model's folder; here they are made to say the same.

In: a folder's tokenizer_config.json, config.json and generation_config.json, and the token that ends the model's turn.
Out: the same files: the token first, and behind it every id that any of them named before. Readers differ in the file
that they go by: vLLM and transformers by generation_config.json, others by the tokenizer's or by config.json.
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
SPECIAL: Final = "special_tokens_map.json"  # of folders that are older than tokenizer_config.json's say
KEY: Final = "eos_token_id"


def read_json(file: Path) -> dict[str, Any]:
    """Read a file's object; an empty one where there is no file. Raises CannotThink, ValueError, OSError."""
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
    """Write an object as Hugging Face's files have it."""
    file.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def all_ends(folder: Path, *first: int | None) -> list[int]:
    """Return every id that ends a completion, each once.

    Args:
        folder: whose files are read.
        first: ids that come first, in their order.
    """
    config = read_json(folder / CONFIG)
    trees = (read_json(folder / GENERATION), config, config.get("text_config") or {})
    named = [number for tree in trees for number in _ids(tree.get(KEY))]
    return list(dict.fromkeys(number for number in (*first, *named) if number is not None))


def write_ends(folder: Path, end: str, ids: Sequence[int]) -> list[str]:
    """Write the end of a turn into the files that are there, and return their names.

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
