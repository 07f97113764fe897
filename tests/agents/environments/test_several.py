"""Several episodes in one child: who is to blame for its end, and who is only disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from agents.environments.runner import Episode
from agents.environments.seam import Disturbed, EnvironmentFailed, EnvironmentStep
from tests.support.played import Played, custom, played, said

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    sections = {
        "slow": custom("Patient", step_deadline_s=0.4),
        "patient": custom("Patient", step_deadline_s=0.7),
        "tight": custom("Patient", memory_mb=64),
        "sync": custom("Guess"),
    }
    with played(sections, episodes_per_child=3) as made:
        yield made


def together(play: Played, task: str, *actions: str) -> list[Any]:
    """What becomes of one episode for each action, all in one child: its answer, or what it raised."""

    async def all_of_them() -> list[Any]:
        episodes: list[Episode] = [(await play.begin(task, {"name": "x"}))[0] for _ in actions]
        steps = [episode.step(said(action)) for episode, action in zip(episodes, actions, strict=True)]
        found = await asyncio.gather(*steps, return_exceptions=True)
        for episode in episodes:
            await episode.close()
        return found

    return play.wait(all_of_them())


def ends(found: list[Any]) -> list[str]:
    words = {EnvironmentStep: "step", Disturbed: "disturbed"}
    return [str(one.kind) if isinstance(one, EnvironmentFailed) else words[type(one)] for one in found]


def test_episodes_share_a_child_and_wait_side_by_side(play: Played) -> None:
    found = together(play, "slow", "wait 0.2", "wait 0.2", "wait 0.2", "wait 0.2")
    pids = [step.messages[0]["content"] for step in found]
    assert len(set(pids[:3])) == 1
    assert pids[3] != pids[0]


def test_an_environment_that_waits_too_long_is_stopped_alone(play: Played) -> None:
    found = together(play, "patient", "wait 9", "wait 0", "wait 0")
    assert ends(found) == ["deadline", "step", "step"]
    assert "asyncio.sleep" in str(found[0])


@pytest.mark.parametrize("place", [0, 2])
def test_who_blocks_its_child_fails_and_the_others_are_disturbed(play: Played, place: int) -> None:
    actions = ["wait 5"] * 3
    actions[place] = "block 9"
    found = together(play, "slow", *actions)
    assert ends(found) == ["deadline" if each == place else "disturbed" for each in range(3)]
    assert found[place].is_policys


@pytest.mark.parametrize(("action", "kind"), [("exit 3", "exited"), ("leak 100", "memory")])
def test_who_ends_its_child_fails_and_the_others_are_disturbed(play: Played, action: str, kind: str) -> None:
    found = together(play, "tight", "wait 5", action, "wait 5")
    assert ends(found) == ["disturbed", kind, "disturbed"]
    assert found[1].is_policys


def test_an_end_that_nobody_is_known_to_have_brought_about_is_not_the_policys(play: Played) -> None:
    async def killed() -> list[Any]:
        episodes = [(await play.begin("slow"))[0] for _ in range(2)]
        (step,) = await play.say("slow", "wait 0")
        waits = [asyncio.ensure_future(episode.step(said("wait 0.3"))) for episode in episodes]
        await asyncio.sleep(0.1)
        process = await asyncio.create_subprocess_exec("kill", "-9", str(step.messages[0]["content"]))
        await process.wait()
        return await asyncio.gather(*waits, return_exceptions=True)

    found = play.wait(killed())
    assert ends(found) == ["exited", "exited"]
    assert not any(one.is_policys for one in found)


def test_a_child_that_was_ended_is_replaced(play: Played) -> None:
    assert ends(together(play, "tight", "exit 1", "wait 0")) == ["exited", "disturbed"]
    assert ends(together(play, "tight", "wait 0", "wait 0")) == ["step", "step"]


def test_the_policy_that_is_cut_off_in_a_step_can_be_closed(play: Played) -> None:
    async def cut() -> list[Any]:
        first, second = [(await play.begin("slow"))[0] for _ in range(2)]
        step = asyncio.ensure_future(first.step(said("wait 0.3")))
        await asyncio.sleep(0.05)
        step.cancel()
        await first.close()
        return [await second.step(said("wait 0"))]

    assert ends(play.wait(cut())) == ["step"]
