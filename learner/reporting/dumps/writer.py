"""Write the answers of each step and round to files in the formats of verl and II-VERL, behind the training.

In: the groups of a step when it is trained or replayed, and those of a round. Out: files in the folders of
`learner.dumps`, each written to a temporary file, synced and linked to its name unless that exists: a file appears
complete, once, and is never overwritten. A thread of rank 0 decodes and writes; the training thread passes groups to it
and waits for room in its queue, at most PATIENCE_S, and for all of it before a checkpoint, at most SETTLE_S. Dumps that
a kill loses are written when the step is replayed, and rounds from the journal at the next start. A full or missing
disk costs the dump, with a warning.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker.errors import PipelineError, RunFailed
from broker.messages import ScoredGroup
from config.run import Run
from learner.journal.disk import is_full
from learner.journal.ledger import read_ledger
from learner.journal.untrained import EVALUATED, Untrained, read_untrained
from learner.reporting.dumps.places import DumpFolder, in_the_way, places_of_rounds, places_of_steps, take
from learner.reporting.dumps.rows import Decode, Row, ii_verl_rows, verl_rows

log = logging.getLogger(__name__)

AHEAD: Final = 2  # steps that wait for the disk, in memory
PATIENCE_S: Final = 30.0  # longest wait of the training for room in the queue
SETTLE_S: Final = 60.0  # longest wait of a checkpoint, or the end, for the whole queue
ROWS_AT_ONCE: Final = 1024  # rows per parquet row group
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class _Job:
    what: str  # for a warning
    act: Callable[[], None]


class Dumps:
    """Write the dumps of a run; without `learner.dumps`, do nothing.

    Args:
        run: whose answers these are.
        decode: decodes ids; None: the run's tokenizer, loaded again in the thread, so that each copy is used by one
            thread alone.
    Raises:
        RunFailed: a folder can't be written, or has dumps of another run.
    """

    def __init__(self, run: Run, decode: Decode | None = None) -> None:
        self._run = run
        self._of_steps, self._of_rounds = places_of_steps(run), places_of_rounds(run)
        self._decode = decode
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._is_busy = self._is_closed = self._is_late = False
        self._said = ""
        if not self._of_steps and not self._of_rounds:
            return
        if refused := list(in_the_way(run)):
            raise RunFailed("; ".join(refused))
        try:
            take(run)
        except OSError as error:
            if is_full(error):  # a run continues without dumps; those taken stay complete
                self._of_steps = self._of_rounds = []
                self._warn(str(error.filename), error.strerror or "")
                return
            raise RunFailed(f"learner.dumps: {error.filename}: {error.strerror}") from error
        threading.Thread(target=self._write_all, name="dumps", daemon=True).start()

    def step(self, number: int, groups: Sequence[ScoredGroup], *, is_replayed: bool = False) -> None:
        """Write the answers of a trained step, unless its file exists. Returns at once unless the disk is slow.

        Args:
            number: of the step, counted from 1.
            groups: that it trained on.
            is_replayed: the step is trained again, so its file may exist.
        """
        places = [place for place in self._of_steps if number % place.every == 0]
        self._hand_on(places, number, groups, may_be_there=is_replayed)

    def round(self, version: int, groups: Sequence[ScoredGroup]) -> None:
        """Write the answers of a held-out round that has ended, as `step`."""
        self._hand_on(self._of_rounds, version, groups, may_be_there=False)

    def recall(self, versions: Iterable[int]) -> None:
        """Write recorded rounds that have no file yet and whose groups the journal still has.

        Args:
            versions: of the recorded rounds.
        """
        known = set(versions)
        for place in self._of_rounds:
            if missing := known - place.numbers():
                self._put(_Job(f"rounds of {place.folder}", partial(self._recall, place, missing)))

    def settle(self, timeout_s: float = SETTLE_S) -> None:
        """Wait until everything so far is on disk or given up; a warning names what is late."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._waiting and not self._is_busy, timeout_s):
                log.warning(
                    "dumps_late waited_s=%.0f for=the disk of learner.dumps waiting=%d: training goes on, and what a "
                    "kill takes now is not dumped",
                    timeout_s,
                    len(self._waiting) + self._is_busy,
                )

    def close(self) -> None:
        """Write what waits, as `settle` does, and end the thread."""
        self.settle()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # ------------------------------------------------------------------------------------------ in the training's
    # thread

    def _hand_on(
        self, places: Sequence[DumpFolder], number: int, groups: Sequence[ScoredGroup], *, may_be_there: bool
    ) -> None:
        if not groups:
            return
        for place in places:
            self._put(
                _Job(
                    str(place.file(number)),
                    partial(self._dump, place, number, groups, may_be_there=may_be_there),
                )
            )

    def _put(self, job: _Job) -> None:
        """Queue a job; where there is no room in time, drop it with a warning."""
        with self._changed:
            if self._is_closed:
                return
            limit = AHEAD * max(1, len(self._of_steps) + len(self._of_rounds))
            patience_s = 0.0 if self._is_late else PATIENCE_S
            if not self._changed.wait_for(lambda: len(self._waiting) < limit, patience_s):
                self._is_late = True  # the next ones do not wait: the disk is away
                self._warn(
                    job.what, f"{len(self._waiting)} others wait for the disk since {PATIENCE_S:.0f} s"
                )
                return
            self._is_late = False
            self._waiting.append(job)
            self._changed.notify_all()

    # --------------------------------------------------------------------------------------------------- in its own
    # thread

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                job = self._waiting.popleft()
                self._is_busy = True
                self._changed.notify_all()
            try:
                job.act()
            except OSError as error:
                self._warn(job.what, error.strerror or repr(error))
            except Exception as error:  # noqa: BLE001 - any error costs a dump and not the run
                self._warn(job.what, str(error) if isinstance(error, PipelineError) else repr(error))
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def _dump(
        self, place: DumpFolder, number: int, groups: Sequence[ScoredGroup], *, may_be_there: bool
    ) -> None:
        """Write one file, unless it exists."""
        file = place.file(number)
        if not file.exists():
            started = time.monotonic()
            rows = (verl_rows if place.kind == "jsonl" else ii_verl_rows)(number, groups, self._decoder())
            part = file.with_name(f".{file.name}.part")
            try:
                (_write_lines if place.kind == "jsonl" else _write_parquet)(part, rows)
                is_written = _named(part, file)
            finally:
                part.unlink(missing_ok=True)
            if is_written:
                log.debug("dumped file=%s took_s=%.2f", file, time.monotonic() - started)
                return
        if not may_be_there:
            self._warn(str(file), "it is there already, and is not written over")

    def _recall(self, place: DumpFolder, missing: set[int]) -> None:
        journal = self._run.folder / "journal"
        found: dict[int, list[ScoredGroup]] = {}
        for one in read_untrained(journal, read_ledger(journal, strict=False)):
            if isinstance(one, Untrained) and one.kind == EVALUATED and one.step in missing:
                found.setdefault(one.step, []).append(one.group)
        for version, groups in sorted(found.items()):
            self._dump(place, version, groups, may_be_there=True)

    def _decoder(self) -> Decode:
        if self._decode is None:
            self._decode = decoder_of(self._run)
        return self._decode

    def _warn(self, what: str, reason: str) -> None:
        """Warn that something was not written; of repeated reasons only the first."""
        if reason != self._said:
            log.warning("dump_not_written what=%s reason=%s: training goes on", what, reason)
        self._said = reason


