"""The tests of a patched package, in the sandbox.

In: a row's files and test command, the files that an answer writes, and which files are whose. Out: which tests passed,
or why none can be judged. The tests run in the harness's process T, the package in C beside it
(`sandbox.harness`): of every module that is not the tests', T sees stand-ins, and C is sent everything but the
tests. So a patched package can't read or change what judges it, and success is proven by a nonce that it never holds.

What is the tests': files in a folder `test`, `tests` or `testing`, those named `test_*.py` or `*_test.py`, and what
`scorers.swe.sides` says of others. An answer's changes to them do not count.
"""

from __future__ import annotations

import ast
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from broker.errors import BadMessage
from sandbox.limits import Limits
from sandbox.program import Sandbox
from sandbox.time_budget import TimeBudget
from scorers.swe.names import module_names, packages_of
from scorers.swe.sides import Sides
from verdicts.code.harness import HarnessReport, Job, harness, harness_text, new_nonce, report_of
from verdicts.code.rows import Harnessed
from verdicts.repository import belongs_to_tests

COMMANDS: Final = (
    "`pytest FILE ...`, `python -m pytest FILE ...`, `python -m unittest FILE-OR-MODULE ...`, with no "
    "options but -q, -v, -x, -s and --tb=..."
)
BRIDGE: Final = "swe_bridge"  # the module that C makes of package_program.py
CASE_S: Final = 10.0  # of one test
OVERTIME_S: Final = 1.0  # after the end of a run's time, for the harness to say what it knows
HARNESS_BYTES: Final = 128 << 20  # of a run's memory, kept for the process that judges
RESERVED: Final = sys.stdlib_module_names | {"pytest", "_pytest", "scorers", BRIDGE}


@dataclass(frozen=True, slots=True)
class RepoTests:
    """Files, and those of them that are run as tests."""

    files: Mapping[str, str]
    test_files: tuple[str, ...]

    def is_test(self, path: str) -> bool:
        """Return whether a file is run as a test or is the tests' by its name."""
        return path in self.test_files or belongs_to_tests(path)


@dataclass(frozen=True, slots=True)
class PackageTestResult:
    """The result of the tests against one state of the files."""

    passed: int
    total: int
    reason: str  # of the first failure; "" where all passed
    is_limit: bool  # whether time, memory or output ended it

    @property
    def is_all(self) -> bool:
        """Return whether there was a test and every one passed."""
        return 0 < self.passed == self.total


def tests_of(files: Mapping[str, str], command: object) -> RepoTests:
    """Return the row's tests. Raises BadMessage naming what can't be run, and what can."""
    if not isinstance(command, str):
        raise BadMessage(f"`test_command` of a swe row must be text: {COMMANDS}")
    test_files = tuple(_targets(command, files))
    for path in test_files:
        try:
            ast.parse(files[path])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BadMessage(f"the test file {path!r} of a swe row is no Python: {error}") from error
    if conftest := next((path for path in files if PurePosixPath(path).name == "conftest.py"), None):
        raise BadMessage(f"a swe row with {conftest!r}: fixtures of conftest.py are not supported")
    taken = sorted({name.partition(".")[0] for path in files for name in module_names(path)} & RESERVED)
    if taken:
        raise BadMessage(
            f"a swe row with a module named {taken[0]!r}, as one of Python's or the harness's own is"
        )
    return RepoTests(files, test_files)


def run_tests(
    sandbox: Sandbox, tests: RepoTests, written: Mapping[str, str], budget: TimeBudget, sides: Sides
) -> PackageTestResult:
    """Run every test file against the files with those that were written, each in a fresh sandbox.

    Args:
        sandbox: where.
        tests: of the row.
        written: path -> content, over the row's files; those that are the tests' are passed over.
        budget: for all of them; time that the machinery loses is not charged.
        sides: how the files are shared out.
    Raises:
        SandboxUnavailable: the machinery failed.
    """
    total_s = budget.left_s
    source, setup = _two_sides(tests, written, sides)
    cases: list[tuple[bool, str]] = []
    with sandbox.prepare(harness()) as prepared:
        for path in tests.test_files:
            left_s = min(budget.left_s, sandbox.max_wall_s - OVERTIME_S)
            if left_s <= 0:
                return _result(cases, f"{path}: {total_s:g} s of time", is_limit=True)
            limits = Limits(wall_s=left_s + OVERTIME_S)
            harnessed = Harnessed(
                cases=(),
                module=BRIDGE,
                setup=setup,
                pytest=tests.files[path],
                imports=("pytest",),
                names=("load_module",),
            )
            job = Job(
                source=source,
                tests=harnessed,
                cases=(),
                case_s=min(CASE_S, left_s),
                total_s=left_s,
                memory_bytes=limits.memory_bytes - HARNESS_BYTES,
                stop=False,
            )
            nonce = new_nonce()
            report = report_of(budget.run(prepared, job.payload(nonce), limits), nonce, None)
            cases += report.cases
            if (reason := _failure(report)) is not None:
                return _result(cases, f"{path}: {reason}", is_limit=report.is_limit)
    return _result(cases, next((reason for is_passed, reason in cases if not is_passed), ""), is_limit=False)


