"""Write the files of `millrace difficulty`: rows with rates, kept rows, histogram, manifest.

In: the rates of every model. Out: a folder. The manifest is written last and lists every other file with its hash, so a
folder with a manifest is complete. Nothing in it depends on time or place: the same rows, samples and settings give the
same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker.errors import PipelineError
from config.run import Run
from learner.collect.results import CollectedSet
from learner.journal.disk import replace_text
from tools.difficulty.bounds import Bound, are_kept
from tools.difficulty.picture import draw
from tools.difficulty.rates import Rate, RateKey, RateSummary
from tools.difficulty.source_rows import SourceRows, file_stems, records_of

PICTURE: Final = "pass_rates.png"
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One model's results on the rows."""

    name: str
    run: Run
    rates: Mapping[RateKey, Rate]  # of every issued row
    unsampled: int  # number of rows without samples
    summary: RateSummary
    sets: Sequence[CollectedSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyRequest:
    """The request, except the models."""

    full: float
    is_rescored: bool
    bounds: tuple[Bound, ...]


def write_files(
    out: Path, config: Run, measured: Sequence[Measured], request: DifficultyRequest
) -> list[str]:
    """Write every file into `out`, and return a line for each.

    Raises:
        RowError: a source can no longer be read.
        PipelineError: a file can't be written.
    """
    (out / MANIFEST).unlink(missing_ok=True)  # of an earlier command, whose files are now replaced
    sources = config.data.train_sources
    counts: dict[str, int] = {}
    for number, (source, stem) in enumerate(zip(sources, file_stems(len(sources)), strict=True)):
        rows = SourceRows(
            partial(records_of, config, source), partial(_beside, measured, number), _types(measured)
        )
        counts[f"rows{stem}.parquet"] = rows.write(out / f"rows{stem}.parquet")
        if request.bounds:
            keeps = partial(_is_kept, measured, request.bounds, number)
            counts[f"kept{stem}.parquet"] = rows.write(out / f"kept{stem}.parquet", keeps=keeps)
    draw(out / PICTURE, {one.name: one.summary for one in measured})
    files = [*counts, PICTURE]
    manifest = {
        "sources": [source.model_dump(mode="json") for source in sources],
        "models": [_facts(one) for one in measured],
        "full_score": request.full,
        "rescored": request.is_rescored,
        "keep": [str(bound) for bound in request.bounds],
        "files": {
            name: {"sha256": _digest(out / name), **({"rows": counts[name]} if name in counts else {})}
            for name in files
        },
    }
    try:
        replace_text(out / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise PipelineError(f"{out / MANIFEST} can't be written: {error.strerror}") from error
    return [
        *(f"{count:>8} rows in {out / name}" for name, count in counts.items()),
        f"{'':>8} histogram in {out / PICTURE}, settings and hashes in {out / MANIFEST}",
    ]


def _types(measured: Sequence[Measured]) -> dict[str, Any]:
    import pyarrow as pa

    return {
        column: type_
        for one in measured
        for column, type_ in ((f"{one.name}_pass_rate", pa.float64()), (f"{one.name}_scored", pa.int32()))
    }


def _beside(measured: Sequence[Measured], source: int, row: int) -> dict[str, Any]:
    """Return the additional columns of a row: rates, null for none, and their samples."""
    columns: dict[str, Any] = {}
    for one in measured:
        rate = one.rates.get((source, row))
        columns[f"{one.name}_pass_rate"] = None if rate is None else rate.value
        columns[f"{one.name}_scored"] = 0 if rate is None else rate.scored
    return columns


def _is_kept(measured: Sequence[Measured], bounds: Sequence[Bound], source: int, row: int) -> bool:
    rates = {
        one.name: None if (rate := one.rates.get((source, row))) is None else rate.value for one in measured
    }
    return are_kept(rates, bounds)


def _facts(one: Measured) -> dict[str, Any]:
    """Return the manifest's facts of a model."""
    model = one.run.model
    return {
        "name": one.name,
        "path": model.path,
        "revision": model.revision,
        "run": one.run.name,
        "seed": one.run.seed,
        "sets": [
            {
                "name": each.name,
                "rows": each.rows,
                "fingerprint": each.fingerprint,
                "sampling": dict(each.sampling),
            }
            for each in one.sets
        ],
        "unsampled_rows": one.unsampled,
        **asdict(one.summary),
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
