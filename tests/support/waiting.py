"""Tests wait here and nowhere else: each wait has a deadline and a poll, and says for what it waited.

In:  a condition, a process id or a folder's path.
Out: the condition's first true value, or an AssertionError that names the condition and what a process has said.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

WITHIN_S = 30.0  # a deadline for what takes well under a second on an idle machine
POLL_S = 0.02

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    what: str = "",
    *,
    within_s: float = WITHIN_S,
    poll_s: float = POLL_S,
    log: Callable[[], object] | None = None,
) -> T:
    """Wait until `condition` is true and return its value.

    Args:
        condition: is asked every `poll_s` seconds, at least twice.
        what: a name for the condition; without one the message shows the condition's source.
        within_s: seconds from the call to the deadline.
        log: is called after the deadline; the message ends with what it returns.

    Raises:
        AssertionError: the deadline passed.
    """
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(_message(condition, what, within_s, log))
        time.sleep(poll_s)
    return value


async def wait_in_loop(
    condition: Callable[[], T],
    what: str = "",
    *,
    task: asyncio.Task[Any] | None = None,
    within_s: float = WITHIN_S,
    poll_s: float = POLL_S,
) -> T:
    """Wait as `wait_until` does while the event loop runs; an error that ended `task` is raised at once.

    Raises:
        AssertionError: the deadline passed.
    """
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if task is not None and task.done():
            task.result()
        if time.monotonic() > deadline:
            raise AssertionError(_message(condition, what, within_s, None))
        await asyncio.sleep(poll_s)
    return value


def comes_true(condition: Callable[[], object], *, within_s: float) -> bool:
    """Return whether `condition` is true once within so many seconds: for what must not come, as well."""
    try:
        wait_until(condition, within_s=within_s)
    except AssertionError:
        return False
    return True


def wait_until_gone(*pids: int, within_s: float = WITHIN_S) -> None:
    """Wait until none of the processes runs.

    Raises:
        AssertionError: one still runs at the deadline.
    """
    left = list(pids)
    wait_until(
        lambda: not any(map(is_running, pids)),
        f"the end of the processes {left}",
        within_s=within_s,
        log=lambda: f"running: {[pid for pid in pids if is_running(pid)]}",
    )


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not: in a container nobody may be there to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _message(
    condition: Callable[[], object], what: str, within_s: float, log: Callable[[], object] | None
) -> str:
    said = "" if log is None else f"\n{log()}"
    return f"not within {within_s:g} s: {what or _source_of(condition)}{said}"


def _source_of(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
