"""Mark in a row's tests where values must be as the tests made them, and where as the answer left them.

In: the parsed tests of a row, and the names of the answer. Out: the same tests, with calls of `__own__(...)` and
`__kept__(...)`, which `sandbox.harness.arguments` defines. Nothing is run here. Called by `verdicts.code.rows`.

An answer receives the tests' own lists and objects, and in Python the tests see how it changes them. Some tests require
that: `sort(xs); assert xs == [1, 2, 3]`, or `k = dedupe(xs); assert xs[:k] == [1, 2]`. Others compare the answer's
result with its argument: `assert order(xs) == sorted(xs)` holds for an answer that empties `xs` and returns `[]`. So
wherever an expression combines a value of the answer with another value (in a comparison, an operator, a call with both
among its arguments, an index), the other value is the tests' own, as it was before the answer received it. A statement
that only calls the answer is made for its changes, and these become the tests' own values. Everywhere else changes are
visible, as in Python: a test that an argument is not changed fails if it is.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from verdicts.code.names import Flow, is_class

OWN: Final = "__own__"  # named as in `sandbox.harness.arguments`, which runs only inside the sandbox
KEPT: Final = "__kept__"
# Methods of data that change nothing: their arguments are combined with the object that they belong to.
_METHODS: Final = frozenset(
    name for kind in (str, tuple, frozenset, dict) for name in dir(kind) if name[:1] != "_"
) - {"clear", "pop", "popitem", "setdefault", "update"}
_WRITES: Final = frozenset({"add", "append", "appendleft", "extend", "insert", "setdefault", "update"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.comprehension)
_DISPLAYS: Final = (ast.Tuple, ast.List)
_CONTAINERS: Final = (ast.List, ast.Set, ast.Dict, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp)


def with_own_arguments(
    trees: Sequence[ast.Module], own: Iterable[str], module: str | None = None
) -> list[bool]:
    """Mark in the trees where the tests' own arguments are required. Returns which trees were changed.

    Args:
        trees: the prefix, the set-up and the tests; names of one may be used in the others.
        own: the names of the answer.
        module: a module whose attributes belong to the answer, too.
    """
    everywhere = _Scope(trees, own, module)
    scopes: dict[int, _Scope] = {}  # by id of a tree or a function
    for tree in trees:
        functions = {id(function): list(ast.walk(function)) for function in _functions(tree)}
        within = {id(node) for nodes in functions.values() for node in nodes}
        scope = everywhere.inside([node for node in ast.walk(tree) if id(node) not in within])
        scopes |= {id(tree): scope, **{number: scope.inside(nodes) for number, nodes in functions.items()}}
    marked: set[int] = set()
    for scope in scopes.values():
        for node in scope.nodes:
            _mark_operands(node, scope, marked)
    changed = []
    for tree in trees:
        writer = _Writer(everywhere, scopes, marked)
        ast.fix_missing_locations(writer.visit(tree))
        changed.append(writer.is_changed)
    return changed


def attributes_written(trees: Iterable[ast.Module]) -> tuple[str, ...]:
    """Return the names of attributes that tests write, or declare for the instances of their classes."""
    found: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            declared = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            found |= {
                part.target.id
                for part in declared
                if isinstance(part.target, ast.Name) and "ClassVar" not in ast.unparse(part.annotation)
            }
        elif _is_call_of(node, "setattr"):
            found |= {str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return tuple(sorted(found))


class _Scope(Flow):
    """Sources of the variables of one function, of one text outside its functions, or of all of them."""

    def __init__(self, trees: Sequence[ast.Module], own: Iterable[str], module: str | None) -> None:
        super().__init__(trees, own, module)
        self._hand_on()
        self._outside: _Scope | None = None
        self._bound: frozenset[str] = frozenset()  # variables that are only assigned here
        self._ranges: dict[str, list[ast.AST]] = {}  # variable -> the ranges that it iterates over
        self._sources = {}
        within = {id(node) for tree in trees for function in _functions(tree) for node in ast.walk(function)}
        self.nodes = [node for node in self._nodes if id(node) not in within]
        for node in self.nodes:
            self._note_source(node)

    def _hand_on(self) -> None:
        """Record the arguments of the tests' methods, and of functions that are assigned to a name."""
        known: dict[str, list[ast.arg]] = {}
        for node in self._nodes:
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                known |= {method.name: method.args.args[_is_bound(method) :] for method in methods}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                known |= dict.fromkeys(names, node.value.args.args)
        for node in self._nodes:
            name = _name_of(node.func) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and name in known:
                for parameter, value in zip(known[name], node.args, strict=False):
                    self._handed.setdefault(parameter.arg, []).append(value)

    def inside(self, nodes: list[ast.AST]) -> _Scope:
        """Return the flow in a part of this one."""
        flow: _Scope = _Scope.__new__(_Scope)
        flow.__dict__.update(self.__dict__, _sources={}, _ranges={}, _found={}, _outside=self)
        flow.nodes = nodes
        for node in flow.nodes:
            flow._note_source(node)
        bound = {node.arg for node in flow.nodes if isinstance(node, ast.arg)}
        flow._bound = frozenset(bound | flow._sources.keys() | flow._ranges.keys())
        return flow

    def _note_source(self, node: Any) -> None:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES:
                for written in node.args:
                    self._bind([node.func.value], written)
            return
        if not isinstance(node, _LOOPS) or not _is_call_of(node.iter, "range"):
            self._note(node)
            return
        for part in ast.walk(node.target):  # their number is no value: `for i in range(k): assert xs[i] == 1`
            if isinstance(part, ast.Name):
                self._ranges.setdefault(part.id, []).append(node.iter)

    def _bind(self, targets: Iterable[ast.expr], value: ast.AST) -> None:
        for target in targets:
            if (
                isinstance(target, _DISPLAYS)
                and isinstance(value, _DISPLAYS)
                and len(target.elts) == len(value.elts)
            ):
                for one, part in zip(target.elts, value.elts, strict=True):
                    self._bind([one], part)
            else:
                super()._bind([target], value)

    def _of_variable(self, name: str) -> frozenset[str]:
        if self._outside is not None and name not in self._bound:
            return self._outside.names(ast.Name(name, ast.Load()))
        return super()._of_variable(name)

    def sources(self, name: str) -> list[ast.AST]:
        """Return the expressions that a variable is made from or iterates over."""
        if self._outside is not None and name not in self._bound:
            return self._outside.sources(name)
        return [*self._sources.get(name, ()), *self._ranges.get(name, ())]

    def is_of_answer(self, node: ast.AST) -> bool:
        """Return whether a value may come from the answer, except as the end of a slice: `xs[:k]` is of `xs`."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower is None:
            return self.is_of_answer(node.value)
        if isinstance(node, ast.Name) and self._is_list_of_objects(node.id):
            return False
        if self._name(node) is not None or (isinstance(node, ast.Name) and self._of_variable(node.id)):
            return True
        return any(map(self.is_of_answer, ast.iter_child_nodes(node)))

    def _is_list_of_objects(self, name: str) -> bool:
        """Return whether a variable is a container that the tests fill with objects of the answer's classes."""
        sources, found = self.sources(name), self._of_variable(name)
        return (
            bool(found and sources)
            and all(map(is_class, found))
            and all(isinstance(one, _CONTAINERS) for one in sources)
        )

    def is_its_function(self, node: ast.AST) -> bool:
        """Return whether a node is the name of one of the answer's functions, and not a value from it."""
        return self._name(node) is not None

    def is_variable(self, name: str) -> bool:
        """Return whether a name is a variable of the tests, or may be one."""
        known = name in self._functions or hasattr(builtins, name) or name in self._own
        return not known and (not self._of_variable(name) or self._is_list_of_objects(name))

    def is_call_of_answer(self, node: ast.AST) -> bool:
        """Return whether a node calls the answer: no function of the tests, and none of their lists of its values."""
        if not isinstance(node, ast.Call) or not self.names(node.func):
            return False
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            return not any(isinstance(source, _CONTAINERS) for source in self.sources(node.func.value.id))
        return not (isinstance(node.func, ast.Name) and node.func.id in self._functions)


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions that are not inside another function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, _FUNCTIONS):
                yield node
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append(node)


