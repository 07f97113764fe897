"""What a machine lacks never makes a zero: this module finds what a program imports and its sandbox does not have.

In: a sandbox, and texts of programs. Out: the names of modules that every sandbox should have (the packages of
`sandbox.packages`, and what a Python may have been built without) and that can't be imported inside. Asked by
scorers of programs, in their own process, about an answer that is not right: it may have failed, or have gone another
way, for want of these, and so has no score. Any other module is nowhere, and its import is the answer's own fault. What
is asked for the first time is found out by importing it inside; an answer's text is parsed here, and only names of
modules are sent there. Of another language it is found out once whether a program that is right runs: a compiler may
say its version and lack its headers. Raises `SandboxUnavailable` where the machinery fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Final

from sandbox.choice import LazySandbox
from sandbox.limits import Limits
from sandbox.packages import MODULES, PACKAGES, REMEDY, Import, absent, imports_of, is_offered
from sandbox.program import Ending, Language, Program, SandboxUnavailable

LIMITS: Final = Limits(wall_s=60.0)  # for all packages at once, on a machine that has much else to do
MOST: Final = 64  # imports of one answer that are looked at
# Prints of each import "" where nothing is wrong with it, "lacks" where its package does not work here or a library of
# its own can't be loaded, and else the name of a part that is not there, which may never have been. What an answer
# names below a package is imported in a fork: it may exit or hang, as `pytest.__main__` does, and that is no lack.
PROGRAM: Final = b"""\
import importlib, importlib.util, json, os, select, signal, sys, time
wanted = json.load(sys.stdin)
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def works(root):
    try:
        importlib.import_module(root)
    except BaseException:
        return False
    return True
def lost_library(error):
    while error is not None:
        if isinstance(error, ImportError) and str(error.path).endswith(".so"):
            return True
        error = error.__cause__ or error.__context__
    return False
def look(module, name):
    for part in [module, f"{module}.{name}"] if name else [module]:
        try:
            if importlib.util.find_spec(part) is None:
                return part if part == module or not hasattr(sys.modules[module], name) else ""
            importlib.import_module(part)
        except ModuleNotFoundError as error:
            return part if f"{part}.".startswith(f"{error.name}.") else ""
        except BaseException as error:
            return "lacks" if lost_library(error) else ""
    return ""
roots = {one: works(one) for one in sorted({module.partition(".")[0] for module, _ in wanted})}
states = ["" if roots[module.partition(".")[0]] else "lacks" for module, _ in wanted]
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2, out.fileno(), reader):
        os.dup2(nothing, descriptor)
    for number, one in enumerate(wanted):
        if not states[number]:
            os.write(writer, (json.dumps([number, look(*one)]) + "\\n").encode())
    os._exit(0)
os.close(writer)
deadline, said = time.monotonic() + 20, b""
while select.select([reader], [], [], max(0, deadline - time.monotonic()))[0]:
    part = os.read(reader, 1 << 16)
    said += part
    if not part:
        break
try:
    os.kill(child, signal.SIGKILL)
except OSError:  # the walls may forbid it; it ends with this run
    pass
for line in said.split(b"\\n")[:-1]:
    number, state = json.loads(line)
    states[number] = state
json.dump(states, out)
"""
SUMS: Final[Mapping[Language, bytes]] = {  # programs that add two numbers
    Language.CPP: b"#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }\n",
    Language.JAVASCRIPT: b'const [a, b] = require("fs").readFileSync(0, "utf8").split(" ");\n'
    b"console.log(Number(a) + Number(b));\n",
}


class Lacks:
    """What one sandbox lacks, as far as somebody has asked."""

    def __init__(self, sandbox: LazySandbox) -> None:
        """Ask nothing yet."""
        self._sandbox = sandbox
        self._known: dict[Import, str] = {}
        self._troubles: dict[Language, str] = {}

    def of_program(self, text: str, language: Language) -> str:
        """Return why a program that is not right can't be judged here; "" where it can. Raises SandboxUnavailable."""
        if language is Language.PYTHON:
            return self.of(text)
        if language not in self._troubles:
            self._troubles[language] = self._trouble(language)
        return self._troubles[language]

    def of(self, *texts: str) -> str:
        """Return the same of programs in Python with these texts."""
        return self.of_imports(frozenset().union(*map(imports_of, texts)), "the program imports")

    def of_imports(self, imports: Iterable[Import], who: str) -> str:
        """Return the same of what is imported; `who` begins the reason's clause: "the tests import"."""
        wanted = sorted(one for one in set(imports) if is_offered(one[0]))
        if not wanted:
            return ""
        sandbox = self._sandbox.get()
        if new := [one for one in wanted if one not in self._known][:MOST]:
            self._known.update(zip(new, self._ask(new), strict=True))
        gone = {PACKAGES[name] for name in absent(sandbox.version)}  # on one of several servers, too
        lacking = sorted(
            {module for module, _ in wanted if module.partition(".")[0] in gone}
            | {lacking for one in wanted if (lacking := self._known.get(one))}
        )
        if not lacking:
            return ""
        remedy = f": {REMEDY}" if any(name.partition(".")[0] in MODULES for name in lacking) else ""
        return f"the sandbox here ({sandbox.name}) lacks {' and '.join(lacking)}, which {who}{remedy}"

    def _trouble(self, language: Language) -> str:
        sandbox = self._sandbox.get()
        with sandbox.prepare(Program(language=language, source=SUMS[language])) as prepared:
            outcome = prepared.failure or prepared.run(b"19 23\n", LIMITS)
        if outcome.ending is not Ending.EXITED or outcome.is_crowded:
            raise SandboxUnavailable(f"whether {language.value} works here is not known: {outcome.detail}")
        if outcome.exit_code == 0 and outcome.stdout.strip() == b"42":
            return ""
        said = outcome.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200]
        return (
            f"{language.value} does not work in the sandbox here ({sandbox.name}): {said or outcome.detail}"
        )

    def _ask(self, imports: list[Import]) -> list[str]:
        """Return of each import the module that is lacking; "" where none is."""
        program = Program(language=Language.PYTHON, source=PROGRAM)
        with self._sandbox.get().prepare(program) as prepared:
            outcome = prepared.run(json.dumps(imports).encode("ascii"), LIMITS)
        try:
            found = json.loads(outcome.stdout) if outcome.exit_code == 0 else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or len(found) != len(imports):
            said = outcome.stderr.decode("utf-8", "replace").strip()[-200:]
            raise SandboxUnavailable(f"what can be imported is not known: {outcome.detail} {said}".rstrip())
        return [_lacking(one, state) for one, state in zip(imports, found, strict=True)]


def _lacking(imported: Import, state: str) -> str:
    """Return the module that is lacking; a part that is not there is, where the package should have it."""
    return imported[0] if state == "lacks" or (state and _is_recorded(state)) else ""


def _is_recorded(module: str) -> bool:
    """Return whether an installed package says that it has such a module."""
    parts = module.split(".")
    name = next((name for name, root in PACKAGES.items() if root == parts[0]), "")
    try:
        files = metadata.distribution(name).files if name else None
    except metadata.PackageNotFoundError:
        files = None
    path = "/".join(parts)
    if "tests" in parts:  # which are left out where a package is copied
        return False
    return any(str(file) in {f"{path}.py", f"{path}/__init__.py"} for file in files or ())
