"""The packages that programs may import beside the standard library: the same everywhere, whatever a machine has.

In: the text of a program. Out: what it imports of what a machine may lack. Used by the walls, which show programs these
packages and no others, by the probe of a sandbox server, and by `sandbox.lacks`. Texts are parsed, never run.
The extra `sandbox` of pyproject.toml names the same packages.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

PACKAGES: Final[Mapping[str, str]] = {  # by the name that pip knows -> the module that programs import
    "more-itertools": "more_itertools",
    "mpmath": "mpmath",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "pytest": "pytest",
    "scipy": "scipy",
    "sortedcontainers": "sortedcontainers",
    "sympy": "sympy",
}
MODULES: Final = frozenset({*PACKAGES.values(), "_pytest"})
ABSENT: Final = "none"  # a version
REMEDY: Final = "pip install 'millrace[sandbox]'"
_NAME: Final = re.compile("|".join(sorted(MODULES)))
# Of the standard library, what a Python may have been built without. Others are missing for good where they are missing
# (winreg, tkinter without a screen), and an answer that imports one of them could always have no score.
OPTIONAL: Final = frozenset({"bz2", "ctypes", "gzip", "hashlib", "lzma", "sqlite3", "ssl", "zlib"})

Import = tuple[str, str]  # a module, and what is taken from it, "" for nothing


def imports_of(text: str) -> frozenset[Import]:
    """Return what a program in Python imports of the packages and of what every Python should have.

    A package that is named in a string counts, too: `importlib.import_module("numpy")`, `exec("import numpy")`.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # an answer's: they are no matter of ours
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()  # it runs nowhere
    found = {taken for node in ast.walk(tree) for taken in _imported(node)}
    return frozenset(taken for taken in found if is_offered(taken[0]))


def is_offered(module: str) -> bool:
    """Return whether a module is one that every sandbox should have, though a machine may lack it."""
    return module.partition(".")[0] in MODULES | OPTIONAL


def versions_text(versions: Mapping[str, str]) -> str:
    """Return versions as scores have them: `networkx=3.6.1 numpy=none`."""
    return " ".join(f"{name}={versions.get(name, ABSENT)}" for name in PACKAGES)


def absent(version: str) -> tuple[str, ...]:
    """Return the packages that a sandbox with such a version, or one of its servers, is without."""
    known = dict(part.split("=", 1) for part in version.split() if "=" in part)
    return tuple(name for name in PACKAGES if ABSENT in known.get(name, "").split(","))


def _imported(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from ((node.module, alias.name if alias.name != "*" else "") for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from ((name, "") for name in set(_NAME.findall(node.value)))
