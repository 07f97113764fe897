"""The tables that the systems in use were measured by, in both modes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from config.scorer_kinds import MathConfig
from scorers.math.scorer import MathAnswer
from tests.scorers.math.tables import PRIME_NOT_REPEATED, TABLES, Row
from tests.support.judged_here import JudgedHere

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

ROWS = [(row_type, row) for row_type, rows in TABLES.items() for row in rows]


@pytest.fixture(scope="module")
def compatible() -> MathAnswer:
    return JudgedHere(MathConfig(compatible=True))


def misjudged(
    scorer: MathAnswer, rows: Iterable[tuple[str, Row, float]]
) -> list[tuple[Row, float | None, str]]:
    """Return the rows that do not get the value that stands behind them, each with what it got and why."""
    scores = [
        (row, scorer.score_text(row.text, row.reference, row_type), value) for row_type, row, value in rows
    ]
    return [(row, score.value, score.reason) for row, score, value in scores if score.value != value]


def test_the_default_scores_strictly(math_scorer: MathAnswer) -> None:
    assert misjudged(math_scorer, [(row_type, row, row.strict) for row_type, row in ROWS]) == []


def test_the_compatible_mode_scores_as_old_systems_do(compatible: MathAnswer) -> None:
    assert misjudged(compatible, [(row_type, row, row.old) for row_type, row in ROWS]) == []


def test_what_was_broken_or_pays_nothing_is_not_repeated(
    math_scorer: MathAnswer, compatible: MathAnswer
) -> None:
    rows = [("prime_math", row, row.strict) for row in PRIME_NOT_REPEATED]
    assert misjudged(math_scorer, rows) == misjudged(compatible, rows) == []


def test_every_difference_has_its_reason() -> None:
    rows = [*(row for _, row in ROWS), *PRIME_NOT_REPEATED]
    assert [row for row in rows if row.old != row.strict and not row.remark] == []


@pytest.mark.prove
def test_the_self_test_holds_in_the_compatible_mode() -> None:
    scorer = MathAnswer(MathConfig(compatible=True))
    scorer.self_test()
    scorer.close()
