"""Run one program against the tests of its row, within its time limits and up to the first failure.

In: a program and a `Suite`. Out: a `CaseTally`. Called by `scorers.code.scorer`, and between the tries of an episode by
the environment `code`. The program runs only in the sandbox.

A stdin/stdout case is a separate run of the program; the expected output never enters the sandbox. The harness
(`sandbox.harness`) judges all other cases in a separate process, next to the answer's. Its result counts only if its
line has the run's nonce. The first case that exceeds a limit is tried again, alone in a fresh sandbox, and then is
wrong with that reason. After an answer has exceeded its limits twice, each of its other cases has little time, and none
is run after the next case over a limit: so a hang costs twice a case's limit and half a second, for any number of
cases. If the answer itself has used up the deadline, the remaining cases fail. If the sandbox fails or is too slow,
`SandboxUnavailable` is raised, a `Retryable`. If it lacks a language, or a module that it should have and an answer
imports (`sandbox.lacks`), `Obstacles` reports it. None of these makes an answer wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from config.scorer_kinds import CodeConfig
from sandbox.choice import LazySandbox
from sandbox.lacks import Lacks
from sandbox.limits import Limits
from sandbox.program import (
    CROWDED,
    Ending,
    Language,
    Program,
    ProgramOutcome,
    ReadyProgram,
    Sandbox,
    SandboxUnavailable,
)
from sandbox.time_budget import TimeBudget
from verdicts.code.harness import HarnessReport, Job, harness, new_nonce, report_of
from verdicts.code.output import difference
from verdicts.code.rows import Harnessed, StdioCase, Suite

MOST_FAILURES: Final = 4  # of a tally, stored with the program's output
_KEPT_BYTES: Final = 20_000  # of this output
_OVERTIME_S: Final = 1.0  # after the deadline, for the harness to report its results
_HARNESS_BYTES: Final = 128 << 20  # of a run's memory, reserved for the process that judges the answer
_LIMITS: Final = frozenset({Ending.TIME, Ending.MEMORY, Ending.OUTPUT})
_SHOWN_CHARS: Final = 200  # of a reason
_OVERRUNS: Final = 2  # of an answer's limits, in one case or in two; later cases have less time
_BRIEF_S: Final = 0.5  # for each case then; no case is run after the first that takes longer
_GIVEN_UP: Final = "not run: the program had exceeded its limits before"
_COMPILER_S: Final = 10.0  # minimum for a compiler, for any time of a case, if the deadline allows it


class OutOfPatience(Exception):
    """A case took longer than the caller waits, which does not make the answer wrong."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One of the first cases that failed, for people and policies that may see it."""

    number: int  # of the case, from 1
    reason: str
    printed: str = ""  # beginning of the program's output
    error: str = ""  # end of the error output of the program or its compiler
    is_of_all: bool = False  # whether no case could be run, so that all other open cases failed, too


@dataclass(slots=True)
class CaseTally:
    """Cases of one completion, as their results arrive."""

    total: int | None  # None until the tests themselves report their number
    is_all: bool  # whether one failure decides
    results: list[bool] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)  # the first MOST_FAILURES
    is_over_limit: bool = False  # whether the first failure is an exceeded limit
    overruns: int = 0  # runs that exceeded a limit
    was_alone: bool = False  # whether the last of these runs was the second one of its case

    def add(self, reason: str | None, *, is_limit: bool = False, printed: str = "", error: str = "") -> None:
        """Add the next case: None if it passed, else the reason, with the program's output and error output."""
        self.results.append(reason is None)
        if reason is None:
            return
        if not self.failures:
            self.is_over_limit = is_limit
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(Failure(len(self.results), reason, printed, error))

    @property
    def is_decided(self) -> bool:
        """Return whether no open case can change the score."""
        return len(self.results) == self.total or (self.is_all and not all(self.results))

    def overrun(self, *, alone: bool) -> None:
        """Record that a run exceeded a limit, and whether it was the second run of the same case."""
        self.overruns += 1
        self.was_alone = alone

    @property
    def is_brief(self) -> bool:
        """Return whether the answer has exceeded its limits as often as it may: its other cases have less time."""
        return self.overruns >= _OVERRUNS

    @property
    def is_given_up(self) -> bool:
        """Return whether the answer has exceeded a limit even then: no other case is run."""
        return self.overruns > _OVERRUNS

    def fail_rest(self, reason: str, *, is_limit: bool = False, error: str = "") -> None:
        """Fail all cases that are still open."""
        self.total = self.total or len(self.results) + 1
        if (still_open := self.total - len(self.results)) < 1:
            return
        self.add(reason, is_limit=is_limit, error=error)
        if self.failures[-1].number == len(self.results):
            self.failures[-1] = replace(self.failures[-1], is_of_all=True)
        self.results += [False] * (still_open - 1)

    def score(self) -> tuple[float, float, str]:
        """Return value, share of passed cases and reason."""
        total, passed = self.total or len(self.results), sum(self.results)
        if passed == total > 0:
            return 1.0, 1.0, f"all {total} cases passed" if total > 1 else "the case passed"
        ran = "" if len(self.results) == total else f" ({len(self.results)} ran)"
        first = f"case {self.failures[0].number}: {self.failures[0].reason}" if self.failures else ""
        reason = f"{passed} of {total} cases passed{ran}; {first}"
        return 0.0 if self.is_all else passed / total, passed / total, reason[:_SHOWN_CHARS]


