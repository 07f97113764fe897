"""`make prove-trl`: Millrace's demo beside TRL's GRPOTrainer, from the command to its end, in alternating pairs.

In: nothing, or a number of pairs. TRL is installed with pinned versions in an environment of its own, in a folder that
the next proof finds again. Out: medians of both sides and of the pairs' ratios: wall time from the command to a
held-out pass rate of 0.95 and to the end, samples a second between the first and the last step, processor seconds of
all processes, and memory. `--write` puts them at the end of benchmarks/RESULTS.md. Exit code 0 if every target is met.

Both sides train the demo's model in float32 on the demo's problems: 60 steps of 16 prompts x 8 completions, the same
learning rate, warm-up and longest completion, and 64 x 4 held-out completions at the start and every ten steps. TRL
trains on every group. Millrace does so in one pair of columns, and drops groups without variance in the other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results
from benchmarks.comparison import median_interval, number_text
from benchmarks.proofs.agents import interpreters
from benchmarks.proofs.agents.stage import Missing
from benchmarks.rigs.groups import RECIPE
from broker.processes import spawn, stop, wait
from config.loading import load_run
from config.run import Run
from learner.data.dataset import made_problems
from learner.reporting.metrics_file import read_metrics

PEER = Path(__file__).with_name("peer.py")
PACKAGES = interpreters.Packages(
    named="trl",
    with_needs=(
        "trl==1.16.0",
        "torch==2.13.0",
        "transformers==5.24.0",
        "math-verify==0.9.0",
        "accelerate==1.15.0",
    ),
)
RIGHT = 0.95  # held-out pass rate
AT_MOST_S = 600.0
GRACE_S = 40.0
KEEP, DROP = "all groups train", "groups without variance are dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run of one side. Seconds are from the command on."""

    right_s: float | None  # to the first held-out pass rate of at least RIGHT
    first_step_s: float
    end_s: float
    trained_per_s: (
        float  # completions of trained groups a second, from the end of the first step to that of the last
    )
    processor_s: float
    memory_mb: float
    pass_rate: float  # the last one


