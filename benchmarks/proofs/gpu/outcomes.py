"""How a step of `make prove-gpu` ended: a line for people, a file for the next start.

In: what a step's process returns or raises. Out: a `StepOutcome`, as JSON in the proof's folder and as a row of the
table. Used by the command and by every worker. A file that is torn or of another form counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Device = Literal["cuda", "cpu"]
REASON_CHARS = 700  # of what is measured, or of a reason; the step's log has all of it


class StepVerdict(StrEnum):
    """How a step ended."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    SKIP = "SKIP"
    LEFT = "LEFT OUT"  # it did not fit into the budget


class Missed(Exception):
    """A step measured something that does not hold; the message says what."""


class Skipped(Exception):
    """A step can't be run here; the message says why."""


class Kept:
    """What a session's steps leave each other in their process; it ends with the process."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self._things: dict[str, Any] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what was kept under a key, made where nothing was."""
        if key not in self._things:
            self._things[key] = make()
        found: T = self._things[key]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlace:
    """Where a step runs.

    Args:
        folder: of this step alone, empty at its start.
        shared: of all steps; what one leaves there another may find.
        device: that the step is to prove something about.
        kept: by the steps of a session.
        is_fork: this process was forked with its libraries, and may be forked again before it has touched the card.
    """

    folder: Path
    shared: Path
    device: Device
    kept: Kept = field(default_factory=Kept)
    is_fork: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """What a step that passed has measured.

    Args:
        text: a sentence for people, with units.
        facts: the same for programs.
    """

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The end of one step."""

    step: str
    verdict: StepVerdict
    text: str  # what was measured, or the reason
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line on the terminal."""
        return f"{self.verdict} {self.step} ({self.seconds:.0f} s): {self.text}"

    @property
    def row(self) -> str:
        """The row of the Markdown table."""
        return f"| {self.step} | {self.verdict} | {self.seconds:.0f} | {self.text.replace('|', '/')} |"

    def write(self, file: Path) -> None:
        """Write the outcome as JSON, whole or not at all."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(file)


def read_outcome(file: Path) -> StepOutcome | None:
    """Read what `StepOutcome.write` wrote; None where there is no such file."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return StepOutcome(**fields | {"verdict": StepVerdict(fields["verdict"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def in_one_line(text: object) -> str:
    """Return a message without line breaks, cut to what a line of a table can hold."""
    words = " ".join(str(text).split())
    return words if len(words) <= REASON_CHARS else f"{words[: REASON_CHARS - 1]}…"