def decoder_of(run: Run) -> Decode:
    """Load the run's tokenizer again, for decoding alone. Raises RunFailed."""
    from learner.data.prompts import load_tokenizer

    tokenizer = load_tokenizer(run)

    def decode(ids: Sequence[Sequence[int]], has_special: bool) -> Sequence[str]:
        texts: Any = tokenizer.batch_decode(
            [list(each) for each in ids],
            skip_special_tokens=not has_special,
            clean_up_tokenization_spaces=False,
        )
        return list(texts)

    return decode


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines, synced. Half a surrogate pair in a column becomes its JSON escape."""
    with path.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _write_parquet(path: Path, rows: Iterable[Row]) -> None:
    """Write parquet, synced."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    table = pa.table({name: _array(pa, name, values) for name, values in columns.items()})
    with path.open("wb") as stream:
        parquet.write_table(table, stream, row_group_size=ROWS_AT_ONCE)
        stream.flush()
        os.fsync(stream.fileno())


def _array(pa: Any, name: str, values: Sequence[Any]) -> Any:
    """Return a column; one of mixed types, or of a type that parquet lacks, as JSON text."""
    if name == "score":
        return pa.array(values, pa.float64())
    try:
        found = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([json.dumps(value) for value in values], pa.string())
    return found.cast(pa.string()) if pa.types.is_null(found.type) else found


def _named(part: Path, file: Path) -> bool:
    """Link a complete file to its name, unless that exists; return whether it now exists."""
    try:
        os.link(part, file)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if file.exists():  # a file system without hard links: rename would overwrite
            return False
        part.rename(file)
    return True
