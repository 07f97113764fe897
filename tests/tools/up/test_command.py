"""`millrace up` from its Redis to its report, with small programs in place of the roles."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import redis

from broker.connection import RedisLink
from broker.joining import RunState, state_of
from broker.keys import Keys
from broker.private_redis import addresses
from broker.protocol.run_state import explanation
from tests.support.forked_program import fork_program
from tests.support.small_up import play
from tests.support.waiting import wait_until
from tests.support.watched import living
from tools.runs.folder import read_run

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

# A learner writes its status.json by its last words.
SAYS = """say() {{
    echo '{{"status": "'$1'", "reason": "'$2'", "version": 3, "steps": 3}}' > {runs}/demo/status.json
}}
"""

StartUp = Callable[..., "Popen[str]"]


@pytest.fixture
def start_up(runs_dir: Path) -> Iterator[StartUp]:
    started: list[Popen[str]] = []

    def start(learner: str, generator: str = "sleep 300 & wait", redis_url: str = "") -> Popen[str]:
        says = SAYS.format(runs=runs_dir) + learner
        started.append(
            fork_program(partial(play, runs_dir, says, generator, redis_url), stdout=PIPE, text=True)
        )
        return started[-1]

    yield start
    for up in started:
        up.kill()
        up.wait()


def lines_until(up: Popen[str], wanted: str) -> list[str]:
    assert up.stdout is not None
    lines = []
    for line in up.stdout:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} never came: {lines} with code {up.wait()}")


def test_a_run_ends_with_its_learner_and_a_report(start_up: StartUp) -> None:
    up = start_up("echo reached $REDIS_URL; say finished; exit 0")
    output, _ = up.communicate(timeout=30)
    assert up.returncode == 0
    url = re.search(r"reached (\S+)", output)
    assert url
    assert "run demo: finished after 3 of 3 steps" in output
    with redis.Redis.from_url(url[1]) as client, pytest.raises(redis.ConnectionError):
        client.ping()


@pytest.mark.prove
def test_a_failed_learner_is_quoted_and_its_code_passed_on(start_up: StartUp) -> None:
    output, _ = (up := start_up("say failed disk_full; echo the last words; exit 1")).communicate(timeout=30)
    assert up.returncode == 1
    assert "reason     disk_full" in output
    assert re.search(r"The end of .*learner\.log:\n  the last words", output)


# argv: runs_dir. A learner that begins, and says why it was stopped.
LEARNER = """
import os, sys
from broker.connection import RedisLink
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.processes import stop_on_signals
from config.loading import build_run
from learner.journal.writer import Journal
from learner.status import Status
run = build_run([("a test", {"name": "demo", "runs_dir": sys.argv[1], "model": {"path": "tiny"},
                             "data": {"train": {"type": "procedural"}}})])
stop = stop_on_signals()
link, keys = RedisLink(os.environ["REDIS_URL"], outage_s=5.0), Keys("demo")
run_owner = RunOwner(link, keys)
Journal(run.folder / "journal", run_owner.claim(0), run="demo").close()
status = Status(run, link, keys, run_owner)
status.begin(1)
(run.folder / "begun").touch()
stop.wait()
status.end("stopped", "a signal asked for it", 2)
"""


DEAF = (
    "import sys, pathlib; pathlib.Path(sys.argv[1], 'demo', 'begun').touch(); input()"  # knows no signal yet
)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("program", "version"),
    [
        (LEARNER, 2),  # hears it, and says it
        (f"{LEARNER.partition('stop.wait')[0]}os.kill(os.getpid(), 9)", 1),  # is being started again
        (DEAF, 0),
    ],
)
def test_a_run_that_another_role_ends_has_that_for_its_reason(
    program: str, version: int, start_up: StartUp, runs_dir: Path, link: RedisLink
) -> None:
    learner = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)} {runs_dir} < <(sleep 60)"
    generator = f"until [ -e {runs_dir}/demo/begun ]; do sleep 0.05; done; echo no GPU here; echo bye; exit 2"
    output, _ = (up := start_up(learner, generator, link.url)).communicate(timeout=30)
    nothing = "another start would change nothing"
    reason = f"generator-0 ended with code 2: {nothing}; its last lines: no GPU here | bye"
    assert up.returncode == 1
    assert f"reason     {reason}\n" in output
    found = read_run(runs_dir / "demo")
    assert (found.status, found.reason, found.version) == ("failed", reason, version)
    assert state_of(link, Keys("demo")) == RunState("failed", reason)
    assert explanation(link, Keys("demo")) == "", "not the reason of the next signal"


def test_a_sigterm_lets_the_learner_finish(start_up: StartUp, runs_dir: Path) -> None:
    up = start_up("trap 'sleep 0.3; say stopped; exit 0' TERM; echo training; while :; do sleep 0.02; done")
    lines_until(up, "training")
    up.send_signal(signal.SIGTERM)
    assert up.wait(timeout=20) == 0
    assert read_run(runs_dir / "demo").status == "stopped"


def test_a_signal_ends_the_wait_for_a_redis_that_does_not_answer(start_up: StartUp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        up = start_up("exit 0", redis_url=f"redis://127.0.0.1:{silent.getsockname()[1]}")
        silent.accept()[0].close()  # it has begun to ask
        up.send_signal(signal.SIGTERM)
        silent.close()
        assert up.wait(timeout=10) not in {0, -signal.SIGTERM}


def test_a_second_signal_ends_everything_now(start_up: StartUp, runs_dir: Path) -> None:
    up = start_up("trap 'echo finishing' TERM; echo training $$; while :; do sleep 0.02; done")
    pids = [int(lines_until(up, "training")[-1].split()[-1]), redis_pid(runs_dir)]
    up.send_signal(signal.SIGINT)
    lines_until(up, "finishing")
    up.send_signal(signal.SIGINT)
    assert up.wait(timeout=10) == 130
    wait_until(lambda: not living(pids), within_s=10, log=lambda: living(pids))


def redis_url_of(runs_dir: Path) -> str:
    known = addresses.read(runs_dir / "demo")
    assert known
    return known.url


def redis_pid(runs_dir: Path) -> int:
    with redis.Redis.from_url(redis_url_of(runs_dir)) as client:
        return int(client.info("server")["process_id"])


def test_a_redis_that_dies_comes_back_where_it_was_with_its_data(start_up: StartUp, runs_dir: Path) -> None:
    up = start_up("echo training; trap 'exit 0' TERM; while :; do sleep 0.02; done")
    lines_until(up, "training")
    url, pid = redis_url_of(runs_dir), redis_pid(runs_dir)
    with redis.Redis.from_url(url) as client:
        client.set("key", "here")
        wait_until(lambda: client.info("persistence")["aof_buffer_length"] == 0)
    os.kill(pid, signal.SIGKILL)
    lines_until(up, "redis died")
    lines_until(up, "redis started")
    assert redis_url_of(runs_dir) == url
    assert redis_pid(runs_dir) != pid
    with redis.Redis.from_url(url) as client:
        assert client.get("key") == b"here"
    up.send_signal(signal.SIGTERM)
    assert up.wait(timeout=20) == 0


def test_a_kill_9_of_up_leaves_nothing(start_up: StartUp, runs_dir: Path) -> None:
    up = start_up("sleep 300 & echo training $$ $!; wait")
    pids = [int(word) for word in lines_until(up, "training")[-1].split()[-2:]]
    pids.append(redis_pid(runs_dir))
    assert living(pids) == pids
    up.kill()
    wait_until(lambda: not living(pids), within_s=10, log=lambda: living(pids))
