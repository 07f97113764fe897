"""`make prove-staleness`: what does lag cost, by loss?

In: losses, bounds on lag, seeds. Out: the demo for each of them, a table of what each learned, and a picture;
`--write` puts the table at the end of benchmarks/RESULTS.md. A long proof, run by whoever changes a loss or what bounds
lag. What has run is not run again: each run's numbers, with its commit, are a line of benchmarks/staleness.jsonl, so an
hour's work may be done in parts. Exit code 0 if every run ended well, and the default loss at its default bound learns
as much as without lag.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.proofs.demo_seeds import parse_seeds, run_seed
from learner.reporting.metrics_file import read_metrics

# The losses with the keys that the demo sets beside their defaults.
LOSSES: dict[str, tuple[str, ...]] = {
    "grpo": (),
    "decoupled_ppo": ("learner.objective={type: decoupled_ppo}",),
    "cispo": ("learner.objective={type: cispo}",),
    "gspo": ("learner.objective={type: gspo}",),
}
MAX_LAGS = (0, 1, 4, 8, 16)
DEFAULT_LOSS, DEFAULT_LAG = "grpo", 4
RUNS = results.ROOT / "benchmarks" / "staleness.jsonl"
CLOSE = 0.02  # of the held-out pass rate: more is a loss


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessResult:
    """What one run of the demo has learned."""

    loss: str
    max_lag: int
    seed: int
    exit_code: int
    seconds: float
    before: float | None  # held-out pass rate of version 0
    after: float | None  # of the final weights
    lag_mean: float  # over the trained tokens, the mean of the steps
    clipped: float  # share of tokens whose gradient a clip changed, the mean of the steps
    commit: str

    @property
    def name(self) -> str:
        """The name of the run, and of its file."""
        return f"{self.loss}-lag-{self.max_lag}-seed-{self.seed}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what has not run yet, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.staleness", description="What lag costs, by loss."
    )
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES), help="(all)")
    parser.add_argument("--max-lags", type=int, nargs="+", default=MAX_LAGS, help="(0 1 4 8 16)")
    parser.add_argument("--seeds", type=parse_seeds, default="0-2", metavar="LIST", help="(0-2)")
    parser.add_argument("--out", type=Path, default=Path("runs/staleness"), metavar="DIR", help="of the runs")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FILE", help="what has run (its own)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw it there, too")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    commit = results.commit()
    heading = results.heading(f"The demo by loss and bound on lag, {len(args.seeds)} seeds")
    known = read_runs(args.runs)
    found = [
        known.get((loss, lag, seed)) or _run(loss=loss, max_lag=lag, seed=seed, out=out, file=args.runs)
        for seed in args.seeds
        for lag in args.max_lags
        for loss in args.losses
    ]
    lines = [*heading, *as_table(found), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.picture:
        draw(found, args.picture)
    if args.write:
        results.append(lines)
    return 0 if holds(found) else 1


def read_runs(file: Path) -> dict[tuple[str, int, int], StalenessResult]:
    """Return what has run, by loss, bound and seed; nothing where there is no file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [StalenessResult(**json.loads(line)) for line in lines]
    return {(one.loss, one.max_lag, one.seed): one for one in found}


def _run(*, loss: str, max_lag: int, seed: int, out: Path, file: Path) -> StalenessResult:
    """Run the demo once, and write down what it has learned."""
    name = f"{loss}-lag-{max_lag}-seed-{seed}"
    commit = results.commit()
    run = run_seed(seed, "hf", out, name=name, settings=(f"learner.max_lag={max_lag}", *LOSSES[loss]))
    metrics = read_metrics(out / name)
    result = StalenessResult(
        loss=loss,
        max_lag=max_lag,
        seed=seed,
        exit_code=run.exit_code or int(not run.is_audit_clean),
        seconds=run.seconds,
        before=run.before,
        after=run.after,
        lag_mean=_mean(metrics, ("lag_mean",)),
        clipped=_mean(metrics, ("clip_fraction_low", "clip_fraction_high", "clip_fraction_dual")),
        commit=commit,
    )
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(asdict(result)) + "\n")
    sys.stdout.write(f"{result.name}: held-out {_rate(result.after)} in {result.seconds:.0f} s\n")
    sys.stdout.flush()
    return result


