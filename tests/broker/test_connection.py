"""The link waits for its Redis, says so, and gives up with a reason that never holds the password."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from broker.connection import RedisLink, Wait
from broker.errors import BrokerUnavailable, WrongBroker
from tests.conftest import RedisServer, free_port
from tests.support.in_time import later, within
from tests.support.made_up_time import MadeUpTime

pytestmark = pytest.mark.process

KEYS = [f"k{number}" for number in range(12)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, "--appendfsync", "always")
    yield server
    server.kill()


@pytest.fixture
def made_up() -> MadeUpTime:
    return MadeUpTime()


@pytest.fixture
def link_to(made_up: MadeUpTime) -> Iterator[Callable[..., RedisLink]]:
    """Makes links whose waits for Redis take no time, unless they are given a `sleep` of their own."""
    made: list[RedisLink] = []

    def make(url: str, outage_s: float = 30, **options: Any) -> RedisLink:
        times = {"clock": made_up.clock, "sleep": made_up.sleep}
        made.append(RedisLink(url, outage_s=outage_s, **times | options))
        return made[-1]

    yield make
    for link in made:
        link.close()


LinkTo = Callable[..., RedisLink]


def ping(link: RedisLink) -> Any:
    return link(lambda client: client.ping())


def write(link: RedisLink) -> Any:
    return link(lambda client: client.set("x", "1"))


def claim(link: RedisLink) -> Any:
    return link.script("claim", KEYS, 0)


def test_a_link_waits_for_a_redis_that_is_gone_says_so_and_goes_on(
    server: RedisServer, link_to: LinkTo, made_up: MadeUpTime, caplog: pytest.LogCaptureFixture
) -> None:
    write(link := link_to(server.url))
    server.kill()
    made_up.later(13.0, server.start)
    assert link(lambda client: client.get("x")) == b"1"  # from its append-only file
    assert made_up.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 5]
    assert [message.partition(" for=")[0] for message in caplog.messages] == [
        f"waiting waited_s={seconds}" for seconds in (1, 7)
    ]
    assert f"no answer from redis at 127.0.0.1:{server.port}" in caplog.messages[0]


def test_seconds_of_an_outage_are_counted_once_for_all_threads(
    server: RedisServer, link_to: LinkTo, made_up: MadeUpTime
) -> None:
    together = threading.Barrier(3)

    def sleep(seconds: float) -> None:
        """All three wait side by side, and the same seconds pass for them."""
        if together.wait(timeout=30) == 0:
            made_up.sleep(seconds)
        together.wait(timeout=30)

    link = link_to(server.url, sleep=sleep)
    link(lambda client: client.blpop(["list"], timeout=0.1))  # a read that waits for work is none
    assert link.waited_s == 0.0
    server.kill()
    made_up.later(0.3, server.start)
    callers = [threading.Thread(target=ping, args=(link,)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert link.waited_s == pytest.approx(0.05 + 0.1 + 0.2)


def test_a_waiting_read_survives_a_restart(server: RedisServer, link_to: LinkTo) -> None:
    link = link_to(server.url, sleep=None, clock=time.monotonic)

    def restart() -> None:
        server.kill()
        server.start()
        link.client.rpush("list", "x")

    with later(0.1, restart):
        found: Any = link(lambda client: client.blpop(["list"], timeout=20))
    assert list(found) == [b"list", b"x"]


def test_a_stop_ends_the_wait_for_a_redis_that_is_gone(link_to: LinkTo) -> None:
    link = link_to(f"redis://127.0.0.1:{free_port()}/0", 60, sleep=None)
    said = "stopped while waiting for redis: no answer from"
    with later(0.1, link.stop.set), within(5), pytest.raises(BrokerUnavailable, match=said):
        ping(link)


def test_a_link_that_is_asked_to_stop_still_works_while_redis_answers(link: RedisLink) -> None:
    link.stop.set()
    assert ping(link)


def test_an_outage_that_is_too_long_ends_with_host_and_port_and_without_the_password(
    link_to: LinkTo, made_up: MadeUpTime
) -> None:
    port = free_port()
    link = link_to(f"redis://user:planted-password@127.0.0.1:{port}/0", 0.3)
    with pytest.raises(BrokerUnavailable) as caught:
        ping(link)
    assert made_up.slept == [0.05, 0.1, 0.2]
    for said in (f"no answer from redis at 127.0.0.1:{port}", "check REDIS_URL", "broker.outage_s=0.3"):
        assert said in str(caught.value)
    assert "planted" not in str(caught.value)


def test_an_outage_is_said_within_a_second_and_names_no_setting_where_there_is_none(
    link_to: LinkTo, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        ping(link_to(f"redis://127.0.0.1:{free_port()}/0", 1.2, key=""))
    assert [message.partition("=")[0] for message in caplog.messages] == ["waiting waited_s"]
    assert "outage_s" not in str(caught.value)


@pytest.mark.parametrize("act", [write, claim])
@pytest.mark.parametrize(
    ("harm", "mend", "why"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "is a replica now and takes no writes"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "has too few replicas"),
    ],
    ids=["READONLY", "NOREPLICAS"],
)
def test_a_redis_that_takes_no_writes_for_a_while_is_waited_for(
    *,
    server: RedisServer,
    link_to: LinkTo,
    made_up: MadeUpTime,
    act: Callable[[RedisLink], Any],
    harm: str,
    mend: str,
    why: str,
) -> None:
    link = link_to(server.url, 0.1)
    admin: Any = redis.Redis(port=server.port)
    act(link)
    admin.execute_command(*harm.split())
    with pytest.raises(BrokerUnavailable, match=rf"redis at 127\.0\.0\.1:{server.port} {why}"):
        act(link)
    link.outage_s = 30.0
    made_up.later(20.0, lambda: admin.execute_command(*mend.split()))
    assert act(link)
    assert sum(made_up.slept) > 20


def test_after_a_failover_the_link_asks_whoever_has_the_address(tmp_path: Path, link_to: LinkTo) -> None:
    """The address names another server; the old one, a replica now, keeps its connections open."""
    with tempfile.TemporaryDirectory() as short:  # the path of a socket has room for a hundred characters
        sockets = [Path(short) / name for name in ("old", "heir")]
        old, heir = (RedisServer(tmp_path / socket.name, "--unixsocket", str(socket)) for socket in sockets)
        address = Path(short) / "address"
        address.symlink_to(sockets[0])
        write(link := link_to(f"unix://{address}", 5))
        redis.Redis(port=old.port).execute_command("REPLICAOF", "127.0.0.1", "1")
        address.unlink()
        address.symlink_to(sockets[1])
        assert write(link)
        assert redis.Redis(port=heir.port).get("x") == b"1"
        old.kill()
        heir.kill()


def test_a_read_that_waits_through_a_failover_goes_on(server: RedisServer, link_to: LinkTo) -> None:
    """Redis breaks off every waiting read when it becomes a replica."""
    link = link_to(server.url, sleep=None, clock=time.monotonic)
    admin: Any = redis.Redis(port=server.port)

    def fail_over() -> None:
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
        admin.execute_command("REPLICAOF", "NO", "ONE")
        admin.xadd("stream", {"a": "b"})

    read = ("XREAD", "BLOCK", 20000, "STREAMS", "stream", "0-0")
    with later(0.1, fail_over):
        assert link(lambda client: client.execute_command(*read))


def test_who_does_not_wait_hears_at_once(server: RedisServer, link_to: LinkTo) -> None:
    link = link_to(server.url)
    server.kill()
    with within(5), pytest.raises(redis.ConnectionError):
        link.script("claim", KEYS, 0, wait=Wait.FOR_NOTHING)


@pytest.mark.parametrize("credentials", ["", ":planted-wrong@", "nobody:planted-wrong@"])
def test_a_wrong_password_is_told_and_not_shown(
    server: RedisServer, link_to: LinkTo, credentials: str
) -> None:
    link_to(server.url)(lambda client: client.config_set("requirepass", "right"))
    with within(5), pytest.raises(WrongBroker) as caught:
        ping(link_to(f"redis://{credentials}127.0.0.1:{server.port}/0", 60))
    assert f"redis at 127.0.0.1:{server.port} refuses this user or password" in str(caught.value)
    assert "REDIS_URL=redis://USER:PASSWORD@HOST:PORT" in str(caught.value)
    assert "planted" not in str(caught.value)
    assert ping(link_to(f"redis://:right@127.0.0.1:{server.port}/0"))


def test_a_user_without_the_right_to_a_command_is_told_at_once(server: RedisServer, link_to: LinkTo) -> None:
    rights: dict[str, Any] = {"passwords": ["+pw"], "commands": ["+get"], "keys": ["*"]}
    link_to(server.url)(lambda client: client.acl_setuser("reader", enabled=True, **rights))
    link = link_to(f"redis://reader:pw@127.0.0.1:{server.port}/0", 60)
    assert link(lambda client: client.get("a")) is None
    with pytest.raises(WrongBroker, match="refuses this user or password"):
        write(link)


@pytest.mark.parametrize("url", ["localhost:6379", "http://:planted@h:1", "redis://:planted@h:port/0", ""])
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(WrongBroker, match="REDIS_URL is no URL of a redis") as caught:
        RedisLink(url, outage_s=1)
    assert "planted" not in str(caught.value)


def test_a_script_is_sent_again_to_a_redis_that_has_forgotten_it(link: RedisLink) -> None:
    assert claim(link) == [1, 0]
    link.client.script_flush()
    assert claim(link) == [2, 0]


def test_one_script_runs_for_several_arguments_in_one_go(link: RedisLink) -> None:
    def claims(*journal_fences: Any) -> list[Any]:
        return link.scripts("claim", KEYS, [(fence,) for fence in journal_fences])

    assert claims(0, 0, 7) == [[1, 0], [2, 0], [8, 0]]
    link.client.script_flush()
    assert claims(0) == [[9, 0]]
    with pytest.raises(ResponseError):
        claims(0, "no number")
