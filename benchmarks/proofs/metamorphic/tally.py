"""What the verdicts come to: counts by shape and by rewrite, the bars, and lines of Markdown.

In: verdicts, reference after reference. Out: whether the bars are met, and the table for benchmarks/RESULTS.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from benchmarks.proofs.metamorphic.scoring import RewriteVerdict

AT_MOST_REFUSED: Final = 0.002  # of the right answers
AT_MOST_UNSCORABLE: Final = 0.02  # of the references
_COLUMNS: Final = ("references", "unscorable", "right", "refused", "wrong", "paid", "not scored")


class VerdictTally:
    """Counts of verdicts."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.by_shape: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.by_rewrite: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.references_paid = 0

    def add(self, verdicts: Sequence[RewriteVerdict]) -> None:
        """Count one reference with all its answers."""
        shape = self.by_shape[verdicts[0].shape]
        shape["references"] += 1
        self.references_paid += any(verdict.is_paid for verdict in verdicts)
        for verdict in verdicts:
            if verdict.expected is None:
                shape["unscorable"] += verdict.is_unscorable
                continue
            side = "right" if verdict.expected else "wrong"
            for counter in (shape, self.by_rewrite[f"{side}: {verdict.rewrite}"]):
                counter["not scored"] += verdict.is_not_scored
                counter[side] += 1
                counter["paid"] += verdict.is_paid
                counter["refused"] += verdict.is_refused

    @property
    def all(self) -> Counter[str]:
        """The counts over all shapes."""
        return sum(self.by_shape.values(), Counter())

    def is_proven(self) -> bool:
        """Tell whether every bar is met."""
        found = self.all
        return (
            found["references"] > 0
            and not found["paid"]
            and not found["not scored"]
            and found["refused"] <= AT_MOST_REFUSED * found["right"]
            and found["unscorable"] <= AT_MOST_UNSCORABLE * found["references"]
        )

    def as_table(self, version: str, *, seed: int, took_s: float) -> list[str]:
        """Write the counts as Markdown, and what they prove."""
        found = self.all
        lines = [f"| shape of the reference | {' | '.join(_COLUMNS)} |", f"|---|{'--:|' * len(_COLUMNS)}"]
        lines += [_row(shape, self.by_shape[shape], _COLUMNS) for shape in sorted(self.by_shape)]
        lines += [_row("**all**", found, _COLUMNS), ""]
        for side, failed in (("right", "refused"), ("wrong", "paid")):
            lines += [f"| {side} rewrite | answers | {failed} |", "|---|--:|--:|"]
            lines += [
                _row(name.partition(": ")[2], self.by_rewrite[name], (side, failed))
                for name in sorted(self.by_rewrite)
                if name.startswith(side)
            ]
            lines.append("")
        share = found["refused"] / max(1, found["right"])
        unscorable = found["unscorable"] / max(1, found["references"])
        verdict = "Proven" if self.is_proven() else "NOT proven"
        lines.append(
            f"**{verdict}**: {found['paid']} of {found['wrong']} wrong answers are paid (at most 0), on "
            f"{self.references_paid} of {found['references']} references; {found['refused']} of {found['right']} right "
            f"ones are refused, {share:.2%} (at most {AT_MOST_REFUSED:.1%}); {unscorable:.1%} of the references are "
            f"unscorable (at most {AT_MOST_UNSCORABLE:.0%}). Seed {seed}, {took_s:.0f} s. Scorer: {version}."
        )
        return lines


def _row(name: str, counts: Mapping[str, int], columns: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(str(counts[column]) for column in columns)} |"
