"""Environments of verifiers, of both generations, by packages `verifiers` that have the part which is played.

`make prove-agents` plays the same with the packages themselves, which are in no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.environments.seam import EnvironmentFailed, Finish
from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import End
from tests.support.arena import Arena, run_of
from tests.support.generator_floor import FloorEngine
from tests.support.in_loop import in_loop
from tests.support.played import Played, played
from tests.support.scripted_policy import served
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

HELD_OUT = 1_000_000_000
ASKS = """
import asyncio
import json
import os
import urllib.request

async def asked(base_url, variable, messages):
    headers = {"Authorization": f"Bearer {os.environ[variable]}", "Content-Type": "application/json"}
    body = json.dumps({"model": "policy", "messages": messages}).encode()
    request = urllib.request.Request(base_url + "/chat/completions", body, headers)
    answer = json.load(await asyncio.to_thread(urllib.request.urlopen, request))
    return answer["choices"][0]["message"]["content"]
"""
OLD = {
    "asks.py": ASKS,
    "verifiers/__init__.py": """
import importlib

from asks import asked

__version__ = "0.1.14"

def load_environment(name, **options):
    return importlib.import_module(name.replace("-", "_")).load_environment(**options)

class Rows(list):
    to_list = list.copy

class Rubric:
    has_group_rewards = False

    def __init__(self, *funcs):
        self.funcs = list(funcs)

    async def score_rollout(self, state):
        state["reward"], state["metrics"] = 0.0, {}
        for one in self.funcs:
            try:
                value = await one(said=state["said"], answer=state["answer"])
            except Exception:
                value = 0.0
            state["metrics"][one.__name__] = value
            state["reward"] += value

    async def cleanup(self, state):
        pass

class SingleTurnEnv:
    max_turns = 1

    def __init__(self, rows, rubric):
        self.rows, self.rubric = Rows(rows), rubric

    def get_dataset(self):
        return self.rows

    def build_eval_dataset(self):
        return None

    async def rollout(self, row, client, model, sampling_args):
        said = await asked(client.api_base_url, client.api_key_var, row["prompt"])
        return {"said": said, "answer": row["answer"], "error": LookupError(said) if said == "lost" else None}

class SandboxEnv(SingleTurnEnv):
    pass
""",
    "verifiers/types.py": """
from types import SimpleNamespace

class ClientConfig(SimpleNamespace):
    async def close(self):
        pass
""",
    "verifiers/errors.py": "class InfraError(Exception):\n    pass\n",
    "verifiers/clients.py": "def resolve_client(config):\n    return config\n",
    "sums_v0.py": """
import verifiers as vf

def right(said, answer):
    if said == "crash":
        raise RuntimeError("no judge")
    return float(said == answer)

def load_environment(kind="SingleTurnEnv", group=False):
    rows = [
        {"prompt": [{"role": "user", "content": f"What is {i} + {i}?"}], "answer": str(2 * i)} for i in range(10)
    ]
    made = getattr(vf, kind)(rows, vf.Rubric(right))
    made.rubric.has_group_rewards = group
    return made
""",
    "no_old_one.py": "",
    "math_one.py": "def load_environment():\n    import math_verify\n",
}
NEW = {
    "asks.py": ASKS,
    "verifiers/__init__.py": '__version__ = "0.4.0"\n',
    "verifiers/v1/tasksets/__init__.py": "",
    "verifiers/v1/harnesses/utils/launch.py": 'CHAT_PROGRAM_SOURCE = "talks"\n',
    "verifiers/v1/runtimes/subprocess.py": """
class SubprocessRuntime:
    async def prepare_uv_script(self, script, env=None, *, activate=True):
        return ["uv", script]
""",
    "verifiers/v1/__init__.py": """
import contextlib
import importlib
from types import SimpleNamespace as Some

from asks import asked

AgentConfig = Some
ModelContext = EvalClientConfig = Some
RUNTIME = Some(type="prime")

