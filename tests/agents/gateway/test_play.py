"""Agents that own their loop call the policy by a key, and what they were answered is trained. Real clients and Redis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import Completion, End, FinishReason
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from tests.support.arena import SIZE, Arena, run_of
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.paths import ROOT
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

MakeArena = Callable[..., Arena]
AGENTS = "tests.support.arena_agents:"


@pytest.fixture
def arena(link: RedisLink, keys: Keys, tmp_path: Path, quick: None) -> MakeArena:
    del quick

    def make(agent: str, **environment: Any) -> Arena:
        section = {"type": "agent", "import_path": AGENTS + agent, **environment}
        return Arena(link, keys, tmp_path, run_of(section))

    return make


async def played(arena: Arena) -> tuple[Completion, ...]:
    engine = FloorEngine()
    engine._config = arena.run_config.generators.engine  # type: ignore[assignment]
    arena.issue(0)
    async with arena.generator(engine) as (_, sampling), arena.agent() as (_, playing):
        await wait_in_loop(lambda: arena.ids(ROLLOUTS) + arena.ids(DEAD) == ["0"], task=playing)
        assert not sampling.done()
    assert [*arena.client.scan_iter(match="*turns:*")] == []
    assert arena.ids(DEAD) == [], arena.dead_letters()
    return arena.rollout("0").completions


@in_loop
async def test_a_turn_that_a_stop_sequence_ends_is_gone_on_from_and_trains_to_there(arena: MakeArena) -> None:
    for one in await played(arena("ask_twice_and_stop_short")):
        (segment,) = one.segments
        assert bytes(segment.token_ids.tolist()).decode() == "righ\0user\nSure?\0assistant\nright\0"
        assert segment.loss_mask == (4, len("\0user\nSure?\0assistant\n"), 6)
        assert (one.text, one.finish_reason) == ("right", FinishReason.STOP)


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("agent", ["ask_twice", "ask_twice_by_messages", "ask_twice_by_responses"])
@in_loop
async def test_a_conversation_of_an_unmodified_client_is_one_sequence_of_what_was_sampled(
    arena: MakeArena, agent: str
) -> None:
    for one in await played(arena(agent)):
        (segment,) = one.segments
        assert bytes(segment.token_ids.tolist()).decode() == "right\0user\nSure?\0assistant\nright\0"
        assert segment.loss_mask == (6, len("user\nSure?\0assistant\n"), 6)
        assert [turn["content"] for turn in one.messages] == ["right", "Sure?", "right"]
        assert (one.ended_by, one.text) == (End.MESSAGE, "right")
        assert one.reward is not None
        assert one.reward.value == 1.0


@in_loop
async def test_a_call_in_flight_when_its_agent_breaks_at_a_limit_is_part_of_the_episode(
    arena: MakeArena, tmp_path: Path
) -> None:
    broke = tmp_path / "broke"
    broke.mkdir()
    ground = arena("breaks_beside_a_call", max_turns=1)
    engine = FloorEngine()
    engine._config = ground.run_config.generators.engine  # type: ignore[assignment]
    ground.rows["0"] = {"columns": {"broke": str(broke)}}
    ground.issue(0)
    async with ground.agent() as (_, playing):
        await wait_in_loop(lambda: len([*broke.iterdir()]) == SIZE, task=playing)
        async with ground.generator(engine):
            await wait_in_loop(lambda: ground.ids(ROLLOUTS) == ["0"], task=playing)
    for one in ground.rollout("0").completions:
        assert (one.text, one.ended_by, len(one.segments)) == ("right", End.TURNS, 1)
        assert "on purpose" in one.remark


@pytest.mark.prove
@in_loop
async def test_a_command_behind_walls_plays_by_the_gateways_socket(
    link: RedisLink, keys: Keys, tmp_path: Path, quick: None
) -> None:
    del quick
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    script = str(ROOT / "tests" / "support" / "walled_agent.py")
    section = {"type": "command", "command": ["python3", script], "readable": [script]}
    for one in await played(Arena(link, keys, tmp_path, run_of(section))):
        (segment,) = one.segments
        assert (bytes(segment.token_ids.tolist()), segment.loss_mask) == (b"right\0", (6,))
        assert (one.ended_by, one.remark) == (End.MESSAGE, '{"said": "right"}')


@in_loop
async def test_a_worker_that_ends_waits_for_no_call_of_its_agents(arena: MakeArena) -> None:
    floor = arena("ask")
    floor.issue(0)
    async with floor.agent() as (worker, playing):  # and no generator
        await wait_in_loop(lambda: [*floor.client.scan_iter(match="*policy_calls*")], task=playing)
        worker.stop.set()
        await wait_in_loop(playing.done, "the end of a worker whose agents wait for the policy", within_s=15)
