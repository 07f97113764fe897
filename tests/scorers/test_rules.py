"""Rules on the source: nothing evaluates text, nothing unpickles, math_verify has one home."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.support.paths import PACKAGES, ROOT
from tests.support.sources import nodes_of

pytestmark = [pytest.mark.process, pytest.mark.together("the source")]

BUILTINS = {"eval", "exec", "compile"}
PARSERS = {"parse_expr", "sympify", "lambdify"}  # sympy's: they evaluate, as `sympy.S` does
EVALUATORS = BUILTINS | PARSERS
OF_MODULES = BUILTINS | {"S", "__dict__"}
RUNNERS = {"code", "codeop", "runpy"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
# What is sent into the sandbox and run there: the one place where text is executed.
INSIDE = "sandbox/harness/"


def modules() -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), nodes_of(path)


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Top-level names of all that a module imports, wherever in it."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def evaluators(nodes: Iterable[ast.AST]) -> set[str]:
    """Return what a module names that turns text into code: called or not, `sympy.S` too, but not `model.eval()`.

    `ast.parse` is none: it makes a tree, and only `compile` makes code of one. A hostile text can cost it time and
    stack, so `scorers.swe.compare` parses a model's text in the scoring child.
    """
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Name(id=name) if name in EVALUATORS | {"__builtins__"}:
                found.add(name)
            case ast.Attribute(value=ast.Name(id="builtins" | "sympy"), attr=name) if name in OF_MODULES:
                found.add(name)
            case ast.Attribute(attr=name) if name in PARSERS:
                found.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]) if (
                name in EVALUATORS
            ):
                found.add(name)
            case ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id="builtins" | "sympy" as name)]):
                found.add(name)
            case ast.ImportFrom(module="builtins" | "sympy", names=aliases):
                found |= {alias.name for alias in aliases} & (EVALUATORS | {"S"})
            case ast.Import(names=aliases):
                found |= {alias.name for alias in aliases if alias.name.startswith("sympy.parsing")}
            case ast.ImportFrom(module=str(module)) if module.startswith("sympy.parsing"):
                found.add(module)
            case _:
                pass
    return found | (imported(nodes) & RUNNERS)


def test_the_rule_sees_what_it_forbids(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, set[str]]] = [
        ("eval('1')", {"eval"}),
        ("import sympy\nsympy.parse_expr('1')", {"parse_expr"}),
        ("builtins.exec('')", {"exec"}),
        ("run = eval", {"eval"}),
        ("getattr(builtins, 'eval')('1')", {"eval"}),
        ("__builtins__['x']", {"__builtins__"}),
        ("from builtins import exec as run", {"exec"}),
        ("vars(builtins)['compile']", {"builtins"}),
        ("sympy.S(text)", {"S"}),
        ("from sympy import S, pi", {"S"}),
        ("from sympy import sympify as f", {"sympify"}),
        ("import sympy.parsing.latex", {"sympy.parsing.latex"}),
        ("import runpy", {"runpy"}),
        ("from sympy.parsing import sympy_parser", {"sympy.parsing"}),
        ("expression.lambdify(x)", {"lambdify"}), ("model.eval()", set()), ("re.compile('a')", set()),
        ("parse('1')", set()), ("ast.parse('1')", set()), ("from torch import compile", set()),
        ("{'eval': 1}", set()), ("'an eval of it'", set()), ("S(1)", set()),
    ]  # fmt: skip
    for source, names in cases:
        with subtests.test(source=source):
            assert evaluators(tuple(ast.walk(ast.parse(source)))) == names


def test_no_text_is_evaluated_outside_the_sandbox() -> None:
    found = {
        path: names
        for path, nodes in modules()
        if not path.startswith(INSIDE) and (names := evaluators(nodes))
    }
    assert found == {}


# The one module of the harness that others import: it executes nothing.
FRAMES = "sandbox.harness.pipe"


def test_what_runs_inside_the_sandbox_is_run_nowhere_else() -> None:
    """Only its files' text is read; nothing outside imports a module that executes, so no `exec` runs in a scorer."""
    inside = INSIDE.rstrip("/").replace("/", ".")
    importers = {
        path
        for path, nodes in modules()
        if not path.startswith(INSIDE)
        for node in nodes
        if (
            isinstance(node, ast.ImportFrom) and str(node.module).startswith(inside) and node.module != FRAMES
        )
        or (isinstance(node, ast.Import) and any(alias.name.startswith(f"{inside}.") for alias in node.names))
    }
    assert importers == set()
    (frames,) = (nodes for path, nodes in modules() if path == FRAMES.replace(".", "/") + ".py")
    assert imported(frames) <= {"__future__", "_json", "os", "typing"}
    called = {
        node.func.id for node in frames if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


def test_what_runs_inside_the_sandbox_needs_the_standard_library_only() -> None:
    ours = {
        path: names
        for path, nodes in modules()
        if path.startswith(INSIDE)
        if (names := imported(nodes) - sys.stdlib_module_names - {"sandbox", "pytest", "_pytest"})
    }
    assert ours == {}


def test_nothing_is_pickled() -> None:
    found = {path: names for path, nodes in modules() if (names := imported(nodes) & PICKLES)}
    assert found == {}


READ_NO_TEXT = ("scorers/math/real_sets.py", "scorers/math/values.py")  # by sympy, which they compute with


@pytest.mark.parametrize(
    ("libraries", "homes"),
    [
        ({"math_verify", "latex2sympy2_extended"}, ["scorers/math/equality.py"]),
        ({"sympy"}, ["scorers/math/equality.py", *READ_NO_TEXT]),
    ],
)
def test_math_verify_has_one_home(libraries: set[str], homes: list[str]) -> None:
    assert [path for path, nodes in modules() if imported(nodes) & libraries] == homes


def test_what_only_computes_with_sympy_has_it_read_nothing() -> None:
    readers = {"sympify", "parse_expr", "parsing", "S", "symbols", "lambdify", "from_string"}
    found = {
        path: {node.attr for node in nodes if isinstance(node, ast.Attribute)} & readers
        for path, nodes in modules()
        if path in READ_NO_TEXT
    }
    assert found == {path: set() for path in READ_NO_TEXT}
