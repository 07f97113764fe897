"""A client of Redis by TLS works in every part of a run, and what is wrong with TLS is said with what to set."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import redis

from broker import redis_client as module
from broker.connection import RedisLink, check_url
from broker.errors import BrokerUnavailable, WrongBroker
from broker.redis_client import redis_client
from tests.conftest import RedisServer, free_port
from tests.support.in_time import within
from tests.support.made_up_time import MadeUpTime
from tests.support.tls import TlsProxy, beside, certificates, expire, lock

pytestmark = pytest.mark.process

MakeFolder = pytest.TempPathFactory


@pytest.fixture(scope="module")
def server(tmp_path_factory: MakeFolder) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("behind"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: MakeFolder) -> dict[str, Path]:
    """Certificates: for 127.0.0.1, for another host, one whose days are over, and those of another authority."""
    folder = certificates(tmp_path_factory.mktemp("tls"), "127.0.0.1", "localhost")
    return {
        "folder": folder,
        "elsewhere": beside(folder, tmp_path_factory.mktemp("elsewhere"), "redis.example"),
        "expired": expire(beside(folder, tmp_path_factory.mktemp("expired"), "127.0.0.1")),
        "stranger": certificates(tmp_path_factory.mktemp("stranger"), "127.0.0.1"),
    }


@pytest.fixture(scope="module")
def folder(folders: dict[str, Path]) -> Path:
    return folders["folder"]


@pytest.fixture
def authority(folder: Path) -> str:
    return f"ssl_ca_certs={folder}/ca.pem"


@pytest.fixture
def proxy(server: RedisServer, folders: dict[str, Path]) -> Iterator[Callable[..., TlsProxy]]:
    """Opens proxies of the server, which are closed after the test."""
    opened: list[TlsProxy] = []

    def open_one(shown: str = "folder", **options: bool) -> TlsProxy:
        opened.append(TlsProxy(folders[shown], server.port, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


Proxy = Callable[..., TlsProxy]


def is_answered(url: str) -> bool:
    with closing(RedisLink(url, outage_s=5)) as link:
        return bool(link(lambda client: client.ping()))


def refusal(url: str) -> str:
    """Return what a link to `url` gives up with at once: what waiting can't mend is not waited for."""
    with within(4), pytest.raises(WrongBroker) as caught, closing(RedisLink(url, outage_s=60)) as link:
        link(lambda client: client.ping())
    return str(caught.value)


def test_a_link_by_tls_reads_writes_and_runs_scripts(proxy: Proxy, authority: str) -> None:
    with closing(RedisLink((one := proxy()).url(authority), outage_s=5)) as link:
        link(lambda client: client.set("by", "tls"))
        assert link(lambda client: client.get("by")) == b"tls"
        assert link.script("claim", [f"k{number}" for number in range(12)], 0)
        assert link.address == f"127.0.0.1:{one.port}"
    assert one.handshakes == 1


def test_a_link_waits_for_an_endpoint_to_come_back(server: RedisServer, folder: Path, authority: str) -> None:
    proxy, made_up, again = TlsProxy(folder, server.port), MadeUpTime(), []
    url = proxy.url(authority)
    with closing(RedisLink(url, outage_s=20, clock=made_up.clock, sleep=made_up.sleep)) as link:
        link(lambda client: client.set("n", "1"))
        proxy.close()
        made_up.later(3.0, lambda: again.append(TlsProxy(folder, server.port, port=proxy.port)))
        assert link(lambda client: client.get("n")) == b"1"
    again[0].close()


UNKNOWN = ("signed by an authority that this machine does not know", "rediss://", "ssl_ca_certs=")


@pytest.mark.parametrize(
    ("shown", "settings", "says"),
    [
        ("folder", "", UNKNOWN),
        ("folder", "ssl_ca_certs={stranger}/ca.pem", ("ca.pem does not hold", "ssl_ca_certs=/path/ca.pem")),
        ("elsewhere", "ssl_ca_certs={folder}/ca.pem", ("is not for '127.0.0.1'", "subjectAltName")),
        ("expired", "ssl_ca_certs={folder}/ca.pem", ("has expired", "Give that Redis a new one")),
    ],
    ids=["no CA", "another CA", "another host", "expired"],
)
def test_a_wrong_certificate_is_refused_at_once_with_what_to_set(
    folders: dict[str, Path], proxy: Proxy, shown: str, settings: str, says: Sequence[str]
) -> None:
    one = proxy(shown)
    said = refusal(one.url(settings.format(**folders), user="user:planted-secret@"))
    assert [word for word in (f"127.0.0.1:{one.port}", *says) if word not in said] == [], said
    assert "planted" not in said


def test_a_certificate_for_another_host_is_taken_where_the_url_says_so(proxy: Proxy, authority: str) -> None:
    assert is_answered(proxy("elsewhere").url(f"{authority}&ssl_check_hostname=false"))


def test_a_plain_port_is_no_outage(
    server: RedisServer, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.3)  # a Redis says nothing to a handshake
    said = refusal(f"rediss://127.0.0.1:{server.port}/0?{authority}")
    assert f"redis at 127.0.0.1:{server.port} answers without TLS" in said
    assert "tls-port" in said


def test_a_port_that_answers_a_handshake_in_the_clear_is_none_with_tls(authority: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with other.accept()[0] as client:
                client.sendall(b"-ERR who are you\r\n")

        threading.Thread(target=answer, daemon=True).start()
        port = other.getsockname()[1]
        said = refusal(f"rediss://127.0.0.1:{port}/0?{authority}")
    assert f"redis at 127.0.0.1:{port} answers without TLS" in said


def test_a_port_that_answers_a_handshake_with_nothing_and_one_without_anybody_are_outages(
    authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.2)
    monkeypatch.setattr(module, "PROBE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], free_port()):
            link = RedisLink(f"rediss://127.0.0.1:{port}/0?{authority}", outage_s=0.1)
            with closing(link), pytest.raises(BrokerUnavailable, match="no answer from redis at"):
                link(lambda client: client.ping())


def test_tls_where_none_was_expected_is_told_from_a_lost_connection(proxy: Proxy) -> None:
    one = proxy()
    said = refusal(one.url().replace("rediss://", "redis://"))
    assert f"redis at 127.0.0.1:{one.port} speaks TLS" in said
    assert "rediss://" in said


def test_a_redis_that_wants_its_clients_certificates_says_so_and_takes_one(
    folders: dict[str, Path], proxy: Proxy, authority: str
) -> None:
    def url(whose: Path) -> str:
        return one.url(f"{authority}&ssl_certfile={whose}/redis.pem&ssl_keyfile={whose}/redis.key")

    one, stranger = proxy(wants_certificates=True), folders["stranger"]
    assert "ssl_certfile=" in refusal(one.url(authority))
    assert is_answered(url(folders["folder"]))
    assert f"does not take the certificate {stranger}/redis.pem" in refusal(url(stranger))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("rediss://h:1/0?ssl_ca_certs=/nowhere/ca.pem", "=/nowhere/ca.pem can't be read on this machine"),
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
    folders: dict[str, Path], address: str, says: str
) -> None:
    with pytest.raises(WrongBroker) as caught:
        check_url(address.format(**folders))
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
    with within(module.PROBE_S), pytest.raises(redis.AuthenticationError):
        client.ping()
