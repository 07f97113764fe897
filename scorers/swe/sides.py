"""Whose each of a row's files is, the tests' or the program's, and what of the program the tests take from the row.

In: a row's files, its test files, and the files with the reference's change. Out: `Sides`, by which
`scorers.swe.package_tests` shares the files out between the process of the tests and that of the answer. Called once a
row by `scorers.swe.trial`; nothing is run here, the files' syntax says it all.

What decides a test must not come from files that an answer may edit. So, of what test files import:
- a module that the reference leaves alone and no module of the program imports is the tests' own, as a helper, a base
  class or a table of cases is. Not so where it leads to what the reference changes, lies in the same package and has
  no check in it: that is a part of the program which nothing but its tests uses.
- of the program's modules, what judges (functions with asserts, bases and decorators of tests, fixtures), constants,
  and functions that the reference's change can't reach are the row's, name by name.
- everything else is the program's: what the change reaches, classes, and what keeps a state.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from scorers.swe import judging
from scorers.swe.names import (
    Function,
    Module,
    identifiers,
    imported_modules,
    module_of,
    mutated,
    packages_of,
    parsed,
    used_in,
)


@dataclass(frozen=True, slots=True)
class Pins:
    """What the tests take of one of the program's modules from the row."""

    names: tuple[str, ...]
    statements: tuple[str, ...]  # that bind them and what they need, in order
    outside: tuple[str, ...]  # names that the statements need from the program: its classes
    constants: Mapping[str, tuple[str, ...]]  # of classes that stay the program's, which have to be the row's


@dataclass(frozen=True, slots=True)
class Sides:
    """How the files of a row are shared out."""

    own: frozenset[str]  # paths beside the test files that no answer changes
    lent: frozenset[str]  # of these, what the program may use too: it has them as the answer leaves them
    is_apart: bool  # whether its own modules run with the tests; else beside the program, as the row has them
    modules: frozenset[str]  # of the program, by name
    all_modules: frozenset[str]  # these and the tests' own beside the test files
    pins: Mapping[str, Pins]  # by module
    exports: Mapping[str, tuple[str, ...]]  # names of a module that a star import brings whatever they are
    below: Mapping[str, tuple[str, ...]]  # attributes of a package that are its modules
    texts: frozenset[str]  # paths of files that tests may open, as the row has them
    kept: Mapping[
        str, Mapping[str, tuple[str, ...]]
    ]  # path -> name -> its statements, where the reference keeps them

    @property
    def is_shared(self) -> bool:
        """Return whether tests take anything from the row but their own files."""
        return bool(self.own or self.pins)

    @property
    def plain(self) -> Sides:
        """The same with nothing taken from the row but its test files: what an answer breaks is broken here."""
        return replace(
            self, own=frozenset(), lent=frozenset(), is_apart=False, modules=self.all_modules, pins={}
        )

    def is_kept_by(self, written: Mapping[str, str]) -> bool:
        """Return whether an answer keeps all that the reference keeps, so that nothing that is pinned can be broken."""
        if not self.is_shared:
            return True
        for path, text in written.items():
            if path not in self.kept:
                return False
            module = module_of(path, None, text)
            found = {} if module is None else {name: dumped(of) for name, of in module.bindings.items()}
            if any(found.get(name) != statements for name, statements in self.kept[path].items()):
                return False
        return True


def sides_of(
    files: Mapping[str, str], is_test: Mapping[str, bool], reference: Mapping[str, str], *, strict: bool
) -> Sides:
    """Share the files of a row out.

    Args:
        files: of the row, by path.
        is_test: whether a path of row or reference is a test file's.
        reference: what the reference writes, by path.
        strict: whether the tests' own modules run with the tests, and functions out of the change's reach too; else
            own modules run beside the program as the row has them, and of the program what judges and constants are
            the row's. For rows whose tests need it so.
    """
    touched = {path: text for path, text in reference.items() if not is_test[path]}
    shares = _Shares({**files, **touched}, files, frozenset(touched), is_test)
    return Sides(
        own=frozenset(shares.modules[name].path for name in shares.own),
        lent=frozenset(shares.modules[name].path for name in shares.own if not shares.is_for_tests(name)),
        is_apart=strict,
        modules=shares.names_in(strict=strict),
        all_modules=shares.names_in(strict=False),
        pins=shares.all_pins(strict=strict),
        exports={module.name: tuple(shares.defined(module)) for module in shares.program},
        below={module.name: tuple(shares.below(module)) for module in shares.program},
        texts=frozenset(path for path in files if not path.endswith(".py") and path not in touched),
        kept={
            module.path: {
                name: dumped(statements)
                for name, statements in module.bindings.items()
                if name not in module.changed
            }
            for module in shares.program
            if module.path in touched
        },
    )


def dumped(statements: Iterable[ast.stmt]) -> tuple[str, ...]:
    """Return statements as text that tells whether two are the same."""
    return tuple(map(ast.dump, statements))


