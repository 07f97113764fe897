"""What a finished run's folder says of a demo's bars, and the table of several.

In: the folder that `millrace up` left, its journal included, and how the command ended. Out: a `SeedRun`, its verdict,
lines of Markdown. Used by `benchmarks.proofs.demo_seeds`. A folder in which something is missing gives a run that
fails, and the verdict says at which bar.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from broker.errors import PipelineError
from learner.journal.ledger import read_ledger, read_step
from tools.runs.folder import read_run

COLUMNS = (
    "seed",
    "held-out, version 0",
    "held-out, final weights",
    "first step, s",
    "in all, s",
    "sampled tokens",
    "max lag",
    "switched in flight",
    "audit",
    "verdict",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The bars that every run has to meet. Pass rates are of the held-out problems."""

    at_most_before: float = 0.5  # with version 0
    at_least_after: float = 0.85  # with the final weights
    at_most_s: float  # from the command to its end
    first_step_within_s: float | None  # from the command; None: no bar
    switched_in_flight: int  # at least so many groups, see `SeedRun`
    at_most_tokens: int | None = None  # sampled; None: no bar
    median_within_s: float | None = None  # of the runs' times; None: no bar
    enough: float = 0.9  # share of the runs that pass


# The engine hf loads weights between two batches, vllm in flight.
BARS = {
    "hf": Bars(at_most_s=300, first_step_within_s=60, switched_in_flight=0),
    "vllm": Bars(at_most_s=900, first_step_within_s=None, switched_in_flight=1),
    "agents": Bars(
        at_most_before=0.3,
        at_least_after=0.9,
        at_most_s=600,
        first_step_within_s=None,
        switched_in_flight=0,
        at_most_tokens=200_000,
        median_within_s=300,
        enough=1.0,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """One run of the demo."""

    seed: int
    exit_code: int
    seconds: float  # from the command to its end
    first_step_s: float | None  # from the command to the end of the first optimizer step
    steps: int  # optimizer steps that were made
    pass_rates: dict[int, float]  # held-out, by policy version
    lag_max: int | None  # of any trained token
    switched_in_flight: int  # trained groups with a completion that two policy versions sampled
    is_audit_clean: bool
    sampled_tokens: int = 0  # of training groups, those that were thrown away included

    @property
    def before(self) -> float | None:
        """The held-out pass rate of version 0."""
        return self.pass_rates.get(0)

    @property
    def after(self) -> float | None:
        """The held-out pass rate of the final weights: of the version after the last step, and of no earlier one."""
        return self.pass_rates.get(self.steps) if self.steps else None

    def failures(self, bars: Bars) -> Iterator[str]:
        """List the bars that the run misses, for people."""
        if self.exit_code:
            yield f"exit code {self.exit_code}"
        if self.before is None or self.before > bars.at_most_before:
            yield f"{_rate(self.before)} at version 0, at most {bars.at_most_before}"
        if self.after is None or self.after < bars.at_least_after:
            yield f"{_rate(self.after)} at the end, at least {bars.at_least_after}"
        if self.seconds > bars.at_most_s:
            yield f"{self.seconds:.0f} s, at most {bars.at_most_s:.0f}"
        if self.first_step_s is None:
            yield "no step"
        elif bars.first_step_within_s is not None and self.first_step_s > bars.first_step_within_s:
            yield f"first step after {self.first_step_s:.0f} s, at most {bars.first_step_within_s:.0f}"
        if bars.at_most_tokens is not None and self.sampled_tokens > bars.at_most_tokens:
            yield f"{self.sampled_tokens:,} tokens, at most {bars.at_most_tokens:,}"
        if self.switched_in_flight < bars.switched_in_flight:
            yield "no weights in flight"
        if not self.is_audit_clean:
            yield "audit not clean"

    def verdict(self, bars: Bars) -> str:
        """Return `pass`, or every bar that the run misses."""
        return "; ".join(self.failures(bars)) or "pass"


def read_seed_run(
    folder: Path, *, seed: int, began_at: float, seconds: float, exit_code: int, is_audit_clean: bool
) -> SeedRun:
    """Read what a run has left.

    Args:
        folder: the run's.
        seed: of the run.
        began_at: Unix seconds of the command.
        seconds: from the command to its end.
        exit_code: of `millrace up`.
        is_audit_clean: whether `millrace audit` ended with 0.
    """
    found = read_run(folder)
    metrics = found.metrics
    rates = {
        int(result["version"]): float(result["pass_rate"])
        for line in metrics
        for result in line.get("evaluations", ())
        if result["pass_rate"] is not None
    }
    return SeedRun(
        seed=seed,
        exit_code=exit_code,
        seconds=seconds,
        steps=max(found.version, 0),
        pass_rates=rates,
        first_step_s=float(metrics[0]["at"]) - began_at if metrics else None,
        lag_max=max((int(line["lag_max"]) for line in metrics), default=None),
        switched_in_flight=_switched_in_flight(folder / "journal"),
        is_audit_clean=is_audit_clean,
        sampled_tokens=sampled_tokens(folder / "journal"),
    )


def enough_pass(runs: Sequence[SeedRun], bars: Bars) -> bool:
    """Tell whether enough runs meet every bar, and their median time its own.

    9 of 10 are enough where `bars` does not ask for more, and all where there are fewer than ten.
    """
    if bars.median_within_s is not None and median(run.seconds for run in runs) > bars.median_within_s:
        return False
    return sum(run.verdict(bars) == "pass" for run in runs) >= bars.enough * len(runs) > 0


def as_table(runs: Sequence[SeedRun], bars: Bars) -> list[str]:
    """Write lines of Markdown: a row a run, the sum, and the curve of each."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|--:|--:|--:|--:|--:|--:|--:|--:|---|---|"]
    for run in runs:
        cells = (
            str(run.seed),
            _rate(run.before),
            _rate(run.after),
            _whole(run.first_step_s),
            _whole(run.seconds),
            f"{run.sampled_tokens:,}",
            _whole(run.lag_max),
            str(run.switched_in_flight),
            "clean" if run.is_audit_clean else "NOT CLEAN",
            run.verdict(bars),
        )
        lines.append(f"| {' | '.join(cells)} |")
    passed = sum(run.verdict(bars) == "pass" for run in runs)
    more = (
        ""
        if bars.first_step_within_s is None
        else f", the first step within {bars.first_step_within_s:.0f} s"
    )
    more += ", weights loaded in flight" if bars.switched_in_flight else ""
    more += f", at most {bars.at_most_tokens:,} sampled tokens" if bars.at_most_tokens else ""
    verdict = (
        f"**{passed} of {len(runs)} pass**: at most {bars.at_most_before} at version 0, at least "
        f"{bars.at_least_after} with the final weights, at most {bars.at_most_s:.0f} s in all{more}, exit "
        "code 0 and a clean audit."
    )
    if bars.median_within_s is not None:
        verdict += f" Median {median(run.seconds for run in runs):.0f} s, at most {bars.median_within_s:.0f}."
    lines += ["", verdict, ""]
    lines += [
        f"- seed {run.seed}, held-out pass rate by version: "
        + (", ".join(f"{version}: {rate:.2f}" for version, rate in sorted(run.pass_rates.items())) or "none")
        for run in runs
    ]
    return lines


def _switched_in_flight(journal: Path) -> int:
    """Count the trained groups with a completion that two policy versions sampled; 0 without a journal."""
    count = 0
    with contextlib.suppress(PipelineError):  # the audit, which reads it too, says what is wrong with it
        for record in read_ledger(journal).steps:
            groups, _ = read_step(journal, record)
            count += sum(
                any(
                    len({span.version for span in completion.spans}) > 1
                    for completion in group.rollout.completions
                )
                for group in groups
            )
    return count


def sampled_tokens(journal: Path) -> int:
    """Count the tokens that were sampled of training groups; 0 without a journal."""
    with contextlib.suppress(PipelineError):
        ledger = read_ledger(journal)
        trained = sum(int(record["tokens"]) for record in ledger.steps)
        return trained + sum(outcome.tokens for outcome in ledger.outcomes.values())
    return 0


def _rate(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _whole(value: float | None) -> str:
    return "none" if value is None else f"{value:.0f}"
