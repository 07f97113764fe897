"""`make prove-metamorphic`: are references paid by what equals them, and by nothing else?

In: the templates, MATH-500 (`../shared/data/math500.jsonl`) where it is there, and every file of references that
`--references` names. Out: a table by shape and by rewrite; `--write` puts it at the end of benchmarks/RESULTS.md,
`--failures` every answer with another score than it has to have, `--unscorable` every reference that can't be read, one
JSON object a line. Exit code 0 if no wrong answer is paid, at most 0.2% of the right ones are refused and at most 2% of
the references are unscorable, 1 otherwise, 2 for a file without references.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from benchmarks import results
from benchmarks.proofs.metamorphic import templates
from benchmarks.proofs.metamorphic.references import NoReference, Reference, only, read
from benchmarks.proofs.metamorphic.scoring import RewriteVerdict, judge
from benchmarks.proofs.metamorphic.tally import VerdictTally
from config.scorer_kinds import MathConfig
from scorers.math.scorer import VERSION

MATH_500 = results.ROOT.parent / "shared" / "data" / "math500.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Score every rewrite of the references, show the table, and write it down if asked."""
    args = _arguments().parse_args(argv)
    commit = results.commit()
    heading = results.heading("References rewritten, through the math scorer")
    try:
        references = only(gathered(args), args.kind, args.limit)
    except NoReference as error:
        sys.stderr.write(f"{error}\n")
        return 2
    started = time.monotonic()
    tally = VerdictTally()
    with _lines(args.failures) as failures, _lines(args.unscorable) as unscorable:
        for verdicts in judge(
            references,
            jobs=args.jobs,
            seed=args.seed,
            rewrites=frozenset(args.rewrites),
            config=MathConfig(deadline_s=args.deadline),
        ):
            tally.add(verdicts)
            for verdict in verdicts:
                if verdict.is_paid or verdict.is_refused or verdict.is_not_scored:
                    _note(failures, verdict)
                if verdict.expected is None and verdict.is_unscorable:
                    _note(unscorable, verdict)
    table = tally.as_table(VERSION, seed=args.seed, took_s=time.monotonic() - started)
    lines = [*heading, *table, *results.remarks(commit)]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if tally.is_proven() else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.metamorphic",
        description="References rewritten, through the scorer.",
    )
    parser.add_argument(
        "--references",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON or JSONL, in MATH-500's place",
    )
    parser.add_argument("--key", help="where a row has its reference (found by itself)")
    parser.add_argument("--templates", type=int, default=1, metavar="N", help="drawings of each template (1)")
    parser.add_argument(
        "--kind", nargs="+", default=[], help="shapes, kinds of templates, or files' names: no others"
    )
    parser.add_argument(
        "--rewrites", nargs="+", default=[], metavar="NAME", help="these rewrites, and no others"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="so many references, evenly taken")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument(
        "--deadline",
        type=float,
        default=MathConfig().deadline_s,
        metavar="S",
        help="the scorer's deadline (its default): longer on a machine with other work",
    )
    parser.add_argument("--seed", type=int, default=0, help="of numbers and places (0)")
    parser.add_argument("--failures", type=Path, metavar="FILE", help="JSONL of each wrong score")
    parser.add_argument(
        "--unscorable", type=Path, metavar="FILE", help="JSONL of each reference that can't be read"
    )
    results.add_write(parser)
    return parser


def gathered(args: argparse.Namespace) -> list[Reference]:
    """Return the templates' references and those of the files, each text once. Raises NoReference."""
    found = [
        Reference(filled.reference, "templates", filled.kind, filled.right, filled.wrong)
        for drawing in range(args.templates)
        for number, template in enumerate(templates.read())
        for filled in (template.filled(random.Random(f"{args.seed} {drawing} {number}")),)  # noqa: S311 - no secret
    ]
    files = args.references or ([MATH_500] if MATH_500.exists() else [])
    for file in files:
        found += read(file, args.key)
    return [*{(one.text, one.wrong): one for one in found}.values()]


@contextlib.contextmanager
def _lines(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as stream:
        yield stream


def _note(stream: IO[str] | None, verdict: RewriteVerdict) -> None:
    """Write a verdict as one line, at once: a run takes an hour, and its readers don't wait."""
    if stream is None:
        return
    row = {
        "reference": verdict.reference.text,
        "answer": verdict.pair.answer,
        "rewrite": verdict.rewrite,
        "type": verdict.pair.row_type,
        "expected": verdict.expected,
        "verdict": verdict.value,
        "reason": verdict.reason,
        "shape": verdict.shape,
        "source": verdict.reference.kind or verdict.reference.source,
    }
    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
