"""`millrace rm` and `millrace redis-cli` on real servers."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
import redis

from broker.private_redis import addresses
from broker.private_redis import server as embedded
from tests.support.forked_program import fork_text
from tests.support.told import Capsys, Patch
from tests.tools.conftest import LeaveRun, MakeRun
from tools.confirmation import NobodyToAsk
from tools.main import main
from tools.runs.folder import holder
from tools.runs.remove import NotRemoved, remove

OURS = [
    *("rl:{demo}:prompts", "rl:{demo}:alive:generator:a", "rq:queue:demo.math", "rq:wip:demo.math"),
    *("rq:job:demo_17_3", "rq:job:demo_17-r1_1795272000123", "rq:job:demo_eval-0-5_1"),
]
OTHERS = [
    *("rl:{demo-2}:prompts", "rl:{demo_2}:prompts", "rq:queue:demo-2.math"),
    *("rq:job:demo_2_17_3", "rq:job:demo-2_17_3", "elsewhere"),
]


@pytest.fixture
def external(redis_url: str, monkeypatch: Patch) -> redis.Redis:
    monkeypatch.setenv("REDIS_URL", redis_url)
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    for key in OURS + OTHERS:
        client.set(key, "1")
    client.sadd("rq:queues", "rq:queue:demo.math", "rq:queue:demo-2.math")
    return client


def test_a_run_is_removed_to_its_last_key_and_no_other_run_is_touched(
    external: redis.Redis, leave_run: LeaveRun, runs_dir: Path
) -> None:
    folder, other = leave_run("demo", "finished"), leave_run("demo-2", "finished")
    assert remove("demo", runs_dir, is_sure=True, is_forced=False) == 0
    assert sorted(external.scan_iter()) == sorted([*OTHERS, "rq:queues"])
    assert external.smembers("rq:queues") == {"rq:queue:demo-2.math"}
    assert (folder.exists(), other.exists()) == (False, True)


def test_a_run_that_lives_is_left_alone(external: redis.Redis, leave_run: LeaveRun, runs_dir: Path) -> None:
    folder = leave_run("demo", "running")
    external.hset("rl:{demo}:alive:learner:host:1", "pid", 1)
    with pytest.raises(NotRemoved, match=r"heart beats.*--force"):
        remove("demo", runs_dir, is_sure=True, is_forced=False)
    assert folder.exists()
    assert external.exists(*OURS) == len(OURS)
    assert remove("demo", runs_dir, is_sure=True, is_forced=True) == 0
    assert external.exists(*OURS) == 0


def test_nothing_goes_when_nobody_can_be_asked(leave_run: LeaveRun, runs_dir: Path) -> None:
    folder = leave_run("demo", "finished")
    with pytest.raises(NobodyToAsk, match="--yes"):
        remove("demo", runs_dir, is_sure=False, is_forced=False)
    assert folder.exists()


@pytest.mark.parametrize("name", ["..", "a/b", "", "demo*"])
def test_what_is_no_name_is_refused(name: str, runs_dir: Path) -> None:
    with pytest.raises(NotRemoved, match="no run's name"):
        remove(name, runs_dir, is_sure=True, is_forced=True)


def test_a_redis_that_is_away_keeps_the_run(leave_run: LeaveRun, runs_dir: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    folder = leave_run("demo", "finished")
    with pytest.raises(NotRemoved, match="does not answer"):
        remove("demo", runs_dir, is_sure=True, is_forced=False)
    assert folder.exists()


def test_a_private_server_goes_with_its_run(make_run: MakeRun, runs_dir: Path) -> None:
    run = make_run()
    server = embedded.start(run)
    assert remove("demo", runs_dir, is_sure=True, is_forced=False) == 0
    assert server.has_ended
    server.stop()
    assert not run.folder.exists()
    assert embedded.find("demo", runs_dir) is None


HOLDER = """
import sys, threading
from pathlib import Path
from tools.up.role_commands import Command
from tools.runs.folder import held
from tools.up.supervisor import Supervisor
folder = Path(sys.argv[1])
with held(folder):
    Supervisor([Command(role="learner", args=("bash", "-c", "echo $$; sleep 300"), ends_the_run=True)], environment={},
               logs=folder / "logs", on_line=lambda role, text: print(text, flush=True)).run(threading.Event())
"""


def test_force_kills_what_runs_and_takes_the_folder(leave_run: LeaveRun, runs_dir: Path) -> None:
    folder = leave_run("demo", "running")
    up = fork_text(HOLDER, folder, stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    assert int(up.stdout.readline()) > 0
    assert holder(folder) is not None
    with pytest.raises(NotRemoved, match=rf"runs it \(pid {up.pid} on "):
        remove("demo", runs_dir, is_sure=True, is_forced=False)
    assert remove("demo", runs_dir, is_sure=True, is_forced=True) == 0
    assert up.wait(timeout=10) == -signal.SIGKILL
    assert not folder.exists()


def test_redis_cli_opens_a_stopped_run_for_a_while(make_run: MakeRun, runs_dir: Path, capfd: Capsys) -> None:
    server = embedded.start(make_run())
    with redis.Redis.from_url(server.url) as client:
        client.hset("rl:{demo}:where", "17", "prompts 1-0")
    server.stop()
    assert main(["redis-cli", "--runs-dir", str(runs_dir), "demo", "HGET", "rl:{demo}:where", "17"]) == 0
    assert capfd.readouterr().out.strip().strip('"') == "prompts 1-0"
    known = addresses.find("demo", runs_dir)
    assert known is not None
    with redis.Redis.from_url(known.url) as client, pytest.raises(redis.ConnectionError):
        client.ping()
