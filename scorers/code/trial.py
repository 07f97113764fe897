"""A row is tried here before it is used: does an answer without any work in it pass all its tests?

In: the tests of a row. Out: the words for the first stub that passes (`scorers.code.stubs`), "" where none does. Called
by `scorers.code.scorer` for the gold test, never while answers are scored. What stubs of standard input and output
print is compared here; all others run in the sandbox, in one run as long as none of them hangs. A failure of the
machinery raises `SandboxUnavailable`.
"""

from __future__ import annotations

from typing import Final

from config.scorer_kinds import CodeConfig
from sandbox.choice import LazySandbox
from sandbox.limits import Limits
from sandbox.program import SandboxUnavailable
from sandbox.time_budget import TimeBudget
from scorers.code.stubs import Stub, printing, programs
from verdicts.code.harness import Job, harness, new_nonce, proof_of
from verdicts.code.output import difference
from verdicts.code.rows import Harnessed, StdioCase, Suite

CASE_S: Final = 1.0  # of a case: a stub itself takes none
OVERTIME_S: Final = 1.0  # after the deadline, for the harness to say what it knows


def passing_stub(suite: Suite, sandbox: LazySandbox, config: CodeConfig) -> str:
    """Return the words for a stub that passes every case of the row; "": none does. Raises SandboxUnavailable."""
    tests = suite.tests
    if not isinstance(tests, Harnessed):
        return _printing(tests, compatible=config.compatible)
    stubs = programs(tests)
    budget = TimeBudget(config.deadline_s)
    while stubs and budget.left_s > 0:
        passed = _run(tests, stubs, sandbox, config, budget)
        for stub, is_passed in zip(stubs, passed, strict=False):
            if is_passed:
                return stub.words
        stubs = stubs[len(passed) :]
    return ""


def _printing(cases: tuple[StdioCase, ...], *, compatible: bool) -> str:
    for words, prints in printing(cases):
        if all(difference(prints(case), case.expected, compatible=compatible) is None for case in cases):
            return words
    return ""


def _run(
    tests: Harnessed, stubs: list[Stub], sandbox: LazySandbox, config: CodeConfig, budget: TimeBudget
) -> list[bool]:
    """Return of the first stubs, or of all, whether they pass; at least of one."""
    walls = sandbox.get()
    total_s = min(budget.left_s, walls.max_wall_s - OVERTIME_S)
    limits = Limits(wall_s=total_s + OVERTIME_S, memory_bytes=config.memory_mb << 20)
    nonce = new_nonce()
    job = Job(
        source="",
        tests=tests,
        cases=tests.cases,
        case_s=min(CASE_S, config.case_timeout_s),
        total_s=total_s,
        memory_bytes=limits.memory_bytes // 2,
        stop=True,
        stubs=[stub.source for stub in stubs],
    )
    with walls.prepare(harness()) as prepared:
        outcome = budget.run(prepared, job.payload(nonce), limits)
    passed = proof_of(outcome, nonce)
    if outcome.is_crowded and not any(passed or ()):
        raise SandboxUnavailable("other programs took the processes that the trial of a row was promised")
    return [is_passed is True for is_passed in passed or [False]]
