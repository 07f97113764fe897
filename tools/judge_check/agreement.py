"""Compute how far a verifier agrees with labels, and show it: the arithmetic of `millrace judge-check`.

In: responses with their labels, and the verifier's result on each. Out: counts by source and over all, each share with
its 95% interval, and the worst disagreements; as one JSON object, or for people. Reads no file.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from scorers.child.frames import Result
from scorers.retries import was_given_up
from tools.judge_check.labelled_rows import Labelled
from tools.printable import aligned

ALL: Final = "all"
SHOWN_CHARS: Final = 240  # of a reason, for people
SHOWN_REASONS: Final = 5
_Z: Final = 1.959963984540054  # of a normal distribution: 95% are within this many standard deviations


def was_judged(result: Result) -> bool:
    """Return whether the verifier answered, usefully or not. Otherwise the row or the machinery is the cause."""
    return "fault" not in result and (result["value"] is not None or not was_given_up(result["components"]))


class CountedShare(NamedTuple):
    """A share, as two counts."""

    number: int
    of: int

    def interval(self) -> tuple[float, float] | None:
        """Return Wilson's 95% interval of the true share (JASA 22, 1927); None for no counts.

        It is valid for a handful of rows and for shares of 0 and 1, where the usual interval has no width.
        """
        if not self.of:
            return None
        share, weight = self.number / self.of, _Z * _Z / self.of
        centre = (share + weight / 2) / (1 + weight)
        half = _Z / (1 + weight) * math.sqrt(share * (1 - share) / self.of + weight / self.of / 4)
        return max(0.0, centre - half), min(1.0, centre + half)

    def as_json(self) -> dict[str, Any]:
        """Make the object that --json prints of a share."""
        low, high = self.interval() or (None, None)
        return {
            "count": self.number,
            "of": self.of,
            "share": self.number / self.of if self.of else None,
            "low": low,
            "high": high,
        }

    def __str__(self) -> str:
        if (interval := self.interval()) is None:
            return "-"
        low, high = (100 * end for end in interval)
        return f"{self.number}/{self.of} {100 * self.number / self.of:.1f}% ({low:.1f} to {high:.1f})"


@dataclass(slots=True)
class AgreementCounts:
    """The counts of one source, or of all."""

    rows: int = 0  # rows that the verifier answered
    unscorable: int = 0  # rows that it answered uselessly
    right: int = 0  # scored rows labelled right
    wrong: int = 0  # scored rows labelled wrong
    false_negatives: int = 0  # of the right rows, those that the verifier calls wrong
    false_positives: int = 0  # of the wrong rows, those that the verifier calls right
    distances: list[float] = field(default_factory=list)  # |value - label| of each scored row
    seconds: list[float] = field(default_factory=list)

    def shares(self) -> dict[str, CountedShare]:
        """Return the shares that measure the verifier."""
        scored, disagreeing = self.right + self.wrong, self.false_negatives + self.false_positives
        return {
            "agreement": CountedShare(scored - disagreeing, scored),
            "false_positives": CountedShare(self.false_positives, self.wrong),
            "false_negatives": CountedShare(self.false_negatives, self.right),
            "unscorable": CountedShare(self.unscorable, self.rows),
        }

    def as_json(self) -> dict[str, Any]:
        """Make the object that --json prints of the counts."""
        return {
            "rows": self.rows,
            **{name: share.as_json() for name, share in self.shares().items()},
            "mean_absolute_error": statistics.fmean(self.distances) if self.distances else None,
            "median_seconds": statistics.median(self.seconds) if self.seconds else None,
        }


class Disagreement(NamedTuple):
    """A response on the wrong side of the threshold."""

    row: Labelled
    value: float
    reason: str

    @property
    def rank(self) -> tuple[float, bool]:
        """Return the sort key of disagreements, the worst first; of equals, undeserved rewards first."""
        return -abs(self.value - self.row.label), self.value < self.row.label

    def as_json(self) -> dict[str, Any]:
        """Make the object that --json prints of a disagreement."""
        return {**self.row.as_json(), "value": self.value, "reason": self.reason}


class Agreement:
    """Count how far a verifier agrees with labels.

    Args:
        threshold: the lowest label and value that count as right.
        samples: number of disagreements to show.
    """

    def __init__(self, threshold: float, samples: int) -> None:
        self.overall = AgreementCounts()
        self.sources: dict[str, AgreementCounts] = {}
        self.disagreements: list[Disagreement] = []
        self.versions: Counter[str] = Counter()  # scorers and versions -> rows
        self.unscorable: Counter[str] = Counter()  # rows by reason
        # Rows by reason: the machinery failed, or the row is unusable.
        self.not_judged: Counter[str] = Counter()
        self._threshold = threshold
        self._samples = samples
        self._is_graded = False

    def add(self, row: Labelled, result: Result | None) -> None:
        """Count one response; a result of None means that no verifier was asked."""
        if result is None or not was_judged(result):
            self.not_judged["not asked" if result is None else result["reason"]] += 1
            return
        self.versions[f"{result['scorer']} {result['version']}"] += 1
        value: float | None = result["value"]
        is_right = row.label >= self._threshold
        says_right = value is not None and value >= self._threshold
        for counts in (self.overall, self.sources.setdefault(row.source, AgreementCounts())):
            counts.rows += 1
            counts.seconds.append(result["seconds"])
            if value is None:
                counts.unscorable += 1
                continue
            counts.right += is_right
            counts.wrong += not is_right
            counts.false_negatives += is_right and not says_right
            counts.false_positives += says_right and not is_right
            counts.distances.append(abs(value - row.label))
        if value is None:
            self.unscorable[result["reason"]] += 1
            return
        self._is_graded |= not {value, row.label} <= {0.0, 1.0}
        if says_right != is_right:
            self.disagreements.append(Disagreement(row, value, result["reason"]))

    def agrees(self, row: Labelled, result: Result) -> bool | None:
        """Return whether value and label are on the same side of the threshold; None without a value."""
        if result["value"] is None:
            return None
        return bool((result["value"] >= self._threshold) == (row.label >= self._threshold))

    def worst(self) -> list[Disagreement]:
        """Return the disagreements to show."""
        return sorted(self.disagreements, key=lambda found: found.rank)[: self._samples]

    def as_json(self) -> dict[str, Any]:
        """Make one object of everything, for programs."""
        return {
            "threshold": self._threshold,
            "verifiers": dict(self.versions),
            "overall": self.overall.as_json(),
            "sources": {name: counts.as_json() for name, counts in self.sources.items()},
            "unscorable_reasons": dict(self.unscorable),
            "not_judged": dict(self.not_judged),
            "disagreements": [found.as_json() for found in self.worst()],
        }

    def lines(self) -> Iterator[str]:
        """Write everything for people."""
        for version, count in self.versions.most_common():
            yield f"  {count} judged by {version}"
        yield from self._table()
        yield (
            "  false positives: of the responses labelled wrong; false negatives: of those labelled right; in "
            "parentheses 95% intervals"
        )
        for what, reasons in (("unscorable", self.unscorable), ("not judged", self.not_judged)):
            for reason, count in reasons.most_common(SHOWN_REASONS):
                yield f"  {count} {what}: {textwrap.shorten(reason, SHOWN_CHARS)}"
        if self.disagreements:
            yield f"  the worst of {len(self.disagreements)} disagreements:"
        for found in self.worst():
            yield (
                f"    {found.row.where} ({found.row.source}): labelled {found.row.label:g}, judged {found.value:g}: "
                f"{textwrap.shorten(found.reason, SHOWN_CHARS)}"
            )

    def _table(self) -> Iterator[str]:
        titles = [
            "source",
            "rows",
            "agreement",
            "false positives",
            "false negatives",
            "unscorable",
            *(["mean error"] if self._is_graded else []),
            "s each",
        ]
        named = [*sorted(self.sources.items()), (ALL, self.overall)]
        table = [titles, *([name, *self._cells(counts)] for name, counts in named)]
        yield from (f"  {line}" for line in aligned(table))

    def _cells(self, counts: AgreementCounts) -> Iterable[str]:
        found = counts.as_json()
        yield str(counts.rows)
        yield from map(str, counts.shares().values())
        for key in (*(["mean_absolute_error"] if self._is_graded else []), "median_seconds"):
            yield "-" if found[key] is None else f"{found[key]:.3f}"