class Obstacles:
    """Reasons why a sandbox can't judge a program; the program then does not count as wrong."""

    def __init__(self, sandbox: LazySandbox) -> None:
        """Prepare; ask nothing yet."""
        self._sandbox = sandbox
        self.lacks = Lacks(sandbox)

    def of(self, suite: Suite) -> str:
        """Return why no answer to a row can be judged here; "" if it can. Raises Retryable."""
        sandbox = self._sandbox.get()
        if suite.language not in sandbox.languages:
            return f"the sandbox here ({sandbox.name}) has no {suite.language.value}"
        most = min(Limits().output_bytes, sandbox.max_output_bytes)
        if (longest := suite.longest_output) > most:
            return (
                f"a case expects {longest} bytes of output; the sandbox here ({sandbox.name}) carries {most}"
            )
        if isinstance(suite.tests, Harnessed):
            return self.lacks.of_imports(suite.tests.packages, "the tests import")
        return ""

    def of_failure(self, source: str, suite: Suite, tally: CaseTally) -> str:
        """Return what a failed program may have lacked in this sandbox; "" if nothing. Raises Retryable."""
        if suite.language is Language.PYTHON or not tally.is_over_limit:
            return self.lacks.of_program(source, suite.language)
        return ""


class Judging:
    """One program against the tests of its row.

    Args:
        sandbox: where the program runs.
        config: the limits, and how output is compared.
        is_all: whether the first failure decides.
        most_s: seconds for all cases together.
        patience_s: seconds for one case after which `OutOfPatience` is raised, if the case's own limit is longer.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        config: CodeConfig,
        *,
        is_all: bool,
        most_s: float,
        patience_s: float | None = None,
    ) -> None:
        self._sandbox, self._config, self._is_all = sandbox, config, is_all
        self._most_s, self._patience_s = most_s, patience_s
        self._budget = TimeBudget(most_s)

    @property
    def used_s(self) -> float:
        """Return the seconds that the program itself used."""
        return self._budget.used_s

    def judge(self, source: str, suite: Suite) -> CaseTally:
        """Judge every case.

        Raises:
            Retryable: the sandbox failed.
            ProgramTooLarge: the program is larger than the sandbox allows.
            OutOfPatience: a case took longer than `patience_s`.
        """
        budget = self._budget
        if isinstance(suite.tests, Harnessed):
            total = None if suite.tests.pytest is not None else len(suite.tests.cases)
            tally = CaseTally(total, self._is_all)
            self._run_harness(source, suite.tests, tally, budget)
        else:
            tally = CaseTally(len(suite.tests), self._is_all)
            program = Program(
                language=suite.language,
                source=source.encode("utf-8", "surrogatepass"),
                compile_s=min(self._most_s / 2, max(self._config.case_timeout_s, _COMPILER_S)),
            )
            if self._run_program(program, suite.tests, tally, budget):
                self._run_program(program, suite.tests, tally, budget, again=True)
        return tally

    def _run_program(
        self,
        program: Program,
        cases: tuple[StdioCase, ...],
        tally: CaseTally,
        budget: TimeBudget,
        *,
        again: bool = False,
    ) -> bool:
        """Compile and run the cases. True: the compiler exceeded a limit for the first time, and nothing was run."""
        with self._sandbox.prepare(program) as prepared:
            budget.charge(prepared.compiler_s)
            failure = prepared.failure
            if failure is None:
                self._run_cases(prepared, cases, tally, budget)
                return False
        is_limit = failure.ending in _LIMITS
        if is_limit and not again:
            return True
        detail = _first_line(failure.stderr) or failure.detail
        tally.fail_rest(
            f"the program does not compile: {detail}{', and again alone' if is_limit else ''}",
            is_limit=is_limit,
            error=_end(failure.stderr),
        )
        return False

    def _run_cases(
        self, prepared: ReadyProgram, cases: tuple[StdioCase, ...], tally: CaseTally, budget: TimeBudget
    ) -> None:
        """Run the cases of standard input and output, each separately."""
        for case in cases:
            if tally.is_decided:
                return
            stdin = case.stdin.encode("utf-8", "surrogatepass")
            if budget.left_s <= 0:
                tally.fail_rest(self._over_deadline(), is_limit=True)
                return
            outcome = self._run_case(prepared, stdin, tally, budget)
            problem = self._stdio_problem(outcome, case, tally)
            if problem is not None and outcome.is_crowded:
                raise SandboxUnavailable(CROWDED)
            tally.add(
                problem,
                is_limit=outcome.ending in _LIMITS,
                printed=outcome.stdout[:_KEPT_BYTES].decode("utf-8", "replace"),
                error="" if outcome.exit_code == 0 else _end(outcome.stderr),
            )
            if tally.is_given_up:
                tally.fail_rest(_GIVEN_UP, is_limit=True)

    def _run_case(
        self, prepared: ReadyProgram, stdin: bytes, tally: CaseTally, budget: TimeBudget
    ) -> ProgramOutcome:
        """Run one case; again if this is the answer's first run over a limit."""
        for alone in (False, True):
            outcome = budget.run(prepared, stdin, self._limits(min(budget.left_s, self._case_s(tally))))
            if outcome.ending not in _LIMITS:
                return outcome
            self._overrun(tally, alone=alone)
            if tally.is_brief or budget.left_s <= 0:
                break
        return outcome

    def _stdio_problem(self, outcome: ProgramOutcome, case: StdioCase, tally: CaseTally) -> str | None:
        if outcome.ending in _LIMITS:
            return _over_limit(outcome.detail, tally)
        if outcome.ending is Ending.SIGNALLED or outcome.exit_code != 0:
            return " ".join(f"{outcome.detail} {_last_line(outcome.stderr)}".split())
        return difference(
            outcome.stdout.decode("utf-8", "replace"), case.expected, compatible=self._config.compatible
        )

    def _run_harness(self, source: str, tests: Harnessed, tally: CaseTally, budget: TimeBudget) -> None:
        """Run Python tests, all open cases in one run; a run ends early at a case that does not end."""
        with self._sandbox.prepare(harness()) as prepared:
            if tests.pytest is not None:
                self._run_pytest(prepared, source, tests, tally, budget)
                return
            while not tally.is_decided:
                report = self._run_open_cases(prepared, source, tests, tally, budget)
                if report.stopped is None or tally.is_decided:
                    continue
                reason = _over_limit(report.stopped, tally) if report.is_limit else report.stopped
                if budget.left_s <= 0:
                    tally.fail_rest(self._over_deadline(), is_limit=True)
                elif report.is_loaded:
                    tally.add(reason, is_limit=report.is_limit)
                else:
                    tally.fail_rest(f"while it was loaded: {reason}", is_limit=report.is_limit)
                if tally.is_given_up:
                    tally.fail_rest(_GIVEN_UP, is_limit=True)

    def _run_open_cases(
        self, prepared: ReadyProgram, source: str, tests: Harnessed, tally: CaseTally, budget: TimeBudget
    ) -> HarnessReport:
        """Run the open cases, up to one that does not end; run that again if it is the first over a limit.

        Returns:
            The last run's report; its cases are in the tally.
        """
        done = len(tally.results)
        report = self._run(prepared, source, tests, tests.cases[done:], tally=tally, budget=budget)
        _take(report, tally)
        if report.stopped is None or not report.is_limit or tally.is_decided:
            return report
        self._overrun(tally, alone=False)
        if tally.is_brief or budget.left_s <= 0:
            return report
        alone = tests.cases[len(tally.results) :][:1] if report.is_loaded else tests.cases[done:]
        again = self._run(prepared, source, tests, alone, tally=tally, budget=budget)
        _take(again, tally)
        if again.stopped is not None and again.is_limit:
            self._overrun(tally, alone=True)
        return again

    def _run_pytest(
        self, prepared: ReadyProgram, source: str, tests: Harnessed, tally: CaseTally, budget: TimeBudget
    ) -> None:
        """Run a whole pytest file: its number of tests is known only after the run."""
        report = self._run(prepared, source, tests, (), tally=tally, budget=budget)
        if report.is_limit:
            self._overrun(tally, alone=False)
            report = self._run(prepared, source, tests, (), tally=tally, budget=budget)
            if report.is_limit:
                self._overrun(tally, alone=True)
        _take(report, tally)
        if report.stopped is not None:
            reason = _over_limit(report.stopped, tally) if report.is_limit else report.stopped
            tally.add(reason, is_limit=report.is_limit)
        tally.total = len(tally.results)

    def _run(
        self,
        prepared: ReadyProgram,
        source: str,
        tests: Harnessed,
        cases: Sequence[Mapping[str, Any]],
        *,
        tally: CaseTally,
        budget: TimeBudget,
    ) -> HarnessReport:
        left_s = min(budget.left_s, self._sandbox.max_wall_s - _OVERTIME_S)
        if left_s <= 0:
            return HarnessReport(cases=(), stopped=self._over_deadline(), is_limit=True)
        limits = self._limits(left_s + _OVERTIME_S)
        memory_bytes = max(limits.memory_bytes // 2, limits.memory_bytes - _HARNESS_BYTES)
        job = Job(
            source=source,
            tests=tests,
            cases=cases,
            case_s=self._case_s(tally),
            total_s=left_s,
            memory_bytes=memory_bytes,
            stop=tally.is_all,
        )
        nonce = new_nonce()
        outcome = budget.run(prepared, job.payload(nonce), limits)
        return report_of(outcome, nonce, None if tests.pytest is not None else len(cases))

    def _overrun(self, tally: CaseTally, *, alone: bool) -> None:
        """Record a run over a limit. Raises OutOfPatience if it was the caller's limit, not the answer's own."""
        if self._patience_s is not None and self._patience_s < self._config.case_timeout_s:
            raise OutOfPatience(f"a case exceeded its limits, of which time was {self._patience_s:g} s")
        tally.overrun(alone=alone)

    def _case_s(self, tally: CaseTally) -> float:
        """Return the time limit of the next case in seconds."""
        most_s = _BRIEF_S if tally.is_brief else math.inf if self._patience_s is None else self._patience_s
        return min(self._config.case_timeout_s, most_s)

    def _limits(self, wall_s: float) -> Limits:
        return Limits(wall_s=wall_s, memory_bytes=self._config.memory_mb << 20)

    def _over_deadline(self) -> str:
        return f"the deadline of {self._most_s:.3g} s for all cases is over"


def _take(report: HarnessReport, tally: CaseTally) -> None:
    """Add a run's cases to the tally."""
    for passed, reason in report.cases:
        tally.add(None if passed else reason)
    if report.broken is not None:
        tally.fail_rest(report.broken)


def _over_limit(what: str, tally: CaseTally) -> str:
    """Return the reason for a case whose last run was over a limit."""
    if tally.was_alone:
        return f"exceeded its limit: {what}, and again alone"
    earlier = tally.overruns - 1
    return f"exceeded its limit: {what}{f', and others before it, {earlier} in all' if earlier else ''}"


def _first_line(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip().partition("\n")[0]


def _end(output: bytes) -> str:
    return output[-_KEPT_BYTES:].decode("utf-8", "replace")


def _last_line(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip().rpartition("\n")[2]
