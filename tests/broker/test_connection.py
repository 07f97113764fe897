"""The link waits for its Redis, says so, and gives up with a reason that never holds the password."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from broker import connection
from broker.connection import RedisLink, Wait
from broker.errors import BrokerUnavailable, WrongBroker
from tests.conftest import RedisServer, free_port

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, "--appendfsync", "always")
    yield server
    server.kill()


def test_a_link_waits_for_a_redis_that_is_gone_says_so_and_goes_on(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "SAY_EVERY_S", 0.2)
    link = RedisLink(server.url, outage_s=30)
    link(lambda client: client.set("a", "1"))
    server.kill()
    starter = threading.Timer(1.0, server.start)
    starter.start()
    with caplog.at_level(logging.WARNING, "broker.connection"):
        assert link(lambda client: client.get("a")) == b"1"  # from its append-only file
    starter.join()
    said = [record.getMessage() for record in caplog.records]
    assert said
    assert f"no answer from redis at 127.0.0.1:{server.port}" in said[0]
    link.close()


def test_the_seconds_of_an_outage_are_counted_once_however_many_threads_wait(server: RedisServer) -> None:
    link = RedisLink(server.url, outage_s=30)
    link(lambda client: client.blpop(["list"], timeout=0.2))  # a read that waits for work is none
    assert link.waited_s == 0.0
    server.kill()
    gone = time.monotonic()
    callers = [threading.Thread(target=link, args=(lambda client: client.ping(),)) for _ in range(3)]
    for caller in callers:
        caller.start()
    time.sleep(0.5)
    server.start()
    for caller in callers:
        caller.join()
    assert 0.5 <= link.waited_s <= time.monotonic() - gone
    link.close()


def test_a_waiting_read_survives_a_restart(server: RedisServer) -> None:
    link = RedisLink(server.url, outage_s=30)

    def restart() -> None:
        server.kill()
        server.start()
        link.client.rpush("list", "x")

    restarter = threading.Timer(0.3, restart)
    restarter.start()
    found: Any = link(lambda client: client.blpop(["list"], timeout=20))
    restarter.join()
    assert list(found) == [b"list", b"x"]
    link.close()


def test_a_stop_ends_the_wait_for_a_redis_that_is_gone() -> None:
    link = RedisLink(f"redis://127.0.0.1:{free_port()}/0", outage_s=60)
    stopper = threading.Timer(0.3, link.stop.set)
    started = time.monotonic()
    stopper.start()
    with pytest.raises(BrokerUnavailable, match="stopped while waiting for redis: no answer from"):
        link(lambda client: client.ping())
    assert time.monotonic() - started < 5
    stopper.join()
    link.close()


def test_a_link_that_is_asked_to_stop_still_works_while_redis_answers(link: RedisLink) -> None:
    link.stop.set()
    assert link(lambda client: client.ping())


def test_an_outage_that_is_too_long_ends_with_host_and_port_and_without_the_password() -> None:
    port = free_port()
    link = RedisLink(f"redis://user:planted-password@127.0.0.1:{port}/0", outage_s=0.3)
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable) as caught:
        link(lambda client: client.ping())
    assert 0.3 <= time.monotonic() - started < 5
    assert f"no answer from redis at 127.0.0.1:{port}" in str(caught.value)
    assert "check REDIS_URL" in str(caught.value)
    assert "broker.outage_s=0.3" in str(caught.value)
    assert "planted" not in str(caught.value)


def test_an_outage_is_said_within_a_second_and_names_no_setting_where_there_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = RedisLink(f"redis://127.0.0.1:{free_port()}/0", outage_s=1.2, key="")
    with caplog.at_level(logging.WARNING, "broker.connection"), pytest.raises(BrokerUnavailable) as caught:
        link(lambda client: client.ping())
    assert [record.getMessage().partition("=")[0] for record in caplog.records] == ["waiting waited_s"]
    assert "outage_s" not in str(caught.value)


def at_the_link(link: RedisLink) -> Any:
    return link(lambda client: client.set("x", "1"))


def in_a_script(link: RedisLink) -> Any:
    return link.script("claim", [f"k{number}" for number in range(12)], 0)


@pytest.mark.parametrize("write", [at_the_link, in_a_script])
@pytest.mark.parametrize(
    ("harm", "mend", "why"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "is a replica now and takes no writes"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "has too few replicas"),
    ],
    ids=["READONLY", "NOREPLICAS"],
)
def test_a_redis_that_takes_no_writes_for_a_while_is_waited_for(
    server: RedisServer, write: Callable[[RedisLink], Any], harm: str, mend: str, why: str
) -> None:
    link = RedisLink(server.url, outage_s=0.1)
    admin: Any = redis.Redis(port=server.port)
    write(link)
    admin.execute_command(*harm.split())
    with pytest.raises(BrokerUnavailable, match=rf"redis at 127\.0\.0\.1:{server.port} {why}"):
        write(link)
    link.outage_s = 30.0
    mender = threading.Timer(0.2, lambda: admin.execute_command(*mend.split()))
    mender.start()
    assert write(link)
    mender.join()
    link.close()


def test_after_a_failover_the_link_asks_whoever_has_the_address_by_then(tmp_path: Path) -> None:
    """The address names another server; the old one, a replica now, keeps its connections open."""
    with tempfile.TemporaryDirectory() as short:  # the path of a socket has room for a hundred characters
        sockets = [Path(short) / name for name in ("old", "heir")]
        old, heir = (RedisServer(tmp_path / socket.name, "--unixsocket", str(socket)) for socket in sockets)
        address = Path(short) / "address"
        address.symlink_to(sockets[0])
        link = RedisLink(f"unix://{address}", outage_s=5)
        at_the_link(link)
        redis.Redis(port=old.port).execute_command("REPLICAOF", "127.0.0.1", "1")
        address.unlink()
        address.symlink_to(sockets[1])
        assert at_the_link(link)
        assert redis.Redis(port=heir.port).get("x") == b"1"
        link.close()
        old.kill()
        heir.kill()


def test_a_read_that_waits_through_a_failover_goes_on(server: RedisServer) -> None:
    """Redis breaks off every waiting read when it becomes a replica."""
    link = RedisLink(server.url, outage_s=30)
    admin: Any = redis.Redis(port=server.port)

    def fail_over() -> None:
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
        admin.execute_command("REPLICAOF", "NO", "ONE")
        admin.xadd("stream", {"a": "b"})

    timer = threading.Timer(0.3, fail_over)
    timer.start()
    assert link(lambda client: client.execute_command("XREAD", "BLOCK", 20000, "STREAMS", "stream", "0-0"))
    timer.join()
    link.close()


def test_who_does_not_wait_hears_at_once(server: RedisServer) -> None:
    link = RedisLink(server.url, outage_s=30)
    started = time.monotonic()
    server.kill()
    with pytest.raises(redis.ConnectionError):
        link.script("claim", [f"k{number}" for number in range(12)], 0, wait=Wait.FOR_NOTHING)
    assert time.monotonic() - started < 5
    link.close()


@pytest.mark.parametrize(
    "credentials",
    ["", ":planted-wrong@", "nobody:planted-wrong@"],
    ids=["none", "wrong password", "unknown user"],
)
def test_a_wrong_password_is_answered_at_once_and_not_repeated(server: RedisServer, credentials: str) -> None:
    RedisLink(server.url, outage_s=5)(lambda client: client.config_set("requirepass", "right"))
    link = RedisLink(f"redis://{credentials}127.0.0.1:{server.port}/0", outage_s=60)
    started = time.monotonic()
    with pytest.raises(WrongBroker) as caught:
        link(lambda client: client.ping())
    assert time.monotonic() - started < 5
    assert f"redis at 127.0.0.1:{server.port} refuses this user or password" in str(caught.value)
    assert "REDIS_URL=redis://USER:PASSWORD@HOST:PORT" in str(caught.value)
    assert "planted" not in str(caught.value)
    assert RedisLink(f"redis://:right@127.0.0.1:{server.port}/0", outage_s=5)(lambda client: client.ping())


def test_a_user_without_the_right_to_a_command_is_told_at_once(server: RedisServer) -> None:
    RedisLink(server.url, outage_s=5)(
        lambda client: client.acl_setuser(
            "reader", enabled=True, passwords=["+pw"], commands=["+get"], keys=["*"]
        )
    )
    link = RedisLink(f"redis://reader:pw@127.0.0.1:{server.port}/0", outage_s=60)
    assert link(lambda client: client.get("a")) is None
    with pytest.raises(WrongBroker, match="refuses this user or password"):
        link(lambda client: client.set("a", "1"))


@pytest.mark.parametrize("url", ["localhost:6379", "http://:planted@h:1", "redis://:planted@h:port/0", ""])
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(WrongBroker, match="REDIS_URL is no URL of a redis") as caught:
        RedisLink(url, outage_s=1)
    assert "planted" not in str(caught.value)


def test_a_script_is_sent_again_to_a_redis_that_has_forgotten_it(link: RedisLink) -> None:
    keys = [f"k{number}" for number in range(10)]
    assert link.script("claim", keys, 0) == [1, 0]
    link.client.script_flush()
    assert link.script("claim", keys, 0) == [2, 0]
