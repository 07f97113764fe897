"""Generators as processes, and the calls of agents that they answer beside their groups. Real Redis."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, EPISODES, GROUP, POLICY_CALLS, PROMPTS, ROLLOUTS, Keys
from broker.messages import FinishReason, TurnPrompt, TurnRecord
from broker.monitoring import heartbeat
from broker.monitoring.crash_reports import record_death
from broker.processes import how_it_ended, spawn, stop
from broker.protocol.episodes import (
    Attempt,
    CallState,
    CallStream,
    Episodes,
    PolicyCall,
    calls_near,
    content_of,
    key_of,
)
from broker.protocol.leases import Consumer, Renewer
from broker.protocol.run_owner import NewGroup
from config.loading import to_yaml
from generators import calls, worker
from generators.weight_sync import follower
from tests.support.generator_floor import Floor, FloorEngine, make_run
from tests.support.groups import a_prompt
from tests.support.in_loop import in_loop
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
    dead_letter = codec.decode_dead(plant.entry("0").raw)
    tried = [f"{socket.gethostname()}-{pid}-" for pid in pids]
    words = dead_letter.reason.partition(": ")[2].split(", ")
    assert all(word.startswith(name) for word, name in zip(words, tried, strict=True)), dead_letter.reason
    assert all(word.endswith(" (was killed by SIGSEGV)") for word in words)
    assert (dead_letter.attempts, dead_letter.stage) == (2, PROMPTS)
    assert "Fatal Python error: Segmentation fault" in dead_letter.traceback
    assert dead_letter.original == prompt
    plant.audit()


TOOLS = {"math": {"environment": {"type": "tools", "functions": ["tools_of_mine:look"]}}}
AGENTS_GROUP = 100  # beside those of `prompts`
SIZE = 2  # completions of a group


class Ground(Floor):
    """A floor with agents, which have opened a group of episodes."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path, **generators: object) -> None:
        super().__init__(link, keys, folder)
        self.run_config = make_run(
            scorers={"tasks": TOOLS},
            sampling={"group_size": SIZE},
            generators={"engine": {"type": "fake"}, "groups_in_flight": 2, **generators},
        )
        self.publish(0)
        self._consumer = Consumer(link, keys, EPISODES, "agent", lease_s=60)
        self.episodes = Episodes(self._consumer)

    def open(self) -> Attempt:
        fields = codec.encode_prompt(a_prompt(str(AGENTS_GROUP), n=SIZE))
        position = self.learner.position()
        self.learner.issue(position, position + 1, 100, 0, [NewGroup(str(AGENTS_GROUP), fields, EPISODES)])
        (entry,) = self._consumer.lease(1, block_s=0)
        attempt = self.episodes.open(entry, SIZE)
        assert attempt is not None
        return attempt

    def ask(self, attempt: Attempt, number: int, *, prompt: bytes = b"", near: str = "") -> PolicyCall:
        packed = prompt or codec.pack(turn_prompt(number))
        call = PolicyCall(0, key_of(packed, number))
        assert self.episodes.ask(attempt, call, packed, near=near)[0] is CallState.ASKED
        return call

    def age_calls(self) -> None:
        """Let the lease of every call have run out."""
        key = self.keys(POLICY_CALLS)
        for item in self.client.xpending_range(key, GROUP, "-", "+", 100):
            self.client.xclaim(
                key, GROUP, item["consumer"], 0, [item["message_id"]], idle=3_600_000, justid=True
            )

    async def answer(
        self, attempt: Attempt, call: PolicyCall, task: asyncio.Task[object]
    ) -> tuple[CallState, bytes]:
        def found() -> bool:
            return self.episodes.look(attempt, call)[0] is not CallState.ASKED

        await wait_in_loop(found, task=task)
        return self.episodes.look(attempt, call)


def turn_prompt(number: int) -> TurnPrompt:
    ids = np.array([1, 2, number], np.int32)
    return TurnPrompt(token_ids=ids, max_tokens=50, temperature=1.0, seed=1000 + number)


