"""`python -m benchmarks.rigs.episodes.beside_tree TREE`: single-turn groups of this checkout beside those of another.

In: another checkout of the project. Out: completions' tokens a processor second of generator and Redis, of both, in
alternating rounds, and the 90% interval of the ratio's median. The demo's model on its engine; each side has a Redis
and a generator of its own, and both get the same prompts. Run by hand, after a change of what all runs go through.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from benchmarks.comparison import Comparison, TimedWork, as_table, median_interval, take_turns
from benchmarks.results import ROOT
from benchmarks.rigs.episodes.process_rig import ProcessRig, process_rig
from benchmarks.rigs.groups import demo_prompts, demo_run
from broker.codec import encode_prompt
from broker.messages import Prompt
from broker.protocol.run_owner import NewGroup
from config.run import Run

BAR = 0.98
RUN = "from benchmarks.rigs.groups import demo_run as run; from config.loading import to_yaml as text"


def main() -> int:
    """Compare two checkouts. Returns 0 where the interval reaches the bar."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rigs.episodes.beside_tree", description=__doc__
    )
    parser.add_argument("tree", type=Path, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=15, help="rounds of each side")
    parser.add_argument("--groups", type=int, default=1200, help="of a round")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rigs, run = [], demo_run(Path(folder))
        for name, tree in (("ours", ROOT), ("other", args.tree.resolve())):
            run = _run(Path(folder), name)
            weights = Path(folder) / name / "v0" / "model.safetensors"
            weights.parent.mkdir(parents=True)
            shutil.copy(Path(run.model.path) / "model.safetensors", weights)
            rig = process_rig(
                run, generators=1, weights=weights, tree=tree, config=_config(tree, Path(folder), name)
            )
            rigs.append(stack.enter_context(rig))
        prompts = demo_prompts(run, args.groups * (args.pairs + 1))
        ours, other = take_turns(
            lambda number: _played(rigs[0], prompts, number, args.groups),
            lambda number: _played(rigs[1], prompts, number, args.groups),
            rounds=args.pairs,
        )
    compared = Comparison(
        what=f"sample {args.groups} groups of {run.sampling.group_size}",
        unit="tokens a processor second",
        ours=[turn.rate for turn in ours],
        beside=str(args.tree),
        other=[turn.rate for turn in other],
    )
    low, high = median_interval(compared.ratios)
    verdict = f"median {median(compared.ratios):.3f}, 90% interval {low:.3f} to {high:.3f}, bar {BAR}"
    sys.stdout.write("\n".join([*as_table([compared]), "", verdict, ""]))
    return int(high < BAR)


def _run(folder: Path, name: str) -> Run:
    return demo_run(folder, name=name)


def _config(tree: Path, folder: Path, name: str) -> str:
    """Return the run's configuration as a checkout writes it: each refuses keys that it does not know."""
    program = f"import pathlib; {RUN}; print(text(run(pathlib.Path({str(folder)!r}), name={name!r})))"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout


def _played(rig: ProcessRig, prompts: list[Prompt], number: int, groups: int) -> TimedWork:
    def group_of(group_id: str) -> NewGroup:
        prompt = prompts[number * groups + int(group_id) % groups]
        return NewGroup(group_id, encode_prompt(replace(prompt, group_id=group_id)))

    done = rig.play(groups, group_of)
    return TimedWork(done.tokens, done.spent.total)


if __name__ == "__main__":
    sys.exit(main())
