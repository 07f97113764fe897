"""`python -m benchmarks.proofs.demo_beside TREE`: the demo of this checkout beside that of another, in pairs.

In: another checkout, with `.venv` in it, and how many pairs. Out: of each kind of run, medians of both with their
spread, and the median of the pairs' ratios with its 90% interval: seconds from the command to the end of the first
step, of a step, behind the last step, and processor seconds of all processes. `--write` puts the tables at the end of
benchmarks/RESULTS.md. Exit code 0 if every run ended well.

The sides take turns, and the one that begins changes with every pair. Both have the same seed and settings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results
from benchmarks.comparison import median_interval, number_text
from benchmarks.rigs.measured import CommandFailed, run_measured
from learner.reporting.metrics_file import read_metrics

RECIPE = "config/recipes/demo_cpu.yaml"
AT_MOST_S = 900.0
WARM = 10  # steps before the rate is counted: what was sampled ahead of the first ones counts nowhere
BEFORE = 10  # steps that the last one is compared with
EMPTY = 0.75  # share of dropped groups from which a step counts as mostly empty

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl: a step each


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run of one side."""

    lines: Lines
    used: Mapping[str, float]  # wall_s, processor_s, memory_mb, began_at

    @property
    def first_step_s(self) -> float:
        """Seconds from the command to the end of the first step."""
        return float(self.lines[0]["at"]) - self.used["began_at"]

    @property
    def behind_s(self) -> float:
        """Seconds from the end of the last step to the end of the command."""
        return self.used["began_at"] + self.used["wall_s"] - float(self.lines[-1]["at"])

    @property
    def step_s(self) -> float:
        """Seconds a step, behind the first `WARM`, evaluations included."""
        return float(self.lines[-1]["at"] - self.lines[WARM - 1]["at"]) / (len(self.lines) - WARM)

    @property
    def last_step_s(self) -> float:
        """Seconds of the last step."""
        return float(self.lines[-1]["at"] - self.lines[-2]["at"])

    @property
    def last_by_before(self) -> float:
        """The last step's seconds, by the median of the `BEFORE` before it."""
        times = [line["at"] for line in self.lines]
        seconds = [later - sooner for sooner, later in pairwise(times)]
        return float(seconds[-1] / median(seconds[-1 - BEFORE : -1]))

    @property
    def empty_step_s(self) -> float | None:
        """Mean seconds of the steps for which at least `EMPTY` of the groups were dropped; None: there were none."""
        found = []
        for before, line in pairwise(self.lines):
            if line["dropped"] >= EMPTY * (line["dropped"] + line["groups"]):
                found.append(line["at"] - before["at"])
        return sum(found) / len(found) if found else None


Value = Callable[[Side], float | None]
FIRST: tuple[str, Value] = ("command to the end of the first step, s", lambda side: side.first_step_s)
COST: tuple[tuple[str, Value], ...] = (
    ("command to the end, s", lambda side: side.used["wall_s"]),
    ("processor seconds", lambda side: side.used["processor_s"]),
    ("memory of all processes, MiB", lambda side: side.used["memory_mb"]),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Runs of one kind: what they are for, their settings, and what is looked at."""

    about: str
    settings: tuple[str, ...]
    rows: tuple[tuple[str, Value], ...]


VLLM = (
    "generators.engine.type=vllm",
    "generators.engine.kv_cache_mb=256",
    "generators.engine.enforce_eager=true",
)
KINDS = {
    "demo": Kind(
        "the demo as it is",
        (),
        (
            FIRST,
            ("last step, s", lambda side: side.last_step_s),
            (f"last step by the median of the {BEFORE} before", lambda side: side.last_by_before),
            ("behind the last step, s", lambda side: side.behind_s),
            *COST,
        ),
    ),
    "keep": Kind(
        "every group trains",
        ("learner.filters.zero_variance=keep",),
        (FIRST, (f"seconds a step behind step {WARM}", lambda side: side.step_s), *COST),
    ),
    "lag-0": Kind(
        "max_lag 0",
        ("learner.max_lag=0",),
        (
            (f"seconds a step where {EMPTY:.0%} of the groups are dropped", lambda side: side.empty_step_s),
            *COST,
        ),
    ),
    "vllm": Kind("the engine vllm, twelve steps", (*VLLM, "learner.steps=12"), (FIRST, *COST)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pairs, show the tables, and write them down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proofs.demo_beside", description=__doc__)
    parser.add_argument("tree", type=Path, help="another checkout, with .venv")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="pairs of each kind (5)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {','.join(KINDS)}; all by default")
    results.add_out(parser, "demo-beside")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True)
    commit, trees = results.commit(), (results.ROOT, args.tree.absolute())
    lines = results.heading(f"The demo beside that of {results.commit_of(trees[1])}, {args.pairs} pairs")
    has_all = True
    for name in args.kinds.split(","):
        pairs = []
        for number in range(args.pairs):
            found = _pair(number, name, trees, out)
            has_all &= found is not None
            pairs += [found] if found else []
        lines += [f"**{KINDS[name].about}**, {len(pairs)} pairs", "", *_table(KINDS[name], pairs), ""]
    lines += results.remarks(commit)
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if has_all else 1


def _pair(number: int, kind: str, trees: tuple[Path, Path], out: Path) -> tuple[Side, Side] | None:
    """Run both sides, ours first in the pair; None: a run failed, which was said."""
    sides: dict[int, Side] = {}
    for which in (0, 1) if number % 2 == 0 else (1, 0):
        folder = out / f"{kind}-{number}-{('ours', 'other')[which]}"
        folder.mkdir()
        settings = [f"seed={number}", "name=run", f"runs_dir={folder}", *KINDS[kind].settings]
        command = [
            str(trees[which] / ".venv/bin/python"),
            "-m",
            "tools.main",
            "up",
            RECIPE,
            "--plain",
            *settings,
        ]
        try:
            used = run_measured(command, folder, at_most_s=AT_MOST_S, tree=trees[which])
        except CommandFailed as error:
            sys.stdout.write(f"{folder.name}: {error}\n")
            return None
        side = sides[which] = Side(lines=read_metrics(folder / "run"), used=used)
        shown = {what: value(side) for what, value in KINDS[kind].rows}
        sys.stdout.write(f"{folder.name}: {json.dumps(shown)}\n")
        sys.stdout.flush()
    return sides[0], sides[1]


def _table(kind: Kind, pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    lines = ["| what | ours | the other | ours by the other's | 90% of the median |", "|---|--:|--:|--:|---|"]
    for what, value in kind.rows:
        both = [(ours, other) for a, b in pairs if (ours := value(a)) is not None and (other := value(b))]
        if not both:
            lines.append(f"| {what} | none | none | | |")
            continue
        ratios = [ours / other for ours, other in both]
        low, high = median_interval(ratios)
        cells = " | ".join(_spread([pair[k] for pair in both]) for k in (0, 1))
        lines.append(f"| {what} | {cells} | {median(ratios):.2f} | {low:.2f} to {high:.2f} |")
    return lines


def _spread(values: Sequence[float]) -> str:
    return f"{number_text(median(values))} ({number_text(min(values))} to {number_text(max(values))})"


if __name__ == "__main__":
    sys.exit(main())
