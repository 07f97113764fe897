"""The tables that the systems in use were measured by, in both modes."""

from __future__ import annotations

import pytest

from config.scorer_kinds import MathConfig
from scorers.math.scorer import MathAnswer
from tests.scorers.math.tables import PRIME_NOT_REPEATED, TABLES
from tests.support.judged_here import JudgedHere

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

ROWS = [(row_type, row) for row_type, rows in TABLES.items() for row in rows]


@pytest.fixture(scope="module")
def compatible() -> MathAnswer:
    return JudgedHere(MathConfig(compatible=True))


def test_the_default_scores_strictly(math_scorer: MathAnswer) -> None:
    for row_type, row in ROWS:
        score = math_scorer.score_text(row.text, row.reference, row_type)
        assert score.value == row.strict, score.reason


def test_the_compatible_mode_scores_as_old_systems_do(compatible: MathAnswer) -> None:
    for row_type, row in ROWS:
        score = compatible.score_text(row.text, row.reference, row_type)
        assert score.value == row.old, score.reason


def test_what_was_broken_or_pays_nothing_is_not_repeated(
    math_scorer: MathAnswer, compatible: MathAnswer
) -> None:
    for row in PRIME_NOT_REPEATED:
        for scorer in (math_scorer, compatible):
            score = scorer.score_text(row.text, row.reference, "prime_math")
            assert score.value == row.strict, score.reason


@pytest.mark.prove
def test_the_self_test_holds_in_the_compatible_mode() -> None:
    scorer = MathAnswer(MathConfig(compatible=True))
    scorer.self_test()
    scorer.close()
