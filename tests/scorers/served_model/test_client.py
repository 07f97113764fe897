"""A served model that is asked: what it says, and every way in which it does not. Real HTTP on loopback."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import certifi
import pytest
from pydantic import ValidationError

from broker.errors import Permanent, Retryable
from config.endpoint import EndpointConfig
from config.scorers import ScorersConfig
from scorers.served_model import admission, calls, servers
from scorers.served_model.admission import NoCallFree
from scorers.served_model.client import Endpoint, EndpointMisused, EndpointUnavailable, Reply, RequestRefused
from scorers.served_model.wire import REPLY_BYTES, Wire
from tests.support.endpoint_server import (
    CUT,
    FAILING,
    GONE,
    NO_JSON,
    SILENT,
    Saying,
    ScriptedEndpoint,
    busy,
    in_turn,
    scripted_endpoint,
)
from tests.support.redis_servers import free_port
from tests.support.waiting import wait_until
from web import client as web_client
from web.client import SAID_CHARS, ServerAway

pytestmark = pytest.mark.process

Build = Callable[..., Endpoint]
PATIENCE_S = 10.0  # of the tests: however an endpoint behaves, its future ends


@pytest.fixture
def build() -> Iterator[Build]:
    built: list[Endpoint] = []

    def make(*servers: ScriptedEndpoint | str, **settings: Any) -> Endpoint:
        urls = tuple(server if isinstance(server, str) else server.url for server in servers)
        config = EndpointConfig(
            **{"urls": urls, "model": "judge", "timeout_s": 5.0, "cache": False, **settings}
        )
        built.append(Endpoint(config))
        return built[-1]

    yield make
    for endpoint in built:
        endpoint.close()


def ask(endpoint: Endpoint, text: str = "Is it so?", key: str | None = None) -> Future[Reply]:
    return endpoint.ask([{"role": "user", "content": text}], key)


def said(endpoint: Endpoint, text: str = "Is it so?", key: str | None = None) -> str:
    return ask(endpoint, text, key).result(PATIENCE_S).text


def error_of(endpoint: Endpoint) -> Any:
    error = ask(endpoint).exception(PATIENCE_S)
    assert error is not None
    return error


def nobody() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_what_is_sent_is_the_config_and_the_messages(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(build(server, max_tokens=7), "half of a pair: \ud83d, a whole one: \ud83d\ude00") == "True"
    (call,) = server.calls
    assert call.body == {
        "model": "judge",
        "max_tokens": 7,
        "temperature": 0.0,
        "stream": False,
        "messages": [{"role": "user", "content": "half of a pair: \ufffd, a whole one: \U0001f600"}],
    }
    assert "authorization" not in call.headers
    monkeypatch.setenv("RUBRIC_API_KEY", "planted")
    said(build(server, key_variable="RUBRIC_API_KEY"))
    assert server.calls[1].headers["authorization"] == "Bearer planted"


def test_an_address_is_read_as_other_systems_do(server: ScriptedEndpoint, build: Build) -> None:
    for form in ["{}/v1", "{}", "{}/", "{}/v1/", "{}/v1/chat/completions"]:
        assert said(build(form.format(server.url.removesuffix("/v1")))) == "True"


def test_what_is_no_address_or_temperature_is_refused_with_the_config(subtests: pytest.Subtests) -> None:
    for temperature in (-0.1, 2.1):
        with pytest.raises(ValidationError, match="temperature"):
            EndpointConfig(temperature=temperature)
    for url, said_of_it in [
        ("<STEM_LLM_JUDGE_URL>", "expected http://HOST:PORT"),
        ("localhost:8000", "expected http://HOST:PORT"),
        ("http://", "expected http://HOST:PORT"),
        ("http://h:many/", "expected http://HOST:PORT"),
        ("http://user:planted@h:8000", "no password in an address"),
        ("ftp://user:planted@h", "expected http://HOST:PORT"),
        ("http://h:8000/v1?key=planted", "an address ends with its path, got 'http://h:8000/v1'"),
        ("http://h:8000/#planted", "an address ends with its path, got 'http://h:8000/'"),
    ]:
        with subtests.test(url=url):
            with pytest.raises(ValidationError, match=said_of_it) as caught:
                EndpointConfig(urls=(url,))
            assert "planted" not in caught.value.errors()[0]["msg"]


def test_a_reply_is_what_was_said(server: ScriptedEndpoint, build: Build, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Saying, Reply]] = [
        (Saying("No", "stop"), Reply("No", "stop")),
        (Saying("I thin", "length"), Reply("I thin", "length")),
        (Saying(None, "length"), Reply("", "length")),
        (Saying(None, None), Reply("", None)),
    ]
    for saying, reply in cases:
        with subtests.test(saying=saying):
            server.script = in_turn(saying)
            assert ask(build(server)).result(PATIENCE_S) == reply


def body(message: object) -> Saying:
    return Saying(body=json.dumps(message).encode())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "reasoning": "Both are 72."}, "<think>"),  # vLLM, with a --reasoning-parser
        ({"content": None, "reasoning_content": "Both are 72."}, "<think>"),
        ({"content": "", "reasoning": "I say</think>True"}, "<think>"),  # whatever a thought quotes
        ({"content": None, "reasoning": None, "reasoning_content": 1}, ""),
        ({"content": "True", "reasoning": "Both are 72."}, "True"),
    ],
)
def test_thoughts_without_a_reply_are_thoughts_without_an_end_and_not_kept(
    server: ScriptedEndpoint, build: Build, message: dict[str, object], text: str
) -> None:
    server.script = in_turn(body({"choices": [{"message": message, "finish_reason": "stop"}]}))
    endpoint = build(server, cache=True)
    assert [said(endpoint), said(endpoint)] == [text, text]
    assert len(server.calls) == (1 if text == "True" else 2)  # what cut it off may be the server's settings


@pytest.mark.parametrize(
    ("saying", "reason"),
    [
        (SILENT, "no reply within 0.5 s"),
        (Saying(delay_s=9.0), "no reply within 0.5 s"),
        (FAILING, "HTTP 500 told to"),
        (Saying(status=502, body=b"<html>Bad Gateway"), "HTTP 502 <html>Bad Gateway"),
        (CUT, "the connection broke"),
        (GONE, "the connection broke"),
        (NO_JSON, "a reply that is not JSON"),
        (Saying(body=b""), "a reply that is not JSON"),
        (Saying(body=b"[" * 100_000), "a reply that is not JSON"),
        (Saying(body=b" " * (REPLY_BYTES + 1)), "a reply of more than 4 MiB"),
        (body(1), "a reply without a message"),
        (body({"choices": []}), "a reply without a message"),
        (body({"choices": [{"message": {}}]}), "a reply without a message"),
        (body({"choices": [{"message": "True"}]}), "a reply without a message"),
        (body({"choices": [{"message": {"content": 1}}]}), "a reply whose message is no text"),
    ],
)
def test_a_broken_exchange_is_tried_again_by_the_caller_and_never_a_reply(
    server: ScriptedEndpoint, build: Build, saying: Saying, reason: str
) -> None:
    server.script = in_turn(saying)
    timeout_s = 0.5 if "0.5 s" in reason else 1.0 if saying.status == 502 else PATIENCE_S
    endpoint = build(server, timeout_s=timeout_s)
    error = error_of(endpoint)
    assert isinstance(error, EndpointUnavailable)
    assert isinstance(error, Retryable)
    assert f"{server.url}/chat/completions: " in str(error)
    assert reason in str(error)
    server.script = in_turn("True")
    assert said(endpoint) == "True", "the next try asks anew"


def test_where_nobody_answers_is_said_after_the_time_of_a_call(build: Build) -> None:
    url = nobody()
    began = time.monotonic()
    error = error_of(build(url, timeout_s=0.2))
    assert isinstance(error, EndpointUnavailable)
    assert f"{url}/v1/chat/completions: no " in str(error)  # reply, where the machine is that busy
    assert time.monotonic() - began > 0.2
    with pytest.raises(ServerAway, match=f"{url}/v1/chat/completions: no connection"):
        asyncio.run(complete_alone(f"{url}/v1"))


async def complete_alone(url: str) -> Reply:
    """One exchange, which nothing tries again."""
    alone = Wire(None, timeout_s=PATIENCE_S)
    try:
        return await alone.complete(url, b"{}")
    finally:
        await alone.close()


def test_a_server_that_is_about_to_start_is_waited_for(build: Build) -> None:
    port = free_port()
    asked = ask(build(f"http://127.0.0.1:{port}"))
    time.sleep(0.15)
    assert not asked.done()
    server = ScriptedEndpoint(port=port)
    assert asked.result(PATIENCE_S).text == "True"
    server.close()


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "", EndpointMisused),
        (403, "", EndpointMisused),
        (404, " The model `judge` does not exist.", EndpointMisused),
        (307, "", EndpointMisused),
        (400, " This model's maximum context length is 4096", RequestRefused),
        (413, "", RequestRefused),
        (422, "", RequestRefused),
    ],
)
def test_what_no_retry_mends_is_permanent_and_says_where(
    server: ScriptedEndpoint, build: Build, status: int, text: str, kind: type[Permanent]
) -> None:
    said = {"error": {"message": text.strip() or " ", "type": "made up", "code": status}}
    server.script = in_turn(Saying(status=status, body=json.dumps(said).encode()))
    error = error_of(build(server))
    assert type(error) is kind
    assert isinstance(error, Permanent)
    assert str(error) == f"{server.url}/chat/completions: HTTP {status}{text}"
    assert len(server.calls) == 1


def test_a_wrong_key_is_said_without_the_key(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_JUDGE_API_KEY", "planted")
    server.script = in_turn(Saying(status=401, body=b'{"error": {"message": "Incorrect API key: planted"}}'))
    error = error_of(build(server))
    assert f"{server.url}/chat/completions: HTTP 401 Incorrect API key: ****" in str(error)
    assert "planted" not in str(error)
    server.script = in_turn(Saying(status=401, body=b'{"error": "Unauthorized"}'))  # vLLM's own words
    assert str(error_of(build(server))) == f"{server.url}/chat/completions: HTTP 401 Unauthorized"
    monkeypatch.setenv("LLM_JUDGE_API_KEY", "planted-and-long")
    server.script = in_turn(Saying(status=401, body=b"x" * (SAID_CHARS - 7) + b"planted-and-long"))
    said = str(error_of(build(server)))
    assert "xxx***" in said, "half of a key at the end of a long error"
    assert "plant" not in said


def test_money_that_is_used_up_is_nothing_to_wait_for(server: ScriptedEndpoint, build: Build) -> None:
    answer = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    server.script = in_turn(Saying(status=429, body=answer, headers={"retry-after": "1"}))
    assert isinstance(error_of(build(server)), EndpointMisused)


@pytest.mark.parametrize(("models", "served"), [(("a", "b"), "a, b"), ((), "none")])
def test_a_model_to_be_named_is_not_guessed(build: Build, models: tuple[str, ...], served: str) -> None:
    with scripted_endpoint(models=models) as server:
        error = error_of(build(server, model=None))
        assert isinstance(error, EndpointMisused)
        assert str(error) == f"{server.url}: set `model` of the endpoint; it serves {served}"


def test_the_only_model_is_asked_for_once_and_again_after_a_failure(build: Build) -> None:
    with scripted_endpoint(models=["tiny"], api_key="planted") as server:
        endpoint = build(server, model=None)
        assert "HTTP 401" in str(error_of(endpoint))
        server.api_key = None
        assert [asked.result(PATIENCE_S).text for asked in [ask(endpoint) for _ in range(5)]] == ["True"] * 5
        assert {call.body["model"] for call in server.calls} == {"tiny"}
        assert server.listings == 1


def test_a_server_that_fails_is_replaced_by_the_next_and_left_alone(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "FIRST_WAIT_S", 60.0)
    monkeypatch.setattr(servers, "LONGEST_WAIT_S", 60.0)
    with scripted_endpoint(FAILING) as failing, scripted_endpoint(models=["another"]) as other:
        endpoint = build(failing, nobody(), other, server)
        for _ in range(20):
            assert said(endpoint) == "True"
        assert len(failing.calls) == len(other.calls) == 1


def test_a_server_is_not_in_doubt_for_ever(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "FIRST_WAIT_S", 0.05)
    with scripted_endpoint(FAILING, "True") as once_failing:
        endpoint = build(once_failing, server)
        while len(once_failing.calls) < 5:
            assert said(endpoint) == "True"
        assert len(server.calls) >= 4


def test_what_all_servers_said_is_told_and_one_may_get_well(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(Saying(status=401))
    with scripted_endpoint(FAILING) as failing:
        error = error_of(build(server, failing))
    assert isinstance(error, Retryable)
    assert re.search("HTTP 401.*; .*HTTP 500", str(error))


PAST = formatdate(time.time() - 60, usegmt=True)


@pytest.mark.parametrize(
    "saying", [busy("0.02", status=503), *map(busy, ("0.02", None, "soon", "0", "nan", "-5", PAST))]
)
def test_too_many_requests_cost_no_attempt(
    server: ScriptedEndpoint, build: Build, saying: Saying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "FIRST_REST_S", 0.005)
    server.script = in_turn(*[saying] * 5, "True")
    assert said(build(server)) == "True"
    assert len(server.calls) == 6


def test_retry_after_is_obeyed_and_another_server_asked(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(busy("0.3"), "from the busy one")
    endpoint = build(server)
    asked = [ask(endpoint)]
    wait_until(lambda: server.calls, poll_s=0.001)
    time.sleep(0.05)
    asked += [ask(endpoint) for _ in range(5)]
    assert [one.result(PATIENCE_S).text for one in asked] == ["from the busy one"] * 6
    assert min(call.at for call in server.calls[1:]) - server.calls[0].at >= 0.3
    server.script = in_turn(busy("60"))
    with scripted_endpoint("from the other one") as other:
        assert said(build(server, other)) == said(build(other, server)) == "from the other one"


@pytest.mark.parametrize(
    ("retry_after", "wants"), [("0.05", "0 s"), ("0.001", "0 s"), ("0", "1 s"), ("60", "60 s")]
)
def test_who_is_busy_for_too_long_is_named(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch, retry_after: str, wants: str
) -> None:
    monkeypatch.setattr(calls, "BUSY_S", 0.15)
    server.script = in_turn(busy(retry_after))
    error = error_of(build(server))
    assert isinstance(error, EndpointUnavailable)
    assert str(error) == (
        f"{server.url}: too many requests (HTTP 429) for 0 s, and wants to be left alone for {wants} more"
    )


@pytest.mark.parametrize("key", ["two\nlines of it", "secr\u00e9t", "secr\x01t"])
def test_a_key_that_no_header_can_carry_is_an_error_that_does_not_show_it(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("LLM_JUDGE_API_KEY", key)
    error = error_of(build(server))
    assert isinstance(error, EndpointMisused)
    assert str(error) == f"{server.url}/chat/completions: the key has a character that no header can carry"
    assert server.calls == []


@pytest.mark.parametrize("finish_reason", ["abort", "error"])
def test_a_reply_that_the_server_broke_off_is_none_and_is_asked_for_again(
    server: ScriptedEndpoint, build: Build, finish_reason: str
) -> None:
    server.script = in_turn(Saying("No", finish_reason=finish_reason), "Not so fast.")
    endpoint = build(server, cache=True)
    assert isinstance(error := error_of(endpoint), Retryable)
    assert f"broke its reply off ({finish_reason})" in str(error)
    assert said(endpoint) == "Not so fast."


def test_an_address_that_can_be_none_is_the_configurations_error(build: Build) -> None:
    for url in ["http://xn--\u2603.example:1", "http://\u200b:1", f"http://{'a' * 64}.example:1"]:
        assert isinstance(error := error_of(build(url)), EndpointMisused)
        assert "no address" in str(error)
    assert "set `urls`" in str(error_of(build()))


def test_certificates_that_can_not_be_read_are_the_configurations_error(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    web_client._trusted.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nowhere.pem"))
    assert isinstance(error := error_of(build(server)), EndpointMisused)
    assert "nowhere.pem: no certificates can be read from it" in str(error)
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert said(build(server)) == "True"


PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("form", ["http://{}", "{}", "http://user:planted@{}"])
def test_the_environments_proxy_is_asked_unless_the_server_is_excepted(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    for variable in PROXY_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LLM_JUDGE_API_KEY", "the key")
    monkeypatch.setenv(name, form.format(server.url.removeprefix("http://").removesuffix("/v1")))
    server.script = in_turn("by the proxy")
    assert said(build("http://model.example:8000")) == "by the proxy"
    (call,) = server.calls
    assert (call.headers["host"], call.headers["authorization"]) == ("model.example:8000", "Bearer the key")
    bears = "Basic " + b64encode(b"user:planted").decode() if "@" in form else None
    assert call.headers.get("proxy-authorization") == bears
    with scripted_endpoint("itself") as near:
        monkeypatch.setenv("NO_PROXY", "elsewhere.example,127.0.0.1")
        assert said(build(near)) == "itself"


def test_a_useless_proxy_is_said_without_its_password(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in PROXY_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    place = f"user:planted@127.0.0.1:{free_port()}"
    monkeypatch.setenv("HTTP_PROXY", f"http://{place}")
    error = error_of(build("http://model.example:8000", timeout_s=0.2))
    assert isinstance(error, EndpointUnavailable)
    assert "planted" not in str(error)
    monkeypatch.setenv("HTTP_PROXY", f"socks5://{place}")
    error = error_of(build("http://model.example:8000"))
    assert isinstance(error, EndpointMisused)
    assert "a proxy of the environment speaks socks5; expected an HTTP proxy" in str(error)
    assert "planted" not in str(error)


def test_a_refusing_proxy_is_said_without_its_password(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_proxy() as address:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:planted@{address}")
        monkeypatch.delenv("https_proxy", raising=False)
        error = error_of(build("https://model.example:8000"))
    assert isinstance(error, EndpointUnavailable)
    assert "the connection broke (ClientHttpProxyError 407 Not you)" in str(error)
    assert "planted" not in str(error)


@contextmanager
def refusing_proxy() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 407 Not you\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE_S)


def test_a_second_call_uses_the_first_ones_connection(build: Build) -> None:
    with scripted_endpoint() as server:
        endpoint = build(server)
        assert [said(endpoint, str(number)) for number in range(5)] == ["True"] * 5
        assert server.connections == 1


def test_one_process_keeps_64_calls_under_way_and_no_more(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(Saying(delay_s=0.05, meets=64))
    endpoint = build(server)
    asked = [ask(endpoint, str(number)) for number in range(80)]
    assert {one.result(PATIENCE_S).text for one in asked} == {"True"}
    assert server.most_at_once == 64


def test_a_call_has_its_whole_time_however_long_it_waited(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(Saying(delay_s=0.3))
    endpoint = build(server, concurrency=1, timeout_s=1.2)
    assert {one.result(PATIENCE_S).text for one in [ask(endpoint) for _ in range(5)]} == {"True"}
    assert server.most_at_once == 1


def test_a_call_whose_turn_does_not_come_ends_with_a_reason(
    server: ScriptedEndpoint, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "PATIENCE_S", 0.1)
    server.script = in_turn(SILENT)
    endpoint = build(server, concurrency=1)
    asked = [ask(endpoint) for _ in range(3)]
    waited = f"2 calls waited 0 s for one of 1 calls at once to {server.url}, and none was free"
    for one in asked[1:]:
        assert isinstance(error := one.exception(PATIENCE_S), NoCallFree)
        assert str(error) == waited
    assert not asked[0].done()


def test_what_is_cancelled_leaves_its_place_to_others(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(SILENT, SILENT, "True")
    endpoint = build(server, concurrency=2)
    silent = [ask(endpoint), ask(endpoint)]
    waiting = ask(endpoint)
    wait_until(lambda: len(server.calls) >= 2, poll_s=0.001)
    assert waiting.cancel()
    assert silent[0].cancel()
    assert said(endpoint) == "True"


def test_closing_ends_all_calls_and_the_next_call_works(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(*[SILENT] * 3, "True")
    endpoint = build(server)
    asked = [ask(endpoint) for _ in range(3)]
    wait_until(lambda: len(server.calls) >= 3, poll_s=0.001)
    endpoint.close()
    assert all(one.cancelled() for one in asked)
    assert said(endpoint) == "True"


@pytest.mark.parametrize("way", ["the loop fails at once", "the loop never comes up"])
def test_a_loop_that_does_not_start_is_said_within_a_deadline(
    monkeypatch: pytest.MonkeyPatch, build: Build, server: ScriptedEndpoint, way: str
) -> None:
    """A process out of descriptors can make no loop: who asked waited for ever."""
    hanging = threading.Event()

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        coroutine.close()
        if way == "the loop fails at once":
            raise OSError(errno.EMFILE, "Too many open files")
        hanging.wait(PATIENCE_S)

    monkeypatch.setattr("scorers.served_model.client.START_S", 0.3)
    endpoint = build(server)
    with monkeypatch.context() as broken:
        broken.setattr("scorers.served_model.client.asyncio.run", run)
        started = time.monotonic()
        with pytest.raises(EndpointUnavailable, match=f"thread did not start.*{server.url}") as refused:
            ask(endpoint)
        assert time.monotonic() - started < PATIENCE_S / 2
    assert ("Too many open files" in str(refused.value)) == (way == "the loop fails at once")
    hanging.set()
    assert said(endpoint) == "True"


def test_the_same_question_is_asked_once(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(*map(str, range(9)))
    endpoint = build(server, cache=True)
    asked = [("a", None)] * 2 + [("b", None), ("nonce 1: a", "a"), ("nonce 2: a", "a"), ("nonce 3: b", "b")]
    assert [said(endpoint, text, key) for text, key in asked] == ["0", "0", "1", "2", "2", "3"]
    assert ask(endpoint, "a").result(PATIENCE_S) == Reply("0", "stop", cached=True)
    assert endpoint.take_counts() == {"cache_hits": 3, "cache_misses": 4}
    assert endpoint.take_counts() == {}
    anew = endpoint.ask([{"role": "user", "content": "a"}], anew=True)
    assert anew.result(PATIENCE_S) == Reply("4", "stop")
    assert said(endpoint, "a") == "4"


def test_no_answer_is_not_kept_and_half_a_character_is(server: ScriptedEndpoint, build: Build) -> None:
    server.script = in_turn(FAILING, Saying(None), "half of a pair: \ud83d", "another one")
    endpoint = build(server, cache=True)
    assert isinstance(error_of(endpoint), Retryable)
    assert [said(endpoint) for _ in range(3)] == ["", *["half of a pair: \ud83d"] * 2]


def tasks_at(*endpoints: dict[str, Any]) -> dict[str, Any]:
    first, *others = ({"type": "judge", "endpoint": endpoint} for endpoint in endpoints)
    return {
        "tasks": {
            "free": {
                "scorer": first,
                "extra_scorers": {f"part{number}": {"scorer": other} for number, other in enumerate(others)},
            }
        }
    }


def test_who_asks_the_same_servers_has_the_same_limits() -> None:
    here, there = "http://a:8000", "http://b"
    ScorersConfig.model_validate(tasks_at({"urls": [here], "concurrency": 8}, {"urls": [there]}, {}, {}))
    ScorersConfig.model_validate(
        tasks_at({"urls": [here, there]}, {"urls": [f"{there}/v1/", here], "max_tokens": 9})
    )
    for other in ({"concurrency": 8}, {"requests_per_minute": 60}):
        with pytest.raises(
            ValidationError,
            match=r"scorers\.tasks\.free\.scorer\.endpoint and "
            r"scorers\.tasks\.free\.extra_scorers\.part0\.scorer\.endpoint are the same",
        ):
            ScorersConfig.model_validate(tasks_at({"urls": [here]}, {"urls": [f"{here}/v1"], **other}))
