"""T's view of the answer: a stand-in for each of its objects that is no data.

In: what the tests do with the answer's names. Out: data that C sent, as built-in types, or further stand-ins. Using
one asks C, except for what decides a check: comparison is identity here, the truth of a stand-in is an error, and `in`
goes through its items and compares them here. So no object of an answer can declare itself equal, true or contained,
and none can through an operator, `weighed` says how. Nor does a special name cross on which a library acts: numpy would
read its own memory where an object's `__array_interface__` points, and `typing` evaluates `__annotations__`.
Of exceptions only those under `Exception` are raised here, so that no answer ends T or skips a test. An object that
stands for a value is the same at each look (`views`), and of what C changes in the tests' containers they have their
own as it was (`arguments`).

What an honest answer can't do through this, and the tests of a row should not ask for: be compared, ordered or tested
for truth as an object with methods of its own (`assert Vector(1) == Vector(1)`; compare its attributes or its text);
contain without being iterable; have tests see what it prints, patch its modules, or set its standard input; raise
SystemExit or StopIteration and be caught as such. Containers that come back are copies of the program's, and what a
test does to them does not reach it; those that a test passes are changed in place as the program changed its copies.
A named tuple is a tuple, a Counter a dictionary, a numpy array a list.
"""

# ruff: noqa: SLF001 -- a stand-in has no public name of its own: all of them are the object's

from __future__ import annotations

import builtins
import sys

from sandbox.harness.arguments import OwnArguments
from sandbox.harness.link import EXCEPTIONS, Link, Side
from sandbox.harness.pipe import Pipe
from sandbox.harness.views import VERDICTS, ObjectView

if False:
    from typing import Any

MODULE = type(sys)
TEST_TOOLS = {
    "unittest",
    "doctest",
    "pytest",
    "_pytest",
    "antigravity",
    "this",
}  # no modules or exceptions of these
TOLD = {
    "__dict__",
    "__name__",
    "__qualname__",
}  # of the special names that no method here has: these are looked at
# What an object is to the tests: VALUE stands where they expect one, FUNCTION gives such, and OBJECT is of a class that
# they name, or the class itself: it is there to behave. MODULE_ROLE is a module's, which has functions and classes.
VALUE, FUNCTION, OBJECT, MODULE_ROLE = "value", "function", "object", "module"
GIVES = {VALUE: VALUE, FUNCTION: VALUE, OBJECT: OBJECT, MODULE_ROLE: OBJECT}  # what calling it gives
HAS = {VALUE: VALUE, FUNCTION: OBJECT, OBJECT: FUNCTION}  # what its attributes are: methods give values
ITERATOR = "iterator"  # in place of a view: its items come once, and it has no number of them
FORWARDED = {  # special method -> operation in C
    "setitem": "put",
    "delitem": "drop",
    "str": "str",
    "repr": "repr",
    "format": "format",
}
MEASURES = ("int", "float", "abs", "round", "neg", "pos", "invert")
OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)


