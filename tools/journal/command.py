"""`millrace journal ls|show|export RUN`: parse the arguments, and call one of the three.

In: the command's arguments. Out: its exit code: 0 done, 1 not or not all, 2 wrong usage. Needs no Redis; `ls` loads
nothing heavy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from broker.messages import ScoreStatus
from broker.private_redis.server import folder_of
from tools.arguments import add_run, add_runs_dir, add_steps, parse_step

SUBVERBS = {
    "ls": "a line a step",
    "show": "prompt, answers, scores, rewards, advantages",
    "export": "one line a completion",
}

OUTCOMES = ("trained", "dropped", "evaluated", "collected")
STATUSES = tuple(str(status) for status in ScoreStatus)

EXAMPLES = {
    "ls": "millrace journal ls demo",
    "show": "millrace journal show demo --step 3",
    "export": "millrace journal export demo --out wrong.parquet --steps 10-20 --max-score 0",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace journal ls|show|export`."""
    add_run(parser)
    add_runs_dir(parser)
    match parser.get_default("subverb"):
        case "show":
            which = parser.add_mutually_exclusive_group(required=True)
            which.add_argument(
                "--step", type=parse_step, metavar="N", help="every group of this step, counted from 1"
            )
            which.add_argument("--group", metavar="ID", help="this group")
        case "export":
            parser.add_argument(
                "--out", type=Path, required=True, metavar="FILE", help="FILE.jsonl or FILE.parquet"
            )
            add_steps(parser, "these steps only, counted from 1 (all)")
            parser.add_argument(
                "--outcome",
                nargs="+",
                choices=OUTCOMES,
                default=("trained",),
                help="what became of them (trained); dropped and evaluated ones are kept for a while, and "
                "collected ones are those of a run that trains on nothing",
            )
            parser.add_argument("--task", nargs="+", metavar="NAME", help="these tasks only (all)")
            parser.add_argument("--source", nargs="+", metavar="NAME", help="these data sources only (all)")
            parser.add_argument("--status", choices=STATUSES, help="completions of this status only (all)")
            parser.add_argument("--min-score", type=float, metavar="X", help="scores of at least X only")
            parser.add_argument("--max-score", type=float, metavar="X", help="scores of at most X only")


def run(options: argparse.Namespace) -> int:
    """List, show or export. Raises the errors of these three."""
    folder = folder_of(options.run, options.runs_dir)
    if options.subverb == "export":
        from tools.journal.export import Wanted, export

        wanted = Wanted(
            outcomes=tuple(options.outcome),
            tasks=options.task,
            sources=options.source,
            status=options.status,
            min_score=options.min_score,
            max_score=options.max_score,
        )
        return export(folder, options.out, options.steps, wanted)
    from tools.journal import show as journal_show

    if options.subverb == "ls":
        return journal_show.list_steps(folder)
    return (
        journal_show.show_step(folder, options.step)
        if options.group is None
        else journal_show.show_group(folder, options.group)
    )
