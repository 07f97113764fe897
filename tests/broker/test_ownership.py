"""What a learner hears of a Redis that was restarted while it held the run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.connection import Link
from broker.errors import WentBack
from broker.keys import Keys
from broker.ownership import Ownership
from tests.conftest import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, to be stopped and started again."""
    server = RedisServer(tmp_path)
    yield server
    server.kill()


def hold(server: RedisServer) -> Ownership:
    """A learner that has claimed the run and let a group in."""
    ownership = Ownership(Link(server.url, outage_s=10), Keys("test"))
    ownership.claim(0)
    ownership.issue(0, 1, 10, 0, [("0", {"group": "0"})])
    ownership.check()
    return ownership


def test_a_redis_that_came_back_with_everything_is_said_once(
        server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    ownership = hold(server)
    with caplog.at_level(logging.WARNING, "broker.ownership"):
        ownership.check()
        assert caplog.messages == []
        server.stop()
        server.start()
        for _ in range(2):
            ownership.check()
    assert caplog.messages == [
        f"redis at 127.0.0.1:{server.port} was restarted; nothing that was acknowledged is missing"]
    ownership.link.close()


def test_a_redis_that_came_back_with_less_is_never_called_whole(
        server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    ownership = hold(server)
    ownership.link.client.hincrby(ownership.keys("cursor"), "seq", -1)
    server.stop()
    server.start()
    with caplog.at_level(logging.WARNING, "broker.ownership"), pytest.raises(WentBack, match="at seq 0, and 1 was"):
        ownership.check()
    assert caplog.messages == []
    ownership.link.close()
