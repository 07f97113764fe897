"""`make prove-demo`, `make prove-demo-agents`: does a demo learn, whatever the seed?

In: seeds, and an engine or the demo of the agents. Out: `millrace up` for each, one after the other, and a table of
what each run's folder says in the end; `--write` puts it at the end of benchmarks/RESULTS.md. A long proof, run by
whoever changes what the demo stands on. Exit code 0 if at least 9 of 10 runs meet every bar, of the agents' demo all,
else 1. A run that fails or hangs is a row that says so.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from benchmarks import results
from benchmarks.rigs.groups import RECIPE
from benchmarks.rigs.seed_runs import BARS, SeedRun, as_table, enough_pass, read_seed_run
from broker.processes import spawn, stop, wait

# The Makefile's ENGINE_hf and ENGINE_vllm; a test compares them.
ENGINES: dict[str, tuple[str, ...]] = {
    "hf": (),
    "vllm": (
        "generators.engine.type=vllm",
        "generators.engine.kv_cache_mb=256",
        "generators.engine.enforce_eager=true",
    ),
}
AGENTS_RECIPE = RECIPE.with_name("demo_agents.yaml")
PATIENCE = 3  # times the bar on a run's time: then it hangs, and is ended
GRACE_S = 20.0  # between asking it to end and SIGKILL; `millrace up` leaves no process behind even then


def main(argv: Sequence[str] | None = None) -> int:
    """Run every seed, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.demo_seeds", description="The demo, seed after seed."
    )
    parser.add_argument(
        "--seeds", type=parse_seeds, default="0-9", metavar="LIST", help="like 0-9 or 0,3,7 (0-9)"
    )
    parser.add_argument("--engine", choices=ENGINES, default="hf", help="what samples (hf)")
    parser.add_argument("--agents", action="store_true", help="the demo of the agents, in its place")
    results.add_out(parser, "seeds")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        parser.error(f"--out {out}: exists; runs are never mixed with older ones, name a new folder")
    count = f"{len(args.seeds)} seed{'s' if len(args.seeds) > 1 else ''}"
    commit = results.commit()
    what = (
        f"The demo of the agents, {count}"
        if args.agents
        else f"The demo with the engine {args.engine}, {count}"
    )
    heading = results.heading(what)
    bars = BARS["agents" if args.agents else args.engine]
    recipe = AGENTS_RECIPE if args.agents else RECIPE
    runs = []
    for seed in args.seeds:
        try:
            runs.append(run_seed(seed, args.engine, out, recipe=recipe, at_most_s=bars.at_most_s))
        except KeyboardInterrupt:
            sys.stdout.write(f"interrupted in seed {seed}; what there is lies in {out}\n")
            return 130
        sys.stdout.write(f"seed {seed}: {runs[-1].verdict(bars)}, {runs[-1].seconds:.0f} s\n")
        sys.stdout.flush()
    lines = [*heading, *as_table(runs, bars), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if enough_pass(runs, bars) else 1


def parse_seeds(text: str) -> list[int]:
    """Read `0-9`, `0,3,7` or both. Raises ArgumentTypeError for anything else, no seed, or one named twice."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of seeds; write 0-9 or 0,3,7")
    ranges = [part.partition("-") for part in text.split(",")]
    seeds = [seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1)]
    if not seeds or len(set(seeds)) != len(seeds):
        raise argparse.ArgumentTypeError(f"{text!r} names no seed, or one twice")
    return seeds


def run_seed(
    seed: int,
    engine: str,
    out: Path,
    *,
    name: str | None = None,
    settings: Sequence[str] = (),
    recipe: Path = RECIPE,
    at_most_s: float | None = None,
) -> SeedRun:
    """Run one seed as a user starts it, and audit it. What it prints is kept beside its folder.

    Args:
        seed: of the run.
        engine: what samples.
        out: folder of the runs.
        name: of the run; None: by its seed.
        settings: words of the command line besides.
        recipe: which demo it is.
        at_most_s: the bar on its time; None: the engine's.
    """
    name = name or f"seed-{seed}"
    command = [
        *_millrace("up"),
        str(recipe),
        "--plain",
        f"seed={seed}",
        f"name={name}",
        f"runs_dir={out}",
        *ENGINES[engine],
        *settings,
    ]
    with (out / f"{name}.log").open("wb") as log:
        began_at, began = time.time(), time.monotonic()
        exit_code = _run(command, log, timeout_s=PATIENCE * (at_most_s or BARS[engine].at_most_s))
        seconds = time.monotonic() - began
        audit_code = _run([*_millrace("audit"), name, "--runs-dir", str(out), "--json"], log, timeout_s=60.0)
    return read_seed_run(
        out / name,
        seed=seed,
        began_at=began_at,
        seconds=seconds,
        exit_code=exit_code,
        is_audit_clean=audit_code == 0,
    )


def _millrace(verb: str) -> list[str]:
    return [sys.executable, "-m", "tools.main", verb]


def _run(command: Sequence[str], output: IO[bytes], *, timeout_s: float) -> int:
    """Run a command and return its exit code. Ctrl-C, or the end of its time, asks the command to end."""
    process = spawn(command, cwd=results.ROOT, stdout=output, stderr=output)
    try:
        wait(process, timeout_s)
    finally:
        exit_code = stop(process, GRACE_S)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
