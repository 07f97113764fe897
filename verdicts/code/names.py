"""Find the names in a row's tests that the answer must define, and refuse rows whose checks an answer could forge.

In: the parsed tests of a row, and the text that runs before them. Out: a `UsedNames`, or `BadMessage` with the name. An
answer may define every name that it must provide, so it must provide no name that decides a check: `assert f(1) ==
Decimal("1.5")` without an import means the library's `Decimal`. Nothing is run here. Called by `verdicts.code.rows`.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker.errors import BadMessage

CONSTANTS: Final = frozenset({"true", "false", "null"})  # of JSON, in tests that were made from it
CHECKERS: Final[Mapping[str, str]] = {  # names that decide a check: the library's, never the answer's
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "pytest": "import pytest",
    "isclose": "from math import isclose",
    "Counter": "from collections import Counter",
    "OrderedDict": "from collections import OrderedDict",
    "approx": "from pytest import approx",
}
# Classes and constants that tests use without importing them: the library's.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "collections": ("ChainMap", "defaultdict", "deque", "namedtuple"),
    "dataclasses": ("dataclass",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "enum": ("Enum",),
    "fractions": ("Fraction",),
    "io": ("BytesIO", "StringIO"),
    "math": ("inf", "nan", "pi", "tau"),
    "pathlib": ("Path",),
    "string": ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "punctuation"),
    "types": ("SimpleNamespace",),
    "typing": ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Set", "Tuple", "Union"),
    "uuid": ("UUID",),
}
# Functions: the library's in checks with another name of the answer, and the answer's if they alone are tested.
FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bisect": ("bisect_left", "bisect_right", "insort"),
    "copy": ("deepcopy",),
    "functools": ("cmp_to_key", "lru_cache", "partial", "reduce"),
    "heapq": ("heapify", "heappop", "heappush", "nlargest", "nsmallest"),
    "itertools": ("accumulate", "chain", "combinations", "groupby", "islice", "permutations", "product"),
    "json": ("dumps", "loads"),
    "math": (
        *(
            "acos",
            "asin",
            "atan",
            "atan2",
            "ceil",
            "comb",
            "cos",
            "degrees",
            "dist",
            "exp",
            "fabs",
            "factorial",
        ),
        *(
            "floor",
            "fsum",
            "gcd",
            "hypot",
            "isfinite",
            "isinf",
            "isnan",
            "isqrt",
            "lcm",
            "log",
            "log10",
            "log2",
        ),
        *("perm", "prod", "radians", "sin", "sqrt", "tan", "trunc"),
    ),
    "operator": ("attrgetter", "itemgetter"),
    "statistics": ("mean", "median", "pstdev", "pvariance", "stdev", "variance"),
}
STARRED: Final = frozenset(
    {*VALUES, *FUNCTIONS, "cmath", "random", "re", "time"}
)  # imported by `from ... import *`
ANY_OF_THEM: Final = "the function that the tests are handed"


@dataclass(frozen=True, slots=True)
class UsedNames:
    """Names that tests use and do not define."""

    answer: tuple[str, ...]  # of the answer
    modules: tuple[str, ...]  # of the standard library, used without an import
    header: str  # imports of the library's names
    constants: bool  # whether `true`, `false` and `null` mean JSON's


def usage_of(tree: ast.Module, prefix: str, prefix_name: str = "prefix") -> UsedNames:
    """Return the names that tests use.

    A built-in name belongs to the answer only if the tests use nothing else of it (`assert sum(10, 15) == 6`):
    otherwise an answer could redefine the `sorted` or `all` that judges it. The same holds for functions of the
    standard library, which also belong to the answer if a check tests them alone (`assert gcd(4, 6) == 2`).

    Raises:
        BadMessage: the tests use no name of the answer, or one with which an answer could forge a check.
    """
    before = ast.parse(prefix)
    free = free_names(f"{prefix}\n{ast.unparse(tree)}") - _starred([before, tree])
    refuse_stubs(before, tree, prefix_name)
    modules = {name for name in free & sys.stdlib_module_names if _is_module(name, tree)}
    checkers = free & CHECKERS.keys()
    built_in = {name for name in free if hasattr(builtins, name)}
    values = free & _modules_of(VALUES).keys() - modules - built_in
    functions = free & _modules_of(FUNCTIONS).keys() - modules - built_in
    own = free - modules - checkers - CONSTANTS - built_in - values - functions
    flow = Flow([before, tree], own | functions)
    alone = [check for check in flow.checks() if not isinstance(check, ast.NamedExpr)]
    tested = {name for check in alone for name in flow.heads(check) if not flow.heads(check) & own}
    own |= tested & functions or (set() if own else functions or values)
    own = own or {name for name in built_in if not isinstance(getattr(builtins, name), type)}
    if not own:
        raise BadMessage(
            "a code row whose tests use nothing of the answer: they would pass or fail without it"
        )
    refuse_forgeable(Flow([before, tree], own))
    libraries = _modules_of(VALUES) | _modules_of(FUNCTIONS)
    lines = [CHECKERS[name] for name in sorted(checkers)]
    lines += [f"from {libraries[name]} import {name}" for name in sorted((values | functions) - own)]
    return UsedNames(tuple(sorted(own)), tuple(sorted(modules)), "\n".join(lines), bool(free & CONSTANTS))


def header_for_star(tree: ast.Module) -> str:
    """Return imports of the standard library's names in tests, which `import *` must not take from the answer."""
    libraries = _modules_of(VALUES) | _modules_of(FUNCTIONS)
    free = free_names(ast.unparse(tree)) & libraries.keys() - set(dir(builtins))
    return "\n".join(f"from {libraries[name]} import {name}" for name in sorted(free))


