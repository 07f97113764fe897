"""`python -m benchmarks.proofs.walks TREE ...`: how many files the data and the start walk through, in each checkout.

In: checkouts, each with `.venv` in it. Out: a table. A short run of the demo's recipe is traced by `sys.setprofile` in
the learner and in a generator: which file each called function of the product is in (comprehensions and class bodies
count for the function or module that they are in). Counted are

- a scored group, from the call that reads the stream to the call that puts it into the buffer, in files of learner/:
  the smallest of the reads that returned one group which is held;
- the learner's start, from `main` to the training loop, in files of learner/: changes of file;
- a version of the weights, from the load of the one before to the
  engine's call that loads it, in files of generators/weight_sync/ and broker/weight_*.

A return is a call into a file that the walk had left. `--write` puts the table at the end of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path

from benchmarks import results
from benchmarks.rigs import traced
from benchmarks.rigs.traced import CALLS

RECIPE = "config/recipes/demo_cpu.yaml"
TRACED = ("learner", "generators")
SETTINGS = ("learner.steps=4", "evaluation.every=2")
AT_MOST_S = 300.0

Call = Sequence[str]  # file, qualified name
Walk = Sequence[str]  # files, no two equal ones in a row


def main(argv: Sequence[str] | None = None) -> int:
    """Trace each checkout, and show the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proofs.walks", description=__doc__)
    parser.add_argument("trees", type=Path, nargs="+", help="checkouts, each with .venv")
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    lines = results.heading("Walks through files")
    lines += ["| what | " + " | ".join(results.commit_of(tree.absolute()) for tree in args.trees) + " |"]
    lines += ["|---|" + "--:|" * len(args.trees)]
    traces = [_trace(tree.absolute()) for tree in args.trees]
    group, start, weights = (
        [walk(calls) for calls in traces] for walk in (_of_a_group, _of_the_start, _of_weights)
    )
    for what, cells in (
        ("a scored group, stream to buffer: files", [len(set(walk)) for walk in group]),
        ("the same: returns", [_returns(walk) for walk in group]),
        ("the learner's start: changes of file", [len(walk) - 1 for walk in start]),
        ("a version of the weights: files", [len(set(walk)) for walk in weights]),
        ("the same: returns", [_returns(walk) for walk in weights]),
    ):
        lines.append(f"| {what} | " + " | ".join(map(str, cells)) + " |")
    for tree, walk in zip(args.trees, group, strict=True):
        lines += ["", f"- {results.commit_of(tree.absolute())}, the group: {', '.join(walk)}"]
    lines += results.remarks(commit)
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0


def _trace(tree: Path) -> dict[str, list[Call]]:
    """Run the demo's recipe for a few steps in a checkout. Returns the calls of learner and generator."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = [*SETTINGS, "name=walk", f"runs_dir={folder}"]
        learner = _start(tree, folder, "learner", "--config", RECIPE, *run)
        deadline = time.monotonic() + AT_MOST_S
        while not (folder / "walk/journal").exists() and learner.poll() is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"{tree}: the learner has no journal after {AT_MOST_S:.0f} s")
            time.sleep(0.1)
        joins = ("--run", "walk", "--runs-dir", str(folder))
        roles = {
            "learner": learner,
            **{role: _start(tree, folder, role, *joins) for role in ("generators", "scorers")},
        }
        for role, process in roles.items():
            if process.wait(AT_MOST_S) != 0:
                raise SystemExit(f"{tree}: {role} failed:\n{(folder / f'{role}.log').read_text()}")
        return {role: json.loads((folder / CALLS.format(role)).read_text()) for role in TRACED}


def _start(tree: Path, folder: Path, role: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a role of a checkout, traced unless its work is done in other processes."""
    begin = [str(Path(traced.__file__)), str(tree), str(folder), role] if role in TRACED else ["-m", role]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    environment.pop("REDIS_URL", None)
    with (folder / f"{role}.log").open("w") as log:
        return subprocess.Popen(
            [str(tree / ".venv/bin/python"), *begin, *words],
            cwd=tree,
            env=environment,
            stdout=log,
            stderr=log,
        )


def _of_a_group(calls: Mapping[str, Sequence[Call]]) -> Walk:
    walks = []
    learner = calls["learner"]
    starts = [place for place, (_, name) in enumerate(learner) if name.endswith("Intake.read")]
    for start, end in pairwise([*starts, len(learner)]):
        names = [name for _, name in learner[start:end]]
        added = [place for place, name in enumerate(names) if name.endswith("GroupBuffer.add")]
        if names.count("decode_scored") == 1 and added and added[0] > names.index("decode_scored"):
            walks.append(_walk(learner[start : start + added[0] + 1], "learner/"))
    if not walks:
        raise SystemExit("no read returned one group: more steps are needed")
    return min(walks, key=len)


def _of_the_start(calls: Mapping[str, Sequence[Call]]) -> Walk:
    names = [name for _, name in calls["learner"]]
    return _walk(calls["learner"][: names.index("TrainingLoop.train")], "learner/")


def _of_weights(calls: Mapping[str, Sequence[Call]]) -> Walk:
    """Return the walk of the last version: from the end of the load before it."""
    generator = calls["generators"]
    loads = [place for place, (_, name) in enumerate(generator) if name.endswith("Engine.load_weights")]
    return _walk(generator[loads[-2] + 1 : loads[-1] + 1], "generators/weight_sync/", "broker/weight_")


def _walk(calls: Sequence[Call], *under: str) -> Walk:
    return [file for file, _ in groupby(file for file, _ in calls if file.startswith(under))]


def _returns(walk: Walk) -> int:
    return len(walk) - len(set(walk))


if __name__ == "__main__":
    sys.exit(main())
