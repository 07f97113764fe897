"""A command, with what all of its processes used: `python -m benchmarks.rigs.measured OUT SECONDS TREE COMMAND ...`.

In: a command and its deadline. Out: a JSON file with wall time, processor seconds and memory. Processes that lose their
parent are adopted here, so that a server in the background counts too. Memory is the largest sum of the processes'
proportional sizes (PSS), looked at twice a second by this process, whose own time does not count.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import results
from broker.processes import spawn, stop, wait

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
LOOK_S = 0.5
LEFT_S = 30.0  # for what the command leaves behind to end
GRACE_S = 40.0  # for a command that is late to be killed


class CommandFailed(Exception):
    """A command failed, or did not end."""


def run_measured(
    command: Sequence[str], folder: Path, *, at_most_s: float, tree: Path = results.ROOT
) -> dict[str, Any]:
    """Run a command to its end in a process of its own, with its log in `folder`.

    Args:
        tree: checkout in which it runs, whose code its processes import.
    Returns:
        `began_at` (Unix time), `wall_s`, `processor_s` of all processes, `memory_mb`.
    Raises:
        CommandFailed: it failed or hangs.
    """
    found, log = folder / "used.json", folder / "log.txt"
    words = [
        sys.executable,
        "-m",
        "benchmarks.rigs.measured",
        str(found),
        str(at_most_s),
        str(tree),
        *command,
    ]
    with log.open("wb") as output:
        process = spawn(words, cwd=results.ROOT, stdout=output, stderr=output)
        try:
            wait(process, at_most_s + GRACE_S)
        finally:
            code = stop(process, GRACE_S)
    if code or not found.exists():
        raise CommandFailed(f"{' '.join(command[:4])} ended with {code}: see {log}")
    used: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return used


def main(out: str, seconds: str, tree: str, *command: str) -> int:
    """Run the command, and return its exit code."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, began_at = time.monotonic(), time.time()
    process = subprocess.Popen(command, cwd=tree, env={**os.environ, "PYTHONPATH": tree})
    most, is_over = [0], threading.Event()
    watch = threading.Thread(target=_watch, args=(most, is_over), daemon=True)
    watch.start()
    late = threading.Timer(float(seconds), _end_all)
    late.daemon = True
    late.start()
    code = _wait_all(process.pid)
    wall_s = time.monotonic() - began
    late.cancel()
    is_over.set()
    watch.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = {
        "exit_code": code,
        "began_at": began_at,
        "wall_s": wall_s,
        "processor_s": used.ru_utime + used.ru_stime,
        "memory_mb": most[0] / 2**20,
    }
    Path(out).write_text(json.dumps(said), encoding="utf-8")
    return code


def _wait_all(pid: int) -> int:
    """Reap every process below, and return how the one ended. What outlives it by `LEFT_S` is killed."""
    code, ended = 1, None
    while True:
        try:
            reaped, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if reaped == pid:
            code, ended = os.waitstatus_to_exitcode(status), time.monotonic()
        if reaped == 0:
            if ended is not None and time.monotonic() - ended > LEFT_S:
                _end_all()
            time.sleep(0.02)


def _watch(most: list[int], is_over: threading.Event) -> None:
    while not is_over.wait(LOOK_S):
        total = 0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        most[0] = max(most[0], total)


def _end_all() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
