"""What a learner hears of a Redis that was restarted while it held the run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from broker.connection import RedisLink
from broker.errors import Fenced, WentBack
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from tests.conftest import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, to be stopped and started again."""
    server = RedisServer(tmp_path)
    yield server
    server.kill()


def hold(server: RedisServer) -> RunOwner:
    """A learner that has claimed the run and let a group in."""
    ownership = RunOwner(RedisLink(server.url, outage_s=10), Keys("test"))
    ownership.claim(0)
    ownership.issue(0, 1, 10, 0, [("0", {"group": "0"})])
    ownership.check()
    return ownership


def test_a_redis_that_came_back_with_everything_is_said_once(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ownership = hold(server)
    with caplog.at_level(logging.WARNING, "broker.protocol.run_owner"):
        ownership.check()
        assert caplog.messages == []
        server.stop()
        server.start()
        for _ in range(2):
            ownership.check()
    assert caplog.messages == [
        f"redis_restarted at=127.0.0.1:{server.port}; its append-only file is written anew"
    ]
    persistence = ownership.link.client.info("persistence")
    assert persistence["aof_rewrite_in_progress"] or persistence["aof_last_rewrite_time_sec"] >= 0
    ownership.link.close()


def test_a_redis_that_came_back_with_less_is_never_called_whole(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ownership = hold(server)
    ownership.link.client.hincrby(ownership.keys("cursor"), "seq", -1)
    server.stop()
    server.start()
    with pytest.raises(WentBack, match="at seq 0, and 1 was"):
        ownership.check()
    ownership.link.close()


@pytest.mark.parametrize("forget", [("cursor", "seq"), ("run", "fence")])
def test_who_rejoins_goes_on_and_no_older_copy_of_redis_passes(
    link: RedisLink, keys: Keys, forget: tuple[str, str]
) -> None:
    ownership = RunOwner(link, keys)
    ownership.claim(4)
    ownership.issue(0, 1, 10, 0, [("0", {"group": "0"})])
    known = ownership.seq
    link.client.hincrby(keys(forget[0]), forget[1], -1)
    for act in (ownership.check, lambda: ownership.retire(["0"])):
        with pytest.raises(WentBack):
            act()
    assert ownership.rejoin()
    assert ownership.seq > known
    ownership.check()
    ownership.retire(["0"])
    assert link.client.hget(keys("run"), "fence") == b"5"


def test_a_redis_that_knows_nothing_of_the_run_is_told_from_one_that_went_back(
    link: RedisLink, keys: Keys
) -> None:
    ownership = RunOwner(link, keys)
    ownership.claim(0)
    ownership.issue(0, 1, 10, 0, [("0", {"group": "0"})])
    link.client.flushall()
    assert not ownership.rejoin()


def test_an_older_learner_may_not_rejoin(link: RedisLink, keys: Keys) -> None:
    older, newer = RunOwner(link, keys), RunOwner(link, keys)
    older.claim(0)
    newer.claim(0)
    with pytest.raises(Fenced):
        older.rejoin()


def test_a_thread_that_waits_for_redis_does_not_keep_the_other_one_waiting(
    link: RedisLink, keys: Keys
) -> None:
    """The feeder meets an error that passes; the trainer, whose scripts Redis takes, goes on meanwhile."""
    ownership = RunOwner(link, keys)
    ownership.claim(0)
    ownership.issue(0, 1, 10, 0, [("0", {"group": "0"})])
    evaluate, refused = link._evaluate, threading.Event()

    def full(client: Any, name: str, *args: Any, **options: Any) -> Any:
        if name == "reissue" and ownership.seq < 3:  # until two more scripts took effect
            refused.set()
            raise OutOfMemoryError("command not allowed")
        return evaluate(client, name, *args, **options)

    link._evaluate = full  # type: ignore[method-assign]
    feeder = threading.Thread(target=ownership.reissue, args=([],))
    feeder.start()
    assert refused.wait(5)
    started = time.monotonic()
    ownership.retire(["0"])
    ownership.retire(["0"])
    assert time.monotonic() - started < 2
    feeder.join(5)
    assert ownership.seq == 4, "its next try named the seq of then"
    ownership.check()
