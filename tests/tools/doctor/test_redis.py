"""What the doctor finds of Redis: real servers, set up well and badly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.errors import WrongBroker
from tests.conftest import RedisServer, free_port
from tests.support.findings import NOTE, OK, PROBLEM, assert_found, only
from tests.tools.conftest import MakeRun
from tools.doctor import redis
from tools.doctor.findings import CheckFinding, Level

GIB = 1 << 30


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("guarded"))
    with RedisLink(server.url, outage_s=0).client as client:
        client.config_set("requirepass", "opensesame")
    yield server
    server.kill()


@pytest.fixture
def guarded(guarded_server: RedisServer) -> str:
    return guarded_server.url.replace("//", "//:opensesame@")


def test_a_good_redis_is_ok_in_every_respect(guarded: str) -> None:
    findings = list(redis.check_redis(guarded))
    assert [(finding.name, finding.level) for finding in findings] == [
        (name, OK)
        for name in ("address", "version", "role", "persistence", "eviction", "memory", "clock", "latency")
    ]
    assert "opensesame" not in str(findings)


SETTINGS: list[Any] = [
    ({"appendonly": "no"}, "persistence", PROBLEM, "no append-only file", "redis-cli CONFIG SET appendonly yes"),
    ({"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "eviction", PROBLEM, "allkeys-lru: at its limit",
        "redis-cli CONFIG SET maxmemory-policy noeviction"),
    ({"maxmemory-policy": "allkeys-lru"}, "eviction", NOTE, "as soon as maxmemory is set", "noeviction"),
    ({"maxmemory": "3mb"}, "memory", NOTE, "of 3.0 MiB used; a full budget", "CONFIG SET maxmemory "),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "name", "level", "seen", "do"), SETTINGS)
def test_a_redis_that_would_lose_work_or_has_no_room_is_found(
    guarded: str,
    make_run: MakeRun,
    *,
    settings: Mapping[str, str],
    name: str,
    level: Level,
    seen: str,
    do: str,
) -> None:
    with RedisLink(guarded, outage_s=0).client as client:
        before = {key: client.config_get(key)[key] for key in settings}
        try:
            for key, value in settings.items():
                client.config_set(key, value)
            assert_found(only(redis.check_redis(guarded, make_run()), name), level, seen, do)
        finally:
            for key, value in before.items():
                client.config_set(key, value)


def test_one_who_means_to_forget_is_only_told_so(guarded: str) -> None:
    assert redis.persistence({"aof_enabled": 0}, is_wanted=False).level is NOTE
    assert redis.eviction({"maxmemory": 1, "maxmemory_policy": "allkeys-lru"}, is_wanted=False).level is NOTE


@pytest.mark.parametrize(
    ("url", "seen", "do"),
    [
        ("redis://:wrong@127.0.0.1:{port}", "refuses this user or password", "export REDIS_URL="),
        ("redis://127.0.0.1:{port}", "refuses this user or password", "export REDIS_URL="),
        ("redis://127.0.0.1:{free}", "does not answer", "redis-cli -h 127.0.0.1 -p"),
        ("http://127.0.0.1", "REDIS_URL is no URL of a redis", "export REDIS_URL="),
    ],
)
def test_a_redis_that_lets_nobody_in_is_found(
    guarded_server: RedisServer, url: str, seen: str, do: str
) -> None:
    (finding,) = redis.check_redis(url.format(port=guarded_server.port, free=free_port()))
    assert_found(finding, PROBLEM, seen, do)
    assert "wrong@" not in finding.seen


OWN_WORDS: list[Any] = [
    (redis.version({"redis_version": "6.0.16"}), PROBLEM, "6.0.16, and 6.2 is the oldest"),
    (redis.version({"redis_version": "7.4.1"}), OK, "7.4.1"),
    (redis.role({"role": "slave", "master_host": "m", "master_port": 1}), PROBLEM, "a replica of m"),
    (redis.role({"redis_mode": "cluster"}), PROBLEM, "RQ's queues"),
    (redis.persistence({"aof_enabled": 1, "aof_last_write_status": "err"}), PROBLEM, "could not be written"),
    (redis.clock(0.3), OK, "0.30 s ahead of"),
    (redis.clock(-3.0), NOTE, "3.00 s behind"),
    (redis.clock(40.0), PROBLEM, "40.00 s ahead of"),
    (redis.latency(0.2), OK, "0.20 ms"),
    (redis.latency(80.0), NOTE, "slow"),
    (redis.memory({"used_memory": GIB, "total_system_memory": 8 * GIB}, needed_bytes=9 * GIB), NOTE, "no limit"),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "level", "seen"), OWN_WORDS)
def test_what_redis_says_of_itself_is_judged(finding: CheckFinding, level: Level, seen: str) -> None:
    assert_found(finding, level, seen)


def test_without_a_redis_the_program_for_a_private_one_is_looked_at(tmp_path: Path) -> None:
    found = list(redis.check_private())
    assert [finding.level for finding in found] == [OK, OK]
    assert "REDIS_URL is not set: `millrace up` starts a private one" in found[0].seen

    def nowhere() -> Path:
        raise WrongBroker("no redis-server of version 6.2 or newer is here")

    assert_found(only(redis.check_private(nowhere), "program"), PROBLEM, "no redis-server", "apt-get install")
    mute = tmp_path / "redis-server"
    mute.write_text("#!/bin/sh\necho hello\n")
    mute.chmod(0o755)
    assert_found(only(redis.check_private(lambda: mute), "program"), PROBLEM, "version unknown")


def test_a_redis_by_tls_is_ok_and_one_of_an_unknown_authority_says_what_to_set(tls_url: str) -> None:
    assert {finding.level for finding in redis.check_redis(tls_url)} <= {OK, NOTE}
    (finding,) = redis.check_redis(tls_url.partition("?")[0])
    assert_found(
        finding, PROBLEM, "an authority that this machine does not know", "?ssl_ca_certs=/path/ca.pem"
    )
    (finding,) = redis.check_redis(f"{tls_url}.not")
    assert_found(finding, PROBLEM, "ca.pem.not can't be read on this machine", "export REDIS_URL='rediss://")
