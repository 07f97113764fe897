"""A client of Redis by TLS works in every part of a run, and what is wrong with TLS is said with what to set."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis

from broker import redis_client as module
from broker.connection import RedisLink, check_url
from broker.errors import BrokerUnavailable, WrongBroker
from broker.redis_client import redis_client
from tests.conftest import RedisServer, free_port
from tests.support.tls import TlsProxy, beside, certificates, expire, lock

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("behind"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for 127.0.0.1."""
    return certificates(tmp_path_factory.mktemp("tls"), "127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the same authority for another host."""
    return beside(folder, tmp_path_factory.mktemp("elsewhere"), "redis.example")


@pytest.fixture(scope="module")
def expired(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the same authority whose days are over."""
    return expire(beside(folder, tmp_path_factory.mktemp("expired"), "127.0.0.1"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates of another authority."""
    return certificates(tmp_path_factory.mktemp("stranger"), "127.0.0.1")


@pytest.fixture
def proxies() -> Iterator[list[TlsProxy]]:
    """Proxies that the test appends, closed after it."""
    opened: list[TlsProxy] = []
    yield opened
    for proxy in opened:
        proxy.close()


def refusal(url: str) -> str:
    """Return what a link to `url` gives up with, at once."""
    started = time.monotonic()
    with pytest.raises(WrongBroker) as caught, contextlib.closing(RedisLink(url, outage_s=60)) as link:
        link(lambda client: client.ping())
    assert time.monotonic() - started < 4, "what waiting can't mend is not waited for"
    return str(caught.value)


def test_a_link_by_tls_reads_writes_and_runs_scripts(
    server: RedisServer, folder: Path, proxies: list[TlsProxy]
) -> None:
    proxies.append(proxy := TlsProxy(folder, server.port))
    with contextlib.closing(RedisLink(proxy.url(f"ssl_ca_certs={folder}/ca.pem"), outage_s=5)) as link:
        link(lambda client: client.set("by", "tls"))
        assert link(lambda client: client.get("by")) == b"tls"
        assert link.script("claim", [f"k{number}" for number in range(12)], 0)
        assert link.address == f"127.0.0.1:{proxy.port}"
    assert proxy.handshakes == 1


def test_a_link_by_tls_waits_for_an_endpoint_that_comes_back(server: RedisServer, folder: Path) -> None:
    proxy = TlsProxy(folder, server.port)
    with contextlib.closing(RedisLink(proxy.url(f"ssl_ca_certs={folder}/ca.pem"), outage_s=20)) as link:
        link(lambda client: client.set("n", "1"))
        proxy.close()
        time.sleep(0.5)  # the open connection ends within a poll
        again: list[TlsProxy] = []
        starter = threading.Timer(0.5, lambda: again.append(TlsProxy(folder, server.port, port=proxy.port)))
        starter.start()
        assert link(lambda client: client.get("n")) == b"1"
        starter.join()
    again[0].close()


@pytest.mark.parametrize(
    ("shown", "settings", "says"),
    [
        (
            "folder",
            "",
            ("signed by an authority that this machine does not know", "rediss://", "ssl_ca_certs="),
        ),
        ("folder", "ssl_ca_certs={stranger}/ca.pem", ("ca.pem does not hold", "ssl_ca_certs=/path/ca.pem")),
        ("elsewhere", "ssl_ca_certs={folder}/ca.pem", ("is not for '127.0.0.1'", "subjectAltName")),
        ("expired", "ssl_ca_certs={folder}/ca.pem", ("has expired", "Give that Redis a new one")),
    ],
    ids=["no CA", "another CA", "another host", "expired"],
)
def test_a_wrong_certificate_is_refused_at_once_with_what_to_set(
    server: RedisServer,
    request: pytest.FixtureRequest,
    proxies: list[TlsProxy],
    *,
    shown: str,
    settings: str,
    says: Sequence[str],
) -> None:
    folders = {name: request.getfixturevalue(name) for name in ("folder", "elsewhere", "expired", "stranger")}
    proxies.append(proxy := TlsProxy(folders[shown], server.port))
    said = refusal(proxy.url(settings.format(**folders), user="user:planted-secret@"))
    assert f"127.0.0.1:{proxy.port}" in said
    assert all(word in said for word in says), said
    assert "planted" not in said


def test_a_certificate_for_another_host_is_taken_where_the_url_says_so(
    server: RedisServer, elsewhere: Path, folder: Path, proxies: list[TlsProxy]
) -> None:
    proxies.append(proxy := TlsProxy(elsewhere, server.port))
    unchecked = proxy.url(f"ssl_ca_certs={folder}/ca.pem&ssl_check_hostname=false")
    with contextlib.closing(RedisLink(unchecked, outage_s=5)) as link:
        assert link(lambda client: client.ping())


def test_a_plain_port_where_tls_was_expected_is_told_from_an_outage(
    server: RedisServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.3)  # a Redis says nothing to a handshake
    said = refusal(f"rediss://127.0.0.1:{server.port}/0?ssl_ca_certs={folder}/ca.pem")
    assert f"redis at 127.0.0.1:{server.port} answers without TLS" in said
    assert "tls-port" in said


def test_a_port_that_answers_a_handshake_in_the_clear_is_none_with_tls(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            client, _ = other.accept()
            with client:
                client.sendall(b"-ERR who are you\r\n")

        threading.Thread(target=answer, daemon=True).start()
        port = other.getsockname()[1]
        said = refusal(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder}/ca.pem")
    assert f"redis at 127.0.0.1:{port} answers without TLS" in said


def test_a_port_that_answers_a_handshake_with_nothing_is_an_outage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.2)
    monkeypatch.setattr(module, "PROBE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rediss://127.0.0.1:{silent.getsockname()[1]}/0?ssl_ca_certs={folder}/ca.pem"
        with contextlib.closing(RedisLink(url, outage_s=0.1)) as link, pytest.raises(BrokerUnavailable):
            link(lambda client: client.ping())


def test_tls_where_none_was_expected_is_told_from_a_lost_connection(
    server: RedisServer, folder: Path, proxies: list[TlsProxy]
) -> None:
    proxies.append(proxy := TlsProxy(folder, server.port))
    said = refusal(proxy.url().replace("rediss://", "redis://"))
    assert f"redis at 127.0.0.1:{proxy.port} speaks TLS" in said
    assert "rediss://" in said


def test_a_redis_that_wants_its_clients_certificates_says_so_and_takes_one(
    server: RedisServer, folder: Path, stranger: Path, proxies: list[TlsProxy]
) -> None:
    proxies.append(proxy := TlsProxy(folder, server.port, wants_certificates=True))
    authority = f"ssl_ca_certs={folder}/ca.pem"
    assert "ssl_certfile=" in refusal(proxy.url(authority))
    own = f"{authority}&ssl_certfile={folder}/redis.pem&ssl_keyfile={folder}/redis.key"
    with contextlib.closing(RedisLink(proxy.url(own), outage_s=5)) as link:
        assert link(lambda client: client.ping())
    strange = f"{authority}&ssl_certfile={stranger}/redis.pem&ssl_keyfile={stranger}/redis.key"
    assert f"does not take the certificate {stranger}/redis.pem" in refusal(proxy.url(strange))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (
            "rediss://h:1/0?ssl_ca_certs=/nowhere/ca.pem",
            "ssl_ca_certs=/nowhere/ca.pem can't be read on this machine",
        ),
        ("rediss://h:1/0?ssl_ca_certs={folder}/redis.key", "redis.key holds no certificate"),
        (
            "rediss://h:1/0?ssl_certfile={folder}/redis.pem&ssl_keyfile={stranger}/redis.key",
            "are no pair that can be read",
        ),
        ("redis://h:1/0?ssl_ca_certs={folder}/ca.pem", "ssl_ca_certs, which is for TLS: write rediss://"),
        ("rediss://h:1/0?ssl_ca_cert=x", "does not know behind its '?': ssl_ca_cert"),
        ("rediss://h:1/0?ssl_cert_reqs=maybe", "has a setting that can't be used"),
        ("rediss://:planted@h:wrong/0", "REDIS_URL is no URL of a redis"),
    ],
)
def test_a_url_with_a_setting_that_can_not_be_used_is_refused_before_anything_is_started(
    folder: Path, stranger: Path, address: str, says: str
) -> None:
    with pytest.raises(WrongBroker) as caught:
        check_url(address.format(folder=folder, stranger=stranger))
    assert says in str(caught.value)
    assert "planted" not in str(caught.value)


def test_a_key_with_a_password_never_asks_a_terminal(folder: Path) -> None:
    locked = lock(folder / "redis.key", "opensesame")
    files = f"ssl_certfile={folder}/redis.pem&ssl_keyfile={locked}"
    with pytest.raises(WrongBroker, match="ssl_password"):
        check_url(f"rediss://h:1/0?{files}")
    check_url(f"rediss://h:1/0?{files}&ssl_password=opensesame")


def test_a_wrong_password_costs_no_question_about_tls(server: RedisServer) -> None:
    client = redis_client(f"redis://nobody:wrong@127.0.0.1:{server.port}/0", socket_timeout=5)
    started = time.monotonic()
    with pytest.raises(redis.AuthenticationError):
        client.ping()
    assert time.monotonic() - started < module.PROBE_S


def test_a_port_without_anybody_stays_an_outage() -> None:
    with (
        contextlib.closing(RedisLink(f"rediss://127.0.0.1:{free_port()}/0", outage_s=0.1)) as link,
        pytest.raises(BrokerUnavailable, match="no answer from redis at"),
    ):
        link(lambda client: client.ping())
