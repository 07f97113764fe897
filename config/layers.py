"""This module takes trees of settings apart into values with their places, and puts them together again.

In: what a file, the environment or the command line says. Out: its leaves, and the tree that several layers make
together. Pure; called by `config.loading`, which knows the layers and their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Tree = dict[str, Any]


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
