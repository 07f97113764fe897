"""`make prove-slow-scorer`: what does a slow scorer cost a run, with lag and without?

In: a number of pairs. Out: the demo beside itself with `max_lag: 0`, in alternating pairs of one seed each, and a table
of their seconds from the first step to the last and of their held-out pass rates; `--write` puts it at the end of
benchmarks/RESULTS.md. Exit code 0 if every run ended well, the asynchronous one is at least `TARGET` times as fast, and
it ends with the same rate.

The scorer is one's own: a judge that thinks for a second about each group, without a processor, and then says what the
math scorer says. Groups without variance train, so that both runs train on the same number of groups; there are 100
steps, since the curve still rises at the demo's 60. The asynchronous run has a `max_lag` of 2: with the groups of two
more steps under way it waits for no score, and with the demo's 4 it is no faster and learns from older tokens.
Held-out prompts are asked before the first step and behind the last one alone: an evaluation of 64 groups would cost
both sides seconds of their judges. There are half as many more workers as a step has groups, so that a step's groups
are judged at once in both runs, and the asynchronous one may take two thirds of a second for a step.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import results
from benchmarks.comparison import median_interval, number_text
from benchmarks.proofs.demo_seeds import run_seed
from benchmarks.rigs.groups import RECIPE
from config.loading import load_run
from learner.reporting.metrics_file import read_metrics

TARGET = 1.5  # times as fast as synchronous training
CLOSE = 0.02  # of the held-out pass rate: more is a loss
STEPS, MAX_LAG = 100, 2
SAMPLES = 16  # of each held-out prompt, four times the recipe's: the rates have to be told apart
AT_MOST_S = 300.0  # for a run, three times over before it is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRun:
    """One run of one side."""

    exit_code: int  # of the run, or 1 where its audit is not clean
    train_s: float  # from the end of the first step to that of the last
    scored_s: float  # that a group was with its scorer: the median of the steps
    lag: float  # of the trained tokens: the mean of the steps
    after: float | None  # held-out pass rate of the final weights


ROWS: tuple[tuple[str, str, Callable[[SlowRun], float], bool], ...] = (
    ("first step to last", "s", lambda run: run.train_s, True),
    ("a group is with its scorer", "s", lambda run: run.scored_s, False),
    ("mean lag of the tokens", "versions", lambda run: run.lag, False),
    ("final held-out pass rate", "", lambda run: run.after or 0.0, False),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pairs, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.slow_scorer", description="The demo with a scorer of a second."
    )
    recipe = load_run(["--config", str(RECIPE)])
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="pairs of runs (3)")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="of thought for a group (1)")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"({STEPS})")
    parser.add_argument(
        "--max-lag", type=int, default=MAX_LAG, metavar="N", help=f"of the asynchronous one ({MAX_LAG})"
    )
    workers = recipe.learner.groups_per_step * 3 // 2
    parser.add_argument("--workers", type=int, default=workers, metavar="N", help=f"that judge ({workers})")
    results.add_out(parser, "slow-scorer")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True)
    commit = results.commit()
    lines = results.heading(f"A scorer that takes {args.seconds:g} s a group, {args.pairs} pairs")
    settings = settings_of(args.seconds, args.steps, args.workers)
    lags = (args.max_lag, 0)
    pairs = [_pair(number, lags, settings, out) for number in range(args.pairs)]
    lines += [*as_table(pairs, lags[0]), "", f"{args.workers} workers, {args.steps} steps."]
    lines += results.remarks(commit)
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if holds(pairs) else 1


def settings_of(seconds: float, steps: int, workers: int) -> tuple[str, ...]:
    """Return what both runs say besides the recipe and their `max_lag`."""
    scorer = (
        "{type: custom, queue: math, import_path: 'benchmarks.rigs.sleeper:ThinkingJudge', "
        f"options: {{seconds: {seconds}}}}}"
    )
    return (
        f"scorers.tasks={{math: {{scorer: {scorer}}}}}",
        f"scorers.workers={workers}",
        f"learner.steps={steps}",
        f"evaluation.every={steps}",
        f"evaluation.samples={SAMPLES}",
        "learner.filters.zero_variance=keep",
    )


def _pair(number: int, lags: tuple[int, int], settings: Sequence[str], out: Path) -> tuple[SlowRun, SlowRun]:
    """Run both sides, the other one first each time; the asynchronous one comes first in the pair."""
    found: dict[int, SlowRun] = {}
    for lag in lags if number % 2 == 0 else reversed(lags):
        name = f"lag-{lag}-seed-{number}"
        run = run_seed(
            number, "hf", out, name=name, settings=(*settings, f"learner.max_lag={lag}"), at_most_s=AT_MOST_S
        )
        steps = read_metrics(out / name)
        found[lag] = SlowRun(
            exit_code=run.exit_code or int(not run.is_audit_clean),
            train_s=steps[-1]["at"] - steps[0]["at"] if steps else float("nan"),
            scored_s=median([step["age_scoring_s"] for step in steps] or [float("nan")]),
            lag=sum(step["lag_mean"] for step in steps) / max(1, len(steps)),
            after=run.after,
        )
        sys.stdout.write(f"{name}: {found[lag]}\n")
        sys.stdout.flush()
    return found[lags[0]], found[lags[1]]


def as_table(pairs: Sequence[tuple[SlowRun, SlowRun]], max_lag: int) -> list[str]:
    """Return lines of Markdown: a row for each value, and what holds."""
    lines = [
        f"| what | unit | max_lag {max_lag} | max_lag 0 | times as fast | 90% of the median |",
        "|---|---|--:|--:|--:|---|",
    ]
    for what, unit, value, has_ratio in ROWS:
        ours, other = (_spread([value(pair[side]) for pair in pairs]) for side in (0, 1))
        low, high = median_interval(ratios(pairs))
        ratio = (f"{median(ratios(pairs)):.2f}", f"{low:.2f} to {high:.2f}") if has_ratio else ("", "")
        lines.append(f"| {' | '.join((what, unit, ours, other, *ratio))} |")
    ended = sum(run.exit_code == 0 for pair in pairs for run in pair)
    return [
        *lines,
        "",
        (
            f"**{'Holds' if holds(pairs) else 'Does not hold'}**: {ended} of {2 * len(pairs)} runs ended well with a "
            f"clean audit; {median(ratios(pairs)):.2f} times as fast, wanted at least {TARGET}, with a final rate at "
            f"most {CLOSE} lower."
        ),
    ]


def ratios(pairs: Sequence[tuple[SlowRun, SlowRun]]) -> list[float]:
    """Return how many times as fast the asynchronous run of each pair is."""
    return [synchronous.train_s / ours.train_s for ours, synchronous in pairs]


def holds(pairs: Sequence[tuple[SlowRun, SlowRun]]) -> bool:
    """Tell whether all runs ended well, and the asynchronous ones are fast enough and learn as much."""
    if not pairs or any(run.exit_code or run.after is None for pair in pairs for run in pair):
        return False
    ours, synchronous = (median(pair[side].after or 0.0 for pair in pairs) for side in (0, 1))
    return median(ratios(pairs)) >= TARGET and ours >= synchronous - CLOSE


def _spread(values: Sequence[float]) -> str:
    return f"{number_text(median(values))} ({number_text(min(values))} to {number_text(max(values))})"


if __name__ == "__main__":
    sys.exit(main())
