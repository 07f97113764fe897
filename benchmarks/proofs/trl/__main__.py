"""`make prove-trl`: Millrace's demo beside TRL's GRPOTrainer, from the command to its end, in alternating pairs.

In: nothing, or a number of pairs. TRL's pinned version is installed in an environment of its own, which finds torch,
transformers and math-verify in Millrace's: both sides have the same builds of them. Out: medians of both sides and
of the pairs' ratios: wall time from the command to a held-out pass rate of 0.95 and to the end, samples a second,
processor seconds of all processes, and memory. `--write` puts them at the end of benchmarks/RESULTS.md. Exit code 0
if every run ended well and every target is met; a run that fails is named, and its pair is left out.

Both sides train the demo's model in float32 on the demo's problems: 60 steps of 16 prompts x 8 completions, with AdamW,
learning rate, warm-up, longest completion and masked cut completions of the recipe, rewards for boxed answers only, and
64 x 4 held-out completions at the start and every ten steps. The objective is each one's own. TRL trains on every
group, and stands still while it evaluates. Millrace trains on every group in one table, with `max_lag` 1, which is
nearest to TRL; in the other it is the demo as it is, which drops groups without variance.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results
from benchmarks.comparison import median_interval, number_text
from benchmarks.proofs.agents import interpreters
from benchmarks.proofs.agents.stage import Missing
from benchmarks.rigs.groups import RECIPE
from benchmarks.rigs.measured import CommandFailed, run_measured
from config.loading import load_run
from config.run import Run
from learner.data.row_shapes import made_problems
from learner.journal.ledger import read_ledger
from learner.reporting.metrics_file import read_metrics

PEER = Path(__file__).with_name("peer.py")
TRL = "trl==1.16.0"
PACKAGES = interpreters.Packages(named="trl", alone=(TRL,), behind=("millrace",))
SAME = (
    "torch",
    "transformers",
    "accelerate",
    "math-verify",
)  # which both sides have from Millrace's environment
COUNTED_FROM = (
    10  # the step behind which samples a second are counted: what was sampled ahead of step 1 counts nowhere
)
RIGHT = 0.95  # held-out pass rate
AT_MOST_S = 600.0
KEEP, DROP = "all groups train", "groups without variance are dropped"
SETTINGS = {KEEP: ("learner.filters.zero_variance=keep", "learner.max_lag=1"), DROP: ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run of one side. Seconds are from the command on."""

    right_s: float | None  # to the first held-out pass rate of at least RIGHT
    first_step_s: float
    end_s: float
    trained_per_s: (
        float  # completions of trained groups, from the end of step COUNTED_FROM to that of the last
    )
    processor_s: float
    memory_mb: float
    pass_rate: float  # the last one


