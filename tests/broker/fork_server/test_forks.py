"""A fork of a process that has imported a command's libraries is the command started anew, in all that it can tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker import processes
from broker.fork_server import client
from broker.fork_server.client import ForkedProcess, ForkServer
from tests.support.paths import ROOT
from tests.support.waiting import is_running, wait_until, wait_until_gone

pytestmark = pytest.mark.process

FACTS = """
import json, os, random, sys
def main(words):
    print(json.dumps({
        "words": words, "argv": sys.argv[1:], "env": dict(os.environ), "parent": os.getppid(),
        "is_leader": os.getpgid(0) == os.getpid(), "built": getattr(sys.modules.get("beforehand"), "built", None), "random": random.random(),
        "stdin": sys.stdin.read(),
    }))
    return 7
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""
WAITS = "import time\ndef main(words): time.sleep(60)"
HELD = "import os, sys\ndef main(words): sys.exit(os.read(int(os.environ['HELD']), 99).decode())"


def command(folder: Path, name: str, program: str) -> None:
    """Write a package whose `main` is run by `python -m`, and by a fork."""
    (folder / name).mkdir()
    (folder / name / "__main__.py").write_text(program)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the path of every process, with a module to run, `facts`, and one to import."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    command(tmp_path, "facts", FACTS)
    (tmp_path / "beforehand.py").write_text("built = []\ndef build(): built.append(1)")
    return tmp_path


@pytest.fixture
def server(modules: Path) -> Iterator[ForkServer]:
    with closing(ForkServer(["a_module_that_is_not_there", "beforehand:build"])) as server:
        wait_until(lambda: server.may_spawn)
        yield server


def facts_of(server: ForkServer, *words: str, **variables: str) -> tuple[dict[str, Any], processes.Process]:
    reader, writer = os.pipe()
    with os.fdopen(reader) as output:
        with os.fdopen(writer, "wb") as stdout:
            process = server.spawn(
                [sys.executable, "-m", "facts", *words], env={**os.environ, **variables}, stdout=stdout
            )
        found: dict[str, Any] = json.loads(output.read())
    assert process.wait() == 7
    return found, process


def test_a_fork_is_the_command_started_anew(server: ForkServer) -> None:
    found, process = facts_of(server, "--run", "a b", OWN="1")
    assert isinstance(process, ForkedProcess)
    assert (found["words"], found["argv"], found["built"]) == (["--run", "a b"], ["--run", "a b"], [1])
    assert (found["parent"], found["is_leader"], found["stdin"]) == (os.getpid(), True, "")
    assert found["env"] == {**os.environ, "OWN": "1"}, "nothing of the server's own"
    assert facts_of(server)[0]["random"] != found["random"]


def test_it_keeps_descriptors_and_its_errors_can_be_read(server: ForkServer, modules: Path) -> None:
    command(modules, "held", HELD)
    reader, writer = os.pipe()
    os.write(writer, b"from the pipe")
    process = server.spawn(
        [sys.executable, "-m", "held"], env=os.environ, stderr=subprocess.PIPE, held={"HELD": reader}
    )
    os.close(reader)
    os.close(writer)
    assert isinstance(process, ForkedProcess)
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b"from the pipe\n"
    assert process.wait() == 1


def test_people_see_the_command(server: ForkServer, modules: Path) -> None:
    command(modules, "waits", WAITS)
    process = server.spawn([sys.executable, "-m", "waits", "--run", "x"], env=os.environ)
    try:
        shown = [word for word in psutil.Process(process.pid).cmdline() if word]
        assert shown == [sys.executable, "-m", "waits", "--run", "x"]
        assert not processes.has_ended(process)
    finally:
        assert processes.stop(process, 0) == -signal.SIGKILL


def test_a_fork_dies_with_the_process_that_asked_for_it(modules: Path) -> None:
    command(modules, "waits", WAITS)
    program = (
        "import os, sys, time\nfrom broker.fork_server.client import ForkServer\n"
        "server = ForkServer(['beforehand'])\n"
        "while not server.may_spawn: time.sleep(0.01)\n"
        "print(server.spawn([sys.executable, '-m', 'waits'], env=os.environ).pid, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    fork = int(owner.stdout.readline())
    below = [child.pid for child in psutil.Process(owner.pid).children()]
    assert fork in below
    assert all(map(is_running, below))
    owner.kill()
    owner.wait()
    for pid in below:
        wait_until_gone(pid)


@pytest.mark.parametrize("when", ["idle", "a thread", "late", "none", "no files in memory"])
def test_without_a_server_commands_start_from_nothing(
    modules: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    (modules / "thread.py").write_text(
        "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    (modules / "slow.py").write_text("import time; time.sleep(60)")
    if when == "no files in memory":
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(client, "IMPORT_S", 0.2 if when == "late" else 60.0)
    imports = {"idle": ["beforehand"], "a thread": ["thread"], "late": ["slow"], "none": []}.get(
        when, ["beforehand"]
    )
    with closing(ForkServer(imports)) as server:
        wait_until(lambda: server.may_spawn)
        if when == "idle":
            assert server._process is not None
            os.kill(server._process.pid, signal.SIGKILL)
        found, process = facts_of(server, "x")
        assert isinstance(process, subprocess.Popen)
        assert (found["words"], found["built"]) == (["x"], None)
    why = {"idle": "fork_server ended", "a thread": "1 threads", "late": "longer than 0 s"}.get(when, "")
    assert why in caplog.text


def test_a_server_that_has_begun_is_told_the_rest_later(modules: Path) -> None:
    (modules / "first.py").write_text("import beforehand; beforehand.build()")
    with closing(ForkServer(["first"], is_complete=False)) as server:
        assert not server.may_spawn
        server.complete(["first", "beforehand:build"])
        wait_until(lambda: server.may_spawn)
        found, process = facts_of(server)
    assert isinstance(process, ForkedProcess)
    assert found["built"] == [1, 1]


@pytest.mark.parametrize("when", ["nothing is to fork", "it has died"])
def test_without_what_was_begun_commands_start_from_nothing(
    modules: Path, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    with closing(ForkServer(["beforehand"], is_complete=False)) as server:
        process = server._process
        assert process is not None
        if when == "it has died":
            os.kill(process.pid, signal.SIGKILL)
            wait_until(lambda: processes.has_ended(process))
        server.complete([] if when == "nothing is to fork" else ["beforehand"])
        wait_until(lambda: server.may_spawn)
        assert process.returncode == -signal.SIGKILL, "it is not left behind"
        found, process_of_command = facts_of(server, "x")
    assert isinstance(process_of_command, subprocess.Popen)
    assert (found["words"], found["built"]) == (["x"], None)
    assert ("fork_server ended" in caplog.text) == (when == "it has died")
