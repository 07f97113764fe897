"""Games of the real libraries, where an interpreter has them: `GAMES_PYTHON` names one for each, or this one does."""

from __future__ import annotations

from typing import Any

import pytest

from agents.environments.seam import EnvironmentFailed
from tests.support.games import interpreter_with
from tests.support.played import played, said

pytestmark = [
    pytest.mark.process,
    pytest.mark.prove,
]  # the libraries are in no lock, and their imports take seconds


def interpreter(library: str) -> dict[str, str]:
    """The key `python` of a section, for an interpreter that has the library."""
    if (found := interpreter_with(library)) is None:
        pytest.skip(f"{library} is not installed: GAMES_PYTHON names interpreters, one of which has it")
    return found


LAKE = {
    "type": "gymnasium",
    "id": "FrozenLake-v1",
    "options": {"render_mode": "ansi", "is_slippery": False},
    "actions": ["left", "down", "right", "up"],
}


def test_a_lake_is_crossed_by_names_of_actions() -> None:
    way = ["I go down.", "not left but Down", "right", "right", "down", "right"]

    async def cross(play: Any) -> list[Any]:
        episode, beginning = await play.begin("lake")
        steps = [await episode.step(said(text)) for text in ("hm, upwards?", *way)]
        await episode.close()
        return [beginning, *steps]

    with played({"lake": LAKE | interpreter("gymnasium")}) as play:
        beginning, odd, *steps = play.wait(cross(play))
    first = beginning.messages[-1]["content"]
    assert first == "[S]FFF\nFHFH\nFFFH\nHFFG\n\nSay one of: left, down, right, up."
    assert odd.messages[0]["content"] == "That names no action. Say one of: left, down, right, up."
    assert steps[0].messages[0]["content"] == "  (Down)\nSFFF\n[F]HFH\nFFFH\nHFFG"
    assert [step.reward for step in steps] == [0, 0, 0, 0, 0, 1]
    assert [step.terminated for step in steps] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": "FrozenLak-v1"}, "FrozenLak"),
        ({"id": "Pendulum-v1", "options": {}, "actions": []}, "here are played Discrete and Text"),
        ({"actions": ["left"]}, "actions has 1 names, and FrozenLake-v1 has 4 actions"),
    ],
)
def test_a_game_that_cannot_be_played_is_named(change: dict[str, Any], says: str) -> None:
    with played({"lake": LAKE | interpreter("gymnasium") | change}) as play:
        with pytest.raises(EnvironmentFailed) as caught:
            play.wait(play.begin("lake"))
        assert (caught.value.stage, says in str(caught.value)) == ("start", True)


def test_a_number_is_guessed_in_gem() -> None:
    section = {"type": "gem", "id": "game:GuessTheNumber-v0-easy", "step_deadline_s": 30}

    async def guess(play: Any) -> list[Any]:
        episode, beginning = await play.begin("number", seed=3)
        low, high, said_so = 1, 10, []
        while True:
            middle = (low + high) // 2
            step = await episode.step(said(f"\\boxed{{{middle}}}"))
            said_so.append(step)
            if step.terminated or step.truncated:
                await episode.close()
                return [beginning, *said_so]
            low, high = (middle + 1, high) if "higher" in step.messages[0]["content"] else (low, middle - 1)

    with played({"number": section | interpreter("gem")}) as play:
        beginning, *steps = play.wait(guess(play))
        again = play.wait(play.begin("number", seed=3))[1]
    assert beginning == again
    assert "number" in beginning.messages[-1]["content"]
    assert (steps[-1].terminated, steps[-1].reward) == (True, 1.0)


def test_a_game_of_textarena_ends_with_its_reward() -> None:
    section = {"type": "textarena", "id": "TowerOfHanoi-v0", "step_deadline_s": 30}
    moves = ["[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"]

    async def move(play: Any) -> list[Any]:
        episode, beginning = await play.begin("tower")
        steps = [await episode.step(said(text)) for text in moves]
        await episode.close()
        return [beginning, *steps]

    with played({"tower": section | interpreter("textarena")}) as play:
        beginning, *steps = play.wait(move(play))
    assert "disk" in beginning.messages[-1]["content"].lower()
    assert steps[0].messages[0]["content"].startswith("[GAME] [A C]"), "what is new, and no more"
    assert [step.terminated for step in steps] == [False] * 6 + [True]
    assert (steps[0].reward, steps[-1].reward) == (None, 1.0)
