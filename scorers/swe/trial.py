"""This module finds out whether a patched package passes its tests.

In: a row with tests, and the files that an answer writes. Out: a value and a reason. Called by `scorers.swe.scorer`;
holds the sandbox. A row is tried first: with the reference's files its tests must pass, without any edit they must not.
Else what the tests say of an answer means nothing, and the row is unscorable. The trial also finds rows whose tests
need what the sandbox lacks: another package, a file beside them, an object that can't travel between the two processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

from config.scorers import ScorersConfig
from scorers.sandbox.choice import LazySandbox
from scorers.sandbox.lacks import Lacks
from scorers.sandbox.program import ProgramTooLarge
from scorers.sandbox.time_budget import TimeBudget
from scorers.scorer import OwnTime
from scorers.swe.package_tests import RepoTests, Result, run_tests
from scorers.swe.rows import Edits, Row, WholeFile

ROW_SHARE: Final = 0.25  # of the deadline, for each of the two runs that try the row


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
        self._tried: tuple[Row, str | None] | None = None  # the last row, and what is wrong with it

    @property
    def version(self) -> str:
        """Return the version of the sandbox."""
        return self._sandbox.get().version

    def verdict(
        self, row: Row, tests: RepoTests, written: Mapping[str, str], end: float
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
        self, row: Row, tests: RepoTests, written: Mapping[str, str], whole: TimeBudget
    ) -> tuple[float | None, str, bool]:
        files = _by_path(row, written)
        if all(_same(tests.files.get(path, ""), text) for path, text in files.items()):
            return 0.0, "the edit changes nothing", False
        if self._tried is None or self._tried[0] is not row:
            self._tried = (row, self._problem(row, tests, whole))
        if self._tried[1] is not None:
            return None, self._tried[1], False
        own = TimeBudget(min(whole.left_s, self._own_time.share_s), of=whole)
        for share in (0.5, 1.0):  # over a limit: once more, in fresh sandboxes
            result = run_tests(self._sandbox.get(), tests, files, TimeBudget(share * own.left_s, of=own))
            if not result.is_limit:
                break
        self._own_time.ran_s += own.used_s
        value = result.passed / result.total if self._scorers.credit == "fraction" else float(result.is_all)
        if value < 1.0 and (lacking := self._lacks.of(*files.values())):
            return None, lacking, False
        again = ", and again alone" if result.is_limit else ""
        reason = f"{result.passed} of {result.total} tests passed{again}; {result.reason}".rstrip("; ")
        return value, reason, result.is_limit

    def close(self) -> None:
        """Let go of the sandbox."""
        self._sandbox.close()

    def _problem(self, row: Row, tests: RepoTests, whole: TimeBudget) -> str | None:
        """Return why the row's tests can't judge an edit; None where they can."""
        share_s = ROW_SHARE * whole.left_s
        match row.reference:
            case WholeFile(after=after):
                reference = _by_path(row, {"": after})
            case Edits(after=changed):
                reference = dict(changed)
            case _:
                raise AssertionError("a diff has no tests")
        right: Result = run_tests(self._sandbox.get(), tests, reference, TimeBudget(share_s, of=whole))
        if not right.is_all:
            return f"the reference itself does not pass the row's tests here: {right.reason or 'no test ran'}"
        if run_tests(self._sandbox.get(), tests, {}, TimeBudget(share_s, of=whole)).is_all:
            return "the row's tests pass without any edit"
        return None


def _by_path(row: Row, written: Mapping[str, str]) -> dict[str, str]:
    """Return the files with the path of the row in place of the empty one."""
    return {path or row.path: text if path else f"{text}\n" for path, text in written.items()}


def _same(before: str, after: str) -> bool:
    """Return whether nothing but line breaks at the ends and their kind differs."""
    return before.replace("\r\n", "\n").strip("\n") == after.replace("\r\n", "\n").strip("\n")
