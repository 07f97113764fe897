"""OpenEnv: what the policy says becomes an action of a real server, and whose doing it is where one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents.environments.child.openenv import last_object
from agents.environments.seam import EnvironmentFailed, EnvironmentStep
from broker.messages import Turn
from config.episodes.environments import OpenEnvConfig
from tests.support.openenv_server import Server
from tests.support.played import ASKED, Played, played, said
from tests.support.redis_servers import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server().running() as made:
        yield made


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAMES_API_KEY", "planted")


@pytest.fixture(scope="module")
def play(server: Server) -> Iterator[Played]:
    def at(game: str, **more: Any) -> dict[str, Any]:
        return {"type": "openenv", "url": f"http://127.0.0.1:{server.port}/{game}", **more}

    sections = {
        "game": at(
            "game",
            key_variable="GAMES_API_KEY",
            reset={"level": " of two"},
            reset_from_row=["part"],
            observation=["text"],
        ),
        "board": at("board"),
        "json": at("board", action="json"),
        "shop": at("shop"),
        "small": at("small", reset_deadline_s=3),
        "away": at("game") | {"url": f"ws://127.0.0.1:{free_port()}"},
    }
    with played(sections) as made:
        yield made


def calling(name: str, arguments: Any) -> Turn:
    call = {"id": "c", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {**said(""), "tool_calls": [call]}


async def steps(
    play: Played, task: str, *turns: Turn, row: dict[str, Any] | None = None
) -> tuple[Any, list[EnvironmentStep]]:
    episode, beginning = await play.begin(task, row, seed=42)
    try:
        return beginning, [await episode.step(turn) for turn in turns]
    finally:
        await episode.close()


def read(step: EnvironmentStep) -> list[Any]:
    return [(one["role"], one["content"], one.get("is_error", False)) for one in step.messages]


def test_a_text_is_the_one_field_of_an_action(play: Played, server: Server) -> None:
    beginning, (wrong, refused, right) = play.wait(
        steps(play, "game", said("7"), said(""), said("2"), row={"part": 3})
    )
    assert beginning.messages == (ASKED, {"role": "user", "content": "Guess a digit of two."})
    assert (beginning.tools, server.headers[-1]) == ((), "Bearer planted")
    assert server.resets[-1] == {"seed": 42, "episode_id": "token", "level": " of two", "part": 3}
    assert (read(wrong), wrong.reward, wrong.terminated) == ([("user", "wrong", False)], 0.0, False)
    why = "The action is refused: word: String should have at least 1 character"
    assert (read(refused), refused.reward, refused.terminated) == ([("user", why, True)], None, False)
    assert (read(right), right.reward, right.terminated) == ([("user", "right", False)], 1.0, True)
    wait_until(lambda: not server.sessions["game"])


@pytest.mark.parametrize(
    ("task", "turn", "whose", "says"),
    [
        ("game", said("crash"), ("step", True), "EXECUTION_ERROR: no such level"),
        ("game", said("leave"), ("step", False), "is gone"),
        ("game", None, ("reset", False), "the row has no part, which reset_from_row names"),
        ("away", said("7"), ("reset", False), "can't be asked for /schema"),
    ],
)
def test_whose_doing_a_failure_is(
    play: Played, task: str, turn: Turn | None, whose: tuple[str, bool], says: str
) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        play.wait(steps(play, task, *([turn] if turn else []), row={"part": 3} if turn else {}))
    assert (caught.value.stage, caught.value.is_policys) == whose
    assert says in str(caught.value)
    assert "planted" not in str(caught.value)


@pytest.mark.prove
def test_an_action_of_several_fields_is_a_call_or_a_json_object(play: Played) -> None:
    turns = (said("hm"), calling("act", {"row": 7, "column": 1}), calling("act", {"row": 1, "column": 1}))
    beginning, (odd, refused, right) = play.wait(steps(play, "board", *turns))
    (tool,) = beginning.tools
    assert (tool["function"]["name"], tool["function"]["description"]) == ("act", "Move a piece.")
    assert sorted(tool["function"]["parameters"]["properties"]) == ["column", "row"]
    assert read(odd) == [("user", "That takes no action. Call `act`.", True)]
    why = "The action is refused: row: Input should be less than or equal to 2"
    assert read(refused) == [("tool", why, True)]
    assert (read(right), right.reward, right.terminated) == ([("tool", "[1, 1]", False)], 1.0, True)

    told = said('I think {"row": 0} is little, so ```json\n{"row": 2, "column": 1}\n```')
    beginning, (none, moved) = play.wait(steps(play, "json", said("row 2"), told))
    assert "Answer with one JSON object" in beginning.messages[-1]["content"]
    assert read(none) == [("user", "That has no JSON object, and an action is one.", True)]
    assert (read(moved), moved.reward) == ([("user", "[2, 1]", False)], 0.0)


def test_an_environment_of_mcp_offers_its_tools(play: Played) -> None:
    turns = (calling("price", {"thing": "tea"}), calling("price", {}), calling("pay", {}), said("3"))
    beginning, (price, lacking, strange, last) = play.wait(steps(play, "shop", *turns))
    assert [tool["function"]["name"] for tool in beginning.tools] == ["price"]
    assert beginning.messages == (ASKED,)
    assert (read(price), price.reward) == ([("tool", "3", False)], 0.5)
    assert (read(lacking), lacking.reward) == ([("tool", "thing is missing", True)], -1.0)
    assert (read(strange), strange.reward) == (
        [("tool", "there is no tool 'pay'; there is price", True)],
        None,
    )
    assert (read(last), last.terminated) == ([], True)


@pytest.mark.prove
def test_a_full_server_is_waited_for_and_then_named(play: Played) -> None:
    async def two() -> str:
        first, _ = await play.begin("small")
        with pytest.raises(EnvironmentFailed, match="max_concurrent_envs") as caught:
            await play.begin("small")
        assert not caught.value.is_policys
        await first.close()
        second, beginning = await play.begin("small")
        await second.close()
        return str(beginning.messages[-1]["content"])

    assert play.wait(two()) == "Guess a digit."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": {"b": 2}} and {"a": {"b": 3}} }', {"a": {"b": 3}}),
        ("{ {a} [1]", None),
        ('{"a": ' * 5000, None),
    ],
)
def test_the_last_json_object_counts(text: str, found: dict[str, Any] | None) -> None:
    assert last_object(text) == found


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"url": "localhost:8000"}, "url"),
        (
            {"url": "ws://h", "action": "call", "action_field": "word"},
            "action_field says what a text becomes",
        ),
        ({"url": "ws://h", "key_variable": "TOKEN"}, "key_variable"),
    ],
)
def test_a_section_that_says_no_server_is_refused(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        OpenEnvConfig.model_validate(section)
