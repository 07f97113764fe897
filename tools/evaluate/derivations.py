"""Measure how often a right answer has a derivation: pass@k, verified pass@k, and the rate of miracle steps.

In: for each problem's samples, whether the answer is right and whether a derivation leads to it. Out: three figures.
Pure arithmetic; used by `millrace rescore --derivations` and by `make prove-rubric`.

A sample is *right* if its result equals the reference, however it came about. It is *verified* if, in addition, a
scorer that was not used in training finds a derivation that leads to the result. That scorer must differ from the judge
whose grades were the reward: a policy learns what its own judge believes, and that judge's grade then only measures how
well it did. The *miracle rate* is the share of right samples that are not verified; without right samples it is
undefined, not 0. A sample without one of the two verdicts is left out of all three figures.

Verified pass@k and miracle steps are terms of the rubric paper (arXiv:2510.07774), which verifies by people and by a
large model; here the caller chooses the verifier, and a reported figure must name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.evaluate.rates import Estimate, pass_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The two verdicts on one sample; None for a missing one."""

    is_right: bool | None  # by comparison with the reference
    is_derived: bool | None  # by a scorer that was not used in training


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivations:
    """The figures of a set of problems."""

    k: int
    passed: Estimate | None  # pass@k of right samples; None where no problem has k samples
    verified: Estimate | None  # pass@k of verified samples
    right: int  # samples
    miracles: int  # right samples without a derivation
    samples: int  # samples with both verdicts

    @property
    def miracle_rate(self) -> float | None:
        """The share of right samples without a derivation; None where no sample is right."""
        return self.miracles / self.right if self.right else None


def derivations(problems: Sequence[Sequence[Sample]], *, k: int) -> Derivations:
    """Compute the figures.

    Args:
        problems: each one's samples.
        k: at most the samples of a problem; problems with fewer are left out of the two pass rates.
    """
    judged = [
        [
            (sample.is_right, sample.is_derived)
            for sample in samples
            if sample.is_right is not None and sample.is_derived is not None
        ]
        for samples in problems
    ]
    everything = [verdict for samples in judged for verdict in samples]
    return Derivations(
        k=k,
        passed=pass_at([[float(is_right) for is_right, _ in samples] for samples in judged], k),
        verified=pass_at(
            [[float(is_right and has_way) for is_right, has_way in samples] for samples in judged], k
        ),
        right=sum(is_right for is_right, _ in everything),
        miracles=sum(is_right and not has_way for is_right, has_way in everything),
        samples=len(everything),
    )
