"""What breaks while requests are under way costs time and no score: real servers, workers, clients and Redis."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from broker.keys import Keys
from broker.processes import spawn, stop
from tests.conftest import ROOT, RedisServer, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

KEYS = Keys("api")
CONFIG = """
broker: {lease_s: 2.0, max_attempts: 10}
scorers:
  tasks:
    moods: {scorer: {type: custom, queue: light, import_path: "tests.support.moods:Moods"}}
"""
TAKES_S = 0.2
WITHIN_S = 90.0  # of the server; a machine may be busy


@dataclass(frozen=True)
class Served:
    url: str
    redis: RedisServer
    client: Any
    log: Path

    def ask(self, number: int) -> str:
        info = {"type": "moods", "answer": {"value": TAKES_S, "number": number}}
        answer = httpx.post(
            f"{self.url}/reward",
            timeout=WITHIN_S + 10,
            json={"llm_output": str(number / 100), "verification_info": info},
        )
        is_right = answer.status_code == 200 and answer.json()["score"] == number / 100
        return "right" if is_right else f"{answer.status_code} {answer.text}"

    def at_work(self) -> list[int]:
        found = [
            self.client.hmget(key, "state", "pid") for key in self.client.keys(KEYS.alive("scorer", "*"))
        ]
        return [int(pid) for state, pid in found if state and state.startswith(b"scoring group")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("troubled")
    (folder / "config.yaml").write_text(CONFIG)
    server, port = RedisServer(folder / "redis"), free_port()
    env = {**os.environ, "REDIS_URL": server.url, "PYTHONPATH": str(ROOT)}
    serve = f"serve --config {folder / 'config.yaml'} --port {port} --timeout {WITHIN_S}".split()
    with (folder / "log").open("wb") as log, redis.Redis.from_url(server.url) as client:
        started = [
            spawn([sys.executable, "-m", "scorers", *words], env=env, cwd=ROOT, stderr=log)
            for words in (serve, ["--run", "api", "--workers", "2"])
        ]
        try:
            found = Served(f"http://127.0.0.1:{port}", server, client, folder / "log")
            wait_until(
                lambda: len(client.keys(KEYS.alive("scorer", "*"))) == 2, within_s=90, log=found.log.read_text
            )
            yield found
        finally:
            for process in started:
                stop(process, 20)
            server.kill()


def kill_a_worker(served: Served) -> None:
    os.kill(served.at_work()[0], signal.SIGKILL)


def restart_redis(served: Served) -> None:
    served.redis.kill()
    time.sleep(0.5)
    served.redis.start()


def empty_redis(served: Served) -> None:
    served.client.flushall()


@pytest.mark.prove
@pytest.mark.parametrize("trouble", [kill_a_worker, restart_redis, empty_redis])
def test_every_request_gets_its_score_whatever_breaks(
    served: Served, trouble: Callable[[Served], None]
) -> None:
    with ThreadPoolExecutor(12) as threads:
        under_way = [threads.submit(served.ask, number) for number in range(12)]
        wait_until(lambda: served.at_work() != [], within_s=60, log=served.log.read_text)
        trouble(served)
        assert [one.result() for one in under_way] == ["right"] * 12, served.log.read_text()
