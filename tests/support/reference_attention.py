"""The reference of `benchmarks.rigs.reference_attention` in the place of a kernel that a CPU does not have."""

from __future__ import annotations

import pytest

from benchmarks.rigs.reference_attention import reference_kernel
from learner.training.attention import KERNELS


def use_on_cpu(patch: pytest.MonkeyPatch) -> None:
    """Have `learner.attention=varlen` run on a CPU, with the reference."""
    patch.setitem(KERNELS, "cpu", reference_kernel)
