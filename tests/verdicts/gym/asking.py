"""Rows and answers of reasoning-gym as tests ask about them, with the library and without it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from broker.messages import Score
from scorers.gym.scorer import GymAnswer
from verdicts.gym.rows import DataSet, GymRow
from verdicts.gym.rules import counted, refusal

needs_library = pytest.mark.skipif(
    find_spec("reasoning_gym") is None,
    reason="reasoning-gym is not installed: pip install 'reasoning-gym==0.1.25'",
)


def scores(scorer: GymAnswer, row: dict[str, Any], texts: list[str]) -> list[Score]:
    """As a group's: all are named before the first is judged."""
    for text in texts:
        scorer.prefetch(text, row)
    return [scorer.score(text, row) for text in texts]


def row_of(row: dict[str, Any]) -> GymRow:
    """Return a row without asking the library whether it has the data set."""
    answer = row["answer"]
    entry = answer["entry"]
    metadata = entry["metadata"]
    return GymRow(
        dataset=DataSet(name=answer["dataset"], module="?", packages=()),
        entry=entry,
        metadata=metadata,
        example=entry["answer"] or metadata.get("example_answer"),
    )


def worth(row: dict[str, Any], answer: str, *, partial: bool = False) -> float:
    read = row_of(row)
    return 0.0 if refusal(answer.strip(), read) else counted(1.0, answer.strip(), read, partial=partial)
