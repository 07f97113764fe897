"""What reasoning-gym pays in full is looked at again, by kind; what is right in another form stays right.

The tables are in `looks_at_numbers.py` and its siblings. Here the library's word is taken for granted, so nothing of it is needed; in
`test_every_data_set.py` it is asked.
"""

from __future__ import annotations

import pytest

from tests.verdicts.gym.asking import row_of, worth
from tests.verdicts.gym.corpus import Look, gym
from tests.verdicts.gym.looks_at_numbers import NUMBERS
from tests.verdicts.gym.looks_at_plans import PLANS
from tests.verdicts.gym.looks_at_texts import TEXTS
from verdicts.gym.rules import counted

LOOKS = (*NUMBERS, *TEXTS, *PLANS)


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


def test_a_share_is_paid_for_a_distance_and_not_for_another_writing(subtests: pytest.Subtests) -> None:
    for dataset, value, answer, own, worth_in_part in [
        ("polynomial_equations", 0.9999, "1.4142", "1.4142", 1.0),
        ("polynomial_equations", 0.995, "1.4192", "1.4142", 0.995),  # the library's share, for its distance
        ("polynomial_equations", 1.0, "1.4143", "1.4142", 0.0),
        ("complex_arithmetic", 0.995, "4.005-7i", "4-7i", 0.995),
        ("complex_arithmetic", 1.0, "4-7i", "4-7i", 1.0),
        ("gsm_symbolic", 0.5, "96 kids", "97", 0.0),  # no share for what is not written as an answer
    ]:
        with subtests.test(dataset=dataset, value=value, answer=answer, own=own):
            row = row_of(gym(dataset, own))
            assert counted(value, answer, row, partial=True) == worth_in_part
            assert counted(value, answer, row, partial=False) == float(worth_in_part == 1.0)
