"""`python -m benchmarks.measures.ingest.start ROWS MODEL CACHE`: one start on data, with its time and its memory.

In: a parquet file of rows, a folder with a tokenizer, a folder for what is kept. Out: one JSON object on standard
output: seconds, rows, mean tokens, and MiB of PSS after the imports, with the tokenizer loaded, and at the peak. A
process of its own for each start, for memory that a process had once is not given back. Run by
`benchmarks.measures.ingest`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Self

import datasets  # noqa: F401 - what a learner has imported
import transformers  # noqa: F401

from config.loading import build_run
from learner.data.ingest import ingest
from learner.data.lengths import prompt_lengths
from learner.data.prompts import load_tokenizer, open_sources

LOOK_EVERY_S = 0.05


def pss_mib() -> float:
    """Return this process's share of the memory, in MiB."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/smaps_rollup has no Pss")


class Peak:
    """The largest PSS while a block runs."""

    def __init__(self) -> None:
        self.mib = pss_mib()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.mib = max(self.mib, pss_mib())

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.mib = max(self.mib, pss_mib())


def main(rows: str, model: str, cache: str) -> int:
    """Make the prompts of a run ready, and draw one."""
    imported = pss_mib()
    run = build_run(
        [
            (
                "the benchmark",
                {
                    "name": "ingest",
                    "model": {"path": model},
                    "data": {"train": {"type": "dataset", "path": rows}, "cache_dir": cache},
                },
            )
        ]
    )
    with Peak() as peak:
        tokenizer = load_tokenizer(run)
        started = time.perf_counter()
        prompts = open_sources(run, run.data.train_sources, tokenizer, shuffle=True)
        prompts.training_prompt("0", first_row=0)
        seconds = time.perf_counter() - started
    lengths, _ = prompt_lengths(tokenizer, ingest(run, run.data.train_sources[0]).rows)
    facts = {
        "seconds": seconds,
        "rows": len(prompts),
        "tokens": float(lengths.mean()),
        "imported_mib": imported,
        "peak_mib": peak.mib,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
