"""Split trees of settings into values with their origins, and merge them again.

In: the settings of a file, of the environment or of the command line. Out: their single values, the tree that several
layers make together, and which keys hold text. Pure functions; called by `config.loading`, which knows the layers and
their order.
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
    """One value of one layer."""

    path: tuple[str, ...]
    value: Any
    where: str  # where it was written, for messages


def leaves_of(where: str, tree: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield every value of a tree that was written at `where`, with its keys from the top down after `path`."""
    if isinstance(tree, dict) and (tree or not path):
        for key, value in tree.items():
            yield from leaves_of(where, value, (*path, str(key)))
    else:
        yield Leaf(path, tree, where)


def put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    """Write a value into a tree, and replace the present one.

    A number selects an existing entry of a list: `data.train.0.path`.

    Raises:
        LookupError: the list has no entry with that number.
    """
    for depth, key in enumerate(path[:-1]):
        inner = tree.get(key)
        if (
            isinstance(inner, list) and path[depth + 1].isdecimal()
        ):  # a further key replaces a value by a section
            _put_into_list(tree, path[: depth + 1], path[depth + 1 :], value)
            return
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    # The members of a union have different keys: choosing another member drops the values of the first one.
    if path[-1] == "type" and tree.get("type", value) != value:
        tree.clear()
    tree[path[-1]] = value


def _put_into_list(tree: Tree, place: tuple[str, ...], rest: tuple[str, ...], value: Any) -> None:
    """Write a value into a list; `place` is the list's path in the whole tree, its last key is a key of `tree`."""
    entries = tree[place[-1]] = list(tree[place[-1]])  # a copy: the layer that it came from must not change
    name, number = ".".join(place), rest[0]
    if int(number) >= len(entries):
        what = "one entry, 0" if len(entries) == 1 else f"{len(entries)} entries, 0 to {len(entries) - 1}"
        raise LookupError(f"{name} is a list of {what}: {name}.{number} is none of them")
    entry = entries[int(number)]
    inner = {number: dict(entry) if isinstance(entry, dict) else entry}
    put(inner, rest, value)
    entries[int(number)] = inner[number]


def without_numbers(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a path without the numbers of list entries."""
    return tuple(key for key in path if not key.isdecimal())


@cache
def holds_text(section: type[BaseModel], path: tuple[str, ...]) -> bool:
    """Return whether the key at `path` holds text in every section that it may be in; False for an unknown key.

    Text on the command line is then used unchanged: read as YAML, `{question}` would be a mapping.
    """
    found: Sequence[Any] = [section]  # annotations of what the keys so far may select
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
    """Return whether an annotation allows only text, or text and null; the metadata of Annotated is ignored."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if hasattr(annotation, "__metadata__"):
        return _is_text(parts[0])
    if get_origin(annotation) in (tuple, list, dict):
        return False
    return annotation in _TEXTS if not parts else all(map(_is_text, parts))