def refuse_forgeable(flow: Flow) -> None:
    """Raise BadMessage if a check depends on two names of the answer, or compares objects of its classes.

    `assert f(2) == helper(3)`, `assert same(f(2), 3)` and `assert decode(encode("a")) == "a"` hold for an answer that
    defines a suitable `helper`, `same` or `encode`. Objects of the answer's own classes are compared by identity.
    """
    for check in flow.checks():
        if (kind := flow.compared_class(check)) is not None:
            raise BadMessage(
                f"a code row whose tests compare objects of {kind!r}, a class of the answer, with ==: an answer "
                "could declare them equal; compare their attributes or their text"
            )
        heads = sorted(flow.heads(check))
        if len(heads) > 1:
            raise BadMessage(
                f"a code row with a check that depends on {' and '.join(map(repr, heads))}, which the answer "
                "defines and could define to suit each other: have the tests define or import all but the one "
                "that they test"
            )


def refuse_stubs(before: ast.Module, tree: ast.Module, where: str) -> None:
    """Raise BadMessage if the text before the tests stubs what they test: they would test the stub.

    A stub that they pass to the answer, a callback that does nothing, belongs to the tests.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    checkers = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    tested = [node.func for node in calls]
    tested += [part for node in calls if getattr(node.func, "id", None) in checkers for part in node.args]
    used = {node.id for part in tested for node in ast.walk(part) if isinstance(node, ast.Name)}
    for statement in before.body:
        if (
            isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and statement.name in used
        ):
            functions = [node for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)]
            if functions and all(map(_is_stub, functions)):
                raise BadMessage(
                    f"a code row whose {where!r} stubs {statement.name!r}, which its tests call: they would test "
                    "the stub, and not the answer; take it out"
                )


def _is_stub(function: ast.FunctionDef) -> bool:
    """Return whether a function's body does nothing: a docstring, `pass`, `...`, or NotImplementedError."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (
            isinstance(statement, ast.Raise)
            and statement.exc is not None
            and "NotImplementedError" in ast.unparse(statement.exc)
        )
        for statement in function.body
    )


