"""Compare two evaluations: the same problems, and whether the second model did better on them.

In: two `EvaluationResult`s. Out: for each set the paired difference of avg@n, over the problems with a score in both,
and other differences between the two. Problems are matched by their digest. A row number that asks different things in
both is an error: the sets are not the same. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tools.evaluate.paired import Difference, paired
from tools.evaluate.rates import FULL
from tools.evaluate.results import SETTINGS, EvaluatedRow, EvaluationResult, ResultError
from tools.evaluate.summary import label, problems_of
from tools.printable import aligned

By = Literal["right", "score"]  # the measure of a sample: whether its score is 1, or the score itself
MEANS: Final[Mapping[By, str]] = {"right": "avg@n", "score": "Mean score"}
ALL: Final = "all"
SMALL: Final = 0.0001  # a smaller p is not shown exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class SetComparison:
    """One set, or all sets together, in both results."""

    set: str
    shared: int  # problems with a score in both
    only_first: int  # problems without a score in the second
    only_second: int
    first: float  # mean over the shared problems
    second: float
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationComparison:
    """The comparison of two results."""

    names: tuple[str, str]
    by: By
    sets: Sequence[SetComparison]
    notes: Sequence[str]  # their differences, except the model

    def as_json(self) -> dict[str, Any]:
        """Make the object that --json prints."""
        return {
            "first": self.names[0],
            "second": self.names[1],
            "by": self.by,
            "sets": [asdict(one) for one in self.sets],
            "notes": list(self.notes),
        }


def compare(
    first: EvaluationResult, second: EvaluationResult, *, names: tuple[str, str], by: By = "right"
) -> EvaluationComparison:
    """Compare two results.

    Args:
        first, second: the difference is second minus first.
        names: of the two, for people: their files.
        by: the measure of a sample.
    Raises:
        ResultError: they have no set in common, a row of one set asks different things, or no problem is in both.
    """
    common = [each["name"] for each in first.sets if each["name"] in {other["name"] for other in second.sets}]
    if not common:
        raise ResultError(
            f"{names[0]} and {names[1]} have no set in common: {_listed(first)}, and {_listed(second)}"
        )
    rates: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
    for name in common:
        one, other = ([row for row in result.rows if row.set == name] for result in (first, second))
        _refuse_unlike(name, one, other, names)
        rates[name] = (_rates(one, by), _rates(other, by))
    sets = [found for name in common if (found := _of_set(name, *rates[name])) is not None]
    if not sets:
        raise ResultError(f"{names[0]} and {names[1]} share no problem that both have a score of")
    if len(sets) > 1:
        together = [
            {(name, digest): rate for name in common for digest, rate in rates[name][side].items()}
            for side in (0, 1)
        ]
        sets += [found for found in [_of_set(ALL, *together)] if found is not None]
    return EvaluationComparison(
        names=names, by=by, sets=sets, notes=list(_notes(first, second, common, names))
    )


def lines(found: EvaluationComparison) -> Iterator[str]:
    """Yield the comparison for people."""
    yield f"first   {found.names[0]}"
    yield f"second  {found.names[1]}"
    yield ""
    head = [
        "",
        "shared",
        "first",
        "second",
        "difference",
        "p",
        "better",
        "worse",
        "only first",
        "only second",
    ]
    table = [head]
    for one in found.sets:
        gain = one.difference
        table.append(
            [
                label(one.set, None),
                str(one.shared),
                f"{100 * one.first:.1f}",
                f"{100 * one.second:.1f}",
                f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]",
                "<0.0001" if gain.p < SMALL else f"{gain.p:.4f}",
                str(gain.better),
                str(gain.worse),
                str(one.only_first),
                str(one.only_second),
            ]
        )
    yield from aligned(table)
    yield ""
    yield (
        f"{MEANS[found.by]} in percent over shared problems; 95% intervals and p are of the differences, problem by "
        "problem."
    )
    yield from found.notes


def _rates(rows: Sequence[EvaluatedRow], by: By) -> dict[str, float]:
    """Return each problem's mean over its scored samples."""
    found = {}
    for digest, scores in problems_of(rows).items():
        scored = [value for value in scores if value is not None]
        if scored:
            found[digest] = sum(value if by == "score" else value >= FULL for value in scored) / len(scored)
    return found


def _of_set(name: str, first: Mapping[Any, float], second: Mapping[Any, float]) -> SetComparison | None:
    shared = [problem for problem in first if problem in second]
    if not shared:
        return None
    one, other = ([rates[problem] for problem in shared] for rates in (first, second))
    return SetComparison(
        set=name,
        shared=len(shared),
        only_first=len(first) - len(shared),
        only_second=len(second) - len(shared),
        first=sum(one) / len(one),
        second=sum(other) / len(other),
        difference=paired(one, other),
    )


def _refuse_unlike(
    name: str, first: Sequence[EvaluatedRow], second: Sequence[EvaluatedRow], names: tuple[str, str]
) -> None:
    """Refuse a set whose rows of one number ask different things, unless the rows are only reordered."""
    there = {row.row: row.digest for row in second if not row.error}
    known = {row.digest for row in second}
    for row in first:
        if row.row in there and row.digest not in known:
            raise ResultError(
                f"row {row.row} of the set {name} is not the same in {names[0]} and {names[1]} (digest {row.digest}, "
                f"then {there[row.row]}): prompt or reference differ, so the numbers are not of the same problems"
            )


def _notes(
    first: EvaluationResult, second: EvaluationResult, common: Sequence[str], names: tuple[str, str]
) -> Iterator[str]:
    """Yield further differences: how a set is sampled, who scored it, sets in only one result."""
    for name in common:
        one, other = (
            next(each for each in result.sets if each["name"] == name) for result in (first, second)
        )
        unlike = [key for key in SETTINGS if one.get(key) != other.get(key)]
        if unlike:
            said = ", ".join(f"{key} {one.get(key)} and {other.get(key)}" for key in unlike)
            yield f"{name} was not sampled alike: {said}"
        scored = [
            sorted({scorer for row in result.rows if row.set == name for scorer in row.scorers})
            for result in (first, second)
        ]
        if scored[0] != scored[1]:
            yield f"{name} was not scored alike: {', '.join(scored[0])}; {', '.join(scored[1])}"
    for result, where in ((first, names[0]), (second, names[1])):
        alone = [each["name"] for each in result.sets if each["name"] not in common]
        if alone:
            yield f"only in {where}: {', '.join(alone)}"


def _listed(result: EvaluationResult) -> str:
    return ", ".join(each["name"] for each in result.sets) or "none"
