"""Find rows that their scorer could never score, during tokenization, and leave them out.

In: the stored rows of some sources, and the run's scorers. Out: the index and the reason of each refused row. A process
of the scorers checks the rows, `python -m scorers.gold.row_check`: it parses each as its scorer would, and scores
nothing. The results are stored with the rows, under a digest of the scorers' configuration and code, for the next
start. Called at every start; `data.gold_test` includes this check.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from broker.errors import RunFailed
from config.run import Run
from learner.data import scorers_process
from learner.data.scorers_digest import scorers_digest
from learner.data.store import RowList, RowStore

log = logging.getLogger(__name__)

COMMAND: Final = ("-m", "scorers.gold.row_check")
SAY_EVERY_S: Final = 30.0
STUCK_S: Final = 300.0  # without another row taken, after which the process counts as hung


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRefusals:
    """The rows of one source that their scorer refuses."""

    places: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    file: Path | None = None  # has the reasons; None: no row was refused or checked
    unchecked: Mapping[str, int] = field(default_factory=dict)  # why rows could not be checked -> how many

    def reasons(self) -> Iterator[tuple[int, str]]:
        """Yield the index and the reason of each refused row, in order."""
        if self.file is not None:
            with self.file.open(encoding="utf-8") as lines:
                for line in lines:
                    found = json.loads(line)
                    if isinstance(found, list):
                        yield found[0], found[1]


class RefusedRows:
    """Find the refused rows of some sources in a thread while the caller continues.

    Leaving the block before `result` ends the process. Rows generated in memory are not checked.
    """

    def __init__(self, run: Run, sources: Sequence[RowStore | RowList]) -> None:
        self._run = run
        self._sources = sources
        self._process: subprocess.Popen[bytes] | None = None
        self._found: Future[list[SourceRefusals]] = Future()
        self._is_left = False
        self._sent = 0  # rows that the process has taken
        self._thread = threading.Thread(target=self._look, name="row-check", daemon=True)

    def __enter__(self) -> Self:
        if any(isinstance(each, RowStore) for each in self._sources):
            self._thread.start()
        else:
            self._found.set_result([SourceRefusals() for _ in self._sources])
        return self

    def __exit__(self, *_: object) -> None:
        self._is_left = True
        if (process := self._process) is not None:
            _kill(process)
        if self._thread.ident is not None:
            self._thread.join()

    def result(self) -> list[SourceRefusals]:
        """Return the refused rows of each source, after all rows have been checked.

        Raises:
            RunFailed: the checking process ended early, or hangs.
            OSError: the results can't be written to the rows' folder.
        """
        seen, since = -1, time.monotonic()
        while not wait([self._found], SAY_EVERY_S).done:
            if self._sent != seen:
                seen, since = self._sent, time.monotonic()
                log.info("row_check rows=%d of=%d", seen, sum(map(len, self._sources)))
            elif time.monotonic() - since > STUCK_S:
                raise RunFailed(
                    f"the check of the rows by their scorers has taken no row for {STUCK_S:.0f} s, after {seen} of "
                    f"{sum(map(len, self._sources))}: a scorer's check_row does not end on one of the next"
                )
        return self._found.result()

    def _look(self) -> None:
        try:
            self._found.set_result(self._looked())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._found.set_exception(error)

    def _looked(self) -> list[SourceRefusals]:
        digest = scorers_digest(self._run)
        stores = {each.folder: each for each in self._sources if isinstance(each, RowStore)}
        files = {folder: folder / f"refused-{digest}.jsonl" for folder in stores}
        new = [stores[folder] for folder, file in files.items() if not file.is_file()]
        if new:
            with tempfile.TemporaryFile() as answers:
                self._ask(new, answers)
                answers.seek(0)
                _keep(answers, [(len(each), files[each.folder]) for each in new])
        return [
            _read(files[each.folder]) if isinstance(each, RowStore) else SourceRefusals()
            for each in self._sources
        ]

    def _ask(self, stores: Sequence[RowStore], answers: IO[bytes]) -> None:
        """Let the process check every row of `stores`; its output goes to `answers`."""
        with scorers_process.start(COMMAND, answers) as process:
            self._process = process
            if self._is_left:
                _kill(process)
            with (
                suppress(OSError),
                cast("IO[bytes]", process.stdin) as stdin,
            ):  # a process that has ended is noticed below
                self._send(stores, stdin)
            code = process.wait()
        if code:
            raise RunFailed(
                f"the check of the rows by their scorers ended with exit code {code}; what it said stands above"
            )

    def _send(self, stores: Sequence[RowStore], stream: IO[bytes]) -> None:
        stream.write(self._run.scorers.model_dump_json().encode() + b"\n")
        for store in stores:
            for task, info in store.checked_parts():
                stream.write(b"[%b,%b]\n" % (json.dumps(task).encode(), info.encode()))
                self._sent += 1


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process with its forks, unless it has ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _keep(answers: IO[bytes], files: Sequence[tuple[int, Path]]) -> None:
    """Write to each source's file the results for its rows, which were numbered through all sources.

    Why rows could not be checked is reported for all sources together, so each file has it.
    """
    line: object = json.loads(answers.readline())
    first = 0
    endings = []
    for size, path in files:
        aside = _aside(path)
        with aside.open("w", encoding="utf-8") as file:
            while isinstance(line, list) and line[0] < first + size:
                file.write(json.dumps([line[0] - first, line[1]]) + "\n")
                line = json.loads(answers.readline())
        endings.append((aside, path))
        first += size
    for aside, path in endings:
        with aside.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        aside.rename(path)


def _aside(path: Path) -> Path:
    """Return a new temporary file next to `path`; renaming it when complete shows a reader all or nothing."""
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    os.close(handle)
    return Path(name)


def _read(path: Path) -> SourceRefusals:
    places = array("q")
    unchecked: Mapping[str, int] = {}
    with path.open(encoding="utf-8") as lines:
        for found in map(json.loads, lines):
            if isinstance(found, list):
                places.append(found[0])
            else:
                unchecked = found["unchecked"]
    return SourceRefusals(
        places=np.asarray(places, dtype=np.int64), file=path if places else None, unchecked=unchecked
    )
