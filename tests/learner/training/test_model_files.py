"""What goes into files, apart from what the tests of the policy see."""

from __future__ import annotations

import pytest
import torch

from learner.training.model_files import in_parts


@pytest.mark.parametrize(
    ("sizes", "limit", "parts"),
    [
        ([3, 3, 3], 6, [[3, 3], [3]]),
        ([3, 9, 3], 6, [[3], [9], [3]]),  # larger than the limit: alone
        ([6, 1], 6, [[6], [1]]),
        ([], 6, []),
    ],
)
def test_parameters_come_in_order_in_parts_of_at_most_the_limit(
    sizes: list[int], limit: int, parts: list[list[int]]
) -> None:
    parameters = {str(i): torch.zeros(size) for i, size in enumerate(sizes)}
    measured = list(in_parts(parameters, limit))
    assert [[len(parameter) for parameter in part.values()] for part in measured] == parts
    assert [name for part in measured for name in part] == list(parameters)