ROWS: tuple[tuple[str, str, Callable[[Side], float | None], bool], ...] = (
    (f"command to a held-out {RIGHT}", "s", lambda side: side.right_s, True),
    ("command to the end of the first step", "s", lambda side: side.first_step_s, True),
    ("command to the end", "s", lambda side: side.end_s, True),
    ("trained samples a second", "1/s", lambda side: side.trained_per_s, False),
    ("processor seconds", "s", lambda side: side.processor_s, True),
    ("memory of all processes", "MiB", lambda side: side.memory_mb, True),
    ("last held-out pass rate", "", lambda side: side.pass_rate, False),
)
TARGETS = {ROWS[0][0]: 0.7, ROWS[3][0]: 1.4}  # ours by TRL's, where all groups train


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pairs, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proofs.trl", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="pairs of each kind (5)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="new folder of the runs (runs/trl-DATE)")
    parser.add_argument("--env", type=Path, default=Path("runs") / "trl-env", help="TRL's environment")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = (args.out or Path("runs") / f"trl-{datetime.now(UTC):%Y%m%d-%H%M%S}").absolute()
    out.mkdir(parents=True)
    commit = results.commit()
    lines = results.heading(f"The demo beside TRL, {args.pairs} pairs")
    try:
        python = interpreters.make(args.env.absolute(), PACKAGES, {})
    except Missing as error:
        sys.stdout.write(f"TRL can't be installed: {error}\n")
        return 1
    has_met = True
    for title, setting in ((KEEP, "keep"), (DROP, "replace")):
        pairs = [_pair(number, setting, python, out) for number in range(args.pairs)]
        lines += ["", f"**{title[0].upper()}{title[1:]}** (TRL trains on all)", "", *_table(pairs)]
        if title == KEEP:
            missed = list(_missed(pairs))
            has_met = not missed
            lines += ["", f"Targets missed: {'; '.join(missed)}." if missed else "Both targets are met."]
    lines += [
        "",
        f"TRL {interpreters.version(python, 'trl')}; loads and seeds as in {PEER.name}.",
        *results.remarks(commit),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if has_met else 1


def _pair(number: int, setting: str, python: Path, out: Path) -> tuple[Side, Side]:
    """Run both sides, the other one first each time. Ours comes first in the pair."""
    sides: dict[str, Side] = {}
    for name in ("ours", "trl") if number % 2 else ("trl", "ours"):
        folder = out / f"{setting}-{number}-{name}"
        folder.mkdir()
        sides[name] = _ours(number, setting, folder) if name == "ours" else _trl(number, python, folder)
        sys.stdout.write(f"{folder.name}: {sides[name]}\n")
        sys.stdout.flush()
    return sides["ours"], sides["trl"]


def _ours(seed: int, setting: str, folder: Path) -> Side:
    settings = (f"seed={seed}", "name=ours", f"runs_dir={folder}", f"learner.filters.zero_variance={setting}")
    used = _measure([sys.executable, "-m", "tools.main", "up", str(RECIPE), "--plain", *settings], folder)
    metrics, group_size = list(read_metrics(folder / "ours")), _recipe().sampling.group_size
    steps = [(line["at"], line["groups"] * group_size) for line in metrics]
    rates = [
        (line["at"], float(found["pass_rate"])) for line in metrics for found in line.get("evaluations", ())
    ]
    return _side(used, steps, rates)


def _trl(seed: int, python: Path, folder: Path) -> Side:
    run, given = _recipe(), folder / "given.json"
    given.write_text(json.dumps(_for_peer(run, seed, folder)), encoding="utf-8")
    used = _measure([str(python), str(PEER), str(given)], folder)
    told = [json.loads(line) for line in (folder / "told.jsonl").read_text(encoding="utf-8").splitlines()]
    samples = run.learner.groups_per_step * run.sampling.group_size
    steps = [(line["at"], samples) for line in told if "step" in line]
    return _side(used, steps, [(line["at"], line["pass_rate"]) for line in told if "evaluated" in line])


def _recipe() -> Run:
    return load_run(["--config", str(RECIPE)])


def _for_peer(run: Run, seed: int, folder: Path) -> dict[str, Any]:
    """Return what the peer is given: the demo's own rows and sizes."""

    def rows(source: Any) -> list[dict[str, Any]]:
        problems: list[dict[str, Any]] = made_problems(source)[0]
        return [
            {"prompt": one["messages"], "answer": one["verification_info"]["answer"]["value"]}
            for one in problems
        ]

    return {
        "model": run.model.path,
        "rows": rows(run.data.train),
        "held_out": rows(run.data.held_out)[: run.evaluation.prompts],
        "samples": run.evaluation.samples,
        "every": run.evaluation.every,
        "prompts": run.learner.groups_per_step,
        "group": run.sampling.group_size,
        "steps": run.learner.steps,
        "lr": run.learner.optimizer.lr,
        "warmup_steps": run.learner.optimizer.warmup_steps,
        "max_tokens": run.sampling.max_tokens,
        "threads": 2,
        "seed": seed,
        "folder": str(folder / "trl"),
        "out": str(folder / "told.jsonl"),
    }


def _measure(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run a command to its end. Raises RuntimeError where it fails or hangs."""
    found, log = folder / "used.json", folder / "log.txt"
    words = [sys.executable, "-m", "benchmarks.proofs.trl.measured", str(found), str(AT_MOST_S), *command]
    with log.open("wb") as output:
        process = spawn(words, cwd=results.ROOT, stdout=output, stderr=output)
        try:
            wait(process, AT_MOST_S + GRACE_S)
        finally:
            code = stop(process, GRACE_S)
    if code or not found.exists():
        raise RuntimeError(f"{' '.join(command[:4])} ended with {code}: see {log}")
    used: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return used


def _side(
    used: dict[str, Any], steps: Sequence[tuple[float, int]], rates: Sequence[tuple[float, float]]
) -> Side:
    """Build a side from its steps (Unix time, completions trained on) and evaluations (Unix time, pass rate)."""
    began = used["began_at"]
    right = next((at - began for at, rate in rates if rate >= RIGHT), None)
    return Side(
        right_s=right,
        first_step_s=steps[0][0] - began,
        end_s=used["wall_s"],
        trained_per_s=sum(samples for _, samples in steps[1:]) / (steps[-1][0] - steps[0][0]),
        processor_s=used["processor_s"],
        memory_mb=used["memory_mb"],
        pass_rate=rates[-1][1],
    )


def _ratios(pairs: Sequence[tuple[Side, Side]], value: Callable[[Side], float | None]) -> list[float]:
    """Ours by TRL's, of the pairs in which both have the value."""
    both = [(value(ours), value(other)) for ours, other in pairs]
    return [ours / other for ours, other in both if ours is not None and other]


def _missed(pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    missed = []
    for what, _, value, less_is_better in ROWS:
        if what not in TARGETS:
            continue
        target, ratios = TARGETS[what], _ratios(pairs, value)
        ratio = median(ratios) if len(ratios) == len(pairs) else float("nan")
        if not (ratio <= target if less_is_better else ratio >= target):
            missed.append(
                f"{what} {ratio:.2f} of TRL's, wanted at {'most' if less_is_better else 'least'} {target}"
            )
    return missed


def _table(pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    """Write a row a value: both medians with their spread, and the ratio of the pairs with its 90% interval."""
    lines = [
        "| what | unit | Millrace | TRL | ours by TRL's | 90% of the median |",
        "|---|---|--:|--:|--:|---|",
    ]
    for what, unit, value, _ in ROWS:
        ratios = _ratios(pairs, value)
        low, high = median_interval(ratios) if ratios else (float("nan"), float("nan"))
        cells = [_spread([value(side[k]) for side in pairs]) for k in (0, 1)]
        ratio = f"{median(ratios):.2f}" if ratios else "none"
        lines.append(f"| {what} | {unit} | {cells[0]} | {cells[1]} | {ratio} | {low:.2f} to {high:.2f} |")
    return lines


def _spread(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "never"
    never = f", {len(values) - len(there)} never" if len(there) < len(values) else ""
    return f"{number_text(median(there))} ({number_text(min(there))} to {number_text(max(there))}{never})"


if __name__ == "__main__":
    sys.exit(main())
