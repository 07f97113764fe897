"""Describe an error in the user's code: one line, and the end of its traceback, without Millrace's frames."""

from __future__ import annotations

import os
import socket
import sysconfig
import traceback
from typing import Optional

LINES, CHARACTERS = 16, 8000  # of a traceback
HEADLINE_CHARACTERS = 300  # of the exception's own line
DEPTH = 8  # of nested exception groups
OURS = os.path.dirname(os.path.abspath(__file__))
LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep


def headline(error: BaseException) -> str:
    """Return an error's type, message and place, as `KeyError: 'tea' (my_agent.py:12 in price)`.

    The place is the innermost line outside of Python's library and of installed packages; else the innermost line; none
    where all frames are ours. For a group with one exception it is that exception's.
    """
    for _ in range(DEPTH):
        inner = getattr(error, "exceptions", ())
        if isinstance(inner, tuple) and len(inner) == 1 and isinstance(inner[0], BaseException):
            error = inner[0]
    told = traceback.TracebackException.from_exception(error)
    lines = "".join(told.format_exception_only()).splitlines() or [type(error).__name__]
    said = next((line for line in lines if not line.startswith(" ")), lines[0])[:HEADLINE_CHARACTERS]
    frames = [frame for frame in told.stack if not frame.filename.startswith(OURS)]
    if not frames:
        return said
    theirs = [frame for frame in frames if not _is_installed(frame.filename)]
    place = (theirs or frames)[-1]
    return f"{said} ({os.path.basename(place.filename)}:{place.lineno} in {place.name})"


def _is_installed(file: str) -> bool:
    return file.startswith((LIBRARY, "<frozen ")) or "/site-packages/" in file or "/dist-packages/" in file


def last_lines(error: BaseException) -> str:
    """Return the end of an error's traceback."""
    told = traceback.TracebackException.from_exception(error)
    part: Optional[traceback.TracebackException] = told
    while part is not None:
        theirs = [frame for frame in part.stack if not frame.filename.startswith(OURS)]
        part.stack = traceback.StackSummary.from_list(theirs)
        part = part.__cause__ or part.__context__
    return "\n".join("".join(told.format()).strip().split("\n")[-LINES:])[-CHARACTERS:]


def is_unreachable(error: Optional[BaseException]) -> bool:
    """Return whether an error, or one of its causes, means that an address is unreachable."""
    left, seen = [error], set()
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, (ConnectionError, socket.gaierror, socket.herror)):
            return True
        seen.add(id(one))
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return False
