"""Seconds of one optimizer step of a model of 50 million parameters, beside plain transformers and torch.

The comparison is that of `benchmarks.measures.learner_step`, on four threads. It takes many minutes, and runs where it
is asked for by name.
"""

from __future__ import annotations

from benchmarks.measures.learner_step import Size, StepCase, measure

__all__ = ["FULL", "SMOKE", "measure"]

FULL = Size(
    cases=(
        StepCase(is_large=True, threads=4, rounds=3),
        StepCase(
            is_large=True, is_long=True, threads=4, rounds=2, padded_rows=16, packed_tokens=1024, tokens=4096
        ),
    )
)
SMOKE = Size(cases=(StepCase(is_large=True, groups=1, rounds=1),))
