"""Build the harness's program and payload, and read its report: between `verdicts.code.judging` and the sandbox.

In: an answer and the cases to run. Out: a `HarnessReport`, from the line with this run's nonce; without such a line
nothing passed. The harness (`sandbox.harness`) is one source file, the same for every run, and secrets are sent on its
standard input, so that it runs in every sandbox, also over HTTP.
"""

from __future__ import annotations

import ast
import functools
import json
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sandbox.harness
from sandbox.program import CROWDED, Ending, Language, Program, ProgramOutcome, SandboxUnavailable
from verdicts.code.long_integers import long_integers
from verdicts.code.rows import Harnessed
from verdicts.code.shapes import PRELUDE

MODULES: Final = (
    *("pipe", "codec", "link", "candidate", "arguments", "views", "remote", "checks", "cases", "pytest_file"),
    "stubs",
)
BROKEN: Final = 70  # exit code of sandbox.harness.start after a failure of the machinery
# Exit codes after a kill by its watchdog, also as a shell reports them: a call in the tests ignored the alarm,
# `sum(range(10**15))`.
DEAF: Final = frozenset({-signal.SIGPROF, 128 + signal.SIGPROF})


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessReport:
    """Proven results of one run of the harness."""

    cases: tuple[tuple[bool, str], ...]  # passed and reason of each case that ended, in order
    broken: str | None = None  # why no case can pass: the answer can't be loaded
    stopped: str | None = None  # why the next case, and this run, did not end
    is_limit: bool = False  # whether the reason was time, memory or output
    is_loaded: bool = True  # whether the answer was loaded before the run stopped


@functools.cache
def harness() -> Program:
    """Return the harness as a program."""
    modules = {name: name for name in MODULES}
    sources = {name: harness_text(name) for name in (*MODULES, "kept")}
    kept = f"{harness_text('start')}\nmain(keep({sources!r}, {_imported(PRELUDE)!r}))\n"
    return Program(language=Language.PYTHON, source=harness_source(modules), kept=kept.encode())


def harness_source(files: Mapping[str, str]) -> bytes:
    """Return the single source file of a harness: its start, which contains the other modules as text.

    Args:
        files: name under which the start loads each module -> the file's name in `sandbox.harness`.
    """
    sources = {name: harness_text(file) for name, file in files.items()}
    return f"{harness_text('start')}\nmain({sources!r})\n".encode()


def _imported(text: str) -> list[str]:
    """Return the modules that a text of ours imports."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        name
        for node in found
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    return sorted(filter(None, names))


def harness_text(module: str) -> str:
    """Return the text of one of the modules in `sandbox.harness`, to be sent."""
    return (Path(sandbox.harness.__file__).parent / f"{module}.py").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: which cases of which tests, for which answer, with which time limit."""

    source: str
    tests: Harnessed
    cases: Sequence[Mapping[str, Any]]
    case_s: float
    total_s: float
    memory_bytes: int
    stop: bool  # whether to stop at the first case that fails
    stubs: Sequence[str] = ()  # stub answers that are tried instead of `source`

    def payload(self, nonce: str) -> bytes:
        """Return the input of the harness."""
        tests = self.tests
        fields = {
            "nonce": nonce,
            "source": self.source,
            "module": tests.module,
            "prefix": tests.prefix,
            "own_prefix": tests.own_prefix or tests.prefix,
            "setup": tests.setup,
            "names": tests.names,
            "modules": tests.modules,
            "imports": tests.imports,
            "constants": tests.constants,
            "written": tests.written,
            "cases": self.cases,
            "case_s": self.case_s,
            "total_s": self.total_s,
            "memory_bytes": self.memory_bytes,
            "stop": self.stop,
        }
        if tests.pytest is not None:
            fields["pytest"] = tests.pytest
        if self.stubs:
            fields["stubs"] = self.stubs
        with long_integers():
            return json.dumps(fields).encode("ascii")


def new_nonce() -> str:
    """Return a text that can't be guessed."""
    return secrets.token_hex(16)


def report_of(outcome: ProgramOutcome, nonce: str, expected: int | None) -> HarnessReport:
    """Return the proven results of a run.

    Args:
        outcome: the sandbox's outcome.
        nonce: the run's nonce.
        expected: number of cases in the run; None if only the tests know it (pytest).
    Raises:
        SandboxUnavailable: the harness could not do its work on this machine, or other programs may have made the
            answer fail.
    """
    report = _report_of(outcome, nonce, expected)
    if outcome.is_crowded and (
        report.broken or report.stopped or not all(passed for passed, _ in report.cases)
    ):
        raise SandboxUnavailable(CROWDED)
    return report


def proof_of(outcome: ProgramOutcome, nonce: str, *, of: str = "") -> Any:
    """Return the content of the harness's last line, which contains the run's nonce; None without such a line.

    Args:
        outcome: the sandbox's outcome.
        nonce: the run's nonce.
        of: addition to the harness's name in the error: " of reasoning-gym".
    Raises:
        SandboxUnavailable: the harness reports that it could not do its work.
    """
    last = outcome.stdout.rstrip(b"\n").rpartition(b"\n")[2].decode("ascii", "replace")
    if last.startswith(f"{nonce} ") and outcome.stdout.endswith(b"\n"):  # complete
        return json.loads(last.removeprefix(f"{nonce} "))
    if outcome.exit_code == BROKEN:
        reason = outcome.stderr.decode("utf-8", "replace").strip()[-300:]
        raise SandboxUnavailable(f"the harness{of} failed: {reason}")
    return None


def _report_of(outcome: ProgramOutcome, nonce: str, expected: int | None) -> HarnessReport:
    if (proof := proof_of(outcome, nonce)) is not None:
        return _proven(proof, expected)
    if outcome.exit_code in DEAF:
        return HarnessReport(cases=(), stopped="the time of what the tests do with its values", is_limit=True)
    is_limit = outcome.ending in {Ending.TIME, Ending.MEMORY, Ending.OUTPUT}
    return HarnessReport(
        cases=(), stopped=f"the run ended without its proof: {outcome.detail}", is_limit=is_limit
    )


def _proven(said: dict[str, Any], expected: int | None) -> HarnessReport:
    cases = tuple((passed is True, _utf8(reason)) for passed, reason in said["cases"])
    stopped, is_limit = said["stopped"] or (None, False)
    complete = stopped is None and said["broken"] is None and all(passed for passed, _ in cases)
    if expected is not None and (len(cases) > expected or (complete and len(cases) != expected)):
        raise SandboxUnavailable(f"the harness answered for {len(cases)} of {expected} cases")
    return HarnessReport(
        cases=cases,
        broken=said["broken"] and _utf8(said["broken"]),
        stopped=stopped and _utf8(stopped),
        is_limit=is_limit,
        is_loaded=said["loaded"],
    )


def _utf8(reason: str) -> str:
    """Return a reason without lone surrogates, which an answer may have put in and no message can contain."""
    return reason.encode("utf-8", "replace").decode("utf-8")
