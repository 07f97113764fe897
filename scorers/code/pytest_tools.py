"""Tools of pytest files that can't work here: the answer runs in another process than its tests.

In: a parsed file. Out: the name of such a tool, or None. Used by `scorers.code.rows`, which refuses the row: with it
every answer would be wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

FIXTURES: Final = frozenset({"capsys", "capsysbinary", "capfd", "capfdbinary", "monkeypatch", "mocker"})
MOCKS: Final = frozenset({"mock", "unittest.mock"})


def reaching_tool(tree: ast.Module) -> str | None:
    """What would look at the answer's output, or replace its objects."""
    nodes = list(ast.walk(tree))
    if found := next((name for node in nodes for name in _fixtures(node) if name in FIXTURES), None):
        return found
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {
        name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    taken = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module in MOCKS
        for alias in node.names
    }
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "mock.patch" if modules & MOCKS and "patch" in taken | used else None


def _fixtures(node: ast.AST) -> Iterator[str]:
    """That a function asks for by its parameters, or a mark by name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            yield argument.arg
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "usefixtures"
    ):
        for named in node.args:
            if isinstance(named, ast.Constant):
                yield str(named.value)
