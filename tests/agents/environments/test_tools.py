"""Plain functions as tools: what the policy reads of results, of errors, and of calls that can't be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents.environments.seam import EnvironmentFailed, EnvironmentStep
from broker.messages import Turn
from tests.support.own_environments import OWN_TOOLS
from tests.support.played import OWN, Played, played, said

pytestmark = pytest.mark.process


def tools(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "tools", "functions": [f"{OWN}:{name}" for name in names], "memory_mb": 512, **more}


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    sections = {"tools": tools(*OWN_TOOLS, result_characters=100), "plain": tools("add", "fail")}
    with played(sections) as made:
        yield made


def call(name: str, arguments: Any, number: int = 0) -> Turn:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": text}}


def calling(*calls: Turn) -> Turn:
    return {**said(""), "tool_calls": list(calls)}


def answered(play: Played, *turns: Turn, task: str = "tools") -> list[EnvironmentStep]:
    async def steps() -> list[EnvironmentStep]:
        episode, _ = await play.begin(task)
        try:
            return [await episode.step(turn) for turn in turns]
        finally:
            await episode.close()

    return play.wait(steps())


def test_the_policy_calls_reads_and_ends_by_a_message_without_calls(play: Played) -> None:
    read, end = answered(play, calling(call("add", {"a": 2, "b": 3})), said("It is 5."))
    assert read.messages == ({"role": "tool", "content": "5", "tool_call_id": "call-0", "name": "add"},)
    assert (read.terminated, read.truncated, read.reward) == (False, False, None)
    assert (end.messages, end.terminated) == ((), True)


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("add", {"a": 2}, "3"),
        ("add", {"a": 2.0}, "3"),
        ("height", {"of": "tower", "unit": "ft"}, "tower FOOT short"),
        ("height", {"of": "tower", "style": "long"}, "tower METRE long"),
        ("half", {}, "half ?"),
        ("odd", "", '{"set": "x", "é": 1}'),
        ("odd", {}, '{"set": "x", "é": 1}'),
        ("wait", {"seconds": 0}, "waited 0.0"),
        ("long", {"characters": 100}, "y" * 100),
        ("long", {"characters": 101}, "y" * 100 + "\n[cut: 100 of 101 characters]"),
    ],
)
def test_a_call_gives_what_the_function_returns(
    play: Played, name: str, arguments: Any, content: str
) -> None:
    (step,) = answered(play, calling(call(name, arguments)))
    assert step.messages[0]["content"] == content
    assert "is_error" not in step.messages[0]


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("add", {"a": "2"}, 'add: a is of type integer, got string "2"'),
        ("add", {"a": True}, "add: a is of type integer, got boolean true"),
        ("add", {"b": 1}, "add: 'a' is missing"),
        ("add", {"a": 1, "c": 1}, "add: there is no parameter 'c'; it takes a, b"),
        ("add", [1], "add: the arguments are an object, got array [1]"),
        (
            "add",
            "{'a': 1}",
            "add: the arguments are no JSON: Expecting property name enclosed in double quotes",
        ),
        ("add", "[" * 60_000, "add: the arguments are no JSON: maximum recursion depth"),
        ("height", {"of": "x", "unit": "yd"}, 'height: unit is one of ["m", "ft"], got string "yd"'),
        ("height", {"of": "x", "style": None}, 'height: style is one of ["short", "long"], got null null'),
        ("shout", {}, "there is no tool 'shout'; there is add, height, wait, meet, fail, long, odd, half"),
        ("fail", {"how": "key"}, "KeyError: 'key'"),
        ("fail", {"how": "file"}, "FileNotFoundError: [Errno 2] No such file or directory: 'missing/file'"),
    ],
)
def test_what_goes_wrong_is_told_to_the_policy(play: Played, name: str, arguments: Any, content: str) -> None:
    (step,) = answered(play, calling(call(name, arguments)))
    assert step.messages[0]["content"].startswith(content)
    assert step.messages[0]["is_error"] is True
    assert not step.terminated


def test_a_call_that_could_not_be_parsed_is_told_too(play: Played) -> None:
    (step,) = answered(play, calling({"id": "c", "error": "no closing brace"}))
    assert step.messages == (
        {"role": "tool", "content": "no closing brace", "tool_call_id": "c", "is_error": True},
    )


def test_several_calls_are_answered_in_their_order_and_those_that_wait_wait_together(play: Played) -> None:
    calls = [call("meet", {"name": "a"}, 0), call("add", {"a": 1}, 1), call("meet", {"name": "b"}, 2)]
    (step,) = answered(play, calling(*calls))
    assert [message["content"] for message in step.messages] == ["a met b", "2", "b met a"]
    assert [message["tool_call_id"] for message in step.messages] == ["call-0", "call-1", "call-2"]


@pytest.mark.parametrize(("how", "kind"), [("exit", "exited"), ("memory", "memory")])
def test_a_tool_that_ends_its_process_costs_the_episode(play: Played, how: str, kind: str) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        answered(play, calling(call("fail", {"how": how})), task="plain")
    assert (caught.value.kind, caught.value.is_policys) == (kind, True)


def test_the_schemas_reach_the_worker(play: Played) -> None:
    async def begin() -> Any:
        episode, beginning = await play.begin("plain")
        await episode.close()
        return beginning

    names = [tool["function"]["name"] for tool in play.wait(begin()).tools]
    assert names == ["add", "fail"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("undescribed", "undescribed: a tool is a function with a docstring"),
        ("unhinted", "unhinted: the parameter a has no type hint"),
        ("unknown", "unknown: the parameter a is of Path, which has no schema; these have one: str, int"),
        ("ad", "no ad; did you mean add?"),
    ],
)
def test_a_function_that_can_be_no_tool_is_named_before_anything_is_played(name: str, says: str) -> None:
    with played({"tools": tools(name)}) as play:
        with pytest.raises(EnvironmentFailed, match="did not start") as caught:
            play.wait(play.begin("tools"))
        assert says in str(caught.value)
        assert caught.value.stage == "start"
