"""T's side of a whole package: its modules as stand-ins, and what the tests bring along as it is.

In: the names of the package's modules, the texts of those that are the tests', what of the package is the row's, and
C's `load_module`. Out: imports in T that find both. The row says which names are found: so no file that an answer
creates can stand in for a module of the standard library or of pytest's here. Of a stand-in the names that the row pins
are made here of the row's text, when one of them is first used; all others are looked up in C. Files of the row that
tests open are the row's too, whatever lies in the folder by then, and none may be gone where they look. Runs in T
before the tests.
"""

# ruff: noqa: PTH100, PTH109, S102 -- pathlib costs 8 ms; the row's own tests are run here

from __future__ import annotations

import builtins
import io
import os
import sys

from sandbox.harness.remote import Remote, is_standard

if False:
    from typing import Any

ModuleType = type(sys)
MISSING = object()


class StandIn(ModuleType):  # type: ignore[misc,valid-type]
    """A module that lives in C. Its names are looked up there, and what tests put into it goes there."""

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name == "__all__":
            exports = own["_row"]["exports"].get(own["__name__"], ())
            return [known for known in dir(own["_remote"]) if known in exports or is_free(known)]
        if name.startswith("__"):
            raise AttributeError(name)
        if name in own["_row"]["below"].get(own["__name__"], ()):
            __import__(f"{own['__name__']}.{name}")
            return own[name]
        value = getattr(own["_remote"], name)  # of the row's names too: the answer has to have them
        if name in own["_pinned"]:
            self._pin()
        if name in own["_checked"]:
            has_same_constants(value, own["_checked"].pop(name))
        return own.get(name, value)

    def _pin(self) -> None:
        """Make the names that the row pins, once. One that can't be made here is looked up in C."""
        own = self.__dict__
        names, statements, outside, constants = own["_pinned"]["*"]
        own["_pinned"] = {}
        space = {"__name__": own["__name__"], "__package__": own["__package__"]}
        for name in outside:
            space[name] = getattr(own["_remote"], name, None)
        for statement in statements:
            try:
                exec(compile(statement, f"{own['__name__']}.py", "exec", dont_inherit=True), space)
            except Exception:  # noqa: BLE001, S112 - of whatever the row's program does
                continue
        for name in names:
            if name in space and name not in own and is_here(space[name]):
                own[name] = space[name]
        for name, of in constants.items():
            own["_checked"][name] = {one: plain(getattr(space.get(name), one, MISSING)) for one in of}

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, ModuleType):  # import's own: a module below this one
            self.__dict__[name] = value
            return
        if name in self.__dict__["_pinned"]:
            self._pin()
        setattr(self.__dict__["_remote"], name, value)
        if name in self.__dict__:
            self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_remote"], name)
        self.__dict__.pop(name, None)


def is_free(name: str) -> bool:
    """Return whether `from module import *` may bring a name that the row's module does not define."""
    return (
        name[:1] != "_" and not hasattr(builtins, name) and name not in sys.modules and not is_standard(name)
    )


def is_here(value: Any, depth: int = 6) -> bool:
    """Return whether a value has nothing of C in it."""
    if isinstance(value, Remote) or not depth:
        return False
    if isinstance(value, dict):
        return all(is_here(one, depth - 1) for pair in value.items() for one in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_here(one, depth - 1) for one in value)
    return True


def plain(value: Any) -> Any:
    """Return a constant of a class, of a member of an Enum its value."""
    return getattr(value, "value", value) if hasattr(value, "name") else value


def has_same_constants(remote: Any, constants: dict[str, Any]) -> None:
    """Raise AssertionError unless a class of the answer's has the constants of the row's that are data."""
    for name, value in constants.items():
        if value is MISSING or not is_data(value):
            continue
        found = plain(getattr(remote, name))
        if type(found) is not type(value) or found != value:
            raise AssertionError(f"the tests go by {name} of a class, which is not the row's any more")


def is_data(value: Any) -> bool:
    """Return whether a value is a number, a text, or made of these."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_data, value))
    if isinstance(value, dict):
        return all(is_data(one) for pair in value.items() for one in pair)
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


class Finder:
    """Finds the row's modules before any other."""

    def __init__(self, row: dict[str, Any], load_module: Any) -> None:
        self._row, self._load = row, load_module
        self._program, self._packages = set(row["program"]), set(row["packages"])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Return the spec of one of the row's modules, as importlib.abc.MetaPathFinder has it; None for others."""
        if name not in self._program and name not in self._row["tests"]:
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = self
        return ModuleSpec(name, loader, is_package=name in self._packages)

    def create_module(self, spec: Any) -> Any:
        """Return an empty module for a module of the tests, else a stand-in."""
        if spec.name in self._row["tests"]:
            return ModuleType(spec.name)
        module = StandIn(spec.name)
        pins = self._row["pins"].get(spec.name)
        module.__dict__["_row"] = self._row
        module.__dict__["_checked"] = {}
        module.__dict__["_pinned"] = (
            {} if pins is None else {**dict.fromkeys([*pins[0], *pins[3]]), "*": pins}
        )
        return module

    def exec_module(self, module: Any) -> None:
        """Run a module of the tests' here; have C load one of the package's."""
        name = module.__spec__.name
        if name in self._row["tests"]:
            text = self._row["tests"][name]
            exec(compile(text, f"{name}.py", "exec", dont_inherit=True), module.__dict__)
        else:
            module.__dict__["_remote"] = self._load(name)


def opening(texts: dict[str, str], folder: str) -> Any:
    """Return `open` as it is, but for files of the row that are read: their text is the row's."""
    whole = io.open

    def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
        path = os.path.relpath(os.path.abspath(name), folder) if isinstance(name, str) and name else None
        if path not in texts:
            return whole(file, mode, *arguments, **named)
        if set(mode) & set("wax+"):  # from here on it is what the tests make of it
            del texts[path]
            return whole(file, mode, *arguments, **named)
        text = texts[path]
        if "b" in mode:
            return io.BytesIO(text.encode("utf-8", "surrogatepass"))
        return io.StringIO(text if named.get("newline") == "" else text.replace("\r\n", "\n"))

    return opened


def watched(whole: Any, laid: list[str], folder: str) -> Any:
    """Return a function that looks at a path as it is, but an error where files of the row are gone from there."""
    look = os.stat

    def looked(path: Any = ".", *arguments: Any, **named: Any) -> Any:
        place = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        above = os.path.relpath(os.path.abspath(place), folder) if isinstance(place, str) and place else None
        for file in laid:
            if above in (file, ".") or file.startswith(f"{above}/"):
                try:
                    look(f"{folder}/{file}")
                except OSError:
                    raise AssertionError(f"the row's file {file} is gone") from None
        return whole(path, *arguments, **named)

    return looked


def install(row: dict[str, Any], load_module: Any) -> None:
    """Let imports find the row's modules from here on, and `open` its files."""
    folder = os.getcwd()
    sys.meta_path.insert(0, Finder(row, load_module))
    builtins.open = io.open = opening(dict(row["texts"]), folder)
    for name in ("stat", "listdir", "scandir"):
        setattr(os, name, watched(getattr(os, name), row["laid"], folder))
