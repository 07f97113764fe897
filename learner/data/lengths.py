"""Count the tokens of every prompt once per tokenizer, in batches, on all cores.

In: rows and the policy's tokenizer. Out: the length of each row's prompt, by index; the reason where the chat template
fails. This thread renders a batch of chats while the tokenizer's own threads encode the previous one, so two batches
are in memory. The lengths of stored rows are stored with them, under a digest of the tokenizer, for the next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from learner.data.row import Row
from learner.data.store import RowList, RowStore
from tasks.chat_template import reason_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

BATCH: Final = 512  # rows rendered, then encoded, together
AHEAD: Final = 2  # batches waiting for the encoder
FAILED: Final = -1  # the length of a prompt that the chat template can't make
SAY_EVERY_S: Final = 30.0


def tokenize(tokenizer: PreTrainedTokenizerBase, row: Row) -> list[int]:
    """Return the token ids of a row's prompt, up to the start of the model's turn; none where the row has no prompt."""
    if not (row.raw_prompt or row.messages):
        return []
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and not backend.truncation and not backend.padding and _is_plain(tokenizer):
        (text,) = _rendered_or_raised(tokenizer, [row])
        ids: Any = backend.encode_batch_fast([text], add_special_tokens=False)[0].ids  # in half of the time
    elif row.raw_prompt:
        ids = tokenizer.encode(row.raw_prompt, add_special_tokens=False)
    else:
        ids = tokenizer.apply_chat_template(
            _chat(row), add_generation_prompt=True, tokenize=True, return_dict=False
        )
    return list(ids)


def _is_plain(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the tokenizer's class does nothing in Python before its library encodes."""
    from transformers import PreTrainedTokenizerFast

    names = ("apply_chat_template", "encode", "_encode_plus")
    return all(
        getattr(type(tokenizer), name, None) is getattr(PreTrainedTokenizerFast, name) for name in names
    )


def prompt_lengths(
    tokenizer: PreTrainedTokenizerBase, rows: RowStore | RowList
) -> tuple[NDArray[np.int32], Mapping[int, str]]:
    """Return each row's prompt length in tokens, and why a prompt can't be made, by row index.

    Raises:
        OSError: the lengths can't be written to the rows' folder.
    """
    kept = _kept_lengths(tokenizer, rows)
    if kept is not None and kept.is_file():
        lengths: NDArray[np.int32] = np.load(kept, mmap_mode="r", allow_pickle=False)
        if len(lengths) == len(rows):
            return lengths, _reasons(tokenizer, rows, np.flatnonzero(lengths == FAILED))
    counted = np.fromiter(_counted(tokenizer, rows), dtype=np.int32, count=len(rows))
    if kept is not None:
        _write(kept, counted)
    return counted, _reasons(tokenizer, rows, np.flatnonzero(counted == FAILED))


def _kept_lengths(tokenizer: PreTrainedTokenizerBase, rows: RowStore | RowList) -> Path | None:
    """Return the file of the lengths for this tokenizer; None where rows or tokenizer are not on disk."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not isinstance(rows, RowStore):
        return None
    said = json.dumps([backend.to_str(), tokenizer.chat_template, tokenizer.special_tokens_map], default=str)
    return rows.folder / f"lengths-{hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}.npy"


def _write(path: Path, lengths: NDArray[np.int32]) -> None:
    """Write the lengths to a temporary file and rename it: a reader sees all of them or none."""
    handle, aside = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, lengths, allow_pickle=False)
        Path(aside).rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(aside).unlink()
        raise


def _counted(tokenizer: PreTrainedTokenizerBase, rows: RowStore | RowList) -> Iterator[int]:
    """Yield each prompt's length, of one batch while the next is rendered."""
    if getattr(tokenizer, "backend_tokenizer", None) is None:  # a tokenizer in Python, without threads
        for row in rows.rows():
            yield FAILED if _reason(tokenizer, row) else len(tokenize(tokenizer, row))
        return
    started = said = time.monotonic()
    done = 0
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder") as encoder:
        for lengths in _overlapped(encoder, tokenizer, rows.rows()):
            yield from lengths
            done += len(lengths)
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                log.info("tokenizing rows=%d of=%d took_s=%.0f", done, len(rows), said - started)


def _overlapped(
    encoder: ThreadPoolExecutor, tokenizer: PreTrainedTokenizerBase, rows: Iterable[Row]
) -> Iterator[list[int]]:
    waiting: list[Future[list[int]]] = []
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        waiting.append(encoder.submit(_encoded, tokenizer, _rendered(tokenizer, batch)))
        if len(waiting) > AHEAD:
            yield waiting.pop(0).result()
    for each in waiting:
        yield each.result()


def _rendered(tokenizer: PreTrainedTokenizerBase, batch: Sequence[Row]) -> list[str | None]:
    """Return the text of each prompt; None where the template fails."""
    try:
        return [*_rendered_or_raised(tokenizer, batch)]
    except Exception:  # noqa: BLE001 - a template may raise anything; the row is found one by one
        return [None if _reason(tokenizer, row) else _rendered(tokenizer, [row])[0] for row in batch]


def _rendered_or_raised(tokenizer: PreTrainedTokenizerBase, batch: Sequence[Row]) -> list[str]:
    """Return the text of each prompt. Raises what the template raises."""
    chats: Any = [_chat(row) for row in batch if row.messages and not row.raw_prompt]
    texts: Any = (
        tokenizer.apply_chat_template(chats, add_generation_prompt=True, tokenize=False) if chats else []
    )
    found = iter(texts)
    return [row.raw_prompt or (next(found) if row.messages else "") for row in batch]


def _reason(tokenizer: PreTrainedTokenizerBase, row: Row) -> str:
    """Return why the chat template fails for a row; "" where it works."""
    try:
        tokenize(tokenizer, row)
    except Exception as error:  # noqa: BLE001 - as above
        return reason_of(error)
    return ""


def _encoded(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str | None]) -> list[int]:
    """Return the length of each text in tokens."""
    backend: Any = getattr(tokenizer, "backend_tokenizer")  # noqa: B009 - checked in `_counted`
    there: list[str] = [text for text in texts if text is not None]
    # Without offsets, and without a Python list of numbers for each text.
    lengths = iter([len(found) for found in backend.encode_batch_fast(there, add_special_tokens=False)])
    return [FAILED if text is None else next(lengths) for text in texts]


def _reasons(
    tokenizer: PreTrainedTokenizerBase, rows: RowStore | RowList, places: NDArray[np.int64]
) -> dict[int, str]:
    return {int(place): _reason(tokenizer, rows[int(place)]) for place in places}


def _chat(row: Row) -> list[dict[str, str]]:
    return [dict(turn) for turn in row.messages]
