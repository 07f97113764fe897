"""What the modules of a row's files bind, import and use, read from their syntax.

In: texts of Python files. Out: for each its top-level names with the statements that bind them, what the reference
changes of them, and where its imports lead. Used by `scorers.swe.sides`; nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

STAR: Final = "*"
_MUTATORS: Final = frozenset(
    {
        "append",
        "extend",
        "insert",
        "add",
        "update",
        "setdefault",
        "pop",
        "popitem",
        "remove",
        "discard",
        "clear",
    }
    | {"sort", "reverse", "appendleft", "extendleft", "popleft", "rotate", "register", "subtract"}
)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Scopes = (*Function, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One file that can be imported, as it is with the reference's change."""

    name: str
    path: str
    package: str  # that its relative imports begin at
    tree: ast.Module
    bindings: Mapping[str, Sequence[ast.stmt]]  # top-level name -> statements that bind it, in order
    changed: frozenset[str]  # of these names: what the reference binds otherwise than the row
    imports: Mapping[str, tuple[str, str]] = field(
        default_factory=dict
    )  # name -> module and its name there, or ""
    stars: tuple[str, ...] = ()  # modules that all is imported from


def module_names(path: str) -> list[str]:
    """Return the name by which a file is imported; none where it can't be."""
    pure = PurePosixPath(path)
    parts = [*pure.parts[pure.parts[0] == "src" : -1], *([] if pure.name == "__init__.py" else [pure.stem])]
    return (
        [".".join(parts)]
        if pure.suffix == ".py" and parts and all(part.isidentifier() for part in parts)
        else []
    )


def packages_of(path: str) -> list[str]:
    """Return the name by which a file is imported, and those of the packages above it."""
    parts = [part for name in module_names(path) for part in name.split(".")]
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def parsed(text: str) -> ast.Module:
    """Parse a file; one that is no Python binds and imports nothing."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def module_of(path: str, before: str | None, after: str) -> Module | None:
    """Read a file as it is with the reference's change; None where it can't be imported.

    Args:
        path: of the file.
        before: its text in the row; None where the reference makes it.
        after: its text with the reference's change.
    """
    for name in module_names(path):
        tree = parsed(after)
        bindings = bindings_of(tree)
        changed: set[str] = set()
        if before != after:
            old = bindings_of(parsed(before)) if before is not None else {}
            changed = {one for one in bindings if _dumped(bindings[one]) != _dumped(old.get(one, ()))}
        package = name if PurePosixPath(path).name == "__init__.py" else name.rpartition(".")[0]
        imports, stars = _imports(tree, package)
        return Module(name, path, package, tree, bindings, frozenset(changed), imports, stars)
    return None


def bindings_of(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return the top-level names of a module, each with the statements that bind it: a whole `if`, where one does."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in dict.fromkeys(bound_by(statement)):
            found.setdefault(name, []).append(statement)
    return found


def bound_by(node: ast.AST) -> Iterator[str]:
    """Give the names that a statement binds in its own scope."""
    if isinstance(node, (*Function, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    if not isinstance(node, _Scopes):
        for child in ast.iter_child_nodes(node):
            yield from bound_by(child)


def identifiers(node: ast.AST) -> set[str]:
    """Return every name and attribute that stands in a tree, and every text that could be one."""
    found: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found.add(name)
            case ast.Constant(value=str(text)) if text.isidentifier():
                found.add(text)
    return found


def used_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements look up, in the bodies of their functions too."""
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}


def imported_modules(tree: ast.AST, package: str, known: Mapping[str, Module]) -> set[str]:
    """Return the known modules that a file names: by its imports, and in a string that is a module's name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            below = [f"{base}.{alias.name}" for alias in node.names]
            found |= {one if one in known else base for one in below}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found & known.keys()


def _imports(tree: ast.Module, package: str) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    found: dict[str, tuple[str, str]] = {}
    stars = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == STAR:
                    stars.append(_base(node, package))
                else:
                    found[alias.asname or alias.name] = (_base(node, package), alias.name)
    return found, tuple(stars)


def _base(node: ast.ImportFrom, package: str) -> str:
    """Return the module that `from ... import` names."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*(part for part in above if part), *([node.module] if node.module else [])])


def _dumped(statements: Sequence[ast.stmt]) -> list[str]:
    return [ast.dump(statement) for statement in statements]


def mutated(module: Module) -> Iterator[str]:
    """Give the names whose values a module changes in place, or binds anew from a function or from outside."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MUTATORS
        ):
            yield from _last(node.func.value)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from _last(node.value)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield from _last(node.value)
            if isinstance(node.value, ast.Name) and node.value.id in module.imports:
                yield node.attr


def _last(node: ast.expr) -> Iterator[str]:
    """Give the name that an expression ends with, and those that it begins with: `a.b[0]` is of `a` and of `b`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            yield node.attr
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
