"""Compare a program's output with the output that a case expects; pure functions on text.

In: expected and printed standard output. Out: None if they are equal, else a short reason. Called by
`verdicts.code.judging` outside the sandbox: the expected text never enters it.

Strict, the default: the lines are equal, except for white space at the end of a line and empty lines at the end. A
token that the case writes as a float (`0.5`, `1e-3`) is matched by a number within 1e-6, relative, or absolute below 1.
Everything else is compared exactly: upper and lower case, whole numbers, numbers that overflow a float, the space
between tokens. Compatible, II-Thought's and SandboxFusion's rule: lines stripped on both sides, upper and lower case
equal, floats within 1e-5, relative.
"""

from __future__ import annotations

import math
import re
from typing import Final

STRICT_TOLERANCE: Final = 1e-6
COMPATIBLE_TOLERANCE: Final = 1e-5
_SHOWN_CHARS: Final = 60
_FLOAT: Final = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_NUMBER_CHARS: Final = 400  # longer ones are compared as text


def difference(printed: str, expected: str, *, compatible: bool = False) -> str | None:
    """Return why the output is wrong; None if it is right."""
    got, wanted = _lines(printed, compatible), _lines(expected, compatible)
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=False), start=1):
        if mine != theirs and not _same_line(mine, theirs, compatible):
            place = f"line {number}: " if len(wanted) > 1 else ""
            return f"{place}expected {_shown(theirs)}, got {_shown(mine)}"
    if len(got) < len(wanted):
        return f"line {len(got) + 1}: expected {_shown(wanted[len(got)])}, got no such line"
    if len(got) > len(wanted):
        return f"line {len(wanted) + 1}: expected no such line, got {_shown(got[len(wanted)])}"
    return None


def _lines(text: str, compatible: bool) -> list[str]:
    unified = text.replace("\r\n", "\n")
    lines = [line.strip().lower() if compatible else line.rstrip() for line in unified.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(got: str, expected: str, compatible: bool) -> bool:
    """Return whether two lines agree token by token, floats within a tolerance, the space between tokens exactly."""
    mine, theirs = re.split(r"(\s+)", got), re.split(r"(\s+)", expected)
    return len(mine) == len(theirs) and all(
        token == wanted or _near(token, wanted, compatible)
        for token, wanted in zip(mine, theirs, strict=True)
    )


def _near(got: str, expected: str, compatible: bool) -> bool:
    wanted = _NUMBER if compatible else _FLOAT
    if max(len(got), len(expected)) > _MAX_NUMBER_CHARS or not (
        wanted.fullmatch(expected) and _NUMBER.fullmatch(got)
    ):
        return False
    mine, theirs = float(got), float(expected)
    if math.isinf(mine) or math.isinf(theirs):  # the text overflows a float: as numbers all would be equal
        return False
    if compatible:
        return math.isclose(mine, theirs, rel_tol=COMPATIBLE_TOLERANCE)
    return abs(mine - theirs) <= STRICT_TOLERANCE * max(1.0, abs(theirs))


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}...")
