"""The supervisor with real, small processes in place of the roles."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from broker.restarts import RestartPolicy
from tests.support.forked_program import fork_text
from tests.support.waiting import wait_until
from tests.support.watched import WORKER, Watched, command, living
from tools.up.role_commands import Command
from tools.up.supervisor import RunEnd

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


# Until the generator has said that it is there.
UNTIL_UP = "until grep -q up {}/logs/generator-0.log; do sleep 0.02; done"
FINE = RunEnd(code=0, reason="")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 0", FINE),
        ("exit 3", RunEnd(code=3, reason="learner ended with code 3", failed_role="learner")),
        ("kill -TERM $$", RunEnd(code=143, reason="learner was killed by SIGTERM", failed_role="learner")),
        ("exit 143", RunEnd(code=143, reason="learner ended with code 143", failed_role="learner")),
    ],
)
def test_the_learners_end_is_the_runs_end(script: str, outcome: RunEnd, tmp_path: Path) -> None:
    watched = Watched(
        tmp_path, command("learner", f"{UNTIL_UP.format(tmp_path)}; {script}"), command("generator-0", WORKER)
    )
    assert watched.run() == outcome
    assert ("generator-0", "asked") in watched.lines
    assert watched.supervisor.running == 0


BY_KERNEL = "was killed by SIGKILL (by the kernel, if memory ran out)"


def at_first(folder: Path, first: str, later: str) -> str:
    """Write a script that does one thing at its first start and another one at each later one."""
    return f"[ -e {folder}/once ] && {{ {later}; }}; touch {folder}/once; {first}"


def until_it_says(folder: Path, role: str, said: str = "up") -> Command:
    """Return a learner that ends once a role has said something."""
    return command("learner", f"until grep -q {said} {folder}/logs/{role}.log; do sleep 0.02; done")


def test_a_process_that_died_is_started_again_and_its_log_goes_on(tmp_path: Path) -> None:
    script = at_first(tmp_path, "echo dying; exit 1", WORKER)
    watched = Watched(tmp_path, until_it_says(tmp_path, "scorers-0"), command("scorers-0", script))
    assert watched.run() == FINE
    assert (tmp_path / "logs" / "scorers-0.log").read_text().split() == ["dying", "up", "asked"]


def test_a_learner_that_was_killed_is_started_again(tmp_path: Path) -> None:
    script = at_first(tmp_path, "kill -9 $$", "echo going on; exit 0")
    watched = Watched(tmp_path, command("learner", script), command("generator-0", WORKER))
    assert watched.run() == FINE
    assert [text for role, text in watched.lines if role == "learner"] == ["going on"]
    assert [(role, how) for role, _, how in watched.deaths] == [("learner", BY_KERNEL)]


def test_a_start_after_a_kill_has_words_of_its_own(tmp_path: Path) -> None:
    """A learner that is to begin anew goes on with what it has itself begun."""
    script = at_first(tmp_path, "kill -9 $$", 'echo "$0"; exit 0')
    watched = Watched(tmp_path, replace(command("learner", script), again=("learner.resume=auto",)))
    assert watched.run() == FINE
    assert watched.lines == [("learner", "learner.resume=auto")]


def test_a_learner_of_several_ranks_says_by_its_code_that_one_was_killed(tmp_path: Path) -> None:
    assert Watched(tmp_path, command("learner", at_first(tmp_path, "exit 137", "exit 0"))).run() == FINE
    assert (tmp_path / "once").exists()


def test_a_learner_that_keeps_being_killed_ends_the_run(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command("learner", "echo big; kill -9 $$"))
    reason = f"learner {BY_KERNEL} 3 times within 60 s"
    assert watched.run() == RunEnd(code=1, failed_role="learner", reason=reason)


@pytest.mark.prove
def test_deaths_that_were_meant_count_against_no_limit(tmp_path: Path) -> None:
    def kill() -> None:
        if (pid := watched.supervisor.pids().get("generator-0")) and len(watched.deaths) < 4:
            watched.supervisor.forgive("generator-0")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    killed = command("generator-0", f"sleep 0.4; {WORKER}")
    watched = Watched(tmp_path, until_it_says(tmp_path, "generator-0"), killed, on_tick=kill)
    assert watched.run() == FINE
    assert [role for role, _, _ in watched.deaths] == ["generator-0"] * 4, "two would have been too many"


def test_a_process_that_keeps_dying_ends_the_run_and_the_learner_may_finish(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command("learner", WORKER), command("generator-0", "echo no GPU; exit 1"))
    reason = "generator-0 ended with code 1 3 times within 60 s"
    assert watched.run() == RunEnd(code=1, failed_role="generator-0", reason=reason)
    assert [line for line in watched.lines if line[0] == "generator-0"] == [("generator-0", "no GPU")] * 3
    assert ("learner", "asked") in watched.lines


def test_bad_config_ends_the_run_at_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command("learner", WORKER), command("scorers-0", "echo no module; exit 2"))
    reason = "scorers-0 ended with code 2: another start would change nothing"
    assert watched.run() == RunEnd(code=1, failed_role="scorers-0", reason=reason)
    assert [text for role, text in watched.lines if role == "scorers-0"] == ["no module"]


@pytest.mark.prove
def test_a_process_that_was_sent_home_stays_away(tmp_path: Path) -> None:
    watched = Watched(
        tmp_path,
        command(
            "learner", f"until grep -q once {tmp_path}/logs/generator-0.log; do sleep 0.02; done; sleep 0.2"
        ),
        command("generator-0", "echo once; exit 0"),
    )
    assert watched.run().code == 0
    assert watched.lines == [("generator-0", "once")]


def test_a_stop_lets_the_learner_finish_before_the_others_are_asked(tmp_path: Path) -> None:
    finish = f"sleep 0.3; kill -0 $(cat {tmp_path}/pid) && echo committed; exit 0"
    watched = Watched(
        tmp_path,
        command("learner", f"trap '{finish}' TERM; while :; do sleep 0.02; done"),
        command("generator-0", f"echo $$ > {tmp_path}/pid; {WORKER}"),
    )
    timer = threading.Timer(0.5, watched.stop.set)
    timer.start()
    assert watched.run() == FINE
    assert ("learner", "committed") in watched.lines  # the generator was still there


def test_one_that_will_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; sleep 300 & echo $! $$ > {tmp_path}/pids; while :; do sleep 0.02; done"
    waiting = command("learner", f"until [ -s {tmp_path}/pids ]; do sleep 0.02; done")
    watched = Watched(tmp_path, waiting, command("generator-0", stubborn))
    assert watched.run().code == 0
    wait_until(lambda: not living([int(pid) for pid in (tmp_path / "pids").read_text().split()]))


def test_what_a_tick_raises_ends_every_process(tmp_path: Path) -> None:
    def fail() -> None:
        if watched.lines:
            raise RuntimeError("redis is gone")

    watched = Watched(tmp_path, command("learner", WORKER), on_tick=fail)
    with pytest.raises(RuntimeError, match="redis is gone"):
        watched.run()
    assert watched.supervisor.running == 0


def test_children_see_where_redis_is_and_their_gpus(tmp_path: Path) -> None:
    shows = command("learner", "echo $REDIS_URL $CUDA_VISIBLE_DEVICES")
    watched = Watched(tmp_path, replace(shows, gpus="2,3"))
    watched.run()
    assert watched.lines == [("learner", "redis://here 2,3")]


PROGRAM = """
import sys, threading
from pathlib import Path
from tools.up.role_commands import Command
from tools.up.supervisor import Supervisor
script = "sleep 300 & sleep 300 & echo $$ $!; wait"        # two grandchildren that know nothing of their parents
commands = [Command(role=role, args=("bash", "-c", script), ends_the_run=role == "learner")
            for role in ("learner", "generator-0", "scorers-0")]
