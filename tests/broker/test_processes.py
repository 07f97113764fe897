"""Processes end with their parent, and stop in two stages. Real processes throughout."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from broker import processes
from tests.support.paths import ROOT
from tests.support.waiting import is_running, wait_until_gone

pytestmark = pytest.mark.process


def run_python(program: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *args], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )


def test_a_child_dies_when_its_parent_is_killed() -> None:
    parent = run_python(
        "from broker import processes; import time\n"
        "print(processes.spawn(['sleep', '60']).pid, flush=True); time.sleep(60)"
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.wait()
    wait_until_gone(child)


def test_a_child_whose_parent_is_already_gone_ends_itself() -> None:
    late = run_python(
        "from broker import processes; processes.die_with_parent(parent_pid=1 << 22)\nprint('survived')"
    )
    output, _ = late.communicate(timeout=10)
    assert (late.returncode, output) == (-signal.SIGKILL, "")


def test_spawning_from_a_thread_is_refused() -> None:
    errors: list[Exception] = []

    def spawn() -> None:
        try:
            processes.spawn(["true"])
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=spawn)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


@pytest.mark.parametrize(
    ("script", "grace_s", "code"),
    [
        ("trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done", 5.0, 7),  # ends in its own way
        ("trap '' TERM; echo up; while :; do sleep 0.02; done", 0.2, -signal.SIGKILL),  # won't end: is killed
    ],
)
def test_stop_asks_first_and_kills_then(script: str, grace_s: float, code: int) -> None:
    process = processes.spawn(["bash", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert processes.stop(process, grace_s) == code


def test_stop_sweeps_what_the_process_left_in_its_group() -> None:
    process = processes.spawn(["bash", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    assert processes.wait(process, 5.0)
    assert is_running(left)
    assert processes.stop(process, grace_s=5.0) == 0
    wait_until_gone(left)


STOPPABLE = """
from broker import processes
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
def test_the_first_signal_finishes_and_the_second_ends_at_once(
    sent: list[int], pace: str, output: list[str], code: int
) -> None:
    process = run_python(STOPPABLE, pace)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    lines: list[str] = []
    for number in sent:
        process.send_signal(number)
        lines.append(process.stdout.readline().strip())
    lines += process.stdout.read().split()
    assert lines == output
    assert process.wait(timeout=10) == code


def test_a_signal_to_a_fork_is_not_counted_as_its_parents() -> None:
    program = (
        "from broker import processes; import os, signal, time\n"
        "stop = processes.stop_on_signals()\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60); os._exit(0)\n"
        "time.sleep(0.2); os.kill(child, signal.SIGTERM)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stop.wait(0.2))"
    )
    assert run_python(program).communicate(timeout=10)[0].split() == ["-15", "False"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with code 0"),
        (1, "ended with code 1"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-40, "was killed by signal 40"),
    ],
)
def test_an_exit_code_is_said_in_words(code: int, words: str) -> None:
    assert processes.how_it_ended(code) == words
