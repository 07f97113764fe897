"""NeMo Gym: rows of its own, played against servers of its shape as its agents play them; whose doing a failure is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.environments.runner import Episode
from agents.environments.seam import Beginning, EnvironmentFailed, Finish
from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import End
from config.episodes.own_loop import NemoGymConfig
from config.generators import ScriptedEngineConfig
from generators.engine import Sample, SamplingParams
from tests.support.arena import Arena, run_of
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.nemo_gym_server import GAME_ROW, SHOP_ROW, Server
from tests.support.played import Played, played
from tests.support.redis_servers import free_port
from tests.support.scripted_policy import Served, served
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process


def call(name: str, arguments: Any) -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {json.dumps(arguments)}}}</tool_call>'


BUYS = call("price", {"thing": "tea"}) + call("price", {}) + call("verify", {"reward": 1})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server().running() as made:
        yield made


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def play(server: Server, port: int) -> Iterator[Played]:
    def at(place: str, **more: Any) -> dict[str, Any]:
        return {"type": "nemo_gym", "url": f"http://127.0.0.1:{server.port}/{place}", **more}

    sections = {
        "shop": at("shop"),
        "game": at("game", result_characters=3),
        "other": at("other"),
        "away": at("shop", reset_deadline_s=1) | {"url": f"http://127.0.0.1:{free_port()}"},
        "late": at("shop") | {"url": f"http://127.0.0.1:{port}/shop/"},
    }
    with played(sections) as made:
        yield made


def ran(play: Played, task: str, row: dict[str, Any], *texts: str, turns: int = 10) -> tuple[Finish, Served]:
    """Let the agent run to its end, with a policy that says these texts."""

    async def run() -> tuple[Finish, Served]:
        async with served(*texts, turns=turns) as it:
            episode, _ = await play.begin(task, {"row": row})
            try:
                return await episode.run(it.access.base_url, it.access.key, 30.0), it
            finally:
                await episode.close()

    return play.wait(run())


def test_calls_are_posts_and_the_whole_is_verified(play: Played, server: Server) -> None:
    finish, it = ran(play, "shop", SHOP_ROW, BUYS, "It is 3.")
    assert (finish.reward, finish.remark) == (1.0, "")
    session = next(one for one in server.sessions.values() if ("price", {"thing": "tea"}) in one)
    assert [route for route, _ in session] == ["seed_session", "price", "price", "verify"], "by one cookie"
    assert session[0][1] == SHOP_ROW
    verified = session[-1][1]
    response = verified.pop("response")
    assert verified == SHOP_ROW
    kinds = ["function_call"] * 3 + ["function_call_output"] * 3 + ["message"]
    assert [item["type"] for item in response["output"]] == kinds
    told = [json.loads(response["output"][3]["output"]), response["output"][5]["output"]]
    assert told == [{"coins": 3}, "there is no tool 'verify'; there is price"]
    assert "Field required" in it.asker.prompts[1]
    assert it.asker.prompts[1].startswith(f"{it.asker.prompts[0]}{BUYS}\0tool\n")


def test_steps_are_summed_up_to_the_servers_end_or_to_a_limit(play: Played, server: Server) -> None:
    finish, it = ran(play, "game", GAME_ROW, "5", "7", "8")
    assert (finish.reward, len(it.asker.turns)) == (0.75, 2)
    assert it.asker.prompts[0] == "user\nBe brief.\0user\nGue\n[cut: 3 of 19 characters]\0assistant\n"
    assert it.asker.prompts[1].endswith("5\0user\nwro\n[cut: 3 of 5 characters]\0assistant\n")
    finish, it = ran(play, "game", GAME_ROW, "5", turns=1)
    assert (finish.reward, it.session.ended_by) == (-0.25, End.TURNS)
    routes = [[route for route, _ in one] for one in server.sessions.values() if one[0][0] == "reset"]
    assert routes == [["reset", "step", "step"], ["reset", "step", "close"]], "it is closed where it goes on"
    finish, it = ran(play, "shop", SHOP_ROW, call("price", {"thing": "tea"}), turns=2)
    assert finish.reward == 0.0, "what a limit ends is verified as it stands"
    assert len(it.asker.turns) == 2


@pytest.mark.parametrize(
    ("task", "row", "whose", "says"),
    [
        ("shop", SHOP_ROW | {"expected": "crash"}, ("run", False), "answers /verify with 500: Internal"),
        ("shop", SHOP_ROW | {"expected": "broken"}, ("reset", False), "answers /seed_session with 500"),
        ("shop", {"question": "?"}, ("reset", False), "it has no responses_create_params"),
        ("game", GAME_ROW, ("run", True), "answers /step with 500: no such level"),
        ("other", SHOP_ROW, ("reset", False), "has neither /verify nor /reset and /step"),
        (
            "away",
            SHOP_ROW,
            ("reset", False),
            "does not say its routes at /openapi.json, in reset_deadline_s=1",
        ),
        (
            "shop",
            {**SHOP_ROW, "responses_create_params": {"input": "?", "tool_choice": "required", "tools": [{}]}},
            ("run", True),
            "the policy can't be asked as responses_create_params has it: tools[0]",
        ),
    ],
)
def test_whose_doing_a_failure_is(
    play: Played, task: str, row: dict[str, Any], whose: tuple[str, bool], says: str
) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        ran(play, task, row, "crash")
    assert (caught.value.stage, caught.value.is_policys) == whose
    assert says in str(caught.value)


def test_a_reward_that_measures_nothing_is_none(play: Played, server: Server) -> None:
    server.masked = {"failure_kind": "judge_unavailable", "failure_reason": "no judge"}
    finish, _ = ran(play, "shop", SHOP_ROW, "It is 3.")
    assert (finish.reward, finish.remark) == (1.0, "judge_unavailable: no judge")
    server.masked["mask_sample"] = True
    try:
        with pytest.raises(
            EnvironmentFailed, match="measures nothing: judge_unavailable: no judge"
        ) as caught:
            ran(play, "shop", SHOP_ROW, "It is 3.")
    finally:
        server.masked = {}
    assert not caught.value.is_policys


def test_a_server_that_is_away_is_waited_for(play: Played, port: int) -> None:
    async def tried_once() -> asyncio.Task[tuple[Episode, Beginning]]:
        beginning = asyncio.create_task(play.begin("late", {"row": SHOP_ROW}))
        await asyncio.wait({beginning}, timeout=0.6)
        assert not beginning.done()
        return beginning

    async def ended(beginning: asyncio.Task[tuple[Episode, Beginning]]) -> None:
        episode, _ = await beginning
        await episode.close()

    beginning = play.wait(tried_once())
    with Server().running(port) as late:
        play.wait(ended(beginning))
    assert late.asked("seed_session") == [SHOP_ROW]


class Buyer(FloorEngine):
    """A policy that calls, and answers when it has read something."""

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        has_read = b"\0tool\n" in bytes(token_ids.tolist())
        text = "It is 3." if has_read else call("price", {"thing": "tea"})
        self._config = ScriptedEngineConfig(answers=(text,))
        return await super().generate(token_ids, params, n)


@in_loop
async def test_a_group_trains_what_was_sampled(
    link: RedisLink, keys: Keys, tmp_path: Path, quick: None, server: Server
) -> None:
    del quick
    url = f"http://127.0.0.1:{server.port}/shop"
    arena = Arena(link, keys, tmp_path, run_of({"type": "nemo_gym", "url": url}))
    arena.rows["0"] = {"verification_info": {"type": "math", "row": SHOP_ROW}}
    arena.issue(0)
    async with arena.generator(Buyer()), arena.agent() as (_, playing):
        await wait_in_loop(lambda: arena.ids(ROLLOUTS) + arena.ids(DEAD) == ["0"], task=playing)
    assert arena.ids(DEAD) == [], arena.dead_letters()
    asks = call("price", {"thing": "tea"})
    for one in arena.rollout("0").completions:
        (segment,) = one.segments
        read = 'tool\n{"coins": 3}\0assistant\n'
        assert bytes(segment.token_ids.tolist()).decode() == f"{asks}\0{read}It is 3.\0"
        assert segment.loss_mask == (len(asks) + 1, len(read), len("It is 3.") + 1)
        assert (one.text, one.ended_by) == ("It is 3.", End.MESSAGE)
        assert one.reward is not None
        assert (one.reward.value, one.reward.low, one.reward.high) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("keys", [{"url": "ws://h"}, {"url": "http://h", "agent": "proof_refinement"}])
def test_a_section_that_says_no_server_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"url|agent"):
        NemoGymConfig.model_validate(keys)
