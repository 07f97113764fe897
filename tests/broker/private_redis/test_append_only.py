"""A torn tail of the append-only file: half of a script runs where nobody mends it, and never where somebody does."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from broker.connection import RedisLink
from broker.errors import WrongBroker
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.private_redis import server as embedded
from tests.broker.conftest import Board
from tests.support.redis_servers import SERVERS, RedisServer, append_only_file, carried, mend, newer
from tests.support.tiny_private_run import tiny_run

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a server of each version, writing at once so that the file is what the test expects."""
    program = SERVERS[request.param]()
    server = RedisServer(tmp_path / "redis", "--appendfsync", "always", program=program)
    yield server
    server.kill()


def board_of(server: RedisServer) -> Board:
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
    file = append_only_file(folder)
    os.truncate(file, file.stat().st_size - size)


def tear(server: RedisServer) -> int:
    """Cut the hand-over's write after XDEL, which the file has. Returns the bytes of it that are left."""
    written = kill_in_hand_over(server)
    left = written.index(b"XADD")
    cut(server.folder, len(written) - left)
    return left


def restart_twice(server: RedisServer) -> Board:
    """Start, let something happen, be killed, and start again."""
    server.start()
    board = board_of(server)
    board.issue(1)
    board.move(board.entry("1"), ROLLOUTS)
    server.kill()
    server.start()
    return board_of(server)


@pytest.mark.prove
def test_half_a_script_runs_at_the_second_start_of_a_redis_that_nobody_mended(server: RedisServer) -> None:
    tear(server)
    board = restart_twice(server)
    assert board.ids(PROMPTS) == []
    assert board.ids(ROLLOUTS) == ["1"], "group 0 was deleted from prompts and is nowhere"
    assert set(board.slots()) == {"0", "1"}


def test_a_mended_redis_knows_all_or_nothing(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    left = tear(server)
    assert mend(server.program, server.folder) == left
    assert f"cut_off_bytes={left} " in caplog.text
    assert "Expected to read" in caplog.text, "and why"
    board = restart_twice(server)
    assert (board.ids(PROMPTS), board.ids(ROLLOUTS)) == (["0"], ["1"])
    board.audit()


@pytest.mark.parametrize("every", [41, 11])
def test_wherever_the_cut_is_the_file_ends_before_the_script_and_a_whole_one_stays_as_it_is(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, every: int
) -> None:
    written = kill_in_hand_over(server)
    before = {file: file.read_bytes() for file in server.folder.rglob("*") if file.is_file()}
    assert mend(server.program, server.folder) == 0
    assert {file: file.read_bytes() for file in server.folder.rglob("*") if file.is_file()} == before
    assert not caplog.messages
    for size in range(1, len(written), every):
        copy = shutil.copytree(server.folder, tmp_path / "copy")
        cut(copy, size)
        assert mend(server.program, copy) == len(written) - size, f"{size} bytes are missing"
        shutil.rmtree(copy)


def test_nothing_is_mended_where_there_is_nothing(tmp_path: Path) -> None:
    assert mend(carried(), tmp_path) == 0
    (tmp_path / "appendonly.aof").touch()
    assert mend(carried(), tmp_path) == 0


@pytest.mark.prove
@pytest.mark.parametrize("server", ["6.2"], indirect=True)
def test_the_file_of_an_older_redis_is_mended_before_a_newer_one_takes_it_over(server: RedisServer) -> None:
    tear(server)
    server.program = newer()
    assert mend(server.program, server.folder) > 0
    board = restart_twice(server)
    assert (board.ids(PROMPTS), board.ids(ROLLOUTS)) == (["0"], ["1"])
    board.audit()


@pytest.mark.parametrize("server", ["7"], indirect=True)
def test_an_older_redis_is_not_started_on_what_a_newer_one_wrote(server: RedisServer) -> None:
    server.kill()
    said = r"written by Redis 7 or newer, and .* is 6\.2.*install redis-server 7"
    with pytest.raises(WrongBroker, match=said):
        mend(carried(), server.folder)


@pytest.mark.parametrize("server", ["6.2"], indirect=True)
def test_what_no_check_mends_is_left_as_it_was(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    board_of(server).issue(0)
    server.stop()
    file = append_only_file(server.folder)
    file.write_bytes(b"REDIS0009" + file.read_bytes())  # a snapshot at the head that is none
    damaged = file.read_bytes()
    assert mend(server.program, server.folder) == 0
    assert caplog.records[0].levelno == logging.WARNING
    assert "append_only_file not mended" in caplog.text
    assert file.read_bytes() == damaged


def test_a_private_redis_is_mended_at_its_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tiny_run(tmp_path)
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
