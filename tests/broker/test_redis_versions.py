"""What Redis 6.2 and 7 do differently, and we do alike on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import PROMPTS, Keys
from broker.protocol.leases import Consumer
from tests.broker.conftest import Board
from tests.support.in_time import later
from tests.support.redis_servers import SERVERS, RedisServer


@pytest.fixture(params=SERVERS)
def board(request: pytest.FixtureRequest, tmp_path: Path, keys: Keys) -> Iterator[Board]:
    server = RedisServer(tmp_path / "redis", program=SERVERS[request.param]())
    link = RedisLink(server.url, outage_s=10)
    yield Board(link, keys)
    link.close()
    server.kill()


def test_a_reader_that_waits_while_redis_is_emptied_finds_what_comes_after(board: Board) -> None:
    worker = Consumer(board.link, board.keys, PROMPTS, "worker", lease_s=60)

    def empty_it() -> None:
        board.client.flushall()
        other = Board(RedisLink(board.link.url, outage_s=10), board.keys)
        other.issue(0)
        other.link.close()

    with later(0.3, empty_it):
        found = worker.read_new(1, block_s=5.0)
    assert [entry.group_id for entry in found] == ["0"]


def test_what_waits_for_nobody_any_more_is_taken_over_by_nobody(board: Board) -> None:
    """6.2 hands out pending ids whose entry is gone, for ever; 7 lets them go by itself."""
    board.issue(0, 1)
    dead = Consumer(board.link, board.keys, PROMPTS, "dead", lease_s=0)
    gone, kept = dead.read_new(2, block_s=1.0)
    board.client.xdel(board.keys(PROMPTS), gone.entry_id)
    heir = Consumer(board.link, board.keys, PROMPTS, "heir", lease_s=0)
    assert [entry.entry_id for entry in heir.take_over(10)] == [kept.entry_id]
    assert board.client.xpending(board.keys(PROMPTS), "workers")["pending"] == 1
