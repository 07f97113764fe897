"""Summarize an evaluation by set and by data source, for programs and for people.

In: an `EvaluationResult`. Out: one `EvaluationSummary` for each set, and one for each data source of a set with
several. Equal rows of a set, as in a benchmark repeated for more samples, are one problem with all their samples. Pure.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tools.evaluate.rates import Estimate, Scores, average, mean_score, pass_at, powers
from tools.evaluate.results import EvaluatedRow, EvaluationResult
from tools.printable import aligned, printable

NOTHING: Final = "-"
REASONS: Final = 3  # shown
REASON_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSummary:
    """The summary of some rows."""

    set: str
    source: str | None  # None: all sources of the set
    rows: int
    problems: int
    samples: int
    unscorable: int  # samples without a score, which do not count
    unsampled: int  # rows without samples
    cut: int  # truncated samples
    tokens: float | None  # mean per sample
    most: int  # largest number of samples of a problem
    average: Estimate | None  # share of right samples: avg@n
    score: Estimate | None  # mean score
    pass_at: dict[int, Estimate]  # by k
    versions: tuple[int, int]  # oldest and newest policy version that sampled


def summaries(result: EvaluationResult) -> list[EvaluationSummary]:
    """Return the summaries in the order of the sets, each set before its sources."""
    found = []
    for name in dict.fromkeys([*(each["name"] for each in result.sets), *(row.set for row in result.rows)]):
        rows = [row for row in result.rows if row.set == name]
        found.append(_summary(name, None, rows))
        sources = sorted({row.source for row in rows if not row.error})
        if len(sources) > 1:
            found += [
                _summary(name, source, [row for row in rows if row.source == source]) for source in sources
            ]
    return found


def problems_of(rows: Sequence[EvaluatedRow]) -> dict[str, list[float | None]]:
    """Return the scores of each problem, by its digest."""
    found: dict[str, list[float | None]] = {}
    for row in rows:
        if not row.error:
            found.setdefault(row.digest, []).extend(row.scores)
    return found


def _summary(name: str, source: str | None, rows: Sequence[EvaluatedRow]) -> EvaluationSummary:
    problems: list[Scores] = list(problems_of(rows).values())
    values = [value for row in rows for value in row.scores]
    tokens = [count for row in rows for count in row.tokens]
    most = max(map(len, problems), default=0)
    passes = {k: pass_at(problems, k) for k in powers(most)}
    sampled = [row for row in rows if not row.error]
    return EvaluationSummary(
        set=name,
        source=source,
        rows=len(rows),
        problems=len(problems),
        samples=len(values),
        unscorable=values.count(None),
        unsampled=len(rows) - len(sampled),
        cut=sum(sum(row.cut) for row in rows),
        tokens=sum(tokens) / len(tokens) if tokens else None,
        most=most,
        average=average(problems),
        score=mean_score(problems),
        pass_at={k: each for k, each in passes.items() if each is not None},
        versions=(
            min((row.min_version for row in sampled), default=0),
            max((row.max_version for row in sampled), default=0),
        ),
    )


def as_tree(found: Sequence[EvaluationSummary]) -> list[dict[str, Any]]:
    """Return the summaries for the JSON."""
    return [
        {**asdict(one), "pass_at": {str(k): asdict(each) for k, each in one.pass_at.items()}} for one in found
    ]


def lines(found: Sequence[EvaluationSummary]) -> Iterator[str]:
    """Yield a table of the rates, and one of pass@k for several samples."""
    if not found:
        return
    yield from aligned(
        [
            ["", "problems", "n", "avg@n", "score", "tokens", "cut", "unscorable", "unsampled"],
            *(
                [
                    label(one.set, one.source),
                    str(one.problems),
                    str(one.most),
                    shown(one.average),
                    NOTHING if one.score is None else f"{one.score.value:.4f}",
                    NOTHING if one.tokens is None else f"{one.tokens:.0f}",
                    str(one.cut),
                    str(one.unscorable),
                    str(one.unsampled),
                ]
                for one in found
            ),
        ]
    )
    counts = powers(max(one.most for one in found))[1:]
    if counts:
        yield ""
        yield from aligned(
            [
                ["", *(f"pass@{k}" for k in counts)],
                *(
                    [label(one.set, one.source), *(shown(one.pass_at.get(k)) for k in counts)]
                    for one in found
                    if one.most > 1
                ),
            ]
        )
    yield ""
    yield "Shares in percent with 95% intervals over problems. Unscorable samples count nowhere."
    if any(one.versions != (0, 0) for one in found):
        oldest, newest = min(one.versions[0] for one in found), max(one.versions[1] for one in found)
        yield f"Sampled by the policy versions {oldest} to {newest}."


def reasons(result: EvaluationResult) -> Iterator[str]:
    """Yield why samples or rows are missing from the rates, the most frequent reasons first."""
    counts = Counter(reason for row in result.rows for reason in (*row.reasons, *filter(None, [row.error])))
    for reason, count in counts.most_common(REASONS):
        yield f"{count} row{'s' * (count > 1)}: {printable(textwrap.shorten(reason, REASON_CHARS))}"
    if (more := len(counts) - REASONS) > 0:
        yield f"and {more} more reasons, in the result"


def label(name: str, source: str | None) -> str:
    """Return a set's or a source's name in tables."""
    return printable(name) if source is None else f"  {printable(source) or '(no source)'}"


def shown(estimate: Estimate | None) -> str:
    """Format an estimate for a table: in percent, with its interval."""
    if estimate is None:
        return NOTHING
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
