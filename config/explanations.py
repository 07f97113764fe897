"""Explain what is wrong with a configuration: the key, where it was written, what was expected, the nearest key.

In: pydantic's errors and the merged tree. Out: the text of a ConfigError. Runs in every entry point, before anything
heavy is imported.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_origin

from pydantic import BaseModel

from config.data import ONE, SEVERAL
from config.logs import MASK
from config.other_names import foreign_names
from config.run import Run
from config.section import sections_of

_IN_ADDRESS: Final = re.compile(r"//[^/\s]*@")  # a name and a password
Path = tuple[str, ...]  # keys from the top down

# Sections of TinyV's and RRM's trainer that are similar to no key here, with ours for them.
_VERIFIER: Final = "of the scorer of `scorers.tasks.tinyv` or `scorers.tasks.rubric`"
_FOREIGN: Final[Mapping[str, Mapping[str, str]]] = {
    "reward_model": {"tinyv_setup": f"`mode` {_VERIFIER}", "tinyv_weight": f"`weight` {_VERIFIER}"}
}


class ConfigError(Exception):
    """The configuration can't be used; the message names the key, where it was written and what was expected."""


def explain(item: Mapping[str, Any], merged: Mapping[str, Any], origin: Mapping[Path, str]) -> str:
    """Explain one of pydantic's errors in one line.

    Args:
        item: an element of `ValidationError.errors()`.
        merged: what was validated.
        origin: where each value of it was written.
    """
    path = _real_path(item["loc"], merged)
    key = ".".join(path)
    where = _where(path, origin)
    match item["type"]:
        case "extra_forbidden":
            return f"unknown key {key}{where}{nearest(path, merged)}"
        case "missing":
            return f"missing key {key}"
        case "union_tag_not_found":
            return f"missing key {key}.type{where}: it says which kind of {path[-1]} is meant; one of {_types(path)}"
    message = str(item["msg"]).removeprefix("Value error, ")
    if not path:
        return message
    if item["type"] == "string_type" and isinstance(item["input"], dict):
        message = f"{message}; in a file, a text that begins with a brace stands in quotes"
    shown = (
        ""
        if isinstance(item["input"], dict)
        else f", got {_IN_ADDRESS.sub(f'//{MASK}@', repr(item['input']))}"
    )
    return f"{key}{where}: {message}{shown}"


def nearest(path: Path, merged: Mapping[str, Any]) -> str:
    """Return a hint at the key that the unknown key `path` may stand for; empty if none is similar."""
    section = _at(merged, path)
    if isinstance(section, dict) and (
        ours := [
            f"{key} is {here}" for key, here in _FOREIGN.get(".".join(path), {}).items() if key in section
        ]
    ):
        return f"; here {', '.join(ours)}"
    if theirs := foreign_names.answer(path, section):
        return theirs
    keys = {".".join(key) for key, _ in _all_keys(Run, path)}
    wanted = ".".join(path)
    if wanted in keys:  # a key of another member of a union
        section = ".".join(path[:-1])
        return f"; {section}.type is {_at(merged, (*path[:-1], 'type'))!r}, and that kind has no such key"
    same_leaf = [key for key in keys if key.split(".")[-1] == path[-1]]
    close = same_leaf or difflib.get_close_matches(wanted, sorted(keys), n=1, cutoff=0.6)
    close = close or [key for key in keys if _likeness(key.split(".")[-1], path[-1]) > 0.75]
    best = sorted(close, key=lambda key: (-_likeness(key, wanted), key))
    return f"; did you mean {best[0]}?" if best else ""


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _where(path: Path, origin: Mapping[Path, str]) -> str:
    """Return where a value, a section's choice of type, a part of a section, or the list of an element was written."""
    places = [origin.get(path), origin.get((*path, "type"))]
    places += [place for key, place in origin.items() if key[: len(path)] == path]
    places += [origin.get(path[:end]) for end in range(len(path) - 1, 0, -1)]
    found = next((place for place in places if place), None) if path else None
    return f" in {found}" if found else ""


def _real_path(loc: Sequence[Any], merged: Any) -> Path:
    """Return `loc` without the tags that pydantic adds for the members of a union."""
    path: list[str] = []
    tree = merged
    for index, part in enumerate(loc):
        is_last = index == len(loc) - 1
        if part in (ONE, SEVERAL) or (isinstance(tree, dict) and not is_last and tree.get("type") == part):
            continue
        path.append(str(part))
        tree = _below(tree, str(part))
    return tuple(path)


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = _below(tree, key)
    return tree


def _below(tree: Any, key: str) -> Any:
    """Return the value under a key of a section or a number of a list; None if there is none."""
    if isinstance(tree, list) and key.isdecimal() and int(key) < len(tree):
        return tree[int(key)]
    return tree.get(key) if isinstance(tree, dict) else None


def _types(path: Path) -> str:
    wanted = (
        *(key for key in path if not key.isdecimal()),
        "type",
    )  # an element of a list has the keys of its list
    sections = [section for key, section in _all_keys(Run, path) if key == wanted]
    return ", ".join(dict.fromkeys(str(section.model_fields["type"].default) for section in sections))


def _all_keys(
    section: type[BaseModel], path: Path, prefix: Path = ()
) -> Iterator[tuple[Path, type[BaseModel]]]:
    """Yield every key with its section. Names that the user chooses (of tasks) are taken from `path`."""
    for name, field in section.model_fields.items():
        key = (*prefix, name)
        yield key, section
        if get_origin(field.annotation) is dict:
            is_on_the_way = path[: len(key)] == key and len(path) > len(key)
            key = (*key, path[len(key)] if is_on_the_way else "NAME")
        for inner in sections_of(field.annotation):
            yield from _all_keys(inner, path, key)
