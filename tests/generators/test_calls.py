"""The calls of agents that a generator answers beside its groups. Real Redis, the fake engine."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import numpy as np
import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import EPISODES, GROUP, POLICY_CALLS, PROMPTS, ROLLOUTS, Keys
from broker.messages import FinishReason, TurnPrompt, TurnRecord
from broker.monitoring import heartbeat
from broker.protocol.consumer import Consumer, Renewer
from broker.protocol.episodes import Answer, Attempt, Call, Episodes, calls_near, content_of, key_of
from broker.protocol.run_owner import NewGroup
from generators import calls, worker
from generators.weight_sync import follower
from tests.support.generator_floor import Floor, FloorEngine, make_run
from tests.support.groups import a_prompt
from tests.support.in_loop import in_loop
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

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

    def ask(self, attempt: Attempt, number: int, *, prompt: bytes = b"", near: str = "") -> Call:
        packed = prompt or codec.pack(turn_prompt(number))
        call = Call(0, key_of(packed, number))
        assert self.episodes.ask(attempt, call, packed, near=near)[0] is Answer.ASKED
        return call

    def age_calls(self) -> None:
        """Let the lease of every call have run out."""
        key = self.keys(POLICY_CALLS)
        for item in self.client.xpending_range(key, GROUP, "-", "+", 100):
            self.client.xclaim(
                key, GROUP, item["consumer"], 0, [item["message_id"]], idle=3_600_000, justid=True
            )

    async def answer(self, attempt: Attempt, call: Call, task: asyncio.Task[object]) -> tuple[Answer, bytes]:
        def found() -> bool:
            return self.episodes.look(attempt, call)[0] is not Answer.ASKED

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
async def test_a_call_is_answered_with_what_was_sampled_and_leaves_nothing(ground: Ground) -> None:
    attempt = ground.open()
    async with ground.generator(FloorEngine()) as (generator, task):
        call = ground.ask(attempt, 0)
        found, stored = await ground.answer(attempt, call, task)
        assert found is Answer.TURN
        await wait_in_loop(lambda: ground.hash("alive:generator:g").get("turns") == "1", task=task)
    record = codec.unpack(content_of(stored), TurnRecord)
    assert bytes(record.token_ids.tolist()) == b"\\boxed{1}\0"
    assert (record.finish_reason, record.generator) == (FinishReason.STOP, "g")
    assert [(span.version, span.count) for span in record.policy_spans] == [(0, len(record.token_ids))]
    assert not ground.client.exists(ground.keys(calls_near("g"))), (
        "a generator that ends takes its own stream"
    )
    assert generator.turns == 1


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
            assert (await ground.answer(attempt, call, task))[0] is Answer.TURN
        await wait_in_loop(lambda: sorted(ground.ids(ROLLOUTS)) == ["1", "2", "3"], task=task)
    assert ground.ids(PROMPTS) == []


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
async def test_a_call_that_no_generator_survives_fails_with_the_reason(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            Answer.FAILED,
            f"generators began this turn {most} times, and none came to its end".encode(),
        )
    assert engine.began == []


@in_loop
async def test_a_prompt_that_is_none_is_answered_with_the_reason(ground: Ground) -> None:
    attempt = ground.open()
    async with ground.generator(FloorEngine()) as (_, task):
        found, said = await ground.answer(attempt, ground.ask(attempt, 0, prompt=b"\xc1"), task)
    assert found is Answer.FAILED
    assert b"payload" in said
