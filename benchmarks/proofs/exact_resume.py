"""`make prove-resume`: is a learner that was killed the one that was not?

In: nothing but a seed. Out: for one and two ranks, ZeRO 0 and 2, a run whose learner is killed with -9 again and again:
before every line of its loop, down to the journal's writes and the publication of weights, and of its recovery (dealt
out among the runs) and at random moments; then its journal trained once more without an interruption, and the weights
of every version compared bit for bit. `--write` puts the table at the end of benchmarks/RESULTS.md. Exit code 0 if all
are identical, nothing is lost and nothing twice, there was a death for every place and moment, and the
checkout is still the same.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.rigs.killed_learner import lines_of
from benchmarks.rigs.resumed_run import WHILE_STARTING, WHILE_TRAINING, ResumedRunResult, resumed_run

CASES = ((1, 0), (1, 2), (2, 0), (2, 2))  # ranks, ZeRO stage
FEWEST = 10  # deaths of each
COLUMNS = (
    "ranks",
    "ZeRO",
    "steps",
    "killed before a line",
    "at a random moment",
    "trained again",
    "lost",
    "twice",
    "steps with identical weights",
    "never published",
    "s",
    "verdict",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run every case, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.exact_resume", description="Kill, resume, compare."
    )
    parser.add_argument("--moments", type=int, default=4, metavar="N", help="random moments of each run (4)")
    parser.add_argument(
        "--steps", type=int, default=100, metavar="N", help="optimizer steps of each run (100)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="K", help="of the runs, and of when they are killed (0)"
    )
    results.add_out(parser, "resume")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True)
    commit = results.commit()
    lines = results.heading(f"A learner killed and resumed, seed {args.seed}")
    deaths = plan(args.moments, args.seed)
    done: list[tuple[ResumedRunResult, float]] = []
    for (ranks, stage), places in zip(CASES, deaths, strict=True):
        began = time.monotonic()
        result = resumed_run(
            out, ranks=ranks, zero_stage=stage, steps=args.steps, deaths=places, seed=args.seed
        )
        done.append((result, time.monotonic() - began))
        sys.stdout.write(
            f"ranks {ranks}, ZeRO {stage}: {result.verdict}, {len(result.deaths)} kills, "
            f"{done[-1][1]:.0f} s\n"
        )
        sys.stdout.flush()
    lines += [*as_table(done), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 1 if failures([result for result, _ in done]) or results.commit() != commit else 0


def places() -> list[str]:
    """List every line of the learner's loop, of writing a step and publishing its weights, and of a recovery."""
    return [
        *lines_of("trainer", "train", loop=True),
        *lines_of("trainer", "_step", "_publish_behind", "_after_step", "_save"),
        *lines_of("journal/writer", "append", "_write"),
        *lines_of("journal/payloads", "append"),
        *lines_of("weight_sync/publisher", "begin", "_put", "_announce"),
        *lines_of("groups/retirement", "__call__"),
        *lines_of("weight_sync/filesystem", "put"),
        *lines_of("resume/recovery", "recover", loop=True),
        *lines_of("resume/recovery", "_bring_together"),
    ]


def plan(moments: int, seed: int) -> list[list[str]]:
    """Decide where each case's learner dies, in order: every place once in one case, random moments in all."""
    choose = random.Random(seed)  # noqa: S311 - when to kill
    deck = places()
    choose.shuffle(deck)
    dealt = [
        deck[case :: len(CASES)] + [(WHILE_TRAINING, WHILE_STARTING)[i % 2] for i in range(moments)]
        for case in range(len(CASES))
    ]
    for hand in dealt:
        choose.shuffle(hand)
    return dealt


def failures(done: Sequence[ResumedRunResult]) -> list[str]:
    """List all that is wrong, for people."""
    missed = [
        f"ranks {result.ranks}, ZeRO {result.zero_stage}: {result.verdict.splitlines()[0]}"
        for result in done
        if result.verdict != "pass"
    ]
    missed += [
        f"ranks {result.ranks}, ZeRO {result.zero_stage}: {len(result.deaths)} deaths, at least {FEWEST}"
        for result in done
        if len(result.deaths) < FEWEST
    ]
    if (died := sum(map(_at_lines, done))) < len(places()):
        missed.append(f"died before {died} of {len(places())} lines")
    return missed


def _at_lines(result: ResumedRunResult) -> int:
    return sum(death.startswith("before ") for death in result.deaths)


def as_table(done: Sequence[tuple[ResumedRunResult, float]]) -> list[str]:
    """Write the cases as lines of a Markdown table, each with where its learner died."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'--:|' * (len(COLUMNS) - 1)}---|"]
    for result, seconds in done:
        at_lines = _at_lines(result)
        cells = (
            result.ranks,
            result.zero_stage,
            result.steps,
            at_lines,
            len(result.deaths) - at_lines,
            result.again,
            result.lost,
            result.twice,
            f"{result.identical} of {result.steps}",
            result.unpublished,
            f"{seconds:.0f}",
            result.verdict,
        )
        lines.append(f"| {' | '.join(str(cell).splitlines()[0] for cell in cells)} |")
    missed = failures([result for result, _ in done])
    lines += [
        "",
        (
            f"**{'NOT proven' if missed else 'Proven'}**: nothing lost, nothing twice, the same weights; at "
            f"least {FEWEST} deaths a row, and together one before each of the {len(places())} lines of the "
            "learner's loop and of its recovery. Each row is a run of the demo's model with a reference, an "
            "adaptive coefficient, a generator and a scorer. Its journal is then trained again in fresh "
            "processes by `millrace replay`, from version 0 and without an interruption. A version whose step "
            "stood when the learner was killed and that was not published yet has nothing to be compared with."
        ),
        "",
        *(f"- {failure}" for failure in missed),
    ]
    lines += [
        f"- ranks {result.ranks}, ZeRO {result.zero_stage}, killed: {'; '.join(result.deaths)}"
        for result, _ in done
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
