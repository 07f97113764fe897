"""`millrace data check CONFIG`: read, route, tokenize and test every row of the data before a run.

In: a run's configuration. Out: a table of rows by data source, and a file of the unusable rows, each with the reason.
The gold test scores each row's own reference, which must be right, and tries answers without work on rows with tests,
which must fail. Exit code: 0 every row is usable; 1 some are not, or a source can't be read; 2 an invalid
configuration.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

from broker.errors import PipelineError
from config.loading import load_run
from tools.arguments import add_config, add_json, given_config
from tools.data.survey import SourceCounts, SourceSurvey, survey
from tools.printable import aligned

SUBVERBS: Final = {"check": "read, route, tokenize and test every row; say which can't be used, and why"}
EXAMPLES: Final = {"check": "millrace data check config/recipes/demo_cpu.yaml"}
EPILOG: Final = (
    "A row that is too long, repeated, untested or also trained on is counted, and so is one of which reading has "
    "changed a value, with the value; a row that can't be used is written to FILE too. Exit code: 0 every row can be "
    "used; 1 some can't, or a source can't be read; 2 a configuration that can't be used."
)
SHOWN: Final = 3  # quarantined rows printed per source
REASON_CHARS: Final = 300  # of the reasons why rows could not be tested
CHANGES_SHOWN: Final = 100  # values that reading has changed
ALWAYS: Final = ("rows", "usable")  # columns printed even if 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace data check`."""
    add_config(parser)
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="where rows that can't be used are written, as JSON lines (NAME-quarantine.jsonl, if there are any)",
    )
    parser.add_argument(
        "--no-gold", action="store_true", help="score no references and try no rows: minutes less"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Check the data. Raises ConfigError, or RowError for a source that can't be read."""
    wanted = load_run(given_config(options))
    from learner.data.prompts import load_tokenizer

    found = list(survey(wanted, load_tokenizer(wanted), is_gold_tested=not options.no_gold))
    quarantined = [record for one in found for record in one.quarantined]
    out = options.out or Path(f"{wanted.name}-quarantine.jsonl")
    if quarantined or options.out:
        _write(out, quarantined)
    if options.json:
        tree = [
            {
                "key": one.key,
                "name": one.name,
                "counts": _as_tree(one),
                "doubts": one.doubts,
                "changed": one.changed,
                "untested": one.untested,
            }
            for one in found
        ]
        sys.stdout.write(json.dumps({"sources": tree, "quarantined": len(quarantined)}) + "\n")
    else:
        for one in found:
            sys.stdout.write("\n".join(_lines(one)) + "\n\n")
        sys.stdout.write(f"{len(quarantined)} rows in {out}\n" if quarantined else "every row can be used\n")
    return 1 if quarantined else 0


def _as_tree(one: SourceSurvey) -> dict[str, dict[str, int]]:
    return {name: asdict(counts) for name, counts in sorted(one.counts.items())}


def _lines(one: SourceSurvey) -> list[str]:
    """Return a source's table: a line for each data source, and a sum; columns of only 0 are left out."""
    total = SourceCounts(
        **{
            part.name: sum(getattr(counts, part.name) for counts in one.counts.values())
            for part in fields(SourceCounts)
        }
    )
    columns = [part.name for part in fields(SourceCounts) if part.name in ALWAYS or getattr(total, part.name)]
    named = [*sorted(one.counts.items()), *([("all", total)] if len(one.counts) > 1 else [])]
    table = [["", *(name.replace("_", " ") for name in columns)]]
    table += [[name, *(str(getattr(counts, column)) for column in columns)] for name, counts in named]
    lines = [f"{one.key} {one.name}", *aligned(table)]
    lines += [f"  {record['reason']}" for record in one.quarantined[:SHOWN]]
    more = len(one.quarantined) - SHOWN
    lines += [f"  and {more} more"] if more > 0 else []
    lines += [f"  untested: {_shortened(reason)} ({count} rows)" for reason, count in one.untested.items()]
    lines += [f"  {text}" for text in (*one.doubts, *one.changed[:CHANGES_SHOWN])]
    more = len(one.changed) - CHANGES_SHOWN
    return [*lines, f"  and {more} more changed values: --json has all"] if more > 0 else lines


def _shortened(reason: str) -> str:
    return textwrap.shorten(reason, REASON_CHARS, placeholder=" ...")


def _write(path: Path, records: Sequence[object]) -> None:
    """Write the rows to a temporary file, and rename it: no partial file is left. Raises PipelineError."""
    aside = path.with_name(f"{path.name}.new")
    try:
        aside.write_text(
            "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8"
        )
        aside.rename(path)
    except OSError as error:
        raise PipelineError(f"{path} can't be written: {error.strerror}") from error
