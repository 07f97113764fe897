"""Rules on the source: nothing evaluates text, nothing unpickles, math_verify has one home."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("config", "broker", "generators", "scorers", "learner", "tools")
BUILTINS = {"eval", "exec", "compile"}
PARSERS = {"parse_expr", "sympify"}         # sympy's: they evaluate
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}


INSIDE = "scorers/sandbox/inside/"          # sent into the sandbox and run there: the one place where text is executed


def trees() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    """Top-level names of all that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def forbidden_calls(tree: ast.Module) -> set[str]:
    """Calls by name that turn text into code: `eval(x)`, `sympy.parse_expr(x)`, but not `model.eval()`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        if function.removeprefix("builtins.") in BUILTINS or function.rpartition(".")[2] in PARSERS:
            found.add(function.rpartition(".")[2])
    return found


@pytest.mark.parametrize(("source", "calls"), [
    ("eval('1')", {"eval"}), ("import sympy\nsympy.parse_expr('1')", {"parse_expr"}), ("builtins.exec('')", {"exec"}),
    ("model.eval()", set()), ("re.compile('a')", set()), ("parse('1')", set()),
])
def test_the_rule_sees_what_it_forbids(source: str, calls: set[str]) -> None:
    assert forbidden_calls(ast.parse(source)) == calls


def test_no_text_is_evaluated_outside_the_sandbox() -> None:
    found = {path: calls for path, tree in trees() if not path.startswith(INSIDE) and (calls := forbidden_calls(tree))}
    assert found == {}


def test_what_runs_inside_the_sandbox_is_run_nowhere_else() -> None:
    """Only its files' text is read; nothing outside imports its modules, so its `exec` can't run in a scorer."""
    inside = INSIDE.rstrip("/").replace("/", ".")
    importers = {path for path, tree in trees() if not path.startswith(INSIDE) for node in ast.walk(tree)
                 if (isinstance(node, ast.ImportFrom) and str(node.module).startswith(inside))
                 or (isinstance(node, ast.Import) and any(alias.name.startswith(f"{inside}.") for alias in node.names))}
    assert importers == set()


def test_what_runs_inside_the_sandbox_needs_the_standard_library_only() -> None:
    ours = {path: names for path, tree in trees() if path.startswith(INSIDE)
            if (names := imported(tree) - sys.stdlib_module_names - {"scorers", "pytest", "_pytest"})}
    assert ours == {}


def test_nothing_is_pickled() -> None:
    found = {path: names for path, tree in trees() if (names := imported(tree) & PICKLES)}
    assert found == {}


def test_math_verify_has_one_home() -> None:
    homes = [path for path, tree in trees() if imported(tree) & {"math_verify", "latex2sympy2_extended", "sympy"}]
    assert homes == ["scorers/math_equality.py"]