def env_config_type(name):
    seats = importlib.import_module(name.replace("-", "_")).SEATS
    return Some(model_fields={seat: Some(default=AgentConfig()) for seat in seats} | {"taskset": Some(default="")})

def default_harness_id(name):
    return "bash"

def load_harness(config):
    return Some(EXECUTES_CODE=config.id == "bash", NEEDS_CONTAINER=config.id == "codex")

class Config(Some):
    def agent_harnesses(self):
        return {name: one.harness for name, one in self.agents.items()}

def resolve_env_config(given):
    agents = {
        name: Some(**{"model": None, "client": None, **one, "runtime": Some(**one["runtime"]), "harness": Some(**one["harness"])})
        for name, one in given.items() if name != "taskset"
    }
    return Config(taskset=given["taskset"], agents=agents, **agents)

class Environment:
    def __init__(self, config):
        self.config = config
        self.taskset = importlib.import_module(config.taskset["id"].replace("-", "_")).Sums(config.taskset)

    @contextlib.asynccontextmanager
    async def serving(self):
        yield

    async def run_episode(self, task, context):
        client = context.client
        said = await asked(client.base_url, client.api_key_var, [{"role": "user", "content": task.data.prompt}])
        errors = [Some(type=f"{said}Error", message="it broke")] if said in ("Task", "Harness") else []
        rewards = {"right": Some(value=float(said == task.answer)), "unscored": None}
        trace = Some(
            agent=Some(name="agent"), reward=rewards["right"].value, rewards=rewards, errors=errors,
            stop_condition="agent_completed",
        )
        return Some(ok=not errors, traces=[trace], errors=[])

def load_environment(config):
    return Environment(config)
""",
    "sums_v1.py": """
import itertools
from types import SimpleNamespace as Some

SEATS = ["agent"]

class Task:
    NEEDS_CONTAINER = False

    def __init__(self, number, image):
        self.answer = str(2 * number)
        self.data = Some(idx=number, prompt=f"What is {number} + {number}?", image=image)

class Sums:
    bounded = False

    def __init__(self, options):
        self.options = options

    @staticmethod
    def task_type():
        return Task

    def __iter__(self):
        return (Task(number, self.options.get("image")) for number in itertools.count())

    def take(self, number):
        return itertools.islice(self, number)