class Flow:
    """Names of the answer that a value of the tests may come from, without regard to the order of statements."""

    def __init__(self, trees: Iterable[ast.Module], own: Iterable[str], module: str | None = None) -> None:
        """Use the tests, the names of the answer, and the module whose attributes belong to the answer, too."""
        self._own = frozenset(own)
        self._module = module
        self._nodes = [node for tree in trees for node in ast.walk(tree)]
        self._functions = {node.name: node for node in self._nodes if isinstance(node, ast.FunctionDef)}
        self._sources: dict[str, list[ast.AST]] = {}  # variable -> expressions that it is made from
        self._handed: dict[str, list[ast.AST]] = {}  # parameter -> arguments of its function
        for node in self._nodes:
            self._note(node)
        self._found: dict[str, frozenset[str]] = {}

    def checks(self) -> Iterator[ast.AST]:
        """Yield the checked expressions; the parts of a conjunction separately."""
        for node in self._nodes:
            if isinstance(node, ast.Assert | ast.If):
                yield from _conjuncts(node.test)
            elif isinstance(node, ast.Call) and is_check(node.func):
                yield ast.Tuple(elts=node.args, ctx=ast.Load())

    def heads(self, check: ast.AST) -> frozenset[str]:
        """Return the names of the answer that decide a check: functions, and classes that are not only arguments."""
        found = {name for name in self.names(check) if not is_class(name)}
        waiting = [check]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and self.names(node.func):
                waiting.append(node.func)
                found |= {name for name in (self._name(node.func),) if name is not None}
                continue
            if isinstance(node, ast.Attribute) and (name := self._name(node.value)) is not None:
                found.add(name)
            waiting += ast.iter_child_nodes(node)
        return frozenset(found)

    def compared_class(self, check: ast.AST) -> str | None:
        """Return the answer's class of which an object is compared with another value of the answer, by == or !=.

        If it is compared with a value of the tests, a call that is spelt like a class may be one of a function.
        """
        for node in ast.walk(check):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                sides = (node.left, *node.comparators)
                kinds = [kind for side in sides if (kind := self._object_of(side)) is not None]
                if kinds and all(map(self.names, sides)):
                    return kinds[0]
        return None

    def names(self, node: ast.AST) -> frozenset[str]:
        """Return all names of the answer that a value may come from."""
        found: set[str] = set()
        for part in ast.walk(node):
            if (name := self._name(part)) is not None:
                found.add(name)
            elif isinstance(part, ast.Name):
                found |= self._of_variable(part.id)
        return frozenset(found)

    def _name(self, node: ast.AST) -> str | None:
        """Return the answer's name that a node is."""
        if isinstance(node, ast.Name) and node.id in self._own:
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and self._module is not None:
            return node.attr if node.value.id == self._module else None
        return None

    def _note(self, node: ast.AST) -> None:
        """Record from what a node makes variables, and its arguments for functions of the tests."""
        if isinstance(node, ast.Assign):
            self._bind(node.targets, node.value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            self._bind([node.target], node.value)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind([node.target], node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind([node.optional_vars], node.context_expr)
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions
        ):
            parameters = [argument.arg for argument in self._functions[node.func.id].args.args]
            given = dict(zip(parameters, node.args, strict=False))
            given |= {named.arg: named.value for named in node.keywords if named.arg is not None}
            for name, value in given.items():
                self._handed.setdefault(name, []).append(value)

    def _bind(self, targets: Iterable[ast.expr], value: ast.AST) -> None:
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    self._sources.setdefault(node.id, []).append(value)

    def _of_variable(self, name: str) -> frozenset[str]:
        """Return the names of the answer behind a variable, parameter or function of the tests."""
        if name not in self._found:
            self._found[name] = frozenset()  # for a variable that is made from itself
            found = {source for value in self._sources.get(name, ()) for source in self.names(value)}
            if name in self._functions:
                found |= self._free_of(self._functions[name])
            handed = {self.names(value) for value in self._handed.get(name, ())} - {frozenset()}
            found |= next(iter(handed)) if len(handed) == 1 else ({ANY_OF_THEM} if handed else set())
            self._found[name] = frozenset(found)
        return self._found[name]

    def _free_of(self, function: ast.FunctionDef) -> set[str]:
        """Return the answer's names in a function of the tests, except those in its arguments."""
        parameters = {argument.arg for argument in function.args.args}
        names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} - parameters
        inner = {name for part in names & self._functions.keys() for name in self._of_variable(part)}
        return (names & self._own) | inner

    def _object_of(self, node: ast.expr) -> str | None:
        """Return the answer's class whose object a side of a comparison is or contains."""
        if isinstance(node, ast.Call):
            name = self._name(node.func)
            return name if name is not None and is_class(name) else None
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return next((kind for part in node.elts if (kind := self._object_of(part)) is not None), None)
        if isinstance(node, ast.Name):
            kinds = {
                self._object_of(value) if isinstance(value, ast.Call) else None
                for value in self._sources.get(node.id, ())
            }
            return kinds.pop() if len(kinds) == 1 else None
        return None


def is_check(function: ast.expr) -> bool:
    """Return whether a call of this function is a check: `self.assertEqual`, `np.testing.assert_allclose`."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return str(name).startswith("assert")


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _conjuncts(value)
    else:
        yield test


def is_class(name: str) -> bool:
    """Return whether a name is spelt like a class, and not like a constant."""
    return name[:1].isupper() and not (name.isupper() and len(name) > 1)


def _modules_of(table: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the module of each name of a table."""
    return {name: module for module, names in table.items() for name in names}


def _is_module(name: str, tree: ast.Module) -> bool:
    """Return whether tests use a name as a module of the standard library: for attributes that the module has."""
    nodes = list(ast.walk(tree))
    attributes = [
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    ]
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    known = dir(importlib.import_module(name)) if name in STARRED else attributes
    return uses == len(attributes) and set(attributes) <= set(known)


def _starred(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names from `from MODULE import *` of known modules."""
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in STARRED and node.names[0].name == "*":
                module = importlib.import_module(node.module)
                found |= set(getattr(module, "__all__", [name for name in dir(module) if name[:1] != "_"]))
    return found


def free_names(text: str) -> set[str]:
    """Return the global names that the tests load, and that neither they nor the prefix define."""
    used: set[str] = set()
    tables = [symtable.symtable(text, "tests", "exec")]
    defined = {
        symbol.get_name()
        for symbol in tables[0].get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    while tables:
        table = tables.pop()
        is_top = table.get_type() == "module"
        used |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (is_top or symbol.is_global())
        }
        tables += table.get_children()
    return used - defined
