"""Translate old names of keys to the present ones. Old names are accepted until 1.0.

In: a key's path, or the tree of a stored configuration. Out: the same with the present names. Pure functions; used by
`config.loading` for every layer, and by the learner for the configurations in its journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from config.layers import Tree, leaves_of, put

Path = tuple[str, ...]

ANY: Final = "*"  # any name in an old path, and the same name in the present one
# Old path -> present path, of a value or of a section. Both have the same length.
RENAMED: Final[Mapping[Path, Path]] = {
    ("learner", "tokens_per_row"): ("learner", "tokens_per_micro_batch"),
    ("scorers", "tasks", ANY, "also"): ("scorers", "tasks", ANY, "extra_scorers"),
}


def current_path(path: Path) -> Path:
    """Return the present path of a key, which may have an old name; most paths are returned unchanged."""
    for old, new in RENAMED.items():
        if len(path) >= len(old) and all(part in (ANY, key) for part, key in zip(old, path, strict=False)):
            renamed = (key if part == ANY else part for part, key in zip(new, path, strict=False))
            return (*renamed, *path[len(old) :])
    return path


def with_current_names(tree: Mapping[str, Any]) -> Tree:
    """Return a copy of a stored configuration in which every key has its present name."""
    renamed: Tree = {}
    for leaf in leaves_of("", dict(tree)):
        put(renamed, current_path(leaf.path), leaf.value)
    return renamed
