"""Servers of tools that speak MCP: by standard input and output, one an episode, and over HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from agents.environments.runner import Episode
from agents.environments.seam import EnvironmentFailed
from broker.messages import Turn
from config.episodes.environments import ToolsConfig
from tests.support.paths import ROOT
from tests.support.played import OWN, Played, played, said
from tests.support.redis_servers import free_port
from tests.support.waiting import wait_until, wait_until_gone

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
]

SERVER = [sys.executable, "-m", "tests.support.tool_server"]


def tools(**servers: Any) -> dict[str, Any]:
    return {"type": "tools", "servers": servers, "memory_mb": 4096}


def calling(name: str, **arguments: Any) -> Turn:
    return {
        **said(""),
        "tool_calls": [{"id": name, "function": {"name": name, "arguments": json.dumps(arguments)}}],
    }


async def answers(episode: Episode, *turns: Turn) -> list[Turn]:
    steps = [await episode.step(turn) for turn in turns]
    return [message for step in steps for message in step.messages]


# Seconds: the library is imported by the parent process, and by each server.
def test_a_command_is_a_server_for_one_episode_beside_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf-planted")
    section = {**tools(shop={"command": SERVER}), "functions": [f"{OWN}:add"]}

    async def shop(play: Played) -> tuple[int, list[Turn]]:
        episode, beginning = await play.begin("shop")
        assert [tool["function"]["name"] for tool in beginning.tools] == [
            "add",
            "price",
            "put",
            "about",
            "leave",
        ]
        right = (calling("put", thing="tea"), calling("put", thing="milk"), calling("add", a=3))
        found = [message["content"] for message in await answers(episode, *right)]
        assert found == ["tea", "tea\nmilk", "4"]
        wrong = (calling("price", thing="gold"), calling("price", of=1), calling("shout"))
        refused = await answers(episode, *wrong)
        (who,) = await answers(episode, calling("about"))
        pid, token, _ = who["content"].split()
        assert token == "None"
        with pytest.raises(EnvironmentFailed, match="the server shop is gone") as caught:
            await episode.step(calling("leave"))
        assert (caught.value.stage, caught.value.is_policys) == ("step", False)
        await episode.close()
        return int(pid), refused

    async def next_one(play: Played) -> int:
        episode, _ = await play.begin("shop")
        first, who = await answers(episode, calling("put", thing="tea"), calling("about"))
        assert first["content"] == "tea", "a basket of its own"
        (task,) = play.environments._tasks.values()
        task._children[-1].kill()  # no goodbye, as at a deadline
        await episode.close()
        return int(who["content"].split()[0])

    with played({"shop": section}) as play:
        _, refused = play.wait(shop(play))
        assert all(message["is_error"] for message in refused)
        assert "thing" in refused[1]["content"]
        assert refused[2]["content"].startswith("there is no tool 'shout'; there is add, price")
        wait_until_gone(play.wait(next_one(play)))


@pytest.mark.prove  # imports of seconds, in three processes
def test_an_address_is_asked_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("SHOP_API_KEY", "planted")
    far = {"url": f"http://127.0.0.1:{port}/mcp", "tools": ["price"], "key_variable": "SHOP_API_KEY"}

    async def shop(play: Played) -> list[str]:
        episode, beginning = await play.begin("shop")
        (message,) = await answers(episode, calling("price", thing="tea"))
        await episode.close()
        return [message["content"], *(tool["function"]["name"] for tool in beginning.tools)]

    with played({"shop": tools(far=far)}) as play:
        with pytest.raises(EnvironmentFailed, match="the server far can't be reached") as caught:
            play.wait(play.begin("shop"))
        assert (caught.value.stage, caught.value.is_policys) == ("reset", False)
        process = subprocess.Popen([*SERVER, str(port)], cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: listens(port))
            assert play.wait(shop(play)) == ["3", "price"]
        finally:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.prove  # each begins with imports of seconds
@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"command": ["false"]}, "the server shop can't be reached"),
        ({"command": SERVER, "tools": ["pay"]}, "the server shop has no tool pay; it has price, put"),
    ],
)
def test_a_server_that_is_not_as_told_is_named(server: dict[str, Any], says: str) -> None:
    with played({"shop": tools(shop=server)}) as play:
        with pytest.raises(EnvironmentFailed) as caught:
            play.wait(play.begin("shop"))
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({}, "`functions`, `servers` or `programs` has to name a tool"),
        ({"servers": {"a": {}}}, "a server has a command or a url"),
        ({"servers": {"a": {"command": ["x"], "url": "http://h"}}}, "a server has a command or a url"),
        ({"servers": {"a": {"command": ["x"], "key_variable": "A_API_KEY"}}}, "key_variable goes with a url"),
        ({"servers": {"a": {"url": "http://h", "key_variable": "TOKEN"}}}, "key_variable"),
    ],
)
def test_a_section_that_names_no_tool_is_refused(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ToolsConfig.model_validate(section)
