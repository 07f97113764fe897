"""What is trained of an episode is what its engine sampled, bit for bit, each token once, whoever is killed meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents import worker
from broker.connection import RedisLink
from broker.keys import DEAD, EPISODES, POLICY_CALLS, ROLLOUTS, Keys
from broker.messages import Completion, SampledGroup
from tests.support.arena import run_of
from tests.support.exact_episodes import WALK, Comparison, Rewriting, Sampled, Walks, batches
from tests.support.in_loop import in_loop

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick")]

NONCE = re.compile("<([0-9a-f]{16})>")


@pytest.fixture
def walks(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Walks]:
    monkeypatch.setattr(worker, "open_rendering", lambda _: Rewriting())

    def make(groups: int, *, every: int) -> Walks:
        run = run_of(WALK, agents={"max_attempts": 100, "episodes": 24})
        return Walks(link, keys, tmp_path, run, groups=groups, every=every)

    return make


@dataclass(frozen=True, slots=True)
class Found:
    """What agents handed over, once it was held to what engines sampled."""

    groups: list[SampledGroup]
    sampled: list[Sampled]
    forsaken: list[Sampled]  # of these: what no group has

    @property
    def completions(self) -> list[Completion]:
        return [one for group in self.groups for one in group.completions]


def compared(ground: Walks, folder: Path) -> Found:
    """Hold what the learner trains on to what engines sampled."""
    assert sorted(map(int, ground.ids(ROLLOUTS))) == [*range(ground.groups)], "none lost, none twice"
    assert (ground.ids(DEAD), ground.ids(EPISODES), ground.ids(POLICY_CALLS)) == ([], [], [])
    assert [*ground.client.scan_iter(match="*turns:*")] == []
    groups, comparison = ground.scored(), Comparison(ground.book)
    for batch in batches(groups, folder / "journal", version=ground.book.version):
        comparison.read(batch)
    sampled = ground.book.turns
    assert len({(turn.seed, turn.given.tobytes()) for turn in sampled}) == len(sampled), "each turn once"
    found = Found([group.rollout for group in groups], sampled, comparison.forsaken())
    said = {
        word for one in found.completions for turn in one.messages for word in NONCE.findall(turn["content"])
    }
    for turn in found.forsaken:
        read = NONCE.findall(bytes(turn.given.tolist()).decode(errors="replace"))
        assert {*read} - said, "only what stands behind words that are unsaid by now was sampled for nothing"
    return found


@in_loop
async def test_each_token_trains_once_as_it_was_sampled_though_a_worker_dies(
    walks: Callable[..., Walks], tmp_path: Path
) -> None:
    ground = walks(6, every=6)
    await ground.play(kills=1, turns_between=10, seconds=0.01)
    found = compared(ground, tmp_path)
    assert max(group.attempts for group in found.groups) > 1
    assert {len(one.segments) for one in found.completions} == {1, 2}
    assert any(turn.versions[0] < turn.versions[-1] for turn in found.sampled), "an update in the middle"


@pytest.mark.prove
@in_loop
async def test_of_a_thousand_episodes_each_token_trains_once_as_it_was_sampled(
    walks: Callable[..., Walks], tmp_path: Path
) -> None:
    ground = walks(400, every=50)
    await ground.play(kills=20, turns_between=120, seconds=0.05)
    found = compared(ground, tmp_path)
    assert len(found.completions) == 1000
    assert {turn.generator for turn in found.sampled} == {"g", "h"}
    assert sum(turn.versions[0] < turn.versions[-1] for turn in found.sampled) > 20, "updates in the middle"
    assert len(found.forsaken) > 20, "an environment said something else at a replay"
    assert sum(len(one.segments) > 1 for one in found.completions) > 100, "histories that were rewritten"
    assert sum(not len(group.prompt.token_ids) for group in found.groups) > 20, "prompts that are unequal"
    turns = {sum(turn["role"] == "assistant" for turn in one.messages) for one in found.completions}
    assert turns == {1, 2, 3, 4, 5, 6}, "those of one turn were cut"
