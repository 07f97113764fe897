"""C: the process that runs the answer and does what T asks.

In: the answer's text, then one operation after the other. Out: data, or references to objects that stay here. It was
forked before the tests and the nonce were read. Whatever happens here, patched built-ins, changed modules, threads,
a process that ends itself: T sees data, the name of an exception, or a closed pipe. Nothing that this process says of
itself is believed.
"""

# ruff: noqa: S102 -- executing the answer is what this process is for

from __future__ import annotations

import builtins
import operator
import os
import sys

from sandbox.harness.link import EXCEPTIONS, Link, Side, lineage_of
from sandbox.harness.pipe import Gone, Pipe

if False:
    from typing import Any

OPERATIONS: dict[str, Any] = {
    "len": len,
    "iter": iter,
    "next": next,
    "str": str,
    "repr": repr,
    "int": int,
    "float": float,
    "abs": abs,
    "round": round,
    "format": format,
    "dir": dir,
    "reversed": reversed,
    "get": operator.getitem,
    "put": operator.setitem,
    "drop": operator.delitem,
    "attr": getattr,
    "set": setattr,
    "del": delattr,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
}
BUILTINS = dict(vars(builtins))
MODULE = type(sys)


class Callback:
    """A function of the tests, which C can only call."""

    def __init__(self, answer: AnswerSide, reference: int) -> None:
        self.__answer, self.__reference = answer, reference

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: D102
        return self.__answer.link.ask("back", self.__reference, arguments, named)


class AnswerSide(Side):
    """The answer's module and every object of it that T knows of."""

    swallowed = BaseException

    def __init__(self, pipe: Pipe) -> None:
        self.link = Link(pipe, self)
        self.module: Any = None
        self._objects: list[Any] = []  # by reference; never given up, so that an id stays an object's
        self._references: dict[int, int] = {}  # id -> reference
        self._callbacks: dict[int, Any] = {}  # T's reference -> what stands for it here
        self._callback_ids: dict[int, int] = {}  # and back

    def run(self) -> None:
        """Serve until T closes the pipe."""
        try:
            while True:
                _, operation, root, table = self.link.pipe.receive()
                self.link.serve(operation, root, table)
        except Gone:
            os._exit(0)

    def perform(self, operation: str, arguments: Any) -> Any:
        """Perform one operation that T asks for."""
        if operation == "op":
            name, *operands = arguments
            return OPERATIONS[name](*operands)
        if operation == "call":
            target, positional, named = arguments
            return target(*positional, **named)
        return getattr(self, "_" + operation)(*arguments)

    def _load(self, name: str, prefix: str, source: str) -> None:
        """Run the answer as a module, so that its `if __name__ == "__main__"` does not run."""
        self.module = sys.modules[name] = MODULE(name)
        self.module.__file__ = f"{name}.py"
        if prefix:
            exec(compile(prefix, "prefix.py", "exec", dont_inherit=True), self.module.__dict__)
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), self.module.__dict__)

    def _limit(self, memory_bytes: int) -> None:
        """Limit the memory of this process: beyond it the answer sees MemoryError, and T lives."""
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))

    def _entry(self, name: str) -> Any:
        """Return the function under test: a method of a fresh `Solution` where there is one, else the module's."""
        solution = vars(self.module).get("Solution")
        return getattr(solution(), name) if hasattr(solution, name) else self._global(name)

    def _share(self, names: list[str]) -> None:
        """Share the classes that T defines as well: their instances travel as attributes."""
        self.records = _Records(self, names)

    def _global(self, name: str) -> Any:
        if name not in vars(self.module):
            raise NameError(f"the program defines no {name!r}")
        return vars(self.module)[name]

    def _names(self) -> list[str]:
        listed = vars(self.module).get("__all__")
        return list(listed) if listed is not None else [name for name in vars(self.module) if name[:1] != "_"]

    def _await(self, coroutine: Any) -> Any:
        import asyncio

        async def waiting() -> Any:
            return await coroutine

        return asyncio.run(waiting())

    def class_id(self, kind: type) -> int | None:
        """Return the reference to a class; `Side` has the contract."""
        return self._reference(kind)

    def exception_class(self, lineage: Any) -> type[BaseException]:
        """Return the class itself where it is the answer's own, else its built-in base."""
        reference = lineage[0][0]
        return (
            self._objects[reference] if reference is not None else EXCEPTIONS.get(lineage[-1][2], Exception)
        )

    def _reference(self, value: Any) -> int:
        reference = self._references.get(id(value))
        if reference is None:
            reference = self._references[id(value)] = len(self._objects)
            self._objects.append(value)
        return reference

    def refer(self, value: Any) -> list[Any]:
        """Return a node for an object that is no data."""
        if id(value) in self._callback_ids:
            return ["cb", self._callback_ids[id(value)]]
        if isinstance(value, MODULE):
            return ["m", value.__name__, self._reference(value)]
        if isinstance(value, type) and issubclass(value, BaseException):
            return ["x", lineage_of(self, value)]
        if hasattr(type(value), "cr_await"):
            return ["co", self._reference(value)]
        kinds = [self._reference(kind) for kind in type(value).__mro__ if kind.__module__ != "builtins"]
        return ["h", self._reference(value), callable(value), kinds]

    def resolve(self, node: list[Any]) -> Any:
        """Return the value that such a node of T's stands for."""
        tag, reference = node[0], node[1]
        if tag == "h":
            return self._objects[reference]
        if tag == "B":
            return BUILTINS[reference]
        if tag == "m":
            return __import__(reference)
        if reference not in self._callbacks:
            callback = Callback(self, reference)
            self._callbacks[reference] = callback if tag == "cb" else pulled(callback)
            self._callback_ids[id(self._callbacks[reference])] = reference
        return self._callbacks[reference]


class _Records(dict):  # type: ignore[type-arg]
    """Name to class, looked up in the answer at each use, since the answer may define it itself."""

    def __init__(self, answer: AnswerSide, names: list[str]) -> None:
        super().__init__({name: name for name in names})
        self._answer = answer

    def __getitem__(self, name: str) -> type:
        kind: type = vars(self._answer.module)[name]
        return kind


def pulled(callback: Callback) -> Any:
    """Yield what an iterator of the tests yields."""
    while True:
        more, item = callback()
        if not more:
            return
        yield item


def serve(pipe: Pipe) -> None:
    """Run C until its end."""
    AnswerSide(pipe).run()