Supervisor(commands, environment={}, logs=Path(sys.argv[1]),
           on_line=lambda role, text: print(text, flush=True)).run(threading.Event())
"""


def test_a_kill_9_takes_children_and_grandchildren_along(tmp_path: Path) -> None:
    up = fork_text(PROGRAM, tmp_path, stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    pids = [int(pid) for _ in range(3) for pid in up.stdout.readline().split()]
    assert len(living(pids)) == 6
    groups = {os.getpgid(pid) for pid in pids}
    everyone = members(groups)
    assert len(everyone) == 9  # of each role a shell and its two sleeps
    up.kill()
    up.wait()
    wait_until(lambda: not living(everyone))


def members(groups: set[int]) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[2]) in groups:
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_a_learner_that_is_stopped_before_it_can_commit_has_not_failed(tmp_path: Path) -> None:
    watched = Watched(tmp_path, command("learner", "echo up; sleep 300"))
    threading.Timer(0.3, watched.stop.set).start()
    assert watched.run() == RunEnd(code=143, reason="stopped")


PATIENT = RestartPolicy(most=50, window_s=0.01, first_pause_s=0.01)  # as for a start that takes minutes


def counted(folder: Path, script: str) -> Command:
    """Return a generator that writes down each of its starts."""
    return command("generator-0", f"echo x >> {folder}/n; {script}")


def until_it_died(folder: Path, times: int) -> Command:
    waiting = f"until [ $(cat {folder}/n 2> /dev/null | wc -l) -ge {times} ]; do sleep 0.02; done"
    return command("learner", waiting)


LOGGED = "echo 10:00:00 generator ERROR generators: ended"
THRICE = "generator-0 ended with code 1 3 times for the same reason"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"{LOGGED} reason=no memory for pid $$; exit 1", f"{THRICE}: no memory for pid "),
        (f"{LOGGED} by a bug; echo 'ValueError: bad 'shape; exit 1", f"{THRICE}: ValueError: bad shape"),
        ("echo dying; kill -SEGV $$", "generator-0 was killed by SIGSEGV 3 times for the same reason: dying"),
        ("exit 1", THRICE),
    ],
)
def test_three_deaths_for_the_same_reason_end_the_run(tmp_path: Path, script: str, reason: str) -> None:
    watched = Watched(tmp_path, command("learner", WORKER), counted(tmp_path, script), restarts=PATIENT)
    outcome = watched.run()
    assert outcome.reason.startswith(reason)
    assert (outcome.code, outcome.failed_role) == (1, "generator-0")
    assert (tmp_path / "n").read_text().count("x") == 3


@pytest.mark.prove
@pytest.mark.parametrize(
    "script",
    [
        "echo failed for reason=$(head -c 4 /dev/urandom | tr -dc a-z)$(wc -c < {n} | tr 0-9 a-j); exit 1",
        "echo '10:00:00 generator ERROR generators: ended reason=redis at h:1 is not there: (for 300 s)'; exit 1",
        "echo the same; kill -9 $$",  # the kernel's, or an operator's: no reason of the role's own
    ],
)
def test_deaths_for_other_reasons_and_kills_do_not_end_the_run_so(tmp_path: Path, script: str) -> None:
    dying = counted(tmp_path, script.format(n=tmp_path / "n"))
    assert Watched(tmp_path, until_it_died(tmp_path, 6), dying, restarts=PATIENT).run() == FINE


@pytest.mark.prove
def test_a_role_that_had_started_and_worked_may_die_for_the_same_reason_again(tmp_path: Path) -> None:
    dying = command("generator-0", f"sleep 0.2; echo x >> {tmp_path}/n; echo no answer; exit 1")
    watched = Watched(tmp_path, until_it_died(tmp_path, 5), dying, restarts=PATIENT, start_s=0.1)
    assert watched.run() == FINE
