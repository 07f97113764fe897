"""The project's own source, read once for all rules on it that one process checks."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of one module; nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of one module's syntax tree, as `ast.walk` yields them.

    There are millions, which stay: the collector of garbage never looks at them.
    """
    gc.disable()
    try:
        return tuple(ast.walk(tree_of(path)))
    finally:
        gc.freeze()
        gc.enable()
