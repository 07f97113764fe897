"""`make prove-chaos-demo`: does the demo learn while it is killed every 40 s?

In: seeds. Out: the demo undisturbed and the demo under chaos for each seed, one after the other, and a table of both:
held-out pass rates, trained tokens a second, audits, and how long each killed role took to be back; `--write` puts it
at the end of benchmarks/RESULTS.md. Exit code 0 if every disturbed run meets the learning bar with a clean audit, each
role was killed at least twice, and all of them together train at no less than 0.6 of the tokens a second of those that
nobody disturbed. Tokens, seconds and kills are counted from the first step to the last: a start is as long in both, and
would only bring them together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.proofs.demo_seeds import parse_seeds, run_seed
from benchmarks.rigs.groups import RECIPE
from benchmarks.rigs.seed_runs import BARS, Bars, SeedRun, read_seed_run
from broker.processes import spawn, stop, wait
from config.loading import load_run
from learner.journal.ledger import read_ledger
from tools.chaos.command import Chaos, as_object
from tools.chaos.monkey import Orders
from tools.runs.folder import held
from tools.up.console import PlainConsole
from tools.up.local_run import perform
from tools.up.role_commands import commands

EVERY_S = 40.0
AT_LEAST = 0.6  # of the undisturbed tokens a second
OFTEN = 2  # kills of each role, in all
TURNS = ("generator", "learner", "redis", "dispatcher", "scorer")
CALM = BARS["hf"]
# What a kill costs before the first step would be in no number: a machine that is too busy for one measures nothing.
STORM = Bars(at_most_s=900, first_step_within_s=EVERY_S, switched_in_flight=0)
GRACE_S = 60.0
COLUMNS = (
    "seed",
    "",
    "held-out, version 0",
    "held-out, final weights",
    "in all, s",
    "first to last step, s",
    "tokens/s",
    "of the undisturbed",
    "killed",
    "audit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One demo run, undisturbed or under chaos."""

    run: SeedRun
    tokens: int  # trained on after the first step
    trained_s: float  # from the first step to the last, as the ledger has their times
    kills: dict[str, int]  # by role, between these two steps
    chaos: dict[str, Any]  # what `millrace chaos --json` says; {} where nobody disturbed it

    @property
    def tokens_per_s(self) -> float:
        """The trained tokens a second, without the start."""
        return self.tokens / self.trained_s if self.trained_s else 0.0

    @property
    def fewest_kills(self) -> int:
        """The kills that a kill every EVERY_S seconds comes to."""
        return int(self.trained_s // EVERY_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Run every seed twice, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.chaos_demo", description="The demo under chaos."
    )
    parser.add_argument(
        "--seeds", type=parse_seeds, default="0-9", metavar="LIST", help="like 0-4 or 0,3,7 (0-9)"
    )
    results.add_out(parser, "chaos-demo")
    results.add_write(parser)
    parser.add_argument(
        "--storm", type=int, metavar="SEED", help=argparse.SUPPRESS
    )  # one disturbed run, by main
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    if args.storm is not None:
        return play(args.storm, out)
    out.mkdir(parents=True)
    commit = results.commit()
    heading = results.heading(f"The demo under chaos, a kill every {EVERY_S:.0f} s")
    pairs = []
    for seed in args.seeds:
        pairs.append((calm(seed, out), storm(seed, out)))
        sys.stdout.write(
            f"seed {seed}: {' and '.join(f'{one.tokens_per_s:.0f} tokens/s' for one in pairs[-1])}\n"
        )
        sys.stdout.flush()
    lines = [*heading, *as_table(pairs), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 1 if failures(pairs) or results.commit() != commit else 0


def calm(seed: int, out: Path) -> Beside:
    """Run the demo as a user starts it."""
    run = run_seed(seed, "hf", out)
    return beside(run, out / f"seed-{seed}", {})


def storm(seed: int, out: Path) -> Beside:
    """Run the demo under chaos in a process of its own: the supervisor listens to signals."""
    name = f"storm-{seed}"
    words = [sys.executable, "-m", "benchmarks.proofs.chaos_demo", "--storm", str(seed), "--out", str(out)]
    began_at, began = time.time(), time.monotonic()
    with (out / f"{name}.log").open("wb") as log:
        process = spawn(words, cwd=results.ROOT, stdout=log, stderr=log)
        try:
            wait(process, STORM.at_most_s)
        finally:
            code = stop(process, GRACE_S)
    seconds = time.monotonic() - began
    said = out / f"{name}.json"
    found: dict[str, Any] = json.loads(said.read_text(encoding="utf-8")) if said.exists() else {}
    run = read_seed_run(
        out / name,
        seed=seed,
        began_at=began_at,
        seconds=seconds,
        exit_code=code,
        is_audit_clean=found.get("is_clean", False),
    )
    return beside(run, out / name, found)


def play(seed: int, out: Path) -> int:
    """Run the demo under chaos once, and write the outcome beside its folder."""
    words = ["--config", str(RECIPE), f"seed={seed}", f"name=storm-{seed}", f"runs_dir={out}"]
    run = load_run(words)
    first = 2 * seed % len(TURNS)  # one kill a run, or two: ten seeds have them all twice
    orders = Orders(seconds=STORM.at_most_s, every_s=EVERY_S, seed=seed, turns=TURNS[first:] + TURNS[:first])
    back: list[tuple[str, float]] = []  # who was killed, and when, Unix seconds
    disturbed = Chaos(run, orders, on_back=lambda role, after_s: back.append((role, time.time() - after_s)))
    with held(run.folder):
        outcome = perform(run, commands(run, words), PlainConsole(), company=disturbed.company)
    found = {
        **as_object(run, disturbed, orders, outcome),
        "all_back_s": disturbed.monkey.returns.seconds,
        "killed_at": back,
        "is_clean": disturbed.audit is not None and disturbed.audit.is_clean,
    }
    (out / f"storm-{seed}.json").write_text(json.dumps(found), encoding="utf-8")
    return outcome.code


def beside(run: SeedRun, folder: Path, chaos: dict[str, Any]) -> Beside:
    """Read what a run trained, and how fast, from its ledger, which forgets no step in a crash."""
    journal = folder / "journal"
    steps = read_ledger(journal, strict=False).steps if journal.is_dir() else []
    first, last = (float(steps[0]["at"]), float(steps[-1]["at"])) if steps else (0.0, 0.0)
    kills = Counter(role for role, at in chaos.get("killed_at", ()) if first <= at <= last)
    return Beside(
        run=run,
        tokens=sum(int(step["tokens"]) for step in steps[1:]),
        trained_s=last - first,
        kills=dict(kills),
        chaos=chaos,
    )


def ratio(pairs: Sequence[tuple[Beside, Beside]]) -> float:
    """Return tokens a second under chaos, as a share of those without."""
    calm_rate, storm_rate = (
        sum(one.tokens for one in side) / max(sum(one.trained_s for one in side), 1e-9)
        for side in zip(*pairs, strict=True)
    )
    return storm_rate / calm_rate if calm_rate else 0.0


def failures(pairs: Sequence[tuple[Beside, Beside]]) -> list[str]:
    """List every bar that was missed, for people."""
    missed = [
        f"seed {calm_run.run.seed}, {kind}: {failure}"
        for calm_run, storm_run in pairs
        for kind, one, bars in (("undisturbed", calm_run, CALM), ("under chaos", storm_run, STORM))
        for failure in one.run.failures(bars)
    ]
    missed += [
        f"seed {disturbed.run.seed}: {sum(disturbed.kills.values())} kills, at least {disturbed.fewest_kills}"
        for _, disturbed in pairs
        if sum(disturbed.kills.values()) < disturbed.fewest_kills
    ]
    often = sum((Counter(disturbed.kills) for _, disturbed in pairs), Counter[str]())
    missed += [f"{role}: {often[role]} kills, at least {OFTEN}" for role in TURNS if often[role] < OFTEN]
    if (share := ratio(pairs)) < AT_LEAST:
        missed.append(f"{share:.2f} of the undisturbed tokens/s, at least {AT_LEAST}")
    return missed


def as_table(pairs: Sequence[tuple[Beside, Beside]]) -> list[str]:
    """Write the runs as lines of a Markdown table."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|--:|---|--:|--:|--:|--:|--:|--:|---|---|"]
    for pair in pairs:
        for kind, one in zip(("undisturbed", "under chaos"), pair, strict=True):
            kills = ", ".join(f"{number} x {role}" for role, number in one.kills.items())
            share = f"{ratio([pair]):.2f}" if one is pair[1] else "-"
            lines.append(
                f"| {one.run.seed} | {kind} | {_rate(one.run.before)} | {_rate(one.run.after)} "
                f"| {one.run.seconds:.0f} | {one.trained_s:.0f} | {one.tokens_per_s:.0f} | {share} "
                f"| {kills or '-'} | {'clean' if one.run.is_audit_clean else 'NOT clean'} |"
            )
    back: dict[str, list[float]] = {}
    for _, disturbed in pairs:
        for role, seconds in disturbed.chaos.get("all_back_s", {}).items():
            back.setdefault(role, []).extend(seconds)
    lines += [
        "",
        "| killed with -9 | times | back after, s: median | largest |",
        "|---|--:|--:|--:|",
        *(
            f"| {role} | {len(seconds)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |"
            for role, seconds in sorted(back.items())
        ),
    ]
    missed = failures(pairs)
    verdict = "NOT proven" if missed else "Proven"
    return [
        *lines,
        "",
        (
            f"**{verdict}**: {ratio(pairs):.2f} of the undisturbed tokens/s (at least {AT_LEAST}); every "
            f"run at least {STORM.at_least_after} held-out with the final weights, exit code 0, a clean "
            f"audit; each role killed at least {OFTEN} times between a first step and a last."
        ),
        *([""] if missed else []),
        *(f"- {line}" for line in missed),
    ]


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.3f}"


if __name__ == "__main__":
    sys.exit(main())
