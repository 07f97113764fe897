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
    """Write a value into a tree, over what was there."""
    for key in path[:-1]:
        inner = tree.get(key)
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    # A union's members have different keys: choosing another one drops what was said of the first.
    if path[-1] == "type" and tree.get("type", value) != value:
        tree.clear()
    tree[path[-1]] = value
