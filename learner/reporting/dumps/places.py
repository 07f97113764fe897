"""Name the files of a run's dumps, and check that their folders are writable: no file of another run is touched.

In: `learner.dumps`. Out: the file of a step or a round; obstacles, in words. A folder that is new to the run must have
no dumps when the run takes it; the folders it has taken are listed in `dumps.json` of the run's own folder, since
readers of a dump folder may expect nothing but dumps. Called by preflight, which changes nothing, and by the writer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from config.run import Run
from learner.journal.disk import replace_text

Kind = Literal["jsonl", "parquet"]
TAKEN: Final = "dumps.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFolder:
    """A folder of dumps of one kind."""

    key: str  # of the configuration
    folder: Path
    kind: Kind
    every: int = 1  # steps between two files

    def file(self, number: int) -> Path:
        """Return the file of a step or of a round."""
        return self.folder / f"{number}.{self.kind}"

    def numbers(self) -> set[int]:
        """Return the steps or versions whose files exist; none where there is no folder."""
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return set()
        parts = [name.split(".") for name in names]
        return {
            int(part[0]) for part in parts if len(part) == 2 and part[0].isdecimal() and part[1] == self.kind
        }


def places_of_steps(run: Run) -> list[DumpFolder]:
    """Return the folders for answers of trained steps."""
    dumps = run.learner.dumps
    places = []
    if dumps.rollouts is not None:
        places.append(DumpFolder(key="rollouts", folder=dumps.rollouts, kind="jsonl"))
    if dumps.parquet is not None and dumps.parquet_every:
        places.append(
            DumpFolder(
                key="parquet", folder=dumps.parquet / "train", kind="parquet", every=dumps.parquet_every
            )
        )
    return places


def places_of_rounds(run: Run) -> list[DumpFolder]:
    """Return the folders for answers of held-out rounds."""
    dumps = run.learner.dumps
    places = []
    if dumps.held_out is not None:
        places.append(DumpFolder(key="held_out", folder=dumps.held_out, kind="jsonl"))
    if dumps.parquet is not None:
        places.append(DumpFolder(key="parquet", folder=dumps.parquet / "val", kind="parquet"))
    return places


def in_the_way(run: Run) -> Iterator[str]:
    """Yield a line for each dump folder that can't be written, or has the dumps of another run."""
    taken = _taken(run)
    for place in [*places_of_steps(run), *places_of_rounds(run)]:
        key = f"learner.dumps.{place.key}={place.folder}"
        there = next(folder for folder in (place.folder, *place.folder.absolute().parents) if folder.exists())
        if not there.is_dir():
            yield f"{key}: {there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            yield f"{key}: {there} can't be written by this user"
        elif str(place.folder.absolute()) not in taken and (found := place.numbers()):
            yield (
                f"{key}: {len(found)} dumps are there that this run has not written ({place.file(min(found)).name} is "
                "the first); nothing is overwritten: name another folder"
            )


def take(run: Run) -> None:
    """Make the folders of a run's dumps, and record that they are the run's.

    Raises:
        OSError: a folder can't be made or written.
    """
    places = [*places_of_steps(run), *places_of_rounds(run)]
    for place in places:
        place.folder.mkdir(parents=True, exist_ok=True)
        for left in place.folder.glob(".*.part"):  # of a killed learner
            left.unlink(missing_ok=True)
        probe = place.folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    folders = _taken(run) | {str(place.folder.absolute()) for place in places}
    if folders != _taken(run):
        run.folder.mkdir(parents=True, exist_ok=True)
        replace_text(run.folder / TAKEN, json.dumps(sorted(folders), indent=2) + "\n")


def _taken(run: Run) -> set[str]:
    """Return the folders that the run has taken."""
    try:
        return set(json.loads((run.folder / TAKEN).read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return set()
