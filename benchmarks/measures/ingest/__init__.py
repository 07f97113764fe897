"""Rows that are read and tokenized for the first time, ten times as many, and again: time and memory beside the limits.

In: rows of about 200 tokens in a parquet file, and a byte-level BPE tokenizer of 150,000 tokens, both made here. Out:
seconds of a first start, memory above the process's imports, what ten times the rows add to the memory, and seconds of
a second start, which finds rows and lengths on the disk. The limits are the project's own. Each start is a process
(`benchmarks.measures.ingest.start`), and its file was written before, so that it is in the system's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.comparison import Comparison
from benchmarks.results import ROOT

LIMIT = "limit"
FIRST_S, AGAIN_S = 60.0, 10.0
MEMORY_MIB = 1024.0
GROWTH = 1.1  # of the memory, for ten times the rows
START_S = 1800.0  # deadline of one start
PIECE = 10_000  # rows that are made together


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    rows: int = 100_000
    streamed: int = 1_000_000
    words: int = 114  # of a prompt: 200 tokens
    vocabulary: int = 150_000


FULL, SMOKE = Size(), Size(rows=200, streamed=400, words=5, vocabulary=500)


def measure(size: Size) -> list[Comparison]:
    """Start three times: with the rows, with ten times as many, and with these again."""
    with tempfile.TemporaryDirectory(prefix="millrace-ingest-") as name:
        folder = Path(name)
        words = _write_tokenizer(folder / "model", size.vocabulary)
        first = _started(folder, _write_rows(folder, size.rows, size.words, words))
        many = _write_rows(folder, size.streamed, size.words, words)
        streamed = _started(folder, many)
        again = _started(folder, many)
    if (first["rows"], streamed["rows"], again["rows"]) != (size.rows, size.streamed, size.streamed):
        raise RuntimeError(f"rows are missing: {first}, {streamed}, {again}")
    what = f"rows of {first['tokens']:.0f} tokens, a vocabulary of {size.vocabulary:,}"
    return [
        _beside(f"first start, {size.rows:,} {what}", "s", first["seconds"], FIRST_S),
        _beside(
            "its peak PSS over the imports", "MiB", first["peak_mib"] - first["imported_mib"], MEMORY_MIB
        ),
        _beside(
            f"first start, {size.streamed:,} rows",
            "s",
            streamed["seconds"],
            FIRST_S * size.streamed / size.rows,
        ),
        _beside(
            f"peak PSS with {size.streamed:,} rows", "MiB", streamed["peak_mib"], GROWTH * first["peak_mib"]
        ),
        _beside(f"second start, {size.streamed:,} rows", "s", again["seconds"], AGAIN_S),
    ]


def _beside(what: str, unit: str, ours: float, limit: float) -> Comparison:
    return Comparison(what=what, unit=unit, ours=[ours], beside=LIMIT, other=[limit], less_is_better=True)


def _started(folder: Path, rows: Path) -> dict[str, Any]:
    """Return what one start said of itself. Raises CalledProcessError where it failed."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.measures.ingest.start",
        *map(str, (rows, folder / "model", folder / "cache")),
    ]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, timeout=START_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _write_tokenizer(folder: Path, vocabulary: int) -> NDArray[Any]:
    """Train a tokenizer on made-up words, and return words that it knows as one token or two."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    random = np.random.default_rng(0)
    letters = np.asarray(list("etaoinshrdlucmfwypvbgkjqxz"))
    common = 1 / (np.arange(len(letters)) + 4.0)
    lengths = np.clip(random.normal(6, 2.5, max(2000, int(vocabulary * 1.4))), 2, 14).astype(int)
    words = ["".join(random.choice(letters, size=n, p=common / common.sum())) for n in lengths]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        (" ".join(words[at : at + 1000]) for at in range(0, len(words), 1000)), trainer
    )
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, additional_special_tokens=["<|im_end|>"], chat_template=template
    ).save_pretrained(folder)
    return np.asarray(words, dtype=object)


def _write_rows(folder: Path, count: int, words: int, known: Sequence[str] | NDArray[Any]) -> Path:
    """Write so many rows of II-Thought's shape; no two prompts are alike, and common words come often."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(count)
    vocabulary = np.asarray(known, dtype=object)
    path = folder / f"rows-{count}.parquet"
    schema = pa.schema(
        [
            ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("data_source", pa.string()),
            ("verification_info", pa.string()),
        ]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, count, PIECE):
            size = min(PIECE, count - first)
            chosen = (len(vocabulary) * random.random((size, words)) ** 3).astype(int)
            rows = [
                {
                    "messages": [{"role": "user", "content": " ".join(vocabulary[line])}],
                    "data_source": "made up",
                    "verification_info": json.dumps({"type": "math", "answer": {"value": str(first + at)}}),
                }
                for at, line in enumerate(chosen)
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    return path
