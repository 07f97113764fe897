"""A pool whose Redis is reached by TLS: the dispatcher, RQ's own connection, and what a wrong authority says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import SCORED, Keys
from tests.support.station import Station, make_run

pytestmark = pytest.mark.process


@pytest.fixture
def station(tls_url: str, keys: Keys) -> Iterator[Station]:
    link = RedisLink(tls_url, outage_s=10)
    yield Station(link, keys, make_run())
    link.close()


@pytest.mark.prove
def test_a_pool_dispatches_and_scores_by_tls(station: Station, tmp_path: Path) -> None:
    station.roll_out(0, 1)
    pool = station.start(tmp_path, "--workers", "1")
    try:
        pool.until(lambda: int(station.client.xlen(station.keys(SCORED))) == 2)
    finally:
        pool.process.terminate()
        assert pool.process.wait(30) == 0


def test_a_pool_that_does_not_know_the_authority_ends_with_what_to_set(
    tls_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", tls_url.partition("?")[0].replace("//", "//:planted-secret@"))
    ended = subprocess.run(
        [sys.executable, "-m", "scorers", "--run", "test"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2  # it would fail each time
    assert "signed by an authority that this machine does not know" in ended.stderr
    assert "ssl_ca_certs=/path/ca.pem" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "planted" not in ended.stderr
