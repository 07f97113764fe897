"""`make prove-first-row`: how soon does a program have the score of its first row?

In: an older commit of this repository, and a number of rounds. Out: a fresh interpreter that imports `score` and prints
the score of one math row, at this checkout and at the older commit, in turns: medians with their spread of the seconds
from its start to the printed score, and of the processor seconds of all its processes, its end included; `--write` puts
them at the end of benchmarks/RESULTS.md. Exit code 0 if every score is right and the median is at most `AT_MOST_S`.
The older commit is checked out for the time of the proof alone, and runs on the same interpreter and libraries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks import results
from benchmarks.comparison import Comparison, as_table

AT_MOST_S = 0.8
OLDER = "6e27d495"
SLOWEST_S = 120.0  # for one program
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from scorers import score
found = score("so it is \\\\boxed{72}", {"type": "math", "answer": {"value": "72"}})
import time
print(found.value, time.monotonic())
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rounds, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.first_row", description="The first row of a program."
    )
    parser.add_argument("--beside", default=OLDER, metavar="COMMIT", help=f"the older one ({OLDER})")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of each side (15)")
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    lines = results.heading("The first row of a program")
    with checkout(args.beside) as older:
        first_row(results.ROOT), first_row(older)  # both have their bytecode then
        rounds = [_round(number, older) for number in range(args.rounds)]
    found = [
        Comparison(
            what=what,
            unit="s",
            ours=[ours[place] for ours, _ in rounds],
            beside=args.beside,
            other=[other[place] for _, other in rounds],
            less_is_better=True,
        )
        for place, what in enumerate(("to the score of the first row", "processor time of all processes"))
    ]
    seconds = median(found[0].ours)
    holds = seconds <= AT_MOST_S
    verdict = f"**{'Holds' if holds else 'Does not hold'}**: {seconds:.2f} s, wanted at most {AT_MOST_S} s."
    lines += [*as_table(found), "", verdict, *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if holds else 1


def _round(number: int, older: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Run both sides, the other one first each time; ours comes first in what is returned."""
    if number % 2:
        other = first_row(older)
        return first_row(results.ROOT), other
    return first_row(results.ROOT), first_row(older)


def first_row(folder: Path) -> tuple[float, float]:
    """Run the program with the packages of a checkout. Returns seconds to its score, and processor seconds in all.

    Raises:
        RuntimeError: it failed, or the score is wrong.
    """
    before, began = os.times(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(folder)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=SLOWEST_S,
    )
    after = os.times()
    value, _, at = done.stdout.partition(" ")
    if done.returncode or value != "1.0":
        raise RuntimeError(f"the program at {folder} ended with {done.returncode} and said {done.stdout!r}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return float(at) - began, used


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out beside this one for a while. Raises CalledProcessError where there is no such commit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "older"
        git = ("git", "-C", str(results.ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), commit], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


if __name__ == "__main__":
    sys.exit(main())
