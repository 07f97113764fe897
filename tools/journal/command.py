"""`millrace journal ls|show|export RUN`: the words, and which of the three they mean.

In: the command's words. Out: its exit code: 0 done, 1 not or not all, 2 wrong words. Needs no Redis; `ls` loads nothing
heavy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from broker.private_redis.server import folder_of
from config.run_names import run_name
from tools.journal.replay import parse_steps


def main(words: Sequence[str]) -> int:
    """Parse and run. Raises what the three raise."""
    args = _parser().parse_args(words)
    folder = folder_of(args.run, args.runs_dir)
    if args.verb == "export":
        from tools.journal.export import export

        return export(folder, args.out, args.steps)
    from tools.journal import show as journal_show

    if args.verb == "ls":
        return journal_show.list_steps(folder)
    return (
        journal_show.show_step(folder, args.step)
        if args.group is None
        else journal_show.show_group(folder, args.group)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace journal", description="What a run trained on, from its journal."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="ls|show|export")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("run", type=run_name, metavar="RUN")
    common.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )
    verbs.add_parser("ls", parents=[common], help="a line a step")
    show = verbs.add_parser("show", parents=[common], help="prompt, answers, scores, rewards, advantages")
    which = show.add_mutually_exclusive_group(required=True)
    which.add_argument("--step", type=int, metavar="N", help="every group of this step")
    which.add_argument("--group", metavar="ID", help="this group")
    export = verbs.add_parser("export", parents=[common], help="one line a completion")
    export.add_argument("--out", type=Path, required=True, metavar="FILE", help="FILE.jsonl or FILE.parquet")
    export.add_argument("--steps", type=parse_steps, metavar="A-B", help="these steps only (all)")
    return parser
