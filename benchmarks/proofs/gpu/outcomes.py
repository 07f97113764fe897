"""How a step of `make prove-gpu` ended: a line for people, a file for the next start.

In: what a step's process returns or raises. Out: an `Outcome`, as JSON in the proof's folder and as a row of the table.
Used by the command and by every step's process. A file that is torn or of another form counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

Device = Literal["cuda", "cpu"]
REASON_CHARS = 400  # of a failure's reason; the step's log has all of it


class Verdict(StrEnum):
    """How a step ended."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    SKIP = "SKIP"


class Missed(Exception):
    """A step measured something that does not hold; the message says what."""


class Skipped(Exception):
    """A step can't be run here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a step runs.

    Args:
        folder: of this step alone, empty at its start.
        shared: of all steps; what one leaves there another may find.
        device: that the step is to prove something about.
    """

    folder: Path
    shared: Path
    device: Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a step that passed has measured.

    Args:
        text: a sentence for people, with units.
        facts: the same for programs.
    """

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one step."""

    step: str
    verdict: Verdict
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


def read_outcome(file: Path) -> Outcome | None:
    """Read what `Outcome.write` wrote; None where there is no such file."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return Outcome(**fields | {"verdict": Verdict(fields["verdict"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def in_one_line(text: object) -> str:
    """Return a message without line breaks, cut to what a line of a table can hold."""
    words = " ".join(str(text).split())
    return words if len(words) <= REASON_CHARS else f"{words[: REASON_CHARS - 1]}…"
