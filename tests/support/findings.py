"""How the tests of the doctor ask for a finding and compare it."""

from __future__ import annotations

from collections.abc import Iterable

from tools.doctor.findings import CheckFinding, Level

OK, NOTE, PROBLEM = Level


def only(findings: Iterable[CheckFinding], name: str) -> CheckFinding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def assert_found(finding: CheckFinding, level: Level, seen: str, do: str = "") -> None:
    """That it is of this level, with these words in it; a problem says what to do."""
    assert (finding.level, seen in finding.seen, do in finding.do) == (level, True, True), finding
    assert finding.level is not Level.PROBLEM or finding.do