class _Shares:
    """What is known of one row.

    Args:
        files: with the reference's change, by path.
        before: without it.
        touched: paths that the reference writes, tests aside.
        is_test: whether a path is a test file's.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        before: Mapping[str, str],
        touched: frozenset[str],
        is_test: Mapping[str, bool],
    ) -> None:
        self.files, self._is_test, self._touched = files, is_test, touched
        found = [
            module
            for path, text in files.items()
            if not is_test[path] and (module := module_of(path, before.get(path), text)) is not None
        ]
        self.modules: dict[str, Module] = {module.name: module for module in found}
        self._imported: dict[str, set[str]] = {
            module.name: imported_modules(module.tree, module.package, self.modules) for module in found
        }
        self._tests = [
            (parsed(text), packages_of(path)[-2:-1])
            for path, text in files.items()
            if is_test[path] and path.endswith(".py")
        ]
        self._reached: dict[tuple[str, str], bool] = {}

    def names_in(self, *, strict: bool) -> frozenset[str]:
        """Return what is found in the program's process; if not strict, the tests' own modules are there too."""
        apart = {self.modules[name].path for name in self.own} if strict else set()
        paths = [path for path in self.files if not self._is_test[path] and path not in apart]
        return frozenset(name for path in paths for name in packages_of(path))

    @cached_property
    def own(self) -> frozenset[str]:
        """The names of the modules that are the tests' own."""
        reached: set[str] = set()
        left = [
            name
            for tree, above in self._tests
            for name in imported_modules(tree, above[0] if above else "", self.modules)
        ]
        while left:
            if (name := left.pop()) not in reached:
                reached.add(name)
                left += self._imported[name]
        own = {
            name for name in reached if self.modules[name].path not in self._touched and self._is_helper(name)
        }
        while True:
            program = [name for name in self.modules if name not in own]
            used = {one for name in program for one in self._imported[name]}
            used |= {one for name in program for one in packages_of(self.modules[name].path)}
            if not own & used:
                return frozenset(own)
            own -= used

    def _is_helper(self, name: str) -> bool:
        """Return whether a module that only tests import helps them, or at least has nothing to do with the change."""
        return self.is_for_tests(name) or not self._leads_to_change(name)

    def is_for_tests(self, name: str) -> bool:
        """Return whether a module is there to test: by its name, by what is in it, or apart from what is changed."""
        place = _place(self.modules[name])
        return (
            judging.is_helpers_name(name)
            or all(_place(module) != place for module in self._changed_modules)
            or judging.is_strong(self.modules[name].tree)
        )

    @cached_property
    def _changed_modules(self) -> list[Module]:
        return [module for module in self.modules.values() if module.path in self._touched]

    def _leads_to_change(self, name: str) -> bool:
        return name in self._leading

    @cached_property
    def _leading(self) -> set[str]:
        """The modules that import what the reference changes, or are it, or import such a module."""
        found: set[str] = set()
        left = [module.name for module in self._changed_modules]
        importers: dict[str, list[str]] = {}
        for name, imported in self._imported.items():
            for one in imported:
                importers.setdefault(one, []).append(name)
        while left:
            if (name := left.pop()) not in found:
                found.add(name)
                left += importers.get(name, [])
        return found

    @cached_property
    def program(self) -> list[Module]:
        """The modules that are the program's."""
        return [module for module in self.modules.values() if module.name not in self.own]

    @cached_property
    def usage(self) -> judging.NameUsage:
        """What test files, and modules that are the tests' own, do with names."""
        own = [self.modules[name].tree for name in self.own]
        return judging.NameUsage([*(tree for tree, _ in self._tests), *own])

    @cached_property
    def _used_by_program(self) -> set[str]:
        return {
            one.id if isinstance(one, ast.Name) else one.attr
            for module in self.program
            for one in ast.walk(module.tree)
            if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
        }

    @cached_property
    def _state(self) -> set[str]:
        """Names whose values the program changes."""
        return {name for module in self.program for name in mutated(module)}

    def defined(self, module: Module) -> Iterator[str]:
        """Give the names that a module defines itself."""
        for name, statements in module.bindings.items():
            if not all(isinstance(one, ast.Import | ast.ImportFrom) for one in statements):
                yield name

    def below(self, package: Module) -> Iterator[str]:
        """Give the names of a package that stand for its modules."""
        if PurePosixPath(package.path).name != "__init__.py":
            return
        for name in self.modules:
            parent, _, last = name.rpartition(".")
            is_other = last in package.bindings and package.imports.get(last, ("", ""))[0] not in {
                name,
                package.name,
            }
            if parent == package.name and not is_other:
                yield last

    def all_pins(self, *, strict: bool) -> dict[str, Pins]:
        """Return, by module, what tests take of the program from the row, and what that takes in turn."""
        known = -1
        while known < len(self.usage.identifiers):
            known = len(self.usage.identifiers)
            pins = {module.name: self.pins_of(module, strict=strict) for module in self.program}
            for found in pins.values():
                for statement in found.statements:
                    self.usage.identifiers |= identifiers(parsed(statement))
        return {name: found for name, found in pins.items() if found.names or found.constants}

    def pins_of(self, module: Module, *, strict: bool) -> Pins:
        """Return what tests take of a module from the row."""
        names = dict.fromkeys(
            name
            for name in (*module.bindings, *self._starred(module))
            if name in self.usage.identifiers and self._is_pinned(module, name, strict=strict)
        )
        constants = {
            name: tuple(found)
            for name, of in module.bindings.items()
            if name in self.usage.identifiers - names.keys() - module.changed
            and (found := judging.constants_of(of, self.usage.identifiers - self._state))
            and not self._is_reached(module, name)
        }
        statements, outside = self._needed(module, [*names, *constants])
        return Pins(tuple(names), tuple(map(ast.unparse, statements)), tuple(outside), constants)

    def _starred(self, module: Module, depth: int = 3) -> dict[str, Module]:
        """Return names that a module has from star imports of the row's modules, with where they are bound."""
        if not module.stars:
            return {}
        found: dict[str, Module] = {}
        for star in module.stars if depth else ():
            if (source := self.modules.get(star)) is not None:
                below = self._starred(source, depth - 1)
                names = {name: source for name in source.bindings if name[:1] != "_"}
                found |= {**below, **names}
        return {name: source for name, source in found.items() if name not in module.bindings}

    def _is_pinned(self, module: Module, name: str, *, strict: bool, depth: int = 8) -> bool:
        """Return whether a name of a module is the row's for the tests, whatever an answer makes of it."""
        module = self._starred(module).get(name, module)
        statements = module.bindings.get(name)
        if statements is None or name in module.changed or not depth:
            return False
        if module.name in self.own:
            return True
        if name in module.imports and all(isinstance(one, ast.Import | ast.ImportFrom) for one in statements):
            base, inner = module.imports[name]
            if f"{base}.{inner}" in self.modules or (not inner and base in self.modules):
                return False  # a module, which is found as such
            source = self.modules.get(base)
            return source is None or self._is_pinned(source, inner, strict=strict, depth=depth - 1)
        if self._judges(module, name):
            return True
        if any(map(judging.is_class, statements)):
            is_spare = strict and name not in self._used_by_program and module.path not in self._touched
            is_fit = is_spare or all(map(judging.is_namespace, statements))
        else:
            is_fit = strict or not any(isinstance(one, Function) for one in statements)
        return is_fit and not self._is_reached(module, name)

    def _judges(self, module: Module, name: str) -> bool:
        """Return whether a function or class is there to judge, by what is in it or what tests do with it."""
        statements = module.bindings[name]
        if module.path in self._touched and not all(map(judging.is_strong, statements)):
            return False
        return judging.judges(
            name,
            statements,
            self.usage,
            is_used=name in self._used_by_program,
            judges={one for one, of in module.bindings.items() if all(map(judging.is_strong, of))},
        )

    def _is_reached(self, module: Module, name: str) -> bool:
        """Return whether the reference's change, or a state of the program, may alter what a name stands for."""
        key = (module.name, name)
        if key not in self._reached:
            self._reached[key] = False  # in a circle
            self._reached[key] = self._reaches(module, name)
        return self._reached[key]

    def _reaches(self, module: Module, name: str) -> bool:
        if name in module.changed or name in self._state:
            return True
        if name in module.imports and name in module.bindings:
            base, inner = module.imports[name]
            if (whole := f"{base}.{inner}" if inner else base) in self.modules or base not in self.modules:
                return self._is_module_reached(whole)
            return self._is_reached(self.modules[base], inner)
        statements = module.bindings.get(name)
        if statements is None:
            source = self._starred(module).get(name)
            return self._is_reached(source, name) if source is not None else False
        if any(isinstance(one, ast.Global) for statement in statements for one in ast.walk(statement)):
            return True
        known = {**module.bindings, **self._starred(module)}
        inner_imports = imported_modules(ast.Module(list(statements), []), module.package, self.modules)
        return any(
            self._is_reached(module, one) for one in used_in(statements) - {name} if one in known
        ) or any(self._is_module_reached(one) for one in inner_imports)

    def _is_module_reached(self, name: str) -> bool:
        """Return whether a module that is used as a whole holds, or leads to, what the reference changes."""
        return any(one == name or one.startswith(f"{name}.") for one in self._leading)

    def _needed(self, module: Module, names: Iterable[str]) -> tuple[list[ast.stmt], dict[str, None]]:
        """Return the statements that bind names and what these need, and names that stay the program's."""
        starred = self._starred(module)
        statements: dict[int, ast.stmt] = {}
        outside: dict[str, None] = {}
        seen: set[str] = set()
        left = list(names)
        wanted = set(left)
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in starred:
                source = ast.ImportFrom(starred[name].name, [ast.alias(name)], 0)
                statements[-len(seen)] = source
                continue
            for statement in module.bindings.get(name, ()):
                if judging.is_class(statement) and name not in wanted and not self._judges(module, name):
                    outside[name] = None
                    continue
                statements[statement.lineno * 1_000 + statement.col_offset] = statement
                left += used_in([statement])
        ordered = [statements[place] for place in sorted(statements)]
        future = [
            one for one in module.tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"
        ]
        return [one for one in ordered if one not in future], outside


def _place(module: Module) -> str:
    """Return the topmost package that a module is in; "" for one that is in none."""
    return module.package.partition(".")[0]