@pytest.fixture
def ground(link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    for module, *names in (
        (worker, "LOOK_EVERY_S", "BLOCK_S"),
        (calls, "TAKE_OVER_EVERY_S"),
        (follower, "BLOCK_S", "ASK_S"),
        (heartbeat, "LOOK_S"),
    ):
        for name in names:
            monkeypatch.setattr(module, str(name), 0.05)
    return Ground(link, keys, tmp_path)


@in_loop
async def test_a_call_is_answered_with_a_sample_or_the_reason_and_leaves_nothing(ground: Ground) -> None:
    attempt = ground.open()
    async with ground.generator(FloorEngine()) as (generator, task):
        found, stored = await ground.answer(attempt, ground.ask(attempt, 0), task)
        assert found is CallState.TURN
        await wait_in_loop(lambda: ground.hash("alive:generator:g").get("turns") == "1", task=task)
        assert generator.turns == 1
        found, said = await ground.answer(attempt, ground.ask(attempt, 1, prompt=b"\xc1"), task)
        assert (found, b"payload" in said) == (CallState.FAILED, True)
    record = codec.unpack(content_of(stored), TurnRecord)
    assert bytes(record.token_ids.tolist()) == b"\\boxed{1}\0"
    assert (record.finish_reason, record.generator) == (FinishReason.STOP, "g")
    assert [(span.version, span.count) for span in record.policy_spans] == [(0, len(record.token_ids))]
    assert not ground.client.exists(ground.keys(calls_near("g"))), "who ends takes its own stream"


@in_loop
async def test_calls_come_first_and_an_eighth_of_the_room_is_for_prompts(ground: Ground) -> None:
    """Of room for two groups, of two completions each, one group's is for prompts while any wait."""
    gate = asyncio.Event()

    async def wait(_: str) -> None:
        await gate.wait()

    attempt = ground.open()
    asked = [ground.ask(attempt, number) for number in range(6)]
    ground.issue(1, 2, 3)
    async with ground.generator(engine := FloorEngine(wait)) as (_, task):
        await wait_in_loop(lambda: len(engine.began) == 3, task=task)
        await asyncio.sleep(0.2)
        assert sorted(engine.began) == ["1", "1000", "1001"], "the room is full"
        gate.set()
        for call in asked:
            assert (await ground.answer(attempt, call, task))[0] is CallState.TURN
        await wait_in_loop(lambda: sorted(ground.ids(ROLLOUTS)) == ["1", "2", "3"], task=task)
    assert ground.ids(PROMPTS) == []


@in_loop
async def test_a_call_at_its_last_attempt_is_sampled_alone(ground: Ground) -> None:
    inside: set[str] = set()
    together: set[frozenset[str]] = set()

    async def look(who: str) -> None:
        inside.add(who)
        for _ in range(10):
            together.add(frozenset(inside))
            await asyncio.sleep(0.02)
        inside.remove(who)

    attempt = ground.open()
    suspect = ground.ask(attempt, 0)
    gone = CallStream(ground.link, ground.keys, "gone", lease_s=60)
    (entry,) = gone.lease(1, takes_over=False)
    for _ in range(ground.run_config.broker.max_attempts - 1):
        assert gone.begin(entry) is not None
    ground.age_calls()
    others = [ground.ask(attempt, number) for number in (1, 2, 3)]
    ground.issue(1)
    async with ground.generator(FloorEngine(look)) as (_, task):
        for call in (suspect, *others):
            assert (await ground.answer(attempt, call, task))[0] is CallState.TURN
        await wait_in_loop(lambda: ground.ids(ROLLOUTS) == ["1"], task=task)
    assert {found for found in together if "1000" in found} == {frozenset({"1000"})}
    assert max(map(len, together)) > 1, "the others are sampled side by side"


@in_loop
async def test_a_conversation_goes_to_the_generator_that_has_it_while_that_one_lives(ground: Ground) -> None:
    attempt = ground.open()
    async with ground.generator(FloorEngine(), "a") as (_, task):
        async with ground.generator(FloorEngine(), "b") as (_, other):
            await wait_in_loop(lambda: ground.client.exists(ground.keys(calls_near("b"))), task=other)
            for number in range(4):
                _, stored = await ground.answer(attempt, ground.ask(attempt, number, near="b"), other)
                assert codec.unpack(content_of(stored), TurnRecord).generator == "b"
        _, stored = await ground.answer(attempt, ground.ask(attempt, 4, near="b"), task)
        assert codec.unpack(content_of(stored), TurnRecord).generator == "a"


@in_loop
async def test_what_nobody_asks_any_more_is_sampled_no_further(
    ground: Ground, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(who: str) -> None:
        if who == "1000":
            await asyncio.Event().wait()

    monkeypatch.setattr(worker, "Renewer", functools.partial(Renewer, period_s=0.05))
    caplog.set_level("INFO")
    attempt = ground.open()
    ground.ask(attempt, 0)
    async with ground.generator(engine := FloorEngine(hang)) as (_, task):
        await wait_in_loop(lambda: engine.began, task=task)
        ground.learner.retire([str(AGENTS_GROUP)])
        await wait_in_loop(lambda: "unwanted group=100" in caplog.text, task=task)
        ground.issue(1)
        await wait_in_loop(lambda: ground.ids(ROLLOUTS) == ["1"], task=task)


@in_loop
async def test_a_call_that_kills_generators_fails_so(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(_: str) -> None:
        raise RuntimeError("CUDA error")

    attempt = ground.open()
    call = ground.ask(attempt, 0)
    most = ground.run_config.broker.max_attempts
    for number in range(most):
        name = f"crashed-{number}"
        async with ground.generator(FloorEngine(crash), name) as (_, task):
            with pytest.raises(RuntimeError, match="CUDA"):
                await asyncio.wait_for(task, 15)
        ground.age_calls()
    async with ground.generator(engine := FloorEngine(), "d") as (_, task):
        assert await ground.answer(attempt, call, task) == (
            CallState.FAILED,
            f"generators began this turn {most} times, and none came to its end".encode(),
        )
    assert engine.began == []
