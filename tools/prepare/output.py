"""Write the results of `millrace prepare`: the rows, the manifest, and the quarantined rows, all of them or none.

In: rows in a spool and the preparation's result. Out: `NAME.parquet`, `NAME.manifest.json` and, for quarantined rows,
`NAME.quarantine.jsonl` next to it. Each is written under a temporary name first and renamed, the parquet file last.
Existing files are only overwritten on request. The content does not depend on time or location: the same source, seed
and versions give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from broker.errors import Permanent
from tools.prepare.preparation import Preparation
from tools.prepare.spool import Spool
from tools.prepare.stages import PreparedRows, PrepareRequest

SUFFIX: Final = ".parquet"


class NotWritten(Permanent):
    """The files of a preparation can't be written to the target."""


def sized(name: str, rows: int) -> str:
    """Return a file's name with its size, in Reasoning360's form: `_842`, `_1.3k`, `_54k`."""
    thousands = f"{rows / 1000:.1f}".removesuffix(".0")
    return f"{name}_{rows if rows < 1000 else f'{thousands}k'}{SUFFIX}"


def beside(path: Path) -> tuple[Path, Path]:
    """Return the paths of a file's manifest and quarantined rows."""
    return path.with_suffix(".manifest.json"), path.with_suffix(".quarantine.jsonl")


def refuse_existing(out: Path | None, folder: Path, preparation: Preparation) -> None:
    """Raise NotWritten for an existing result, before anything is read."""
    if out is not None:
        there = [path for path in (out, *beside(out)) if path.exists()]
    else:
        name = re.compile(rf"{re.escape(preparation.file_name)}_[0-9.]+k?{re.escape(SUFFIX)}")
        there = sorted(path for path in folder.glob(f"*{SUFFIX}") if name.fullmatch(path.name))
    if there:
        raise NotWritten(f"{there[0]} is there already; --force writes over it, -o names another file")


def write(
    preparation: Preparation, request: PrepareRequest, prepared: PreparedRows, spool: Spool, path: Path
) -> dict[str, Any]:
    """Write the files, and return the manifest. Raises NotWritten, BadRecord."""
    manifest_path, quarantine_path = beside(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", dir=path.parent) as folder:
        aside = Path(folder)
        try:
            spool.write(aside / "rows", prepared.chosen)
            with (aside / "rows").open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            manifest = _manifest(preparation, request, prepared) | {"file": path.name, "sha256": digest}
            (aside / "manifest").write_text(
                json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8"
            )
            if prepared.quarantined:
                lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in prepared.quarantined)
                (aside / "quarantine").write_text("".join(lines), "utf-8")
                (aside / "quarantine").replace(quarantine_path)
            else:
                quarantine_path.unlink(missing_ok=True)  # of an earlier result
            (aside / "manifest").replace(manifest_path)
            (aside / "rows").replace(path)
        except OSError as error:
            raise NotWritten(f"{path} can't be written: {error.strerror or error}") from error
    return manifest


def _manifest(preparation: Preparation, request: PrepareRequest, prepared: PreparedRows) -> dict[str, Any]:
    tokenizer = request.tokenizer
    return {
        "name": preparation.name,
        "domain": preparation.domain,
        "split": request.split,
        "rows": len(prepared.chosen),
        "source": _without_nulls(prepared.origin),
        "licence": preparation.licence or None,
        "seed": request.seed,
        "size": request.size,
        "limit": request.limit,
        "tokenizer": None if tokenizer is None else str(tokenizer.name_or_path),
        "max_prompt_tokens": None if tokenizer is None else request.max_prompt_tokens,
        "stages": prepared.tally.lines(),
        "quarantined": len(prepared.quarantined),
        "millrace": _version(),
    }


def _without_nulls(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if value is not None}


def _version() -> str | None:
    try:
        return metadata.version("millrace")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return None
