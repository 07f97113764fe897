"""The user's environments in children: what they give, and what it costs where they hang, leak, raise or exit."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from agents.environments.processes import childs_environment
from agents.environments.seam import EnvironmentFailed, EnvironmentStep
from broker.messages import End
from learner.groups.facts.crashes import crash_of
from tests.support.episodes import an_episode
from tests.support.paths import ROOT
from tests.support.played import ASKED, Played, custom, played, said

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    sections = {
        "guess": custom("Guess"),
        "quick": custom("Guess", step_deadline_s=0.3, reset_deadline_s=0.3),
        "tight": custom("Guess", memory_mb=64),
        "waits": custom("Patient", step_deadline_s=0.2),
        "speaks": custom("Speaking"),
        "silent": custom("Silent"),
    }
    with played(sections) as made:
        yield made


def failure(play: Played, task: str, *actions: str, row: dict[str, Any] | None = None) -> EnvironmentFailed:
    with pytest.raises(EnvironmentFailed) as caught:
        play.wait(play.say(task, *actions, row=row))
    return caught.value


def test_an_episode_is_played_in_gymnasiums_five_values(play: Played) -> None:
    async def whole() -> tuple[Any, list[EnvironmentStep]]:
        episode, beginning = await play.begin("guess", seed=42)
        steps = [await episode.step(said(text)) for text in ("7", "2")]
        await episode.close()
        return beginning, steps

    beginning, (wrong, right) = play.wait(whole())
    assert beginning.messages == (ASKED, {"role": "user", "content": "Guess a digit."})
    assert (beginning.tools, beginning.reward_range) == ((), (0.0, 1.0))
    assert wrong.messages == ({"role": "user", "content": "wrong"},)
    assert (wrong.reward, wrong.terminated, wrong.truncated, wrong.remark) == (0.0, False, False, "asked")
    assert (right.reward, right.terminated) == (1.0, True)
    assert 0 < right.seconds < 1


def test_an_environment_may_say_the_whole_prompt_and_read_whole_messages(play: Played) -> None:
    async def whole() -> tuple[Any, EnvironmentStep]:
        episode, beginning = await play.begin("speaks", {"place": "a cave"}, seed=3)
        call = {"id": "c", "type": "function", "function": {"name": "look_3", "arguments": "{}"}}
        step = await episode.step({**said(""), "tool_calls": [call]})
        await episode.close()
        return beginning, step

    beginning, step = play.wait(whole())
    assert [message["content"] for message in beginning.messages] == ["You look.", "a cave"]
    assert beginning.tools[0]["function"]["name"] == "look_3"
    assert step.messages == ({"role": "tool", "content": "look_3"},)


def test_an_environment_that_says_nothing_leaves_the_rows_prompt(play: Played) -> None:
    async def whole() -> tuple[Any, EnvironmentStep]:
        episode, beginning = await play.begin("silent")
        step = await episode.step(said("x"))
        await episode.close()
        return beginning, step

    beginning, step = play.wait(whole())
    assert beginning.messages == (ASKED,)
    assert (step.messages, step.reward) == ((), 1.0)


@pytest.mark.parametrize(
    ("task", "action", "kind", "is_policys", "says"),
    [
        ("guess", "raise no such move", "error", True, "ValueError: no such move"),
        ("guess", "shout 70", "error", True, "aaaa"),
        ("guess", "exit 3", "exited", True, "ended with exit code 3"),
        ("guess", "leave 77", "exited", True, "ended with exit code 1"),
        ("guess", "kill 11", "exited", True, "ended by SIGSEGV"),
        ("guess", "kill 9", "exited", False, "ended by SIGKILL, from outside"),
        ("guess", "unreachable", "error", False, "the shop does not answer"),
        ("tight", "leak 100", "memory", True, "memory_mb=64 is used up"),
        ("quick", "hang", "deadline", True, "no answer within step_deadline_s=0.3"),
        ("quick", "hang 0.4", "deadline", True, "about to wait"),
        ("waits", "wait 9", "deadline", True, "await asyncio.sleep"),
        ("waits", "block 9", "deadline", True, "no answer within step_deadline_s=0.2"),
        ("guess", "reply 7", "error", True, "(observation, reward, terminated, truncated, info), got int 7"),
        ("guess", "reply (1, 0, 1, 0, {})", "error", True, "a text, a message, a list of messages or None"),
        ("guess", "reply ({}, 0, 1, 0, {})", "error", True, "a message has a role"),
        ("guess", "reply ({'role': 'user', 'content': 1}, 0, 1, 0, {})", "error", True, "content is a text"),
        ("guess", "reply ('', float('nan'), 1, 0, {})", "error", True, "reward: a finite number is wanted"),
        (
            "guess",
            "reply ([{'role': 'user', 'x': {1}}], 0, 1, 0, {})",
            "error",
            True,
            "not JSON serializable",
        ),
        ("guess", "reply ('a' * (65 << 20), 0, 1, 0, {})", "error", True, "67108864 is the limit"),
    ],
)
def test_what_goes_wrong_in_step_costs_its_episode_and_is_named(
    play: Played, task: str, action: str, *, kind: str, is_policys: bool, says: str
) -> None:
    error = failure(play, task, action)
    assert (error.stage, error.kind, error.is_policys) == ("step", kind, is_policys)
    assert says in str(error)
    assert str(error).startswith(f"task {task}: the environment failed in step: ")
    assert "agents/environments" not in str(error), "frames of ours are no help"


@pytest.mark.parametrize(
    ("action", "kind", "said"),
    [
        (
            "raise no (such) \x1b[2J move",
            r"ValueError at own_environments\.py:\d+ in do_raise",
            "ValueError: no (such) ?[2J move",
        ),
        ("reply 7", "TypeError", "TypeError: step gives (observation, reward"),
        ("exit 3", "its process ended with exit code 3", "its process ended with exit code 3"),
    ],
)
def test_the_learner_counts_what_was_raised_by_its_type_and_line(
    play: Played, action: str, kind: str, said: str
) -> None:
    failed = replace(an_episode(), ended_by=End.CRASH, remark=str(failure(play, "guess", action)))
    crash = crash_of(failed)
    assert crash is not None
    assert re.fullmatch(kind, crash.kind), crash
    assert (crash.said[: len(said)], crash.is_scored) == (said, True)


@pytest.mark.parametrize(
    ("task", "row", "kind", "says"),
    [
        ("guess", {"fails": "9"}, "error", "ValueError: no level 9"),
        ("quick", {"hangs": True}, "deadline", "no answer within reset_deadline_s=0.3"),
    ],
)
def test_what_goes_wrong_in_reset_is_never_the_policys_doing(
    play: Played, task: str, row: dict[str, Any], kind: str, says: str
) -> None:
    error = failure(play, task, row=row)
    assert (error.stage, error.kind, error.is_policys) == ("reset", kind, False)
    assert says in str(error)


def test_neighbours_of_what_hangs_leaks_and_exits_are_untouched(play: Played) -> None:
    async def together() -> tuple[list[Any], float, list[EnvironmentStep]]:
        episode, _ = await play.begin("guess")
        bad = [
            asyncio.ensure_future(play.say(*each))
            for each in (("quick", "hang"), ("tight", "leak 1024"), ("guess", "exit 1"))
        ]
        began = time.monotonic()
        steps = [await episode.step(said("0")) for _ in range(50)]
        seconds = time.monotonic() - began
        await episode.close()
        return await asyncio.gather(*bad, return_exceptions=True), seconds, steps

    found, seconds, steps = play.wait(together())
    assert [error.kind for error in found] == ["deadline", "memory", "exited"]
    assert all(step.messages[0]["content"] == "wrong" for step in steps)
    assert seconds < 3, "nobody waited for the one that hung"


def test_after_a_failure_an_episode_of_the_same_task_begins_as_if_nothing_was(play: Played) -> None:
    failure(play, "tight", "leak 100")
    (step,) = play.wait(play.say("tight", "7"))
    assert step.reward == 1.0


def test_what_user_code_prints_disturbs_nothing_and_is_told_with_a_failure(play: Played) -> None:
    printed, _ = play.wait(play.say("guess", "print hello", "7"))
    assert printed.messages[0]["content"] == "done"
    text = str(failure(play, "guess", "print hello", "raise late"))
    assert "ValueError: late" in text
    assert text.endswith("from a program")


def test_code_that_is_not_async_may_run_a_loop_of_its_own(play: Played) -> None:
    (step,) = play.wait(play.say("guess", "run"))
    assert step.messages[0]["content"] == "from a loop of its own"


def test_chance_within_an_episode_comes_from_its_own_seed(play: Played) -> None:
    async def draw(own_seed: int) -> str:
        (step,) = await play.say("guess", "random", own_seed=own_seed)
        return str(step.messages[0]["content"])

    first, again, other = (play.wait(draw(seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_reset_is_told_the_seeds_and_the_token_that_it_asks_for(play: Played) -> None:
    async def begin() -> Any:
        episode, beginning = await play.begin("waits", {"name": "ship"}, seed=1, own_seed=2)
        await episode.close()
        return beginning

    assert play.wait(begin()).messages[-1]["content"] == "ship 1 2 token"


def test_a_message_that_cannot_travel_is_an_error_that_says_so(play: Played) -> None:
    async def step() -> None:
        episode, _ = await play.begin("guess")
        try:
            await episode.step({"role": "assistant", "content": {1, 2}})
        finally:
            await episode.close()

    with pytest.raises(EnvironmentFailed, match="can't travel"):
        play.wait(step())


def test_an_episode_can_be_closed_twice(play: Played) -> None:
    async def close() -> None:
        episode, _ = await play.begin("guess")
        await episode.close()
        await episode.close()

    play.wait(close())


def test_another_python_finds_no_package_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    places = os.pathsep.join([str(ROOT), "/x"])
    monkeypatch.setenv("PYTHONPATH", places)
    assert childs_environment(())["PYTHONPATH"] == places
    assert childs_environment((), is_ours=False)["PYTHONPATH"] == "/x"
