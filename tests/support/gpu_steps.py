"""Steps of `make prove-gpu` that a test makes up: a worker finds their functions by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from benchmarks.proofs.gpu.outcomes import StepFigures, StepOutcome, StepPlace, StepVerdict
from benchmarks.proofs.gpu.plan import GpuStep

CHILD = "child"  # the file with the id of a step's child


def chosen(place: StepPlace) -> StepFigures:
    """Stand in until a test puts its own here."""
    raise NotImplementedError(place)


def hangs(place: StepPlace) -> StepFigures:
    """Never end, and have a child."""
    _begins(place)
    signal.pause()
    raise AssertionError(place)


def dies(place: StepPlace) -> StepFigures:
    """End by a signal, and leave a child behind."""
    _begins(place)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError(place)


def leaves(place: StepPlace) -> StepFigures:
    """End with a code, and leave a child behind."""
    _begins(place)
    sys.exit(3)


def _begins(place: StepPlace) -> None:
    child = subprocess.Popen(["sleep", "600"])
    (place.folder / CHILD).write_text(str(child.pid), encoding="utf-8")
    print("begun", flush=True)  # noqa: T201 - for the log


def counts(place: StepPlace) -> StepFigures:
    """Count the steps of the session."""
    counted = place.kept.get("counted", list[str])
    counted.append("x")
    return StepFigures(text=f"{len(counted)} of process {os.getpid()}", facts={"pid": os.getpid()})


class MadeUpWorker:
    """Takes a number of looks for each step, and writes down when steps begin and end."""

    events: list[str]

    def __init__(self, *_: Any) -> None:
        self.is_alive = True
        self._step: GpuStep | None = None
        self._looks = 0

    def begin(self, step: GpuStep, limit_s: float) -> None:
        self._step, self._looks = step, int(limit_s)
        self.events.append(f"{step.name} begins")

    def outcome(self) -> StepOutcome | None:
        self._looks -= 1
        if self._looks > 0 or self._step is None:
            return None
        self.events.append(f"{self._step.name} ends")
        return StepOutcome(step=self._step.name, verdict=StepVerdict.PASS, text="")

    def cut_off(self) -> StepOutcome | None:
        self.end()
        name = self._step.name if self._step is not None else ""
        return StepOutcome(step=name, verdict=StepVerdict.FAIL, text="cut off")

    def end(self) -> None:
        self.is_alive = False
        self.events.append("a worker is told to end")
