"""Find rows to leave out before training: the reference does not score 1, or trivial answers pass, or it is refused.

In: the rows of some sources, and the run's scorers. Out: the index and the reason of each row to leave out, and the
rows that could not be tested. A process of the scorers examines all rows, `python -m scorers.gold`; a row whose
environment has a reference episode is examined by that episode. The verdicts are stored with the rows, under a digest
of the scorers' configuration and code, for the next start. Called where `data.gold_test` is set, and by `millrace data
check`.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, cast

from broker.errors import RunFailed
from config.run import Run
from learner.data import scorers_process
from learner.data.reference_episodes import Found, reference_episodes
from learner.data.row import Row
from learner.data.scorers_digest import scorers_digest
from learner.data.store import RowList, RowStore

log = logging.getLogger(__name__)

_LEFT_OUT: Final = ("wrong", "refused")
ENDING_S: Final = 30.0  # for the process to end after its input has
SAY_EVERY_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldTest:
    """The result of a source's gold test."""

    left_out: Mapping[int, tuple[str, str]]  # row index -> `wrong` or `refused`, and the reason
    untested: Mapping[str, list[int]]  # reason -> indices of rows for which no right answer can be written


def gold_tests(run: Run, sources: Sequence[RowStore | RowList]) -> list[GoldTest]:
    """Examine every row of some sources in one process, or read the verdicts of an earlier start.

    Raises:
        RunFailed: the examining process ended early.
        OSError: the verdicts can't be written to the rows' folder.
    """
    digest = scorers_digest(run)
    files = [
        source.folder / f"gold-{digest}.json" if isinstance(source, RowStore) else None for source in sources
    ]
    new: dict[Path | int, RowStore | RowList] = {  # two sources may have the same rows
        file or number: source
        for number, (source, file) in enumerate(zip(sources, files, strict=True))
        if file is None or not file.is_file()
    }
    tested: dict[Path | int, GoldTest] = {}
    for found, key in zip(_examined(run, list(new.values())), new, strict=True):
        tested[key] = found
        if isinstance(key, Path):
            _write(key, found)  # at once: an interrupted start need not examine this source again
    return [tested[number] if file is None else _read(file) for number, file in enumerate(files)]


def _examined(run: Run, sources: Sequence[RowStore | RowList]) -> Iterator[GoldTest]:
    """Yield the result of each source's rows, which one process examines in turn."""
    if not sources:
        return
    with reference_episodes(run, sources) as played, closing(_verdicts(run, sources, played)) as verdicts:
        for source in sources:
            left_out: dict[int, tuple[str, str]] = {}
            untested: dict[str, list[int]] = {}
            for place, (verdict, reason) in enumerate(islice(verdicts, len(source))):
                if verdict in _LEFT_OUT:
                    left_out[place] = (verdict, reason)
                elif verdict == "untested":
                    untested.setdefault(reason, []).append(place)
            yield GoldTest(left_out=left_out, untested=untested)
        next(verdicts, None)  # how the process ended


def _verdicts(
    run: Run, sources: Sequence[RowStore | RowList], played: Iterator[Found | None]
) -> Generator[tuple[str, str]]:
    """Yield the other process's verdict for each row of one source after the other."""
    process = scorers_process.start(("-m", "scorers.gold"), subprocess.PIPE)
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    sender = threading.Thread(target=_send, args=(run, sources, played, stdin), name="gold", daemon=True)
    sender.start()
    started = said = time.monotonic()
    count, rows = 0, sum(map(len, sources))
    try:
        for line in stdout:
            verdict, reason = json.loads(line)
            yield verdict, reason
            count += 1
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                log.info("gold_test rows=%d of=%d took_s=%.0f", count, rows, said - started)
        code = process.wait(ENDING_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(ENDING_S)
        sender.join(ENDING_S)
        stdout.close()
    if count < rows:
        raise RunFailed(
            f"the gold test ended after {count} of {rows} rows, with exit code {code}; what it said stands above"
        )


def _send(
    run: Run, sources: Sequence[RowStore | RowList], played: Iterator[Found | None], stream: IO[bytes]
) -> None:
    """Write the scorers' section and every row. If the process has ended, the reader reports it."""
    with suppress(OSError), stream:
        stream.write(run.scorers.model_dump_json().encode() + b"\n")
        for row, found in zip(chain.from_iterable(source.rows() for source in sources), played, strict=False):
            stream.write(json.dumps(_candidate(row, found)).encode() + b"\n")


def _candidate(row: Row, played: Found | None) -> dict[str, object]:
    return {
        "task": row.task,
        "verification_info": row.verification_info,
        "solution": row.solution,
        "played": played,
    }


def _read(path: Path) -> GoldTest:
    found = json.loads(path.read_text(encoding="utf-8"))
    left_out = {int(place): (verdict, reason) for place, (verdict, reason) in found["left_out"].items()}
    return GoldTest(left_out=left_out, untested=found["untested"])


def _write(path: Path, found: GoldTest) -> None:
    """Write the verdicts to a temporary file and rename it: a reader sees all of them or none."""
    handle, aside = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"left_out": found.left_out, "untested": found.untested}, file)
    Path(aside).rename(path)
