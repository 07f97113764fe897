"""The one HTTP client: whose doing it is that there is no answer, and an end to every wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.endpoint_server import CUT, GONE, SILENT, Saying, ScriptedEndpoint, scripted_endpoint
from tests.support.waiting import wait_until
from web.client import CLOSED, BadAddress, BlockingClient, Busy, HttpAnswer, ServerAway, ServerTrouble

pytestmark = pytest.mark.unit

BODY = b'{"model": "judge", "messages": [{"role": "user", "content": "2 + 2"}]}'


@pytest.fixture
def server() -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint("True") as server:
        yield server


@pytest.fixture
def client() -> Iterator[BlockingClient]:
    with closing(BlockingClient()) as client:
        yield client


def asked(
    client: BlockingClient, url: str, *, timeout_s: float = 10.0, max_bytes: int = 1 << 20
) -> HttpAnswer:
    return client.exchange("POST", f"{url}/chat/completions", BODY, timeout_s=timeout_s, max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("status", "retry_after", "kind", "rest_s"),
    [
        (200, None, None, None),
        (302, None, None, None),
        (404, None, None, None),
        (422, "3", None, None),
        (408, None, ServerTrouble, None),
        (429, None, Busy, None),
        (429, "3", Busy, 3.0),
        (500, "3", ServerTrouble, None),
        (502, None, ServerAway, None),
        (503, None, ServerAway, None),
        (503, "2", Busy, 2.0),
        (503, "soon", Busy, None),
        (504, "-1", Busy, None),
    ],
)
def test_a_status_says_something_of_the_server_or_of_the_request(
    status: int, retry_after: str | None, kind: type[ServerTrouble] | None, rest_s: float | None
) -> None:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    answer = HttpAnswer(status, headers, b"it  says\nso" + b"." * 5000)
    if kind is None:
        answer.raise_for_server()
        return
    with pytest.raises(ServerTrouble, match=f"HTTP {status} it says so[.]{{290}}$") as caught:
        answer.raise_for_server()
    assert type(caught.value) is kind
    assert getattr(caught.value, "seconds", None) == rest_s
    with pytest.raises(kind, match=f"^HTTP {status} masked$") as masked:
        answer.raise_for_server("masked")
    assert str(masked.value.at("http://a")) == f"http://a: HTTP {status} masked"


def test_an_answer_has_status_headers_and_body_whatever_they_are(
    server: ScriptedEndpoint, client: BlockingClient
) -> None:
    server.script = lambda _call: Saying(status=404, body=b"nothing here", headers={"X-Of": "this"})
    answer = asked(client, server.url)
    assert (answer.status, answer.headers["x-of"], answer.body) == (404, "this", b"nothing here")


@pytest.mark.parametrize(
    ("saying", "limits", "said"),
    [
        (SILENT, {"timeout_s": 0.2}, "no reply within 0.2 s"),
        (CUT, {}, "the connection broke"),
        (GONE, {}, "the connection broke"),
        (Saying(body=b"x" * 3_000_000), {"max_bytes": 2 << 20}, "a reply of more than 2 MiB"),
    ],
)
def test_what_keeps_an_answer_away_is_named(
    server: ScriptedEndpoint, client: BlockingClient, saying: Saying, limits: Any, said: str
) -> None:
    server.script = lambda _call: saying
    with pytest.raises(ServerTrouble, match=said):
        asked(client, server.url, **limits)


def test_an_address_where_nobody_is_and_one_that_is_none_are_told_apart(client: BlockingClient) -> None:
    with pytest.raises(ServerAway, match="no connection"):
        asked(client, "http://127.0.0.1:9")
    with pytest.raises(BadAddress, match="no address"):
        asked(client, f"http://{'a' * 64}.example:1")


def test_closing_ends_what_is_under_way_and_what_comes_later_with_the_reason(
    server: ScriptedEndpoint,
) -> None:
    server.script = lambda _call: SILENT
    client, reasons = BlockingClient(), []

    def ask() -> None:
        try:
            asked(client, server.url, timeout_s=60.0)
        except ServerTrouble as error:
            reasons.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.at_once == 4)
    began = time.monotonic()
    client.close()
    for thread in threads:
        thread.join(10.0)
    ask()
    assert (reasons, time.monotonic() - began < 10) == ([CLOSED] * 5, True)
    assert "http" not in {thread.name for thread in threading.enumerate()}
