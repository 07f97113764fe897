"""`millrace prepare NAME`: convert a published or generated data set to rows for training.

In: the name of a preparation, and the hub, or `--source` with local data. Out: one parquet file in the schema of verl,
a manifest next to it, a table of what each stage left out, and a file of the rows whose reference failed. Exit code: 0
the file was written; 1 a source or a row is unusable, and nothing was written; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.arguments import UsageError, add_json, number_of
from tools.prepare.catalogue import PREPARATIONS, find, place_of, splits_of
from tools.prepare.output import SUFFIX, NotWritten, refuse_existing, sized, write
from tools.prepare.preparation import QWEN, BadRecord, Made, Preparation
from tools.prepare.spool import Spool
from tools.prepare.stages import PrepareRequest, prepare
from tools.prepare.template import write_template
from tools.printable import aligned

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EPILOG: Final = (
    "Without --source the data set is loaded from the hub. The file is data/SPLIT/SOURCE_SIZE.parquet unless -o names "
    "another, with its manifest and quarantined rows beside it. Exit code: 0 the file is there; 1 a source or a row "
    "that can't be used, and nothing was written; 2 wrong words."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace prepare`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of a preparation, or MODULE:NAME of your own"
    )
    parser.add_argument("--list", action="store_true", help="all preparations, with sources and sizes")
    parser.add_argument(
        "--template",
        metavar="NAME",
        help="write NAME.py, the file from which a preparation of your own is made",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="parquet file to write; a folder, as in data/, gets the usual name",
    )
    parser.add_argument("--split", metavar="SPLIT", help="which file of it (train, where there is one)")
    parser.add_argument(
        "--source", type=Path, metavar="PATH", help="file or folder of the same shape, instead of the hub"
    )
    parser.add_argument("--revision", metavar="REV", help="commit, tag or branch on the hub (the newest)")
    parser.add_argument("--size", type=number_of("rows"), metavar="N", help="rows to draw by the seed (all)")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="of all that is drawn (42)")
    parser.add_argument(
        "--limit", type=number_of("records"), metavar="N", help="read only the first N records, for a trial"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help=f"whose tokens count for the length ({QWEN}, where rows have a limit)",
    )
    parser.add_argument(
        "--max-prompt-tokens",
        type=number_of("tokens"),
        metavar="N",
        help="longest prompt (the set's own limit)",
    )
    parser.add_argument(
        "--any-length", action="store_true", help="count no tokens: keep prompts and answers of any length"
    )
    parser.add_argument(
        "--gold-test",
        action="store_true",
        help="test each row's own reference and its tests, also where the set does not",
    )
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    add_json(parser, "the manifest as JSON")


def run(options: argparse.Namespace) -> int:
    """Prepare a data set. Raises UsageError, BadRecord, NotWritten, NoPreparation."""
    if options.list:
        sys.stdout.write("\n".join(_listed(PREPARATIONS.values())) + "\n")
        return 0
    if options.template is not None:
        path = write_template(options.template, Path(options.out) if options.out else None)
        sys.stdout.write(f"{path}: pytest {path}; millrace prepare {path.stem}:PREPARATION --source FILE\n")
        return 0
    if options.name is None:
        raise UsageError("which one? `millrace prepare --list` has them all")
    preparation = find(options.name)
    _check(preparation, options)
    split = _split(preparation, options.split)
    folder, out = _place(options.out, split)
    if not options.force:
        refuse_existing(out, folder, preparation)
    request = _request(preparation, split, options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Spool(folder) as spool:
            prepared = prepare(preparation, request, spool)
            path = out or folder / sized(preparation.file_name, len(prepared.chosen))
            manifest = write(preparation, request, prepared, spool, path)
    except OSError as error:
        raise NotWritten(f"{folder} can't be written to: {error.strerror or error}") from error
    if options.json:
        sys.stdout.write(json.dumps({**manifest, "path": str(path)}) + "\n")
    else:
        sys.stdout.write("\n".join(_said(manifest, path)) + "\n")
    return 0


def _place(out: str | None, split: str) -> tuple[Path, Path | None]:
    """Return the target folder, and the file; None for a file name made of source and size.

    Raises:
        UsageError: `out` is neither a folder nor a parquet file.
    """
    if out is None:
        return Path("data") / split, None
    path = Path(out)
    if out.endswith("/") or path.is_dir():
        return path, None
    if path.suffix != SUFFIX:
        raise UsageError(f"-o {out}: a parquet file is written; name it {out}{SUFFIX}, or a folder {out}/")
    return path.parent, path


def _check(preparation: Preparation, options: argparse.Namespace) -> None:
    """Refuse options without an effect. Raises UsageError."""
    if options.source is not None and options.revision is not None:
        raise UsageError("--revision names a commit of the hub, and --source reads nothing of it")
    if preparation.is_played and options.gold_test:
        raise UsageError(
            f"--gold-test has scorers judge references, and rows of {preparation.name} are played by agents"
        )
    if isinstance(preparation.source, Made) and options.limit is not None:
        raise UsageError(
            f"--limit is of a source's records; {preparation.name} is made here, and --size says how much"
        )


def _split(preparation: Preparation, wanted: str | None) -> str:
    splits = list(preparation.splits)
    if wanted is None:
        return splits[0]
    if wanted not in splits:
        raise UsageError(f"{preparation.name} has no split {wanted!r}; it has {', '.join(splits)}")
    return wanted


def _request(preparation: Preparation, split: str, options: argparse.Namespace) -> PrepareRequest:
    limit = options.max_prompt_tokens or preparation.max_prompt_tokens
    is_measured = not options.any_length and (limit or preparation.max_answer_tokens)
    if not is_measured and options.tokenizer is not None:
        raise UsageError("--tokenizer counts for a longest prompt: add --max-prompt-tokens N")
    tokenizer = _tokenizer(options.tokenizer or QWEN) if is_measured else None
    return PrepareRequest(
        split=split,
        size=options.size,
        seed=options.seed,
        path=options.source,
        revision=options.revision,
        limit=options.limit,
        tokenizer=tokenizer,
        max_prompt_tokens=limit,
        is_gold_tested=options.gold_test,
    )


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer. Raises BadRecord that says how to continue without it."""
    from transformers import AutoTokenizer

    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise BadRecord(
            f"the tokenizer {name}, which counts for the longest prompt, can't be loaded: {error}\n"
            "--tokenizer names another, or a folder; --any-length keeps rows of any length"
        ) from error
    return found


def _listed(preparations: Iterable[Preparation]) -> list[str]:
    """Return the table of all preparations."""
    table = [["name", "domain", "splits", "source", "licence", "what it is"]]
    table += [
        [one.name, one.domain, splits_of(one), place_of(one), one.licence or "-", one.about]
        for one in preparations
    ]
    return aligned(table, "<")


def _said(manifest: Mapping[str, Any], path: Path) -> list[str]:
    """Return the table of the stages, and the files' paths."""
    table = [["stage", "left out", "rows"]]
    table += [[line["stage"], str(line["left_out"] or ""), str(line["rows"])] for line in manifest["stages"]]
    lines = [*aligned(table), f"{path}: {manifest['rows']} rows, sha256 {manifest['sha256']}"]
    if manifest["quarantined"]:
        lines.append(
            f"{path.with_suffix('.quarantine.jsonl')}: {manifest['quarantined']} rows, each with its reason"
        )
    return lines
