"""Processes end with their parent, and stop in two stages. Real processes throughout."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker import processes
from tests.support.paths import ROOT
from tests.support.waiting import is_running, wait_until_gone

pytestmark = pytest.mark.process


def run_python(program: str, *args: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", f"from broker import processes\n{program}", *args]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE)


def line_of(process: subprocess.Popen[Any]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    return (line if isinstance(line, str) else line.decode()).strip()


def test_a_child_dies_when_its_parent_is_killed() -> None:
    parent = run_python(
        "import time\nprint(processes.spawn(['sleep', '60']).pid, flush=True); time.sleep(60)"
    )
    child = int(line_of(parent))
    assert is_running(child)
    parent.kill()
    parent.wait()
    wait_until_gone(child)


def test_a_child_whose_parent_is_already_gone_ends_itself() -> None:
    late = run_python("processes.die_with_parent(parent_pid=1 << 22)\nprint('survived')")
    output, _ = late.communicate(timeout=10)
    assert (late.returncode, output) == (-signal.SIGKILL, "")


def test_spawning_from_a_thread_is_refused() -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(RuntimeError, match="main thread"):
        pool.submit(processes.spawn, ["true"]).result()


@pytest.mark.parametrize(
    ("script", "grace_s", "code"),
    [
        ("trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done", 5.0, 7),  # ends in its own way
        ("trap '' TERM; echo up; while :; do sleep 0.02; done", 0.2, -signal.SIGKILL),  # won't end: is killed
    ],
)
def test_stop_asks_first_and_kills_then(script: str, grace_s: float, code: int) -> None:
    process = processes.spawn(["bash", "-c", script], stdout=subprocess.PIPE)
    line_of(process)
    assert processes.stop(process, grace_s) == code


def test_stop_sweeps_what_the_process_left_in_its_group() -> None:
    process = processes.spawn(["bash", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE)
    left = int(line_of(process))
    assert processes.wait(process, 5.0)
    assert is_running(left)
    assert processes.stop(process, grace_s=5.0) == 0
    wait_until_gone(left)


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_wait_for_several_ends_with_the_first_of_them(
    monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    if not has_descriptors:

        def refuse(_pid: int) -> int:
            raise OSError(errno.ENOSYS, "no such call")

        monkeypatch.setattr(os, "pidfd_open", refuse)
    long, short = processes.spawn(["sleep", "600"]), processes.spawn(["sleep", "0.2"])
    try:
        while not processes.has_ended(short):
            processes.wait_for_any([long, short], 500.0)
        assert not processes.has_ended(long)
    finally:
        processes.stop(long, 0)
        processes.stop(short, 0)


def test_a_wait_for_several_ends_with_news() -> None:
    reader, writer = os.pipe()
    long = processes.spawn(["sleep", "600"])
    try:
        os.write(writer, b"1")
        processes.wait_for_any([long], 500.0, news=[reader])
        assert not processes.has_ended(long)
    finally:
        processes.stop(long, 0)
        os.close(reader)
        os.close(writer)


STOPPABLE = """
import sys, time
stop = processes.stop_on_signals(lambda: print("cut", flush=True))
print("up", flush=True)
stop.wait()
print("finishing", flush=True)
if sys.argv[1] == "slow": time.sleep(60)
print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("sent", "pace", "output", "code"),
    [
        ([signal.SIGTERM], "quick", ["finishing", "done"], 0),
        ([signal.SIGINT], "quick", ["finishing", "done"], 0),
        ([signal.SIGTERM, signal.SIGTERM], "slow", ["finishing", "cut"], 143),
        ([signal.SIGTERM, signal.SIGINT], "slow", ["finishing", "cut"], 130),
    ],
)
def test_one_signal_finishes_and_two_end_at_once(
    sent: list[int], pace: str, output: list[str], code: int
) -> None:
    process = run_python(STOPPABLE, pace)
    assert line_of(process) == "up"
    for number, line in zip(sent, output, strict=False):
        process.send_signal(number)
        assert line_of(process) == line
    assert process.stdout is not None
    assert process.stdout.read().split() == output[len(sent) :]
    assert process.wait(timeout=10) == code


def test_a_signal_to_a_fork_is_not_counted_as_its_parents() -> None:
    program = (
        "import os, signal, time\n"
        "stop = processes.stop_on_signals()\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60); os._exit(0)\n"
        "time.sleep(0.2); os.kill(child, signal.SIGTERM)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stop.wait(0.2))"
    )
    assert run_python(program).communicate(timeout=10)[0].split() == ["-15", "False"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with code 0"), (-11, "was killed by SIGSEGV"), (-40, "was killed by signal 40")],
)
def test_an_exit_code_is_said_in_words(code: int, words: str) -> None:
    assert processes.how_it_ended(code) == words