def _operands(node: ast.AST, flow: _Scope) -> list[ast.AST]:
    """Return the values that a node combines; none if it combines nothing."""
    found: list[ast.AST] = []
    match node:
        case ast.Compare() if not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            found = [node.left, *node.comparators]
        case ast.BinOp():
            found = [node.left, node.right]
        case ast.Subscript() if not (isinstance(node.slice, ast.Slice) and node.slice.lower is None):
            found = [node.value, node.slice]
        case ast.Call():
            given = [*node.args, *(named.value for named in node.keywords)]
            found = [part for part in given if not flow.is_its_function(part)]
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                found.append(node.func.value)
            elif flow.is_of_answer(node.func):
                found = []
    return found


def _looped(node: ast.AST) -> tuple[list[ast.expr], list[ast.AST]]:
    """Return the iterables of a loop, and its body."""
    match node:
        case ast.For() | ast.AsyncFor():
            return [node.iter], [*node.body]
        case ast.While():
            return [node.test], [*node.body]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            does = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            ifs = [part for loop in node.generators for part in loop.ifs]
            return [loop.iter for loop in node.generators], [*does, *ifs]
    return [], []


def _mark_operands(node: ast.AST, flow: _Scope, marked: set[int]) -> None:
    """Mark by id the values that a node combines with a value of the answer, and their sources."""
    operands = _operands(node, flow)
    waiting = [operand for operand in operands if not flow.is_of_answer(operand)]
    if len(waiting) == len(operands):
        over, does = _looped(node)
        waiting = (
            [one for one in over if not flow.is_of_answer(one)] if any(map(flow.is_of_answer, does)) else []
        )
    while waiting:
        one = waiting.pop()
        if id(one) not in marked:
            marked.add(id(one))
            names = {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
            sources = (source for name in names for source in flow.sources(name))
            waiting += [source for source in sources if not flow.is_of_answer(source)]


class _Writer(ast.NodeTransformer):
    """Writes `__own__` around the variables in marked nodes, and around each access to their content."""

    def __init__(self, outside: _Scope, inside: dict[int, _Scope], marked: set[int]) -> None:
        self._flow, self._inside, self._marked = outside, inside, marked
        self._is_marked = False
        self.is_changed = False

    def visit(self, node: ast.AST) -> Any:
        """Rewrite a node."""
        before = self._flow, self._is_marked
        self._flow = self._inside.get(id(node), self._flow)
        self._is_marked |= id(node) in self._marked
        try:
            return super().visit(node)
        finally:
            self._flow, self._is_marked = before

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Rewrite a call of the answer whose value is not used."""
        is_call = self._flow.is_call_of_answer(node.value)
        self.generic_visit(node)
        if is_call:
            node.value = self._call(KEPT, node.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Rewrite a variable."""
        is_read = self._is_marked and isinstance(node.ctx, ast.Load)
        return self._call(OWN, node) if is_read and self._flow.is_variable(node.id) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Rewrite an access to an attribute."""
        return self._step(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Rewrite an access by an index."""
        return self._step(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite a call: its function is not changed, except a variable whose method it is."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(part) for part in node.args]
        node.keywords = [self.visit(part) for part in node.keywords]
        return node

    def _step(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        is_read = self._is_marked and isinstance(node.ctx, ast.Load)
        return self._call(OWN, node) if is_read and _is_call_of(node.value, OWN) else node

    def _call(self, name: str, value: ast.expr) -> ast.Call:
        self.is_changed = True
        return ast.Call(func=ast.Name(name, ast.Load()), args=[value], keywords=[])


def _is_bound(method: ast.FunctionDef) -> bool:
    """Return whether a method's first parameter is its object or class."""
    return not any(_name_of(decorator) == "staticmethod" for decorator in method.decorator_list)


def _name_of(node: ast.expr) -> str | None:
    """Return the name of the called function or method."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
