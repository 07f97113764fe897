"""T's side of a whole package: its modules as stand-ins, and what the tests bring along as it is.

In: the names of the package's modules, the texts of those that belong to the tests, and C's `load_module`. Out: imports
in T that find both. The row says which names are found: so no file that an answer creates can stand in for a module of
the standard library or of pytest's here. Runs in T before the tests.
"""

from __future__ import annotations

import sys

if False:
    from typing import Any

ModuleType = type(sys)


class StandIn(ModuleType):  # type: ignore[misc,valid-type]
    """A module that lives in C. Its names are looked up there, and what tests put into it goes there."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [known for known in dir(self.__dict__["_remote"]) if known[:1] != "_"]
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_remote"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, ModuleType):  # import's own: a module below this one
            self.__dict__[name] = value
        else:
            setattr(self.__dict__["_remote"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_remote"], name)


class Finder:
    """Finds the row's modules before any other."""

    def __init__(self, program: list[str], tests: dict[str, str], load_module: Any) -> None:
        self._program, self._tests, self._load = set(program), tests, load_module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Return the spec of one of the row's modules, as importlib.abc.MetaPathFinder has it; None for others."""
        if name not in self._program and name not in self._tests:
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = self
        return ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Return an empty module for a module of the tests, else a stand-in."""
        return ModuleType(spec.name) if spec.name in self._tests else StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        """Run a module of the tests' here; have C load one of the package's."""
        name = module.__spec__.name
        if name in self._tests:
            exec(compile(self._tests[name], f"{name}.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the row's own tests
        else:
            module.__dict__["_remote"] = self._load(name)


def install(program: list[str], tests: dict[str, str], load_module: Any) -> None:
    """Let imports find the row's modules from here on."""
    sys.meta_path.insert(0, Finder(program, tests, load_module))
