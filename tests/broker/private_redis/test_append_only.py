"""A torn tail of the append-only file: half of a script runs where nobody mends it, and never where somebody does."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from broker.connection import RedisLink
from broker.errors import WrongBroker
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.private_redis import server as embedded
from config.loading import build_run
from tests.broker.conftest import Board
from tests.support.redis_servers import SERVERS, RedisServer, append_only_file, carried, mend, newer

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

Start = Callable[[Path], RedisServer]


@pytest.fixture
def start(version: str) -> Iterator[Start]:
    """Start a server of `version` on a folder, writing at once so that the file is what the test expects."""
    started = []

    def start(folder: Path) -> RedisServer:
        started.append(RedisServer(folder, "--appendfsync", "always", program=SERVERS[version]()))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def board_of(server: RedisServer) -> Board:
    """Return a run on that server."""
    return Board(RedisLink(server.url, outage_s=10), Keys("test"))


def kill_in_hand_over(server: RedisServer) -> bytes:
    """Hand group 0 over to `rollouts`, and end as if a kill had cut that script's write. Returns the script's bytes."""
    board = board_of(server)
    board.issue(0)
    before = append_only_file(server.folder).stat().st_size
    assert board.move(board.entry("0"), ROLLOUTS)
    server.kill()
    written = append_only_file(server.folder).read_bytes()[before:]
    assert written.startswith(b"*1\r\n$5\r\nMULTI\r\n")
    assert written.endswith(b"*1\r\n$4\r\nEXEC\r\n")
    return written


def cut(folder: Path, size: int) -> None:
    """Take bytes off the end of the file."""
    file = append_only_file(folder)
    os.truncate(file, file.stat().st_size - size)


def restart_twice(server: RedisServer) -> Board:
    """Start, let something happen, be killed, and start again."""
    server.start()
    board = board_of(server)
    board.issue(1)
    board.move(board.entry("1"), ROLLOUTS)
    server.kill()
    server.start()
    return board_of(server)


@pytest.mark.parametrize("version", SERVERS)
def test_half_a_script_runs_at_the_second_start_of_a_redis_that_nobody_mended(
    start: Start, tmp_path: Path
) -> None:
    server = start(tmp_path)
    written = kill_in_hand_over(server)
    cut(tmp_path, len(written) - written.index(b"XADD"))  # after XDEL, which the file has
    board = restart_twice(server)
    assert board.ids(PROMPTS) == []
    assert board.ids(ROLLOUTS) == ["1"], "group 0 was deleted from prompts and is nowhere"
    assert set(board.slots()) == {"0", "1"}


@pytest.mark.parametrize("version", SERVERS)
def test_a_mended_redis_knows_the_whole_script_or_nothing_of_it(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = start(tmp_path)
    written = kill_in_hand_over(server)
    torn = len(written) - written.index(b"XADD")
    cut(tmp_path, torn)
    assert mend(server.program, tmp_path) == len(written) - torn
    assert f"cut_off_bytes={len(written) - torn} " in caplog.text
    assert "Expected to read" in caplog.text, "and why"
    board = restart_twice(server)
    assert board.ids(PROMPTS) == ["0"]
    assert board.ids(ROLLOUTS) == ["1"]
    board.audit()


@pytest.mark.parametrize("version", SERVERS)
def test_wherever_the_cut_is_the_file_ends_before_the_script(start: Start, tmp_path: Path) -> None:
    server = start(tmp_path / "run")
    written = kill_in_hand_over(server)
    copy = tmp_path / "copy"
    for size in range(1, len(written), 11):
        shutil.copytree(server.folder, copy)
        cut(copy, size)
        assert mend(server.program, copy) == len(written) - size, f"{size} bytes are missing"
        shutil.rmtree(copy)


@pytest.mark.parametrize("version", SERVERS)
def test_a_whole_file_stays_as_it_is(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = start(tmp_path)
    kill_in_hand_over(server)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert mend(server.program, tmp_path) == 0
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert not caplog.messages


def test_nothing_is_mended_where_there_is_nothing(tmp_path: Path) -> None:
    assert mend(carried(), tmp_path) == 0
    (tmp_path / "appendonly.aof").touch()
    assert mend(carried(), tmp_path) == 0


def test_the_file_of_an_older_redis_is_mended_before_a_newer_one_takes_it_over(tmp_path: Path) -> None:
    older = RedisServer(tmp_path, "--appendfsync", "always")
    written = kill_in_hand_over(older)
    cut(tmp_path, len(written) - written.index(b"XADD"))
    older.program = newer()
    assert mend(older.program, tmp_path) > 0
    try:
        board = restart_twice(older)
        assert (board.ids(PROMPTS), board.ids(ROLLOUTS)) == (["0"], ["1"])
        board.audit()
    finally:
        older.kill()


def test_an_older_redis_is_not_started_on_what_a_newer_one_wrote(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, program=newer())
    server.kill()
    with pytest.raises(
        WrongBroker, match=r"written by Redis 7 or newer, and .* is 6\.2.*install redis-server 7"
    ):
        mend(carried(), tmp_path)


@pytest.mark.parametrize("version", ["6.2"])
def test_what_no_check_can_mend_is_said_and_left_to_the_server(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = start(tmp_path)
    board_of(server).issue(0)
    server.stop()
    file = append_only_file(tmp_path)
    file.write_bytes(b"REDIS0009" + file.read_bytes())  # a snapshot at the head that is none
    damaged = file.read_bytes()
    assert mend(server.program, tmp_path) == 0
    assert caplog.records[0].levelno == logging.WARNING
    assert "append_only_file not mended" in caplog.text
    assert file.read_bytes() == damaged


def test_a_private_redis_is_mended_when_it_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = build_run(
        [
            (
                "a test",
                {
                    "name": "demo",
                    "runs_dir": str(tmp_path),
                    "model": {"path": "tiny"},
                    "data": {"train": {"type": "procedural"}},
                },
            )
        ]
    )
    server = embedded.start(run)
    board = Board(RedisLink(server.url, outage_s=10), Keys("demo"))
    board.issue(0)
    board.move(board.entry("0"), ROLLOUTS)
    board.move(board.entry("0"), SCORED)
    board.client.config_set("appendfsync", "always")
    board.client.incr("last")
    os.kill(board.client.info("server")["process_id"], signal.SIGKILL)
    server.stop()
    file = append_only_file(run.folder / "redis")
    last = file.read_bytes().rindex(b"MULTI") - len(b"*1\r\n$5\r\n")
    os.truncate(file, last + 60)  # inside the second hand-over
    again = embedded.start(run)
    try:
        assert f"append_only_file mended file={run.folder}" in caplog.text
        assert "cut_off_bytes=60 " in caplog.text
        with redis.Redis.from_url(again.url) as client:
            assert [client.xlen(board.keys(stream)) for stream in (PROMPTS, ROLLOUTS, SCORED)] == [0, 1, 0]
    finally:
        again.stop()
