"""This module finds out whether a patched package passes its tests.

In: a row with tests, and the files that an answer writes. Out: a value and a reason. Called by `scorers.swe.scorer`;
holds the sandbox. A row is tried first: with the reference's files its tests must pass, without any edit they must not.
Else what the tests say of an answer means nothing, and the row is unscorable. The trial also finds rows whose tests
need what the sandbox lacks: another package, a file beside them, an object that can't travel between the two processes.

What the tests import from elsewhere than their own files is shared out first (`scorers.swe.sides`), strictly where the
reference passes so, else less strictly. An answer that changes more than the reference, and passes, is run once more
with nothing taken from the row but its test files: so what it breaks of its own counts too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from config.scorers import ScorersConfig
from sandbox.choice import LazySandbox
from sandbox.lacks import Lacks
from sandbox.program import ProgramTooLarge
from sandbox.time_budget import TimeBudget
from scorers.scorer import OwnTime
from scorers.swe.package_tests import PackageTestResult, RepoTests, run_tests
from scorers.swe.rows import Edits, SweRow, WholeFile
from scorers.swe.sides import Sides, sides_of

ROW_SHARE: Final = 0.25  # of the deadline, for each of the runs that try the row


@dataclass(slots=True)
class _Tried:
    """A row that was tried."""

    row: SweRow
    problem: str | None = None  # what is wrong with it
    sides: Sides | None = None  # how its files are shared out
    is_plain: bool | None = (
        None  # whether the reference passes with nothing taken from the row; None: not known yet
    )


class Trial:
    """Runs the tests of one row after the other."""

    def __init__(self, scorers: ScorersConfig, own_time: OwnTime | None = None) -> None:
        """Start nothing yet: the sandbox is built when it is first needed.

        Args:
            scorers: the sandbox, and the credit.
            own_time: that answers have, None: their deadline; what tries a row is no answer's.
        """
        self._scorers = scorers
        self._own_time = own_time or OwnTime(deadline_s=math.inf)
        self._sandbox = LazySandbox(scorers)
        self._lacks = Lacks(self._sandbox)
        self._tried: _Tried | None = None  # the last row

    @property
    def version(self) -> str:
        """Return the version of the sandbox."""
        return self._sandbox.get().version

    def verdict(
        self, row: SweRow, tests: RepoTests, written: Mapping[str, str], end: float
    ) -> tuple[float | None, str, bool]:
        """Return the value, None where the row is unscorable, the reason, and whether the answer exceeded a limit.

        Args:
            row, tests: the row, and its tests.
            written: what the answer writes, by path.
            end: monotonic time by which to answer, if the machinery loses none.
        Raises:
            SandboxUnavailable: the machinery failed.
        """
        try:
            return self._verdict(row, tests, written, TimeBudget(end - time.monotonic()))
        except ProgramTooLarge as error:
            return None, str(error), False

    def _verdict(
        self, row: SweRow, tests: RepoTests, written: Mapping[str, str], whole: TimeBudget
    ) -> tuple[float | None, str, bool]:
        files = _by_path(row, written)
        if all(_same(tests.files.get(path, ""), text) for path, text in files.items()):
            return 0.0, "the edit changes nothing", False
        if self._tried is None or self._tried.row is not row:
            self._tried = self._try(row, tests, whole)
        tried = self._tried
        if tried.sides is None:
            return None, tried.problem or "", False
        own = TimeBudget(min(whole.left_s, self._own_time.share_s), of=whole)
        for share in (0.5, 1.0):  # over a limit: once more, in fresh sandboxes
            result = self._run(tests, files, tried.sides, TimeBudget(share * own.left_s, of=own))
            if not result.is_limit:
                break
        again = ", and again alone" if result.is_limit else ""
        changed = {path: text for path, text in files.items() if not tests.is_test(path)}
        if result.passed and not tried.sides.is_kept_by(changed) and self._is_plain(tried, tests, whole):
            plain = self._run(tests, files, tried.sides.plain, TimeBudget(own.left_s, of=own))
            if plain.passed < result.passed:
                result, again = plain, " with all that the edit changes"
        self._own_time.ran_s += own.used_s
        value = result.passed / result.total if self._scorers.credit == "fraction" else float(result.is_all)
        if value < 1.0 and (lacking := self._lacks.of(*files.values())):
            return None, lacking, False
        reason = f"{result.passed} of {result.total} tests passed{again}; {result.reason}".rstrip("; ")
        return value, reason, result.is_limit

    def _run(
        self, tests: RepoTests, files: Mapping[str, str], sides: Sides, budget: TimeBudget
    ) -> PackageTestResult:
        return run_tests(self._sandbox.get(), tests, files, budget, sides)

    def close(self) -> None:
        """Let go of the sandbox."""
        self._sandbox.close()

    def _try(self, row: SweRow, tests: RepoTests, whole: TimeBudget) -> _Tried:
        """Find out whether the row's tests can judge an edit, and how its files are to be shared out for that."""
        share_s = ROW_SHARE * whole.left_s
        reference = _reference(row)
        is_test = {path: tests.is_test(path) for path in {**tests.files, **reference}}
        problem = ""
        for strict in (True, False):
            sides = sides_of(tests.files, is_test, reference, strict=strict)
            right = self._run(tests, reference, sides, TimeBudget(share_s, of=whole))
            if right.is_all:
                break
            problem = problem or right.reason or "no test ran"
            if not sides.is_shared:
                return _Tried(row, f"the reference itself does not pass the row's tests here: {problem}")
        else:
            return _Tried(row, f"the reference itself does not pass the row's tests here: {problem}")
        if self._run(tests, {}, sides, TimeBudget(share_s, of=whole)).is_all:
            return _Tried(row, "the row's tests pass without any edit")
        return _Tried(row, None, sides, None if sides.is_shared else True)

    def _is_plain(self, tried: _Tried, tests: RepoTests, whole: TimeBudget) -> bool:
        """Return whether the reference passes with nothing taken from the row but its test files."""
        if tried.sides is None:
            return False
        if tried.is_plain is None:
            budget = TimeBudget(ROW_SHARE * whole.left_s, of=whole)
            tried.is_plain = self._run(tests, _reference(tried.row), tried.sides.plain, budget).is_all
        return tried.is_plain


def _reference(row: SweRow) -> dict[str, str]:
    """Return what the reference writes, by path."""
    match row.reference:
        case WholeFile(after=after):
            return _by_path(row, {"": after})
        case Edits(after=changed):
            return dict(changed)
        case _:
            raise AssertionError("a diff has no tests")


def _by_path(row: SweRow, written: Mapping[str, str]) -> dict[str, str]:
    """Return the files with the path of the row in place of the empty one."""
    return {path or row.path: text if path else f"{text}\n" for path, text in written.items()}


def _same(before: str, after: str) -> bool:
    """Return whether nothing but line breaks at the ends and their kind differs."""
    return before.replace("\r\n", "\n").strip("\n") == after.replace("\r\n", "\n").strip("\n")
