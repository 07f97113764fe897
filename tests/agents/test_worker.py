"""An agents' worker plays groups of episodes. Real Redis, real children, real generators with the fake engine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from agents import group, worker
from agents.openings import Openings
from agents.rendering.rendering import Unrenderable
from agents.rendering.scripted import ScriptedRendering
from broker.connection import RedisLink
from broker.keys import DEAD, EPISODES, GROUP, POLICY_CALLS, ROLLOUTS, Keys
from broker.messages import Completion, End, FinishReason, Ids, Turn
from broker.monitoring.snapshot import Process, processes_of
from broker.monitoring.work_meter import PLAYED
from broker.processes import spawn, stop
from broker.protocol.episodes import Episodes
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry
from config.loading import to_yaml
from generators.decoding import CompletionDecoder
from generators.engines.scripted import ScriptedChat
from tests.support.arena import SIZE, Arena, run_of
from tests.support.descendants import descendants
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.paths import ROOT
from tests.support.waiting import is_running, wait_in_loop

pytestmark = pytest.mark.process

LADDER = {"type": "custom", "import_path": "tests.support.arena_environments:Ladder", "step_deadline_s": 1}
GROWTH = [times for times in (1, 2, 4, 8, 16) if times <= 2 * SIZE]
MakeArena = Callable[..., Arena]


@pytest.fixture
def arena(link: RedisLink, keys: Keys, tmp_path: Path, quick: None) -> MakeArena:
    del quick

    def make(*answers: str, environment: dict[str, Any] = LADDER, **sections: Any) -> Arena:
        run = run_of(environment, answers=answers or ("right",), **sections)
        return Arena(link, keys, tmp_path, run)

    return make


def engine_of(arena: Arena) -> FloorEngine:
    engine = FloorEngine()
    engine._config = arena.run_config.generators.engine  # type: ignore[assignment]
    return engine


async def played(arena: Arena, *ids: str) -> list[tuple[Completion, ...]]:
    """Play groups to their hand-over."""
    async with arena.generator(engine_of(arena)) as (_, sampling), arena.agent() as (_, playing):
        await wait_in_loop(lambda: sorted(arena.ids(ROLLOUTS) + arena.ids(DEAD)) == [*ids], task=playing)
        assert not sampling.done()
    assert arena.client.xlen(arena.keys(POLICY_CALLS)) == 0
    assert arena.ids(EPISODES) == []
    assert [*arena.client.scan_iter(match="*turns:*")] == []
    return [arena.rollout(group_id).completions for group_id in arena.ids(ROLLOUTS)]


@in_loop
async def test_an_episode_is_sampled_turn_by_turn_and_handed_over_as_one_sequence(arena: MakeArena) -> None:
    ground = arena()
    ground.issue(0)
    ((first, second),) = await played(ground, "0")
    rollout = ground.rollout("0")
    prompt = bytes(rollout.prompt.token_ids.tolist()).decode()
    assert prompt == "user\n2 + 2 = ?\0user\nProblem 0.\0assistant\n"
    assert rollout.prompt.messages[-1] == {"role": "user", "content": "Problem 0."}
    assert (rollout.generator, rollout.attempts, rollout.min_version) == ("a", 1, 0)
    for completion in (first, second):
        (segment,) = completion.segments
        assert len(segment.prompt_ids) == 0, "it is the group's"
        assert bytes(segment.token_ids.tolist()).decode() == "right\0user\nStep 1.\0assistant\nright\0"
        assert segment.loss_mask == (6, len("user\nStep 1.\0assistant\n"), 6)
        assert completion.text == "right"
        assert [turn["content"] for turn in completion.messages] == ["right", "Step 1.", "right", "Step 2."]
        assert (completion.ended_by, completion.finish_reason) == (End.ENVIRONMENT, FinishReason.STOP)
        assert completion.reward is not None
        assert (completion.reward.value, completion.reward.turns) == (1.0, (0.5, 0.5))
        assert rollout.sampler(completion) == "g", "the generator, and not the worker"
    assert not np.array_equal(first.segments[0].logprobs, second.segments[0].logprobs), "sampled apart"


@in_loop
async def test_a_rows_own_seed_is_the_problem_whatever_the_group_is(arena: MakeArena) -> None:
    ground = arena()
    ground.rows = {group_id: {"verification_info": {"type": "math", "seed": 17}} for group_id in ("0", "1")}
    ground.issue(0, 1)
    await played(ground, "0", "1")
    rollouts = [ground.rollout(group_id) for group_id in ("0", "1")]
    assert [rollout.prompt.messages[-1]["content"] for rollout in rollouts] == ["Problem 17."] * 2
    first, other = (rollout.completions[0].segments[0] for rollout in rollouts)
    assert not np.array_equal(first.logprobs, other.logprobs), "sampled apart"


@pytest.mark.prove(after=2)
@pytest.mark.parametrize(("environment", "answers", "ended_by"), [
    ({"max_turns": 1}, ("right",), End.TURNS),
    ({"turn_tokens": 4}, ("right",), End.TOKENS),
    ({}, ("right" * 30,), End.CONTEXT),
    ({"deadline_s": 1e-9}, ("right",), End.DEADLINE),
], ids=lambda value: value if isinstance(value, End) else "")  # fmt: skip
@in_loop
async def test_what_the_policy_brought_about_is_scored_as_it_stands(
    environment: dict[str, Any], answers: tuple[str, ...], ended_by: End, arena: MakeArena
) -> None:
    ground = arena(
        *answers, environment=LADDER | environment, sampling={"group_size": SIZE, "max_tokens": 100}
    )
    ground.issue(0)
    for completion in (await played(ground, "0"))[0]:
        assert (completion.ended_by, completion.finish_reason) == (ended_by, FinishReason.LENGTH)
        assert sum(turn["role"] == "assistant" for turn in completion.messages) == 1
        silent = replace(completion, text="")
        assert CompletionDecoder(ScriptedChat()).text(ground.rollout("0").prompt, silent) == completion.text
        assert completion.text == completion.messages[0]["content"] != ""


@in_loop
async def test_what_a_worker_has_done_is_in_its_heartbeat_as_its_readers_know_it(arena: MakeArena) -> None:
    ground = arena()
    ground.issue(0)

    def agent() -> Process:
        found = processes_of(ground.client, ground.keys)
        return next(process for process in found if process.role == "agent")

    def roles() -> set[str]:
        return {process.role for process in processes_of(ground.client, ground.keys)}

    async with ground.generator(engine_of(ground)), ground.agent() as (_, playing):
        await wait_in_loop(lambda: "agent" in roles(), task=playing)
        await wait_in_loop(lambda: agent().sums.get("groups") == 1, task=playing)
        await wait_in_loop(lambda: agent().ends == {"environment": SIZE}, task=playing)
        await wait_in_loop(lambda: agent().sums.get("turns") == 2 * SIZE, task=playing)
        done = agent()
        assert done.sums.keys() >= {"up_s", *PLAYED}
        assert done.room == ground.run_config.agents.episodes


@pytest.mark.parametrize(("lost_s", "ended_by"), [(0, End.DEADLINE), (1000, End.ENVIRONMENT)])
@in_loop
async def test_time_in_which_nobody_could_work_brings_no_group_to_its_deadline(
    lost_s: int, ended_by: End, arena: MakeArena
) -> None:
    ground = arena(learner={"group_deadline_s": 0.001})
    ground.client.hset(ground.keys.run, "lost_s", lost_s)
    ground.issue(0)
    assert [one.ended_by for one in (await played(ground, "0"))[0]] == [ended_by] * SIZE


@in_loop
async def test_an_environment_that_fails_once_is_played_again_from_its_records(
    arena: MakeArena, tmp_path: Path
) -> None:
    ground = arena()
    ground.rows["0"] = {"columns": {"breaks_at": 1, "once": str(tmp_path / "broken"), "turns": 3}}
    ground.issue(0)
    (completions,) = await played(ground, "0")
    assert [one.ended_by for one in completions] == [End.ENVIRONMENT] * SIZE
    assert ground.rollout("0").attempts == 2
    engine = ground.hash("alive:generator:g")
    assert engine == {}


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("row", "answer", "ended_by", "said"),
    [
        ({"breaks_at": 1}, "right", End.CRASH, "the ladder broke"),
        ({}, "exit", End.CRASH, "ended with exit code 3"),
        ({}, "hang", End.CRASH, "step_deadline_s=1"),
    ],
)
@in_loop
async def test_what_breaks_at_the_same_step_each_time_is_the_policys_doing(
    row: dict[str, Any],
    answer: str,
    ended_by: End,
    said: str,
    *,
    arena: MakeArena,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    ground = arena(answer, agents={"max_attempts": 2})
    ground.rows["0"] = {"columns": row}
    ground.issue(0)
    for completion in (await played(ground, "0"))[0]:
        assert completion.ended_by is ended_by
        assert said in completion.remark
        assert completion.segments, "it keeps its turns"
    failures = [one for one in caplog.records if "episode_failed" in one.message]
    assert len(failures) == 2 * SIZE
    warned = [one.message for one in failures if one.levelname == "WARNING"]
    assert [f"times={times}" in warned[index] for index, times in enumerate(GROWTH)] == [True] * len(warned)


@in_loop
async def test_an_environment_that_ends_all_of_its_kind_is_not_played_for_ever(
    arena: MakeArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MOST_DISTURBED", 2)
    ground = arena("kill", agents={"max_attempts": 1})
    ground.issue(0)
    for completion in (await played(ground, "0"))[0]:
        assert completion.ended_by is End.FAILED
        assert completion.remark.endswith("2 plays in a row ended so")


def test_a_policy_is_given_no_tools_that_its_template_does_not_show() -> None:
    class Blind(ScriptedRendering):
        def objection(self, tools: Sequence[Turn]) -> str:
            return "the template shows no tools" if tools else ""

    asked: list[Turn] = [{"role": "user", "content": "?"}]
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    assert len(Openings().first(Blind(), asked, [])) > 0
    with pytest.raises(Unrenderable, match="shows no tools"):
        Openings().first(Blind(), asked, [tool])


def test_what_episodes_of_a_group_begin_with_alike_is_rendered_once() -> None:
    class Counting(ScriptedRendering):
        rendered = 0

        def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
            self.rendered += 1
            return super().first(messages, tools)

    openings, rendering = Openings(), Counting()
    huge: Turn = {"role": "user", "content": "?", "most": 1 << 70}  # JSON has no limit of size
    for messages in ([huge], [huge], [huge, huge]):
        ids = openings.ids(rendering, messages, [])
        assert ids.tolist() == ScriptedRendering().first(messages, []).tolist()
    assert rendering.rendered == 2


@in_loop
async def test_a_template_without_a_tail_is_told_once_and_counted(
    arena: MakeArena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Whole(ScriptedRendering):
        def following(self, *_: object, **__: object) -> Ids:
            return None  # type: ignore[return-value]

    monkeypatch.setattr(worker, "open_rendering", lambda _: Whole())
    ground = arena()
    ground.issue(0, 1)
    async with ground.generator(engine_of(ground)), ground.agent() as (playing, task):
        await wait_in_loop(lambda: sorted(ground.ids(ROLLOUTS)) == ["0", "1"], task=task)
        assert playing._facts()["breaks"] == str(2 * SIZE), "one between the two turns of each episode"
    for group_id in ("0", "1"):
        assert [len(one.segments) for one in ground.rollout(group_id).completions] == [1] * SIZE
    assert caplog.text.count("sequence_broken") == 1


@in_loop
async def test_a_group_that_nobody_can_begin_is_dead_lettered_with_the_reason(arena: MakeArena) -> None:
    ground = arena(agents={"max_attempts": 2})
    ground.rows["0"] = {"columns": {"fails": "no such level"}}
    ground.rows["1"] = {"messages": ({"role": "user", "content": "long " * 1000},)}
    ground.issue(0, 1)
    assert await played(ground, "0", "1") == []
    reasons = {dead_letter.group_id: dead_letter.reason for dead_letter in ground.dead_letters()}
    assert "RuntimeError: no such level" in reasons["0"]
    assert "more than data.max_prompt_tokens=1024" in reasons["1"]


@in_loop
async def test_an_episode_that_nobody_can_begin_is_told_apart_from_its_neighbours(arena: MakeArena) -> None:
    ground = arena(agents={"max_attempts": 2})
    ground.rows["0"] = {"columns": {"fails": "no such level", "fails_in": "-1"}}
    ground.issue(0)
    ((whole, failed),) = await played(ground, "0")
    assert whole.ended_by is End.ENVIRONMENT
    assert (failed.ended_by, failed.segments, failed.reward) == (End.FAILED, (), None)
    assert "RuntimeError: no such level" in failed.remark


@in_loop
async def test_a_worker_that_is_told_to_end_hands_its_group_back_and_counts_no_attempt(
    arena: MakeArena,
) -> None:
    ground = arena()
    ground.issue(0)
    async with ground.agent("first") as (_, playing):
        await wait_in_loop(lambda: ground.client.xlen(ground.keys(POLICY_CALLS)) == SIZE, task=playing)
    (pending,) = ground.client.xpending_range(ground.keys(EPISODES), "workers", "-", "+", 10)
    assert pending["consumer"] == b"nobody"
    await played(ground, "0")
    assert ground.rollout("0").attempts == 1


@pytest.mark.prove
@in_loop
async def test_a_process_that_gets_a_signal_hands_its_group_back_and_ends(arena: MakeArena) -> None:
    ground = arena()
    ground.issue(0)
    ground.client.hset(ground.keys.run, "config", to_yaml(ground.run_config))
    process = spawn(
        [sys.executable, "-m", "agents", "--run", "test"],
        env={**os.environ, "REDIS_URL": ground.link.url, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    try:
        await wait_in_loop(lambda: ground.client.xlen(ground.keys(POLICY_CALLS)) == SIZE, within_s=60)
        children = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        stop(process, 0)
    assert len(children) > SIZE
    assert not any(map(is_running, children))
    (pending,) = ground.client.xpending_range(ground.keys(EPISODES), "workers", "-", "+", 10)
    assert pending["consumer"] == b"nobody"
    await played(ground, "0")
    assert ground.rollout("0").attempts == 1


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("is_told", [False, True], ids=["unseen", "told by a renewal"])
@in_loop
async def test_a_group_that_comes_back_to_the_worker_that_lost_it_is_played_on_at_once(
    is_told: bool, arena: MakeArena
) -> None:
    """Another worker took the group, began it and gave it back. A lease is far longer than this test."""
    ground = arena()
    ground.issue(0)
    async with ground.agent("first") as (first, playing):
        await wait_in_loop(lambda: ground.client.xlen(ground.keys(POLICY_CALLS)) == SIZE, task=playing)
        other = Consumer(ground.link, ground.keys, EPISODES, "other", lease_s=first.consumer.lease_s)
        ((entry_id, raw),) = ground.client.xrange(ground.keys(EPISODES))
        ground.client.xclaim(ground.keys(EPISODES), GROUP, "other", 0, [entry_id], justid=True)
        entry = Entry(EPISODES, entry_id.decode(), raw)
        other.hold(entry)
        theirs = Episodes(other).open(entry, SIZE)
        assert theirs is not None
        if is_told:
            await asyncio.to_thread(first.consumer.renew)
            assert not first.consumer.holds(entry)
        other.hand_back()

        def is_first() -> bool:
            (found,) = ground.client.xpending_range(ground.keys(EPISODES), GROUP, "-", "+", 2)
            return bool(found["consumer"] == b"first")

        def attempt() -> str:
            ground.client.publish(ground.keys.answered, "0 0")  # a hint, at which an older play looks
            return (ground.client.hget(ground.keys("turns:0"), "attempt") or b"").decode()

        await wait_in_loop(is_first, task=playing)
        await wait_in_loop(lambda: attempt() != theirs.token and len(first._tasks) == 1, task=playing)
        assert first.consumer.holds(entry)
        async with ground.generator(engine_of(ground)):
            await wait_in_loop(lambda: attempt() == "" and ground.ids(ROLLOUTS) == ["0"], task=playing)
        assert not playing.done()
    assert (ground.rollout("0").generator, ground.rollout("0").attempts) == ("first", 2)


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late"])
@in_loop
async def test_a_worker_that_dies_costs_no_turn(
    is_late: bool, arena: MakeArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two turns an episode are recorded, and others are in flight, when another worker takes the group over.

    Where the group's deadline is near by then, what was asked before is there, and nothing else is asked.
    """
    ground = arena()
    ground.rows["0"] = {"columns": {"turns": 4}}
    ground.issue(0)
    gate = asyncio.Event()

    async def wait(_: str) -> None:
        if len(engine.began) > 2 * SIZE:
            await gate.wait()

    engine = engine_of(ground)
    engine.act = wait
    async with ground.generator(engine) as (_, sampling):
        async with ground.agent("first") as (first, playing):
            await wait_in_loop(lambda: ground.client.hlen(ground.keys("turns:0")) > 2 * SIZE, task=playing)
            before = len(engine.began)
            first.hand_back = first.consumer.hand_back = lambda *_: 0  # type: ignore[method-assign]
            playing.cancel()
        ground.age_episodes()
        if is_late:
            monkeypatch.setattr(group, "PLAY_SHARE", 0.0)
        async with ground.agent("second") as (_, playing):
            await asyncio.sleep(0.2)
            gate.set()
            await wait_in_loop(lambda: ground.ids(ROLLOUTS) == ["0"], task=playing)
    rollout = ground.rollout("0")
    turns = [sum(turn["role"] == "assistant" for turn in one.messages) for one in rollout.completions]
    assert rollout.attempts == 2
    assert len(engine.began) == sum(turns), f"{before} began before, and none of them twice or in vain"
    assert is_late or turns == [4] * SIZE
    assert any(one.ended_by is End.DEADLINE for one in rollout.completions) == is_late
    assert not sampling.cancelled()
