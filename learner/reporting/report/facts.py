"""Read the facts of a run for its report: steps, outcomes, generators, times.

In: a run's folder. Out: a `RunFacts` of plain numbers and series. Needs no Redis and no torch. Missing or damaged parts
of the folder are left out: a report of half a run is better than none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from broker.errors import PipelineError
from config.loading import from_yaml
from config.run import Run
from learner.journal.ledger import TRAINED, Ledger, read_ledger
from learner.reporting.metrics_file import read_metrics
from learner.status import read_status

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of a run: values at some steps."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """The steps' metrics of one generator; None where no step measured them."""

    name: str
    steps: int  # with trained tokens of it
    tokens: int  # trained; 0 where the metrics lack it
    lag_mean: float | None  # of its trained tokens, versions
    lag_max: int | None
    mismatch_mean: float | None  # k3 per token of lag 0, nats; the mean over its steps
    mismatch_max: float | None  # the largest difference of one log-probability, nats


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """All facts of a report, except its examples."""

    name: str
    folder: Path
    run: Run | None  # its newest configuration
    status: Mapping[str, Any]
    records: Records  # of the steps, in order
    outcomes: Mapping[str, int]  # groups by outcome: trained, dropped, dead
    reasons: Mapping[str, int]  # groups that were dropped or died, by the kind of reason
    incarnations: int
    generators: Sequence[GeneratorFacts] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)  # of all steps, by activity
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def steps(self) -> int:
        """Optimizer steps in the metrics."""
        return len(self.records)

    def series(self, key: str, name: str = "") -> Series | None:
        """Return a metric of the steps by its key, such as `arrived.components.math`; None where no step has it."""
        found = [
            (record["step"], value) for record in self.records if _is_number(value := _inner(record, key))
        ]
        if not found:
            return None
        steps, values = zip(*found, strict=True)
        return Series(name or key, steps, values)

    def names_in(self, key: str) -> list[str]:
        """Return the names of the metrics inside an object of the steps, such as `arrived.components`, in order."""
        found: set[str] = set()
        for record in self.records:
            found |= (_inner(record, key) or {}).keys()
        return sorted(found)

    def rounds(self) -> Series | None:
        """Return the held-out pass rate by version; None for no rounds."""
        found = {
            int(result["version"]): result["pass_rate"]
            for record in self.records
            for result in record.get("evaluations", ())
            if _is_number(result.get("pass_rate"))
        }
        if not found:
            return None
        versions = sorted(found)
        return Series("held-out pass rate", versions, [found[version] for version in versions])

    def shares_dropped(self) -> Series | None:
        """Return the share of returned groups that was dropped, by step."""
        found = [
            (record["step"], record["dropped"] / (record["dropped"] + record["groups"]))
            for record in self.records
            if "dropped" in record and record.get("groups") and not record.get("is_replayed")
        ]
        if not found:
            return None
        steps, values = zip(*found, strict=True)
        return Series("dropped", steps, values)


def read_facts(folder: Path) -> RunFacts:
    """Read a run's folder."""
    records = read_metrics(folder)
    ledger = _ledger_of(folder)
    ended = Counter(outcome.kind for outcome in ledger.outcomes.values())
    reasons = Counter(
        f"{outcome.kind}: {outcome.detail.split(':')[0]}"
        for outcome in ledger.outcomes.values()
        if outcome.kind != TRAINED
    )
    return RunFacts(
        name=folder.resolve().name,
        folder=folder,
        run=_run_of(folder),
        status=read_status(folder),
        records=records,
        outcomes=ended,
        reasons=dict(reasons.most_common()),
        incarnations=len(ledger.incarnations),
        generators=_generators(records),
        seconds=_seconds(records),
        ledger=ledger,
    )


def newest(values: Sequence[float], share: float = 0.1) -> float:
    """Return the mean of the last values of a series, by default the last tenth."""
    return fmean(values[-max(1, round(share * len(values))) :])


def oldest(values: Sequence[float], share: float = 0.1) -> float:
    """Return the mean of the first values of a series."""
    return fmean(values[: max(1, round(share * len(values)))])


def _ledger_of(folder: Path) -> Ledger:
    try:
        return read_ledger(folder / "journal", strict=False)
    except (PipelineError, OSError):
        return Ledger()


def _run_of(folder: Path) -> Run | None:
    try:
        return from_yaml((folder / "config.yaml").read_bytes(), str(folder / "config.yaml"))
    except (OSError, PipelineError, ValueError):
        return None


def _generators(records: Records) -> list[GeneratorFacts]:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for name, facts in record.get("generators", {}).items():
            by_name.setdefault(name, []).append(facts)
    return [
        GeneratorFacts(
            name=name,
            steps=len(some),
            tokens=sum(int(facts.get("tokens", 0)) for facts in some),
            lag_mean=_mean_of(some, "lag_mean"),
            lag_max=None if (lag := _max_of(some, "lag_max")) is None else int(lag),
            mismatch_mean=_mean_of(some, "mismatch_kl"),
            mismatch_max=_max_of(some, "mismatch_max"),
        )
        for name, some in sorted(by_name.items())
    ]


def _values(some: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [facts[key] for facts in some if _is_number(facts.get(key))]


def _mean_of(some: Iterable[Mapping[str, Any]], key: str) -> float | None:
    values = _values(some, key)
    return fmean(values) if values else None


def _max_of(some: Iterable[Mapping[str, Any]], key: str) -> float | None:
    return max(_values(some, key), default=None)


def _seconds(records: Records) -> dict[str, float]:
    """Return the seconds of all steps by activity, the largest first."""
    sums: Counter[str] = Counter()
    for record in records:
        for key, value in record.items():
            if key.startswith("seconds_") and _is_number(value):
                sums[key.removeprefix("seconds_")] += value
    return dict(sums.most_common())


def _inner(record: Mapping[str, Any], key: str) -> Any:
    """Return the value of a step's record at a dotted key; None where it is missing."""
    value: Any = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