def _mean(metrics: Sequence[Mapping[str, Any]], names: Sequence[str]) -> float:
    return (
        statistics.fmean(sum(line.get(name, 0.0) for name in names) for line in metrics) if metrics else 0.0
    )


def _of(found: Sequence[StalenessResult], loss: str, max_lag: int) -> list[StalenessResult]:
    return [one for one in found if (one.loss, one.max_lag) == (loss, max_lag)]


def _rates(found: Sequence[StalenessResult]) -> list[float]:
    return [one.after or 0.0 for one in found]


def as_table(found: Sequence[StalenessResult]) -> list[str]:
    """Return lines of Markdown: a row for each loss and bound."""
    columns = (
        "loss",
        "max_lag",
        "runs",
        "held-out after: mean (least to most)",
        "mean lag",
        "clipped",
        "seconds",
    )
    lines = [f"| {' | '.join(columns)} |", "|---|--:|--:|--:|--:|--:|--:|"]
    for loss, max_lag in dict.fromkeys((one.loss, one.max_lag) for one in found):
        own = _of(found, loss, max_lag)
        rates = _rates(own)
        cells = (
            loss,
            str(max_lag),
            str(len(own)),
            f"{statistics.fmean(rates):.3f} ({min(rates):.3f} to {max(rates):.3f})",
            f"{statistics.fmean(one.lag_mean for one in own):.1f}",
            f"{statistics.fmean(one.clipped for one in own):.1%}",
            f"{statistics.fmean(one.seconds for one in own):.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"**{'Holds' if holds(found) else 'Does not hold'}**: {_claim(found)}"]


def _claim(found: Sequence[StalenessResult]) -> str:
    failed = [one.name for one in found if one.exit_code]
    words = f"{len(found) - len(failed)} of {len(found)} runs ended well with a clean audit"
    without, default = _of(found, DEFAULT_LOSS, 0), _of(found, DEFAULT_LOSS, DEFAULT_LAG)
    if without and default:
        words += (
            f"; {DEFAULT_LOSS} at max_lag {DEFAULT_LAG} reaches {statistics.fmean(_rates(default)):.3f}, and "
            f"{statistics.fmean(_rates(without)):.3f} without lag"
        )
    commits = dict.fromkeys(one.commit for one in found)
    return f"{words}. {'Commit' if len(commits) == 1 else 'Commits'} {', '.join(commits)}."


def holds(found: Sequence[StalenessResult]) -> bool:
    """Tell whether every run ended well, and the default loses nothing by lag."""
    without, default = _of(found, DEFAULT_LOSS, 0), _of(found, DEFAULT_LOSS, DEFAULT_LAG)
    is_close = (
        not without
        or not default
        or statistics.fmean(_rates(default)) >= statistics.fmean(_rates(without)) - CLOSE
    )
    return bool(found) and not any(one.exit_code for one in found) and is_close


def draw(found: Sequence[StalenessResult], file: Path) -> None:
    """Draw the held-out pass rate over the bound, a line a loss, with the least and the most of its seeds."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from learner.reporting.curves import BLUE, GREEN, ORANGE, PURPLE, STYLE

    colours = dict(zip(LOSSES, (BLUE, ORANGE, GREEN, PURPLE), strict=True))
    lags = sorted({one.max_lag for one in found})
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        for index, loss in enumerate(dict.fromkeys(one.loss for one in found)):
            rates = [_rates(_of(found, loss, lag)) for lag in lags]
            places = [place + 0.06 * (index - 1.5) for place in range(len(lags))]
            means = [statistics.fmean(own) for own in rates]
            spread = [
                [mean - min(own) for mean, own in zip(means, rates, strict=True)],
                [max(own) - mean for mean, own in zip(means, rates, strict=True)],
            ]
            axes.errorbar(places, means, yerr=spread, label=loss, color=colours[loss], marker="o", capsize=3)
        axes.set_xticks(range(len(lags)), [str(lag) for lag in lags])
        axes.set_xlabel("max_lag")
        axes.set_ylabel("held-out pass rate of the final weights")
        axes.set_title("The demo by loss and bound on lag")
        axes.legend(loc="lower left")
        figure.savefig(file, dpi=150)
        plt.close(figure)


def _rate(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
