"""A container's health check: heartbeats of this host that work, and some that only live. Real Redis."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring import health

HERE = socket.gethostname()


@pytest.fixture(autouse=True)
def _own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("REDIS_URL", redis_url)


def beat(link: RedisLink, keys: Keys, role: str, **fields: str) -> None:
    """`role` may name another host: ROLE@HOST."""
    role, _, host = role.partition("@")
    said: dict[Any, Any] = {"host": host or HERE, "state": "waiting for prompts", **fields}
    link.client.hset(keys.alive(role, f"{host or HERE}-1"), mapping=said)


@pytest.mark.parametrize(
    ("role", "there", "code", "says"),
    [
        ("generator", "generator", 0, "waiting for prompts"),
        ("generator", "", 1, "no generator of this host"),
        ("generator", "learner", 1, "no generator of this host"),
        ("agent", "agent", 0, "waiting for prompts"),
        ("agent", "generator", 1, "no agent of this host"),
        ("learner", "learner@elsewhere", 1, "no learner of this host"),
        ("scorer", "dispatcher scorer", 0, "dispatcher"),
        ("scorer", "scorer", 1, "no dispatcher of this host"),
        ("scorer", "dispatcher", 1, "no scorer of this host"),
    ],
)
def test_what_belongs_to_a_role_has_to_be_there(
    *, role: str, there: str, code: int, says: str, link: RedisLink, keys: Keys, capsys: Any
) -> None:
    for part in there.split():
        beat(link, keys, part)
    assert health.main([role, "test"]) == code
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "later", "code"),
    [
        ("sampling", {"groups": "4"}, 1),  # nothing counted: stuck
        ("sampling", {"groups": "4", "busy_s": "99", "up_s": "99", "wait_prompts_s": "3", "kept_s": "9"}, 1),
        ("sampling", {"groups": "5"}, 0),
        ("waiting for prompts", {"groups": "4"}, 0),  # others may be slow
        ("3 groups wait for a worker", {"groups": "4"}, 0),
        ("starting the engine", {"groups": "4"}, 0),
    ],
)
def test_who_says_that_it_works_has_to_count_something(
    state: str, later: dict[str, str], code: int, link: RedisLink, keys: Keys
) -> None:
    beat(link, keys, "generator", state=state, groups="4", busy_s="1", up_s="1")
    assert health.main(["generator", "test"], clock=lambda: 1e9) == 0
    beat(link, keys, "generator", state=state, **later)
    assert health.main(["generator", "test"], clock=lambda: 1e9 + health.STUCK_S - 1) == 0
    assert health.main(["generator", "test"], clock=lambda: 1e9 + health.STUCK_S + 1) == code


def test_no_redis_and_wrong_words_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert health.main(["cook", "test"]) == 2
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    assert health.main(["learner", "test"]) == 1
    assert "redis does not answer" in capsys.readouterr().err
    os.environ.pop("REDIS_URL")
    assert health.main(["learner", "test"]) == 1