""",
    "debate_v1.py": 'from sums_v1 import Sums\n\nSEATS = ["left", "right"]\n',
    "old_one.py": "def load_environment():\n    pass\n",
}
SECTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "old": {
        "sums": {"id": "owner/sums-v0@2", "held_out_rows": 2},
        "plain": {"id": "sums-v0"},
        "sandbox": {"id": "sums-v0", "options": {"kind": "SandboxEnv"}},
        "group": {"id": "sums-v0", "options": {"group": True}},
        "other": {"id": "no-old-one"},
        "math": {"id": "math-one"},
    },
    "new": {
        "sums": {"id": "sums-v1", "most_rows": 12, "held_out_rows": 2},
        "plain": {"id": "sums-v1", "most_rows": 10},
        "image": {"id": "sums-v1", "options": {"image": "debian"}},
        "bash": {"id": "sums-v1", "agents": {"agent": {"harness": {"id": "bash"}}}},
        "codex": {"id": "sums-v1", "agents": {"agent": {"harness": {"id": "codex"}}}},
        "strange": {"id": "sums-v1", "agents": {"judge": {}}},
        "seats": {"id": "debate-v1"},
        "other": {"id": "old-one"},
        "absent": {"id": "no-such-v1"},
    },
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@contextmanager
def with_verifiers(folder: Path, files: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(write(folder, files)))
        yield


@pytest.fixture(scope="module", params=["old", "new"])
def play(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    files = OLD if request.param == "old" else NEW
    sections = {name: {"type": "verifiers", **one} for name, one in SECTIONS[request.param].items()}
    with with_verifiers(tmp_path_factory.mktemp(request.param), files), played(sections) as made:
        yield made


def ran(play: Played, task: str, text: str, seed: int) -> tuple[Finish, list[str]]:
    async def run() -> tuple[Finish, list[str]]:
        async with served(text) as it:
            episode, _ = await play.begin(task, seed=seed)
            try:
                return await episode.run(it.access.base_url, it.access.key, 30.0), it.asker.prompts
            finally:
                await episode.close()

    return play.wait(run())


def test_a_seed_is_a_row_and_its_rubric_pays(play: Played, request: pytest.FixtureRequest) -> None:
    finish, prompts = ran(play, "plain", "14", 17)
    assert prompts == ["user\nWhat is 7 + 7?\0assistant\n"]
    assert (finish.reward, "right 1" in finish.remark) == (1.0, True)
    assert ran(play, "plain", "15", 17)[0].reward == 0.0
    rows = 8 if "old" in request.node.name else 10
    assert ran(play, "sums", "0", rows)[0].reward == 1.0, "those held out are never trained on"
    assert ran(play, "sums", str(2 * rows), HELD_OUT)[0].reward == 1.0
    with pytest.raises(EnvironmentFailed, match="no rows for evaluation: held_out_rows") as caught:
        ran(play, "plain", "14", HELD_OUT)
    assert caught.value.stage == "reset"


def test_whose_doing_a_failure_is(play: Played, request: pytest.FixtureRequest) -> None:
    is_old = "old" in request.node.name
    for text, says, is_policys in (
        ("crash", "right: RuntimeError: no judge", False)
        if is_old
        else ("Task", "TaskError: it broke", False),
        ("lost", "LookupError: lost", True) if is_old else ("Harness", "HarnessError: it broke", True),
    ):
        with pytest.raises(EnvironmentFailed) as caught:
            ran(play, "plain", text, 17)
        assert (caught.value.stage, caught.value.is_policys) == ("run", is_policys)
        assert says in str(caught.value)


REFUSED = {
    "sandbox": "is a SandboxEnv, which needs sandboxes of a service",
    "group": "rewards a group as a whole",
    "bash": "the harness bash of agent executes what the policy writes",
    "codex": "the harness codex of agent needs a container",
    "strange": "has no agent judge; it has agent",
    "seats": "the policy would be left and right of debate-v1",
    "absent": "has no package no_such_v1",
    "image": "needs a container, of the image debian",
    "other": "load_environment; verifiers 0.",
    "math": "math_one uses math_verify, which evaluates what the policy writes",
}


@pytest.mark.prove  # a process each
def test_what_can_not_be_played_is_named(play: Played, request: pytest.FixtureRequest) -> None:
    for task in SECTIONS["old" if "old" in request.node.name else "new"]:
        if task in REFUSED:
            with pytest.raises(EnvironmentFailed) as caught:
                ran(play, task, "14", 17)
            assert REFUSED[task] in str(caught.value), task
            assert caught.value.stage == ("reset" if task == "image" else "start")


@in_loop
async def test_a_group_trains_what_was_sampled(
    link: RedisLink, keys: Keys, tmp_path: Path, quick: None
) -> None:
    del quick
    arena = Arena(link, keys, tmp_path, run_of({"type": "verifiers", "id": "sums-v1"}, answers=("14",)))
    arena.rows["0"] = {"verification_info": {"type": "math", "seed": 7}}
    engine = FloorEngine()
    engine._config = arena.run_config.generators.engine  # type: ignore[assignment]
    with with_verifiers(tmp_path / "new", NEW):
        arena.issue(0)
        async with arena.generator(engine), arena.agent() as (_, playing):
            await wait_in_loop(lambda: arena.ids(ROLLOUTS) + arena.ids(DEAD) == ["0"], task=playing)
    assert arena.ids(DEAD) == [], arena.dead_letters()
    for one in arena.rollout("0").completions:
        (segment,) = one.segments
        assert (bytes(segment.token_ids.tolist()), segment.loss_mask) == (b"14\0", (3,))
        assert (one.ended_by, one.remark) == (End.MESSAGE, "right 1, agent_completed")
        assert one.reward is not None
        assert one.reward.value == 1.0
