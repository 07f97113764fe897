"""Compute the fingerprint that earlier versions gave to the data of one source, for a continued run.

In: a run whose journal has a fingerprint that `learner.data.prompts` does not make. Out: the fingerprint from before
0026, which depends on the name that `datasets` gives a table. The rows and their order are the same. Used by the
session alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from config.data import DatasetSource
from config.run import Run
from learner.data.file_formats import load_by_datasets

KINDS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


def earlier_fingerprint(run: Run, kept: int) -> str | None:
    """Return the old fingerprint of the run's training data; None where old versions had no such source.

    Args:
        run: the resolved run.
        kept: number of rows within the limits.
    Raises:
        RowError: the source can't be read.
    """
    source = run.data.train
    if not isinstance(source, DatasetSource):
        return None
    table = _table(run, source)
    if source.limit is not None:
        table = table.select(range(min(source.limit, len(table))))
    facts = [str(table._fingerprint), run.data.max_prompt_tokens, kept]  # noqa: SLF001 - as they did
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()


def _table(run: Run, source: DatasetSource) -> Any:
    import datasets

    path = Path(source.path)
    if not path.is_file() or path.suffix not in KINDS:
        return load_by_datasets(run, source)
    datasets.disable_progress_bars()
    return datasets.load_dataset(
        KINDS[path.suffix], data_files={source.split: source.path}, split=source.split
    )
