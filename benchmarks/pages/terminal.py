"""A command at a terminal that is watched until it has said something, and then gets an answer or a Ctrl-C.

In: words and a pattern. Out: what matched, and the exit code. Used by the proofs that type the pages' commands: many
draw a screen only where there is a terminal.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

END_S = 60.0  # from that to its end
POLL_S = 0.5
LAST_CHARS = 400


class NotSaid(Exception):
    """The command ended early or did not say the pattern in time; the message has its last words."""


def watch(
    words: Sequence[str | Path],
    pattern: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    at_most_s: float,
    answer: str = "",
) -> tuple[str, int]:
    """Start `words` and read until `pattern` matches. Returns the match and the exit code, negative for a signal.

    Args:
        answer: what is typed then; Ctrl-C without one.
    Raises:
        NotSaid: see there.
    """
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # we were started behind `&`: so would be what we start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        found = _read_until(ours, pattern, at_most_s)
        if answer:
            os.write(ours, f"{answer}\n".encode())
        else:
            os.killpg(process.pid, signal.SIGINT)
        _read_to_the_end(ours, process)
        return found, process.wait(END_S)
    except subprocess.TimeoutExpired:
        raise NotSaid(f"it does not end within {END_S:.0f} s of {answer or 'Ctrl-C'}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def _read_until(terminal: int, pattern: str, at_most_s: float) -> str:
    said = ""
    deadline = time.monotonic() + at_most_s
    while (found := re.search(pattern, said)) is None:
        if time.monotonic() > deadline:
            raise NotSaid(f"nothing like {pattern!r} within {at_most_s:.0f} s; it said: {said[-LAST_CHARS:]}")
        if select.select([terminal], [], [], POLL_S)[0]:
            try:
                said += os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:  # a terminal whose last program has ended
                raise NotSaid(f"it ended, and had said: {said[-LAST_CHARS:]}") from None
    return found[0]


def _read_to_the_end(terminal: int, process: subprocess.Popen[bytes]) -> None:
    """Read what is left: a program whose terminal nobody reads waits for a reader."""
    deadline = time.monotonic() + END_S
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([terminal], [], [], POLL_S)[0]:
            with contextlib.suppress(OSError):
                os.read(terminal, 1 << 16)
