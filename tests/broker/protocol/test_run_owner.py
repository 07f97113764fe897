"""What a learner hears of a Redis that was restarted while it held the run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from broker.connection import RedisLink
from broker.errors import Fenced, WentBack
from broker.keys import Keys
from broker.protocol.run_owner import NewGroup, RunOwner
from tests.conftest import RedisServer
from tests.support.in_time import within


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis of the test's own, to be stopped and started again."""
    server = RedisServer(tmp_path)
    yield server
    server.kill()


def hold(link: RedisLink, fence: int = 0) -> RunOwner:
    run_owner = RunOwner(link, Keys("test"))
    run_owner.claim(fence)
    run_owner.issue(0, 1, 10, 0, [NewGroup("0", {"group": "0"})])
    run_owner.check()
    return run_owner


def restart(server: RedisServer) -> None:
    server.stop()
    server.start()


def test_a_redis_that_came_back_whole_is_said_once(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    run_owner = hold(RedisLink(server.url, outage_s=10))
    with caplog.at_level(logging.WARNING, "broker.protocol.run_owner"):
        run_owner.check()
        assert caplog.messages == []
        restart(server)
        for _ in range(2):
            run_owner.check()
    said = f"redis_restarted at=127.0.0.1:{server.port}; its append-only file is written anew"
    assert caplog.messages == [said]
    persistence = run_owner.link.client.info("persistence")
    assert persistence["aof_rewrite_in_progress"] or persistence["aof_last_rewrite_time_sec"] >= 0
    run_owner.link.close()


def test_a_redis_that_came_back_with_less_is_never_called_whole(server: RedisServer) -> None:
    run_owner = hold(RedisLink(server.url, outage_s=10))
    run_owner.link.client.hincrby(run_owner.keys("cursor"), "seq", -1)
    restart(server)
    with pytest.raises(WentBack, match="at seq 0, and 1 was"):
        run_owner.check()
    run_owner.link.close()


@pytest.mark.parametrize("forget", [("cursor", "seq"), ("run", "fence")])
def test_who_rejoins_goes_on_in_no_older_copy(link: RedisLink, keys: Keys, forget: tuple[str, str]) -> None:
    run_owner = hold(link, 4)
    known = run_owner.seq
    link.client.hincrby(keys(forget[0]), forget[1], -1)
    for act in (run_owner.check, lambda: run_owner.retire(["0"])):
        with pytest.raises(WentBack):
            act()
    assert run_owner.rejoin()
    assert run_owner.seq > known
    run_owner.check()
    run_owner.retire(["0"])
    assert link.client.hget(keys("run"), "fence") == b"5"


def test_a_redis_that_knows_nothing_of_the_run_is_told_from_one_that_went_back(link: RedisLink) -> None:
    run_owner = hold(link)
    link.client.flushall()
    assert not run_owner.rejoin()


def test_an_older_learner_may_not_rejoin(link: RedisLink, keys: Keys) -> None:
    older, newer = RunOwner(link, keys), RunOwner(link, keys)
    older.claim(0)
    newer.claim(0)
    with pytest.raises(Fenced):
        older.rejoin()


def test_a_thread_that_waits_for_redis_does_not_keep_the_other_one_waiting(link: RedisLink) -> None:
    """The feeder meets an error that passes; the trainer, whose scripts Redis takes, goes on meanwhile."""
    run_owner = hold(link)
    evaluate, refused = link._evaluate, threading.Event()

    def full(client: Any, name: str, *args: Any, **options: Any) -> Any:
        if name == "reissue" and run_owner.seq < 3:  # until two more scripts took effect
            refused.set()
            raise OutOfMemoryError("command not allowed")
        return evaluate(client, name, *args, **options)

    link._evaluate = full  # type: ignore[method-assign]
    feeder = threading.Thread(target=run_owner.reissue, args=([],))
    feeder.start()
    assert refused.wait(5)
    with within(2):
        run_owner.retire(["0"])
        run_owner.retire(["0"])
    feeder.join(5)
    assert run_owner.seq == 4, "its next try named the seq of then"
    run_owner.check()