ROWS: tuple[tuple[str, str, Callable[[Side], float | None], bool], ...] = (
    (f"command to a held-out {RIGHT}", "s", lambda side: side.right_s, True),
    ("command to the end of the first step", "s", lambda side: side.first_step_s, True),
    ("command to the end", "s", lambda side: side.end_s, True),
    ("trained samples a second, evaluations included", "1/s", lambda side: side.trained_per_s, False),
    ("processor seconds", "s", lambda side: side.processor_s, True),
    ("memory of all processes", "MiB", lambda side: side.memory_mb, True),
    ("last held-out pass rate", "", lambda side: side.pass_rate, False),
)
TARGETS = {ROWS[0][0]: 0.7, ROWS[3][0]: 1.4}  # ours by TRL's, where all groups train


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pairs, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proofs.trl", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="pairs of each kind (5)")
    results.add_out(parser, "trl")
    parser.add_argument(
        "--env", type=Path, default=Path("runs") / TRL, help=f"TRL's environment (runs/{TRL})"
    )
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True)
    commit = results.commit()
    lines = results.heading(f"The demo beside TRL, {args.pairs} pairs")
    try:
        python = interpreters.make(args.env.absolute(), PACKAGES, {"millrace": Path(sys.executable)})
    except Missing as error:
        sys.stdout.write(f"TRL can't be installed: {error}\n")
        return 1
    has_met = args.pairs > 0
    for title in SETTINGS:
        pairs = [pair for number in range(args.pairs) if (pair := _pair(number, title, python, out))]
        has_met &= len(pairs) == args.pairs
        lines += ["", f"**{title[0].upper()}{title[1:]}** (TRL trains on all), {len(pairs)} pairs", ""]
        lines += _table(pairs) if pairs else ["No pair ended."]
        if title == KEEP and pairs:
            missed = _missed(pairs)
            has_met &= not missed
            lines += ["", f"Targets missed: {'; '.join(missed)}." if missed else "Both targets are met."]
    same = ", ".join(f"{name} {interpreters.version(python, name)}" for name in SAME)
    lines += ["", f"TRL {interpreters.version(python, 'trl')}; both sides: {same}.", *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if has_met else 1


def _pair(number: int, title: str, python: Path, out: Path) -> tuple[Side, Side] | None:
    """Run both sides, the other one first each time. Ours comes first in the pair; None: a run failed."""
    sides: dict[str, Side] = {}
    for name in ("ours", "trl") if number % 2 else ("trl", "ours"):
        folder = out / f"{title.replace(' ', '-')}-{number}-{name}"
        folder.mkdir()
        try:
            sides[name] = _ours(number, title, folder) if name == "ours" else _trl(number, python, folder)
        except CommandFailed as error:
            sys.stdout.write(f"{folder.name}: {error}\n")
            return None
        sys.stdout.write(f"{folder.name}: {sides[name]}\n")
        sys.stdout.flush()
    return sides["ours"], sides["trl"]


def _ours(seed: int, title: str, folder: Path) -> Side:
    settings = (f"seed={seed}", "name=ours", f"runs_dir={folder}", *SETTINGS[title])
    used = run_measured(
        [sys.executable, "-m", "tools.main", "up", str(RECIPE), "--plain", *settings],
        folder,
        at_most_s=AT_MOST_S,
    )
    group_size, ledger = _recipe().sampling.group_size, read_ledger(folder / "ours" / "journal")
    steps = [(line["at"], line["groups"] * group_size) for line in read_metrics(folder / "ours")]
    rates = [(float(found["at"]), found["pass_rate"]) for _, found in sorted(ledger.evaluations.items())]
    return _side(used, steps, [(at, float(rate)) for at, rate in rates if rate is not None])


def _trl(seed: int, python: Path, folder: Path) -> Side:
    run, given = _recipe(), folder / "given.json"
    given.write_text(json.dumps(_for_peer(run, seed, folder)), encoding="utf-8")
    used = run_measured([str(python), str(PEER), str(given)], folder, at_most_s=AT_MOST_S)
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
        "optimizer": {
            "learning_rate": run.learner.optimizer.lr,
            "warmup_steps": run.learner.optimizer.warmup_steps,
            "adam_beta1": run.learner.optimizer.betas[0],
            "adam_beta2": run.learner.optimizer.betas[1],
            "adam_epsilon": run.learner.optimizer.eps,
            "weight_decay": run.learner.optimizer.weight_decay,
            "max_grad_norm": run.learner.optimizer.grad_clip,
        },
        "max_tokens": run.sampling.max_tokens,
        "threads": 2,
        "seed": seed,
        "folder": str(folder / "trl"),
        "out": str(folder / "told.jsonl"),
    }


def _side(
    used: dict[str, Any], steps: Sequence[tuple[float, int]], rates: Sequence[tuple[float, float]]
) -> Side:
    """Build a side from its steps (Unix time, completions trained on) and evaluations (Unix time, pass rate)."""
    began, counted = used["began_at"], steps[COUNTED_FROM - 1 :]
    right = next((at - began for at, rate in rates if rate >= RIGHT), None)
    return Side(
        right_s=right,
        first_step_s=steps[0][0] - began,
        end_s=used["wall_s"],
        trained_per_s=sum(samples for _, samples in counted[1:]) / (counted[-1][0] - counted[0][0]),
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
        if len(ratios) < len(pairs):
            never = sum(value(ours) is None for ours, _ in pairs)
            missed.append(
                f"{what}: never in {never} runs of ours and {len(pairs) - len(ratios) - never} of TRL's alone"
            )
            continue
        ratio = median(ratios)
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
