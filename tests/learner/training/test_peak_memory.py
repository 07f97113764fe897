"""The peaks that the doctor's table of GPU memory stands on, measured again: what DeepSpeed holds on CPU ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from learner.launch.ranks import launch
from tests.support.measured_ranks import MEASURED, Measured, without_bucket, write_model
from tests.support.policy_workshop import open_workshop

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with open_workshop(tmp_path_factory.mktemp("peaks")) as workshop:
        yield write_model(workshop.folder / "large")


@pytest.mark.prove
@pytest.mark.parametrize("recorded", MEASURED, ids=str)
def test_a_step_peaks_where_it_did_for_the_estimates(model: Path, recorded: Measured, tmp_path: Path) -> None:
    file = tmp_path / "peak"
    words = [str(model), str(recorded.stage), str(recorded.tokens), str(file)]
    driver = [sys.executable, "-m", "tests.support.measured_ranks"]
    assert launch([*driver, *words], recorded.ranks) == 0
    measured = without_bucket(float(file.read_text()), recorded.stage)
    assert measured == pytest.approx(without_bucket(recorded.peak_bytes, recorded.stage), rel=0.03)
