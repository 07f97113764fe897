"""Generators as processes: stopped for longer than their lease, told to end twice, killed by a prompt. Real Redis."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, PROMPTS, ROLLOUTS, Keys
from broker.monitoring.crash_reports import record_death
from broker.processes import how_it_ended, spawn, stop
from broker.protocol.consumer import Consumer
from config.loading import to_yaml
from tests.support.generator_floor import Floor, FloorEngine, make_run
from tests.support.paths import ROOT
from tests.support.waiting import wait_in_loop, wait_until

pytestmark = pytest.mark.process

DEADLY = str(ROOT / "tests" / "generators" / "deadly_generator.py")


class Plant(Floor):
    def __init__(self, link: RedisLink, keys: Keys, folder: Path, **sections: Any) -> None:
        super().__init__(link, keys, folder)
        self.run_config = make_run(**sections)
        self.client.hset(keys("run"), mapping={"config": to_yaml(self.run_config)})
        Consumer(link, keys, PROMPTS, "onlooker", lease_s=60)  # the group is there before anybody is
        self.started: list[subprocess.Popen[bytes]] = []
        self.publish(0)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """`python -m generators`, or another program in its place."""
        with self.log.open("ab") as log:
            process = spawn(
                [sys.executable, *(words or ("-m", "generators", "--run", "test"))],
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "REDIS_URL": self.link.url, "PYTHONPATH": str(ROOT)},
            )
        self.started.append(process)
        return process

    @property
    def log(self) -> Path:
        return self.folder / "generators.log"

    def wait(self, condition: Callable[[], Any], timeout_s: float = 40.0) -> None:
        """Wait for `condition`; fails with what the processes have said."""
        wait_until(condition, within_s=timeout_s, log=self.log.read_text)

    def begun(self) -> list[int]:
        return [item["times_delivered"] - 1 for item in self.pending()]


@pytest.fixture
def plant_of(link: RedisLink, keys: Keys, tmp_path: Path) -> Iterator[Callable[..., Plant]]:
    """Makes a plant, which ends with the test."""
    made: list[Plant] = []

    def make(**sections: Any) -> Plant:
        made.append(Plant(link, keys, tmp_path, **sections))
        return made[-1]

    yield make
    for process in made[0].started:
        stop(process, 0)


def fake(seconds_per_group: float) -> dict[str, Any]:
    return {"engine": {"type": "fake", "seconds_per_group": seconds_per_group}}


@pytest.mark.prove
def test_a_generator_that_stood_still_too_long_counts_no_more(plant_of: Callable[..., Plant]) -> None:
    plant = plant_of(broker={"lease_s": 0.5}, generators=fake(0.4) | {"groups_in_flight": 1})
    stopped = plant.start()
    plant.issue(0)
    plant.wait(lambda: plant.begun() == [1])
    stopped.send_signal(signal.SIGSTOP)

    async def another_takes_over() -> None:
        async with plant.generator(FloorEngine(), "another") as (_, task):
            await wait_in_loop(lambda: plant.ids(ROLLOUTS) == ["0"], task=task)

    asyncio.run(another_takes_over())
    stopped.send_signal(signal.SIGCONT)
    plant.issue(1)
    plant.wait(lambda: plant.ids(ROLLOUTS) == ["0", "1"])  # its late result of 0 came before
    assert [plant.rollout(group_id).generator.startswith("another") for group_id in "01"] == [True, False]
    assert (plant.ids(PROMPTS), plant.ids(DEAD), plant.pending()) == ([], [], [])
    plant.audit()


def test_a_second_signal_ends_at_once_and_hands_back_what_was_begun(plant_of: Callable[..., Plant]) -> None:
    plant = plant_of(generators=fake(300) | {"groups_in_flight": 2})
    plant.issue(0, 1)
    generator = plant.start()
    plant.wait(lambda: plant.begun() == [1, 1])
    generator.send_signal(signal.SIGTERM)
    plant.wait(lambda: "finishing groups=2" in plant.log.read_text())
    assert generator.poll() is None, "the first one lets them finish"
    generator.send_signal(signal.SIGTERM)
    assert generator.wait(10) == 128 + signal.SIGTERM
    assert [(item["consumer"], item["times_delivered"]) for item in plant.pending()] == [(b"nobody", 1)] * 2


def test_a_prompt_that_kills_generators_goes_to_the_dead(plant_of: Callable[..., Plant]) -> None:
    plant = plant_of(broker={"lease_s": 0.5, "max_attempts": 2})
    plant.issue(0, 1)
    prompt = plant.entry("0").raw[b"payload"]
    pids = []
    for _ in range(2):
        victim = plant.start(DEADLY, "test", "0")
        assert victim.wait(40) == -signal.SIGSEGV, plant.log.read_text()
        how, lines = how_it_ended(victim.returncode), plant.log.read_text().splitlines()
        host, pid = socket.gethostname(), victim.pid
        record_death(plant.client, plant.keys, host=host, pid=pid, how=how, last_lines=lines)  # as `up` does
        pids.append(victim.pid)
        plant.age()

    async def a_healthy_one_gives_it_up() -> None:
        async with plant.generator(engine := FloorEngine(), "healthy") as (_, task):
            await wait_in_loop(lambda: plant.ids(ROLLOUTS) == ["1"] and plant.ids(DEAD) == ["0"], task=task)
            assert "0" not in engine.began

    asyncio.run(a_healthy_one_gives_it_up())
    letter = codec.decode_dead(plant.entry("0").raw)
    tried = [f"{socket.gethostname()}-{pid}-" for pid in pids]
    words = letter.reason.partition(": ")[2].split(", ")
    assert all(word.startswith(name) for word, name in zip(words, tried, strict=True)), letter.reason
    assert all(word.endswith(" (was killed by SIGSEGV)") for word in words)
    assert (letter.attempts, letter.stage) == (2, PROMPTS)
    assert "Fatal Python error: Segmentation fault" in letter.traceback
    assert letter.original == prompt
    plant.audit()
