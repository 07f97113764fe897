"""That the measure of growth tells linear from quadratic work."""

from __future__ import annotations

import pytest

from tests.support.growth import is_linear

pytestmark = pytest.mark.process


@pytest.mark.parametrize("linear", [True, False])
def test_what_takes_the_square_of_a_text_is_told_from_what_takes_the_text(*, linear: bool) -> None:
    def work(text: str) -> int:
        return sum(1 for _ in text for _ in range(800 if linear else len(text)))

    assert is_linear(work, lambda count: "a" * count, 1600) == linear
