"""What is said of an error in the user's code: the last lines of its traceback, without frames of ours."""

from __future__ import annotations

import os
import socket
import traceback
from typing import Optional

LINES, CHARACTERS = 16, 8000  # of a traceback
OURS = os.path.dirname(os.path.abspath(__file__))


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
    """Return whether an error, or one that it follows from, says that an address is out of reach."""
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