def _two_sides(tests: RepoTests, written: Mapping[str, str], sides: Sides) -> tuple[str, str]:
    """Return what the program's process runs first, with its files, and what the tests' does, with theirs."""
    held = sides.own - sides.lent if sides.is_apart else sides.own  # what no answer changes
    held_modules = {name for path in held for name in module_names(path)}
    changed = {  # and no package in the place of one of these
        path: text
        for path, text in written.items()
        if path not in held and held_modules.isdisjoint(packages_of(path))
    }
    ours = {
        path: text
        for path, text in tests.files.items()
        if tests.is_test(path) or (sides.is_apart and path in sides.own)
    }
    program = {
        path: text
        for path, text in {**tests.files, **changed}.items()
        if not tests.is_test(path) and not (sides.is_apart and path in held)
    }
    own = {name: text for path, text in ours.items() for name in module_names(path)}
    above = {parent: "" for path in ours for parent in packages_of(path)}
    modules = sides.modules - own.keys()
    rows = {
        "program": sorted(modules),
        "tests": {**{name: "" for name in above if name not in modules}, **own},
        "packages": sorted({name.rpartition(".")[0] for name in {*modules, *above}} | _packages(tests.files)),
        "pins": {
            name: [pins.names, pins.statements, pins.outside, dict(pins.constants)]
            for name, pins in sides.pins.items()
        },
        "exports": dict(sides.exports),
        "below": dict(sides.below),
        "texts": {path: text for path, text in tests.files.items() if path in sides.texts},
        "laid": sorted(path for path in sides.texts if not tests.is_test(path)),
    }
    return (
        f"{harness_text('package_program')}\ninstall({program!r}, {_roots(tests.files)!r})\n",
        f"{harness_text('package_tests')}\ninstall({rows!r}, load_module)\n",
    )


def _packages(files: Mapping[str, str]) -> set[str]:
    return {
        name for path in files if PurePosixPath(path).name == "__init__.py" for name in module_names(path)
    }


def _result(cases: list[tuple[bool, str]], failure: str, *, is_limit: bool) -> PackageTestResult:
    """Return the count; a run that failed as a whole has at least one test that did not pass."""
    passed = sum(is_passed for is_passed, _ in cases)
    return PackageTestResult(passed, max(len(cases), passed + bool(failure)), failure, is_limit)


def _failure(report: HarnessReport) -> str | None:
    """Return why the file's other tests can't pass; None where it ran to its end."""
    return report.broken or report.stopped or (None if report.cases else "no test ran")


def _targets(command: str, files: Mapping[str, str]) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadMessage(f"the test command {command!r} can't be read: {error}") from error
    if words[:1] in (["python"], ["python3"]) and words[1:2] == ["-m"]:
        words = words[2:]
    runner, arguments = (words[0], words[1:]) if words else ("", [])
    targets = [
        word for word in arguments if word not in {"-q", "-v", "-vv", "-x", "-s"} and word[:5] != "--tb="
    ]
    if runner == "unittest":
        targets = [word if word.endswith(".py") else f"{word.replace('.', '/')}.py" for word in targets]
    targets = [str(PurePosixPath(word)) for word in targets]
    if runner not in {"pytest", "unittest"} or not targets:
        raise BadMessage(f"the test command {command!r} can't be run; what can: {COMMANDS}")
    for word in targets:
        if word not in files:
            raise BadMessage(
                f"the test command {command!r} names {word!r}, which is no file of the row; what can be "
                f"run: {COMMANDS}"
            )
    return targets


def _roots(files: Mapping[str, str]) -> list[str]:
    """Return the folders that modules are imported from."""
    return ["src", "."] if any(path.startswith("src/") for path in files) else ["."]
