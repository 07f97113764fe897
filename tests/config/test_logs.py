"""No secret of this process reaches its log."""

from __future__ import annotations

import logging

import pytest

from config.logs import mask, set_up_logging

TOKEN, PASSWORD, KEY = "hf_planted-token", "planted:pass/word", "sk-planted-key"
URL = "redis://user:planted%3Apass%2Fword@host:6379/0"


@pytest.fixture
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("REDIS_URL", URL)
    monkeypatch.setenv("RUBRIC_API_KEY", KEY)


@pytest.mark.usefixtures("_planted")
def test_secrets_are_masked_in_messages_arguments_and_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("learner")
    log = logging.getLogger("test")
    log.info("loading with token %s", TOKEN)
    log.info("connecting to %s", URL)
    try:
        raise ValueError(f"can't use {URL!r} as {PASSWORD}")
    except ValueError:
        log.exception("failed token=%s", {"Authorization": f"Bearer {TOKEN}"})
    said = capsys.readouterr().err
    assert said.count("**********") == 5
    assert "ValueError: can't use" in said
    assert "planted" not in said


@pytest.mark.usefixtures("_planted")
@pytest.mark.parametrize("text", [TOKEN, URL, PASSWORD, KEY, "planted%3Apass%2Fword", f"a{TOKEN}b{TOKEN}"])
def test_a_secret_is_masked_in_every_spelling(text: str) -> None:
    assert "planted" not in mask(f"before {text} after")


CLIENTS_KEY = "rediss://h:1/0?ssl_ca_certs=/tls/ca.pem&ssl_password=planted%20word&ssl_keyfile=/tls/k.pem"


@pytest.mark.parametrize(
    ("url", "text", "is_shown"),
    [
        (CLIENTS_KEY, "a key behind planted%20word, or planted word", False),
        (CLIENTS_KEY, "can't read /tls/ca.pem", True),  # its files are no secret
        ("redis://host:6379/0", "redis at host:6379", True),
        ("redis://:planted@[::1", "can't use redis://:planted@[::1", False),  # it can't be parsed
    ],
)
def test_a_password_is_masked_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, url: str, text: str, *, is_shown: bool
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    assert mask(text) == text if is_shown else "planted" not in mask(text)


def test_a_line_says_when_who_how_bad_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("generator")
    logging.getLogger("generators.worker").warning("sampled group=%s", "17")
    time, rest = capsys.readouterr().err.split(" ", 1)
    assert len(time.split(":")) == 3
    assert rest == "generator WARNING generators.worker: sampled group=17\n"
