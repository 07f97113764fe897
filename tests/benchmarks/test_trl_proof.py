"""What the proof beside TRL reads out of two runs, and which targets it calls missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.proofs.trl.__main__ import COUNTED_FROM, Side, _missed, _side

USED = {"began_at": 1000.0, "wall_s": 40.0, "processor_s": 60.0, "memory_mb": 700.0}
STEPS = [(1010.0 + step, 128) for step in range(30)]  # a second each, from the first on
TRL = Side(
    right_s=20.0,
    first_step_s=5.0,
    end_s=40.0,
    trained_per_s=100.0,
    processor_s=50.0,
    memory_mb=700.0,
    pass_rate=0.97,
)


def test_a_side_is_read_from_its_steps_and_from_when_evaluations_ended() -> None:
    late = [(1012.0, 0.2), (1031.5, 0.96), (1039.0, 0.94)]
    side = _side(USED, STEPS, late)
    assert (side.first_step_s, side.right_s, side.end_s, side.pass_rate) == (10.0, 31.5, 40.0, 0.94)
    slow_start = [
        (at - 900.0 * (step < COUNTED_FROM - 1), samples) for step, (at, samples) in enumerate(STEPS)
    ]
    assert side.trained_per_s == _side(USED, slow_start, late).trained_per_s == 128.0
    assert _side(USED, STEPS, late[:1]).right_s is None


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        (replace(TRL, right_s=14.0, trained_per_s=140.0), []),
        (replace(TRL, right_s=14.2, trained_per_s=140.0), ["0.71 of TRL's, wanted at most 0.7"]),
        (replace(TRL, right_s=14.0, trained_per_s=139.0), ["1.39 of TRL's, wanted at least 1.4"]),
        (replace(TRL, right_s=None, trained_per_s=140.0), ["never in 1 runs of ours and 0 of TRL's alone"]),
    ],
)
def test_targets_that_are_missed_are_said(ours: Side, says: list[str]) -> None:
    missed = _missed([(ours, TRL)])
    assert len(missed) == len(says)
    assert all(words in line for words, line in zip(says, missed, strict=True))
