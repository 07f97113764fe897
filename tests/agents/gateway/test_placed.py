"""Whole runs of agents that work in a place: Redis, a worker, a scripted engine, the gateway, the walls, and a score."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import End
from config.run import Run
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from scorers.swe.scorer import SwePatch
from tests.support.arena import TASK, Arena, run_of
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.swe_rows import ROW, shop_row
from tests.support.task_folders import SETTINGS, row_of, task_folder
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

MakeArena = Callable[[Run], Arena]
ENGINES = "$ cp number.txt answer.txt"  # what the scripted engine says, over and over


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield a folder that the walls' user can read: pytest's own are closed to others."""
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def make(link: RedisLink, keys: Keys, tmp_path: Path, quick: None) -> MakeArena:
    del quick
    return partial(Arena, link, keys, tmp_path)


async def played(arena: Arena, row: dict[str, Any]) -> None:
    """Play one group to its end."""
    engine = FloorEngine()
    engine._config = arena.run_config.generators.engine  # type: ignore[assignment]
    arena.rows["0"] = {"verification_info": {name: row[name] for name in ("type", "answer")}}
    arena.issue(0)
    async with arena.generator(engine) as (_, sampling), arena.agent() as (_, playing):
        await wait_in_loop(lambda: arena.ids(ROLLOUTS) + arena.ids(DEAD) == ["0"], task=playing)
        assert not sampling.done()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("ended_by", [End.TURNS, End.DEADLINE])
@in_loop
async def test_an_openai_client_in_a_task_directory_is_paid_by_its_tests(
    make: MakeArena, folder: Path, ended_by: End
) -> None:
    """The agent never ends by itself, but by its turns or its task's time."""
    is_late = ended_by is End.DEADLINE
    says = f"{ENGINES}; sleep 300" if is_late else ENGINES
    settings = SETTINGS.replace("60.0", "15.0") if is_late else SETTINGS
    task = task_folder(folder / ended_by, settings=settings)
    section = {"type": "harbor", "import_path": "tests.support.placed_agents:obey", "max_turns": 3}
    arena = make(run_of(section, answers=(says,)))
    await played(arena, row_of(task))
    assert arena.ids(DEAD) == [], arena.dead_letters()
    for one in arena.rollout("0").completions:
        assert one.ended_by is ended_by, one.remark
        assert one.reward is not None
        assert one.reward.value == 1.0
        (segment,) = one.segments
        sampled = f"{says}\0" if is_late else f"{ENGINES}\0user\n[0]\0assistant\n{ENGINES}"
        assert bytes(segment.token_ids.tolist()).decode().startswith(sampled)


@pytest.mark.prove
@in_loop
async def test_what_an_openai_client_mends_in_a_checkout_passes_the_rows_tests(
    make: MakeArena, folder: Path
) -> None:
    mends = "$ sed -i 's/return 0/return sum(prices)/' shop/prices.py"
    section = {"type": "swe", "import_path": "tests.support.placed_agents:obey", "max_turns": 2}
    task = {"scorer": {"type": "swe", "answer": "diff"}, "environment": section}
    arena = make(run_of(section, answers=(mends,), scorers={"tasks": {TASK: task}}))
    await played(arena, ROW)
    assert arena.ids(DEAD) == [], arena.dead_letters()
    scorer = SwePatch(SweConfig(answer="diff"), ScorersConfig())
    for one in arena.rollout("0").completions:
        assert one.text.startswith("diff --git a/shop/prices.py b/shop/prices.py\n")
        assert one.reward is None
        assert scorer.score(one.text, shop_row()).value == 1.0
    scorer.close()


@pytest.mark.prove
@in_loop
async def test_tests_that_break_make_an_episode_unscorable_and_never_zero(
    make: MakeArena, folder: Path
) -> None:
    task = task_folder(folder / "broken", test="echo no pytest here >&2; exit 1")
    section = {"type": "harbor", "import_path": "tests.support.placed_agents:obey_once"}
    arena = make(run_of(section, answers=("true",)))
    await played(arena, row_of(task))
    assert arena.ids(DEAD) == [], arena.dead_letters()
    for one in arena.rollout("0").completions:  # which every scorer calls unscorable
        assert (one.ended_by, one.reward) == (End.FAILED, None)
        assert "exit code 1 and no reward" in one.remark
        assert "no pytest here" in one.remark
