"""This module takes trees of settings apart into values with their places, and puts them together again.

In: what a file, the environment or the command line says. Out: its leaves, the tree that several layers make together,
and which keys hold text. Pure; called by `config.loading`, which knows the layers and their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, SecretStr

Tree = dict[str, Any]
_TEXTS = (str, Path, SecretStr)


class Leaf(NamedTuple):
    """One value, as one layer says it."""

    path: tuple[str, ...]
    value: Any
    where: str  # it was written, for messages


def leaves_of(where: str, tree: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield every value of a tree that was written at `where`, with its keys from the top down after `path`."""
    if isinstance(tree, dict) and (tree or not path):
        for key, value in tree.items():
            yield from leaves_of(where, value, (*path, str(key)))
    else:
        yield Leaf(path, tree, where)


def put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    """Write a value into a tree, over what was there.

    A number names an entry of a list that is there: `data.train.0.path`.

    Raises:
        LookupError: the list has no entry of that number.
    """
    for depth, key in enumerate(path[:-1]):
        inner = tree.get(key)
        if (
            isinstance(inner, list) and path[depth + 1].isdecimal()
        ):  # another key begins a section in its place
            _put_into_list(tree, path[: depth + 1], path[depth + 1 :], value)
            return
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    # A union's members have different keys: choosing another one drops what was said of the first.
    if path[-1] == "type" and tree.get("type", value) != value:
        tree.clear()
    tree[path[-1]] = value


def _put_into_list(tree: Tree, place: tuple[str, ...], rest: tuple[str, ...], value: Any) -> None:
    """Write a value into a list: at `place` of the whole tree, and the last of its keys in `tree`."""
    entries = tree[place[-1]] = list(tree[place[-1]])  # the layer that it came from stays as it is
    name, number = ".".join(place), rest[0]
    if int(number) >= len(entries):
        what = "one entry, 0" if len(entries) == 1 else f"{len(entries)} entries, 0 to {len(entries) - 1}"
        raise LookupError(f"{name} is a list of {what}: {name}.{number} is none of them")
    entry = entries[int(number)]
    inner = {number: dict(entry) if isinstance(entry, dict) else entry}
    put(inner, rest, value)
    entries[int(number)] = inner[number]


def without_numbers(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a path without those that number the entries of a list."""
    return tuple(key for key in path if not key.isdecimal())


@cache
def holds_text(section: type[BaseModel], path: tuple[str, ...]) -> bool:
    """Return whether the key at `path` holds text in every section that it may be of; False for an unknown key.

    A word of the command line is taken for such a text as it stands: read as YAML, `{question}` is an object.
    """
    found: Sequence[Any] = [section]  # annotations of what the keys so far lead to
    for key in path:
        if not (key.isdecimal() and any(map(_is_list, found))):
            found = list(dict.fromkeys(inner for one in found for inner in _below(one, key)))
    return bool(found) and all(map(_is_text, found))


def _below(annotation: Any, key: str) -> Iterator[Any]:
    """Yield the annotations under a key of a section, or under any name of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if key in annotation.model_fields:
            yield annotation.model_fields[key].annotation
    elif get_origin(annotation) is dict:
        yield get_args(annotation)[1]
    else:
        for part in get_args(annotation):
            yield from _below(part, key)


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) in (tuple, list) or any(map(_is_list, get_args(annotation)))


def _is_text(annotation: Any) -> bool:
    """Return whether nothing but text is taken, or null beside it; the parts behind Annotated's type say no more."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if hasattr(annotation, "__metadata__"):
        return _is_text(parts[0])
    if get_origin(annotation) in (tuple, list, dict):
        return False
    return annotation in _TEXTS if not parts else all(map(_is_text, parts))