class Remote:
    """An object of the answer."""

    __slots__ = ("_kinds", "_link", "_reference", "_role")

    def __init__(self, link: Link, reference: int, kinds: tuple[int, ...], role: str = OBJECT) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_role", role)
        object.__setattr__(self, "_reference", reference)
        object.__setattr__(self, "_kinds", kinds)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the object, as data or as another stand-in. Raises AttributeError for a protocol's."""
        if name[:2] == "__" == name[-2:] and name not in TOLD:
            raise AttributeError(f"{name!r} of an object of the program is not told")
        if self._role == VALUE and name in VERDICTS:
            raise AttributeError(f"{name!r} of an object of the program would decide the check")
        role = role_of(name) if self._role == MODULE_ROLE else HAS[self._role]
        return self._link.side.asked(role, "op", "attr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.side.epoch += 1
        self._link.ask("op", "set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._link.side.epoch += 1
        self._link.ask("op", "del", self, name)

    def __dir__(self) -> Any:
        return self._link.ask("op", "dir", self)

    def __bool__(self) -> bool:
        raise TypeError("an object of the program is neither true nor false: the check needs a value")

    def __contains__(self, wanted: Any) -> bool:
        return any(item is wanted or item == wanted for item in self)

    def __enter__(self) -> Any:
        return self._link.ask("op", "attr", self, "__enter__")()

    def __exit__(self, *_: object) -> None:
        self._link.ask("op", "attr", self, "__exit__")(None, None, None)

    def __iter__(self) -> Any:
        view = self._link.side.view_of(self) if self._role == VALUE else None
        if isinstance(view, ObjectView):
            return iter(view)
        return self._link.side.asked(self._role, "op", "iter", self)

    def __next__(self) -> Any:
        return self._link.side.next_of(self)

    def __reversed__(self) -> Any:
        view = self._view()
        if view is not None:
            return reversed(view.whole())
        return self._link.side.asked(self._role, "op", "reversed", self)

    def __len__(self) -> Any:
        view = self._view()
        number = self._link.side.weighed(self._link.ask("op", "len", self), self)
        if view is not None and len(view.whole()) != number:
            raise TypeError(f"an object of the program has {len(view.whole())} items, and says {number!r}")
        return number

    def __getitem__(self, index: Any) -> Any:
        view = self._view() if type(index) in (int, slice) else None
        if view is None:
            return self._link.side.asked(self._role, "op", "get", self, index)
        return view.item(index) if type(index) is int else view.whole()[index]

    def _view(self) -> Any:
        """Return the one view of a value; None of what has no items. Raises TypeError for an iterator."""
        view = self._link.side.view_of(self) if self._role == VALUE else None
        if view is ITERATOR:
            raise TypeError("an iterator of the program has neither a length nor items by their number")
        return view

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and self._reference in instance._kinds


class RemoteCallable(Remote):
    """A function, method or class of the answer."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: D102
        self._link.side.calls += 1
        self._link.side.epoch += 1
        return self._link.side.asked(GIVES[self._role], "call", self, arguments, named)


def _forward(operation: str) -> Any:
    def special(self: Remote, *operands: Any) -> Any:
        if operation in ("put", "drop"):
            self._link.side.epoch += 1
        return self._link.side.asked(self._role, "op", operation, self, *operands)

    return special


def _measure(operation: str) -> Any:
    def special(self: Remote, *operands: Any) -> Any:
        return self._link.side.weighed(
            self._link.side.asked(self._role, "op", operation, self, *operands), self
        )

    return special


def _operator(operation: str) -> Any:
    def special(self: Remote, other: Any) -> Any:
        return self._link.side.weighed(
            self._link.side.asked(self._role, "op", operation, self, other), self, other
        )

    return special


def _reflected(operation: str) -> Any:
    def special(self: Remote, other: Any) -> Any:
        return self._link.side.weighed(
            self._link.side.asked(self._role, "op", operation, other, self), other, self
        )

    return special


for _name, _operation in FORWARDED.items():
    setattr(Remote, f"__{_name}__", _forward(_operation))
for _name in MEASURES:
    setattr(Remote, f"__{_name}__", _measure(_name))
for _name in OPERATORS:
    setattr(Remote, f"__{_name}__", _operator(_name))
    setattr(Remote, f"__r{_name}__", _reflected(_name))


class Tests(Side):
    """T's side of the link."""

    def __init__(self, pipe: Pipe) -> None:
        self.link = Link(pipe, self)
        self.records: dict[str, type] = {}
        self.written: set[str] = set()  # names of attributes that the tests write
        self.arguments = OwnArguments(lambda value: self.records.get(type(value).__name__) is type(value))
        self.calls = 0  # of the answer, in this case
        self.epoch = 0  # counts what may have changed an object of the answer
        self._role = OBJECT  # of what the answer gives now
        self._views: dict[int, ObjectView | str | None] = {}
        self._ended: set[int] = set()  # references of iterators that have no more items
        self._remotes: dict[int, Remote] = {}  # one stand-in an object: `is` works
        self._exceptions: dict[int, type[BaseException]] = {}
        self._callbacks: list[Any] = []
        self._callback_ids: dict[int, int] = {}
        self._informed: set[int] = set()  # references of objects made from what a test compares with

    def asked(self, role: str, *question: Any) -> Any:
        """Ask C; an object that it gives for the first time has this role."""
        before, self._role = self._role, role
        try:
            return self.link.ask(*question)
        finally:
            self._role = before

    def named(self, name: str) -> Any:
        """Return what the answer has under a name that the tests use. Raises NameError."""
        return self.asked(role_of(name), "global", name)

    def view_of(self, remote: Remote) -> ObjectView | str | None:
        """Return the view of a value, or ITERATOR; None where it has no items."""
        known = self._views.get(remote._reference)
        if remote._reference not in self._views or (
            isinstance(known, ObjectView) and known.epoch != self.epoch
        ):
            try:
                source = self.asked(VALUE, "op", "iter", remote)
                known = ITERATOR if source is remote else ObjectView(source, self.epoch)
            except TypeError:
                known = None
            self._views[remote._reference] = known
        return known

    def next_of(self, remote: Remote) -> Any:
        """Return an iterator's next item. Raises StopIteration, and then again and again."""
        if remote._reference in self._ended:
            raise StopIteration
        try:
            return self.asked(remote._role, "op", "next", remote)
        except StopIteration:
            self._ended.add(remote._reference)
            raise

    def weighed(self, result: Any, *operands: Any) -> Any:
        """Return an operator's result, unless it could be a verdict: `abs(f(2) - 1.5) < 1e-6` shows the answer the 1.5.

        An operator that joins an object of the answer with data of the tests may give another object, and no length or
        size of that object counts. Raises TypeError.
        """
        if all(
            isinstance(operand, Remote) and operand._reference not in self._informed for operand in operands
        ):
            return result
        if not isinstance(result, Remote):
            raise TypeError("an operator of the program's own class has seen what the check compares with")
        self._informed.add(result._reference)
        return result

    def filling(self, containers: list[Any]) -> Any:
        """Note what C changes of the tests' containers; `Extern` has the contract."""
        self.arguments.called()
        before = [(container, self.arguments.before(container)) for container in containers]

        def filled() -> None:
            for container, contents in before:
                self.arguments.after(container, contents)

        return filled

    def hides(self, kind: type, name: str) -> bool:
        """Return whether an attribute would hide a method, or a constant that no line of the tests writes."""
        found = getattr(kind, name, self)
        return found is not self and (callable(found) or name not in self.written)

    def perform(self, operation: str, arguments: Any) -> Any:
        """C may only call what the tests gave it."""
        if operation != "back":
            raise TypeError("no such operation")
        reference, positional, named = arguments
        return self._callbacks[reference](*positional, **named)

    def refer(self, value: Any) -> list[Any]:
        """Return a node for what is no data. Raises TypeError, an error of the test, for what can't travel."""
        if isinstance(value, Remote):
            return ["h", value._reference]
        if isinstance(value, type) and value.__dict__.get("_reference") is not None:
            return ["h", value.__dict__["_reference"]]
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and vars(builtins).get(name) is value:
            return ["B", name]
        if isinstance(value, MODULE):
            return ["m", value.__name__]
        if hasattr(value, "__next__"):
            return ["it", self._callback(value, pulling(value))]
        if callable(value):
            return ["cb", self._callback(value, value)]
        raise TypeError(f"the tests pass a {type(value).__name__}, which can't be given to the program")

    def _callback(self, value: Any, function: Any) -> int:
        if id(value) not in self._callback_ids:
            self._callback_ids[id(value)] = len(self._callbacks)
            self._callbacks.append(function)
            self._callbacks.append(value)  # kept, so that its id stays its own
        return self._callback_ids[id(value)]

    def resolve(self, node: list[Any]) -> Any:
        """Return what C's reference stands for."""
        tag, reference = node[0], node[1]
        if tag == "h":
            if reference not in self._remotes:
                kind = RemoteCallable if node[2] is True else Remote
                self._remotes[reference] = kind(self.link, int(reference), tuple(node[3]), self._role)
            return self._remotes[reference]
        if tag == "cb":
            return self._callbacks[reference + 1]
        if tag == "x":
            return self.exception_class(reference)
        if tag == "co":
            return self._coroutine(reference)
        if tag == "m":
            if is_standard(reference):
                return __import__(reference)
            before, self._role = self._role, MODULE_ROLE
            try:
                return self.resolve(["h", node[2], False, []])
            finally:
                self._role = before
        raise ValueError(f"unknown tag {tag!r}")

    async def _coroutine(self, reference: int) -> Any:
        return self.asked(VALUE, "await", Remote(self.link, reference, ()))

    def class_id(self, kind: type) -> int | None:
        """Return the reference to a class; `Side` has the contract."""
        return kind.__dict__.get("_reference")

    def exception_class(self, lineage: Any) -> type[BaseException]:
        """Return T's class for a class of the answer: built-in, of the standard library, or made here."""
        *own, (_, _, base_name) = lineage
        base = EXCEPTIONS.get(base_name, Exception)
        if not issubclass(base, Exception):  # SystemExit, KeyboardInterrupt: named, never raised
            base = self._made(base_name, base_name, Exception)
        for reference, module, name in reversed(own):
            known = standard_exception(module, name)
            base = known if known is not None else self._made(reference, name, base)
        return base

    def _made(self, reference: Any, name: str, base: type[BaseException]) -> type[BaseException]:
        if reference not in self._exceptions:
            namespace = {
                "__str__": _own_text,
                "__module__": "program",
                "_reference": reference if isinstance(reference, int) else None,
            }
            self._exceptions[reference] = type(str(name), (base,), namespace)
        return self._exceptions[reference]


def _own_text(error: BaseException) -> str:
    text = error.__dict__.get("_text")
    return text if isinstance(text, str) else BaseException.__str__(error)


def pulling(iterator: Any) -> Any:
    """Return the function by which C draws from an iterator of the tests."""

    def pull() -> tuple[bool, Any]:
        try:
            return True, next(iterator)
        except StopIteration:
            return False, None

    return pull


def role_of(name: str) -> str:
    """Return what the answer's object of this name is, by the spelling of a class."""
    is_class = name[:1].isupper() and not (name.isupper() and len(name) > 1)
    return OBJECT if is_class else FUNCTION


def is_standard(module: Any) -> bool:
    """Return whether a test may use this module as one of the standard library."""
    names = getattr(sys, "stdlib_module_names", sys.builtin_module_names)  # Python 3.9 knows only the latter
    return isinstance(module, str) and module in names and module not in TEST_TOOLS


def standard_exception(module: Any, name: Any) -> type[BaseException] | None:
    """Return an exception class of the standard library, `json.JSONDecodeError`, if T has already imported it."""
    if not isinstance(module, str) or not isinstance(name, str) or not is_standard(module.partition(".")[0]):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
