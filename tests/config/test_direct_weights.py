"""`learner.weights.direct` was taken out: what earlier versions wrote is read, and who sets it is told what to use."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from config.learner import LearnerConfig

WAYS: tuple[dict[str, object], ...] = ({}, {"type": "relay"}, {"type": "custom", "import_path": "a:B"})


@pytest.mark.parametrize("way", WAYS)
def test_null_is_read_and_left_out(way: dict[str, object]) -> None:
    weights = LearnerConfig.model_validate({"weights": way | {"direct": None}}).weights
    assert weights == LearnerConfig.model_validate({"weights": way}).weights
    assert "direct" not in weights.model_dump()


@pytest.mark.parametrize("way", WAYS)
def test_who_sets_it_is_told_what_to_use(way: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"directory: /dev/shm.* type: relay"):
        LearnerConfig.model_validate({"weights": way | {"direct": {"type": "gloo"}}})
