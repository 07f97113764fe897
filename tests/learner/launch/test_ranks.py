"""The start and the end of the learner's processes. The ranks here are small programs without torch."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from learner.launch.ranks import Ranks, RanksEnded, launch, launch_or_join
from tests.conftest import ROOT
from tests.support.tiny import tiny_run
from tests.support.waiting import is_running, wait_until, wait_until_gone

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

Patch = pytest.MonkeyPatch
SAY = """
import os, pathlib
folder = pathlib.Path({folder!r})
rank = os.environ["RANK"]
part = folder / f"{{rank}}.part"
part.write_text(" ".join([str(os.getpid()), *map(os.environ.get, ["LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"])]))
part.rename(folder / rank)
"""
WAIT, WAIT_HALF = "import time; time.sleep(60)", "import time; time.sleep(0.5)"
KILLED = "os.kill(os.getpid(), 9)"


def once_there(file: str) -> str:
    """Return what waits for a file in the folder."""
    return f"import time; any(time.sleep(0.02) for _ in iter((folder / '{file}').exists, True))"


def program(folder: Path, *, rank_0: str = "", others: str = "") -> list[str]:
    """Return a command in which each rank says who it is and goes on with its part."""
    part = f"if rank == '0':\n  {rank_0 or 'pass'}\nelse:\n  {others or 'pass'}\n"
    return [sys.executable, "-c", SAY.format(folder=str(folder)) + part]


def launcher(command: list[str], ranks: int) -> subprocess.Popen[bytes]:
    """`launch` in a process of its own, to be sent signals."""
    code = f"import sys\nfrom learner.launch.ranks import launch\nsys.exit(launch({command!r}, {ranks}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


def test_each_rank_is_told_its_place_and_rank_0_alone_may_listen_on_their_port(tmp_path: Path) -> None:
    def taken(reuse: bool) -> str:
        return (
            "import socket; taken = socket.socket(); "
            f"taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, {int(reuse)}); "
            "taken.bind(('127.0.0.1', int(os.environ['MASTER_PORT']))); taken.listen()"
        )

    assert launch(program(tmp_path, rank_0=taken(True)), 2) == 0, "as torch's store does"
    said = [(tmp_path / str(rank)).read_text().split()[1:] for rank in range(2)]
    assert said == [["0", "2", "127.0.0.1"], ["1", "2", "127.0.0.1"]]
    assert launch(program(tmp_path, rank_0=taken(False)), 2) == 1, "as anybody else"


@pytest.mark.parametrize(
    ("ending", "code"), [("raise SystemExit(7)", 7), ("os.kill(os.getpid(), 9)", 128 + 9)]
)
def test_a_rank_that_dies_ends_the_others_and_gives_its_code(tmp_path: Path, ending: str, code: int) -> None:
    begun = time.monotonic()
    after_rank_0 = f"{once_there('0')}; {ending}"
    assert launch(program(tmp_path, rank_0=WAIT, others=after_rank_0), 2) == code
    assert time.monotonic() - begun < 20  # not the minute that rank 0 would have slept
    assert not is_running(int((tmp_path / "0").read_text().split()[0]))


@pytest.mark.parametrize(
    ("rank_0", "others", "said"),
    [
        ("raise SystemExit(1)", WAIT_HALF, "ranks end code=1: rank 0 has said why"),  # a verdict
        (KILLED, WAIT_HALF, "rank died code_by_rank={0: 137}: ending the others"),
        (WAIT, "raise SystemExit(1)", "rank died code_by_rank={1: 1}: ending the others"),
    ],
)
def test_an_end_that_rank_0_decides_is_told_from_a_death(
    rank_0: str, others: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    launch(program(tmp_path, rank_0=rank_0, others=others), 2)
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [said]


def says(error: str) -> str:
    return f"from learner.launch.ranks import say_last; say_last({error}); raise SystemExit(1)"


CLOSED = says("RuntimeError('[pair.cc:534] Connection closed by peer [127.0.0.1]:2345')")
RAISED = says("ValueError('x')")
LATER = "import time; time.sleep(0.7); "


@pytest.mark.parametrize(
    ("rank_0", "others", "said"),
    [
        (WAIT, KILLED, [("rank 1 was killed by SIGKILL", True, False)]),
        (WAIT, RAISED, [("rank 1 ended with code 1: ValueError: x", False, False)]),
        (CLOSED, LATER + RAISED, [("rank 1 ended with code 1: ValueError: x", False, True)]),  # it was slower
        (KILLED, CLOSED, [("rank 0 was killed by SIGKILL", True, False)]),
        (RAISED, LATER + CLOSED, []),  # a verdict, and its echo
        ("pass", LATER + RAISED, []),  # rank 0 had done everything
    ],
)
def test_who_died_and_how_is_told(
    rank_0: str, others: str, said: list[tuple[str, bool, bool]], tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(ROOT)
    ignore = "import signal; signal.signal(15, signal.SIG_IGN); "  # as the ranks but 0 do
    told: list[RanksEnded] = []
    launch(program(tmp_path, rank_0=rank_0, others=ignore + others), 2, report=told.append)
    assert [(ended.why, ended.by_signal, ended.has_verdict) for ended in told] == said


def test_a_rank_that_ignores_the_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.launch.ranks.GRACE_S", 0.2)
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
    assert launch(program(tmp_path, others=stubborn), 2) == 1
    assert not is_running(int((tmp_path / "1").read_text().split()[0]))


def test_a_sigterm_goes_to_rank_0_alone_and_once(tmp_path: Path) -> None:
    handler = (
        "import signal, time; signal.signal(15, lambda *_: (folder / 'term').open('a').write('x')); "
        f"(folder / 'ready').touch(); {once_there('term')}; time.sleep(0.3); (folder / 'end').touch()"
    )
    process = launcher(program(tmp_path, rank_0=handler, others=once_there("end")), 2)
    wait_until(lambda: (tmp_path / "ready").exists() and (tmp_path / "1").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0  # rank 1, who has no handler, was not sent it: it would be 143
    assert (tmp_path / "term").read_text() == "x"


def test_a_launcher_killed_with_9_leaves_no_rank_behind(tmp_path: Path) -> None:
    process = launcher(program(tmp_path, rank_0=WAIT, others=WAIT), 2)
    wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    process.kill()
    process.wait()
    pids = [int((tmp_path / str(rank)).read_text().split()[0]) for rank in range(2)]
    wait_until_gone(*pids)


def test_one_rank_needs_no_launcher() -> None:
    assert launch_or_join(tiny_run(Path("m")), []) == Ranks(rank=0, local_rank=0, world_size=1)


@pytest.mark.prove(after=2)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_launchers_rank_is_taken_and_leaves_signals_to_rank_0(monkeypatch: Patch, rank: int) -> None:
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        found = launch_or_join(tiny_run(Path("m"), ranks=5), [])
        ignores = [signal.getsignal(number) is signal.SIG_IGN for number in before]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert found == Ranks(rank=rank, local_rank=rank, world_size=2)
    assert ignores == [rank > 0] * 2
