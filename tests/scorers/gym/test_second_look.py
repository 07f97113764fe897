"""What reasoning-gym pays in full is looked at again, by kind; what is right in another form stays right.

The tables are in `looks_at_numbers.py` and its siblings. Here the library's word is taken for granted, so nothing of it is needed; in
`test_every_data_set.py` it is asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from scorers.gym.rows import DataSet, Row
from scorers.gym.rules import counted, refusal
from tests.scorers.gym.corpus import Look
from tests.scorers.gym.looks_at_numbers import NUMBERS
from tests.scorers.gym.looks_at_plans import PLANS
from tests.scorers.gym.looks_at_texts import TEXTS

LOOKS = (*NUMBERS, *TEXTS, *PLANS)


def row_of(row: dict[str, Any]) -> Row:
    """Return a row without asking the library whether it has the data set."""
    answer = row["answer"]
    entry = answer["entry"]
    metadata = entry["metadata"]
    return Row(
        dataset=DataSet(name=answer["dataset"], module="?", packages=()),
        entry=entry,
        metadata=metadata,
        example=entry["answer"] or metadata.get("example_answer"),
    )


def worth(row: dict[str, Any], answer: str, *, partial: bool = False) -> float:
    """Return what an answer is worth that the library pays in full."""
    read = row_of(row)
    return 0.0 if refusal(answer.strip(), read) else counted(1.0, answer.strip(), read, partial=partial)


@pytest.mark.parametrize(
    "look", LOOKS, ids=[f"{look[0]['answer']['dataset']}-{number}" for number, look in enumerate(LOOKS)]
)
def test_what_the_library_pays_is_right_only_where_the_task_says_so(look: Look) -> None:
    row, right, wrong = look
    failed = [f"refused: {answer!r}" for answer in right if worth(row, answer) != 1.0]
    failed += [f"paid: {answer!r}" for answer in wrong if worth(row, answer) != 0.0]
    failed += [f"paid in part: {answer!r}" for answer in wrong if worth(row, answer, partial=True) != 0.0]
    assert not failed, "\n".join(failed)
    assert len(set(wrong)) >= 10 or row["answer"]["dataset"] == "decimal_arithmetic"
