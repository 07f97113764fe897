"""Agents elsewhere open episodes at the gateway by a plain HTTP client, and end them; a real Redis, worker and generator."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agents.gateway import remote
from agents.gateway.server import NoAddress, NoKey, gateway_of
from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import Completion, End
from config.episodes.agents import AgentsConfig
from tests.support.arena import Arena, run_of
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.played import ASKED
from tests.support.played import played as played_here
from tests.support.redis_servers import free_port
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

KEY = "sk-of-the-gateway"
HELD = {"Authorization": f"Bearer {KEY}"}
MakeArena = Callable[..., Arena]

# What a person writes: it opens an episode, asks the policy once, and hangs.
HANGS = """
import json, sys, time, urllib.request

def post(url, key, body):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()

given = json.loads(post(sys.argv[1] + "/episodes", sys.argv[2], {}))
chat = {"model": "any", "messages": [{"role": "user", "content": "?"}]}
post(given["base_url"] + "/v1/chat/completions", given["api_key"], chat)
print(given["id"], flush=True)
time.sleep(600)
"""


@pytest.fixture
def arena(
    link: RedisLink, keys: Keys, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> MakeArena:
    del quick
    monkeypatch.setenv("GATEWAY_API_KEY", KEY)
    monkeypatch.setattr(remote, "LOOK_S", 0.2)

    def make(**environment: Any) -> Arena:
        place = {"port": free_port(), "key_variable": "GATEWAY_API_KEY"}
        section = {"type": "remote", **environment}
        return Arena(link, keys, tmp_path, run_of(section, agents={"gateway": place, "max_attempts": 1}))

    return make


async def asked(
    client: aiohttp.ClientSession, method: str, url: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    async with client.request(method, url, json=body, headers=headers or HELD) as answer:
        data = await answer.read()
        return answer.status, json.loads(data) if data else None


async def opened(client: aiohttp.ClientSession, base: str) -> Any:
    """Return an episode, once there is one: each question waits a little."""
    async with asyncio.timeout(30):
        while (found := await asked(client, "POST", f"{base}/episodes"))[0] == 204:
            pass
    assert found[0] == 200
    return found[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def played(arena: Arena, agent: Callable[[aiohttp.ClientSession, str], Any]) -> tuple[Completion, ...]:
    """Let `agent` play a group's two episodes, and return what came of it; () where it died."""
    engine = FloorEngine()
    engine._config = arena.run_config.generators.engine  # type: ignore[assignment]
    arena.issue(0)
    base = f"http://127.0.0.1:{arena.run_config.agents.gateway.port}"
    async with (
        arena.generator(engine) as (_, sampling),
        arena.agent() as (_, playing),
        aiohttp.ClientSession() as client,
    ):
        port = arena.run_config.agents.gateway.port or 0
        await wait_in_loop(lambda: listens(port), "the gateway", task=playing)
        await agent(client, base)
        await wait_in_loop(lambda: arena.ids(ROLLOUTS) + arena.ids(DEAD) == ["0"], task=playing)
        assert not sampling.done()
    return arena.rollout("0").completions if arena.ids(ROLLOUTS) else ()


@in_loop
async def test_an_agent_elsewhere_opens_asks_rewards_and_finishes(arena: MakeArena) -> None:
    floor = arena()
    seen: list[Any] = []

    async def agent(client: aiohttp.ClientSession, base: str) -> None:
        for number in range(2):
            given = await opened(client, base)
            own, policy = {"Authorization": f"Bearer {given['api_key']}"}, f"{given['base_url']}/v1"
            place = f"{base}/episodes/{given['id']}"
            chat = {
                "model": "any",
                "messages": [{"role": "user", "content": given["row"]["answer"]["value"]}],
            }
            _, answer = await asked(client, "POST", f"{policy}/chat/completions", chat, **own)
            seen.append(answer["choices"][0]["message"]["content"])
            assert (await asked(client, "POST", f"{place}/reward", {"reward": 0.5}, **own))[0] == 200
            assert (await asked(client, "GET", place))[1]["state"] == "open"
            last = {"reward": 1.0, "remark": "done"} if number else {}
            assert (await asked(client, "POST", f"{place}/finish", last))[0] == 200
            for body, code in (({"reward": "x"}, 400), ({}, 400)):
                if (found := await asked(client, "POST", f"{place}/reward", body))[0] != 410:
                    assert found[0] == code
            assert (await asked(client, "GET", f"{base}/episodes/none"))[0] == 404
            assert (await asked(client, "POST", f"{base}/episodes", Authorization="Bearer x"))[0] == 401

    completions = await played(floor, agent)
    assert seen == ["right", "right"]
    assert sorted((one.reward.value, one.remark) for one in completions if one.reward) == [
        (0.5, ""),
        (1.0, "done"),
    ]
    for one in completions:
        assert (one.ended_by, one.text, len(one.segments)) == (End.MESSAGE, "right", 1)


@in_loop
async def test_an_agent_that_is_killed_ends_its_episode_by_the_deadline(arena: MakeArena) -> None:
    async def agent(_: aiohttp.ClientSession, base: str) -> None:
        words = [sys.executable, "-c", HANGS, base, KEY]
        for process in [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]:  # noqa: ASYNC220
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline)
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            process.stdout.close()

    for one in await played(arena(deadline_s=1.0), agent):
        assert (one.ended_by, one.text, one.reward) == (End.DEADLINE, "right", None)
        assert "environment.deadline_s=1; no agent elsewhere finished the episode" in one.remark


@in_loop
async def test_an_episode_that_nobody_opens_asks_nothing_of_the_policy_and_is_named(arena: MakeArena) -> None:
    async def agent(*_: Any) -> None: ...

    floor = arena(open_deadline_s=0.5)
    assert await played(floor, agent) == ()
    (dead_letter,) = floor.dead_letters()
    assert "no agent elsewhere opened episode" in dead_letter.reason
    assert "within 0.5 s" in dead_letter.reason


def test_a_doctor_can_begin_an_episode_without_anybody_elsewhere() -> None:
    with played_here({"run": {"type": "remote"}}) as play:

        async def begun() -> Any:
            episode, beginning = await play.begin("run")
            await episode.close()
            return beginning

        assert play.wait(begun()).messages == (ASKED,)


@in_loop
async def test_a_place_that_can_not_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, says in (
        ({"host": "0.0.0.0"}, "`port` and `key_variable` have to be set"),
        ({"host": "10.0.0.1", "port": 9000}, "`port` and `key_variable` have to be set"),
        ({"port": 9000}, "goes with count=1"),
    ):
        with pytest.raises(ValueError, match=says):
            AgentsConfig.model_validate({"count": 2, "gateway": place})
    monkeypatch.delenv("GATEWAY_API_KEY", raising=False)
    port = free_port()
    wanted = {"port": port, "key_variable": "GATEWAY_API_KEY"}
    with pytest.raises(NoKey, match="GATEWAY_API_KEY: the variable is not set"):
        gateway_of(run_of({"type": "remote"}, agents={"gateway": wanted}))
    taken = gateway_of(run_of({"type": "remote"}, agents={"gateway": {"port": port}}))
    await taken.start()
    other = gateway_of(run_of({"type": "remote"}, agents={"gateway": {"port": port}}))
    with pytest.raises(NoAddress, match=f"127.0.0.1:{port} can't be listened at"):
        await other.start()
    await other.close()
    await taken.close()
