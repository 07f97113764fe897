"""Tools of verl's, of both generations, by a package `verl` that has the part which they derive from.

`make prove-agents` plays the same with verl itself, which is in no lock.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.environments.seam import EnvironmentFailed, EnvironmentStep
from agents.environments.verl_tool_file import children_read
from broker.messages import Turn
from config.episodes.environments import VerlToolsConfig
from config.explanations import ConfigError
from tests.support.played import Played, played, said

pytestmark = pytest.mark.process

SCHEMAS = """
from pydantic import BaseModel

class Function(BaseModel):
    name: str
    description: str
    parameters: dict
    strict: bool = False

class OpenAIFunctionToolSchema(BaseModel):
    type: str
    function: Function

class ToolResponse(BaseModel):
    text: str | None = None
    image: list | None = None
"""
BASE = """
class BaseTool:
    def __init__(self, config, tool_schema):
        self.config, self.tool_schema = config, tool_schema
        self.name = tool_schema.function.name

    async def create(self, instance_id=None, **kwargs):
        return instance_id

    async def calc_reward(self, instance_id, **kwargs):
        return 0.0

    async def release(self, instance_id, **kwargs):
        pass
"""
FUNCTIONS = """
import importlib.util
from types import SimpleNamespace
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

FOUND = []

def function_tool(fn):
    schema = {"type": "function", "function": {"name": fn.__name__, "description": fn.__doc__, "parameters": {}}}
    async def call(parameters):
        return fn(**parameters)
    schema = OpenAIFunctionToolSchema.model_validate(schema)
    FOUND.append(SimpleNamespace(name=fn.__name__, tool_schema=schema, call=call))
    return fn

def load_function_tools_from_path(path):
    spec = importlib.util.spec_from_file_location("theirs", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return FOUND

def normalize_function_tool_return(found):
    return (ToolResponse(text=found[0]), found[1], {})
"""
TOOLS = '''
import json
import os
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse

class Adds(BaseTool):
    """With a state, as verl 0.5 and newer have it."""

    def __init__(self, config, tool_schema):
        super().__init__(config, tool_schema)
        self.sums, self.made_in = {}, os.getpid()

    async def create(self, instance_id=None, start=None, **kwargs):
        start = kwargs.get("create_kwargs", {}).get("start") if start is None else start
        self.sums[instance_id] = start
        return instance_id, ToolResponse(text=f"begins with {start}")

    async def execute(self, instance_id, parameters, **kwargs):
        if parameters["number"] > 100:
            raise ValueError("too much")
        assert self.made_in == os.getpid()
        self.sums[instance_id] += parameters["number"] * kwargs.get("times", 1)
        turns = kwargs["agent_data"].assistant_turns
        text = f"{self.sums[instance_id]} at turn {turns}" + self.config["tail"]
        return ToolResponse(text=text, image=[b""]), -0.125, {}

    async def calc_reward(self, instance_id, goal=10):
        return float(self.sums[instance_id] == goal)

    async def release(self, instance_id, **kwargs):
        print("released", self.sums.pop(instance_id))

class Old(BaseTool):
    """As verl 0.3 and 0.4 have it: texts, and arguments as JSON."""

    async def execute(self, instance_id: str, parameters: str, **kwargs):
        return json.loads(parameters)["word"] + instance_id, 0.5, {}
'''
SHOUT = '''
from verl.tools.function_tool import function_tool

@function_tool
def shout(word: str):
    """Say it louder."""
    return word.upper(), 0.25
'''


def entry(name: str, **config: Any) -> dict[str, Any]:
    properties = {"number": {"type": "integer"}} if name == "Adds" else {"word": {"type": "string"}}
    function = {
        "name": name.lower(),
        "description": name,
        "parameters": {"type": "object", "properties": properties, "required": [*properties]},
    }
    return {
        "class_name": f"my_verl.{name}",
        "config": {"type": "native", **config},
        "tool_schema": {"type": "function", "function": function},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("verl")
    (found / "verl" / "tools").mkdir(parents=True)
    for name, text in {"schemas": SCHEMAS, "base_tool": BASE, "function_tool": FUNCTIONS}.items():
        (found / "verl" / "tools" / f"{name}.py").write_text(text, encoding="utf-8")
    (found / "my_verl.py").write_text(TOOLS, encoding="utf-8")
    (found / "shout.py").write_text(SHOUT, encoding="utf-8")
    tools = {"tools": [entry("Adds", tail="!" * 40), entry("Old")]}
    (found / "tools.yaml").write_text(yaml.safe_dump(tools), encoding="utf-8")
    return found


def section(folder: Path, **more: Any) -> dict[str, Any]:
    return {"type": "verl_tools", "tool_config_path": str(folder / "tools.yaml"), **more}


def calling(*calls: tuple[str, dict[str, Any]]) -> Turn:
    made = [{"id": name, "function": {"name": name, "arguments": json.dumps(given)}} for name, given in calls]
    return {**said(""), "tool_calls": made}


async def steps(
    play: Played, task: str, row: dict[str, Any], *turns: Turn
) -> tuple[Any, list[EnvironmentStep]]:
    episode, beginning = await play.begin(task, row)
    try:
        return beginning, [await episode.step(turn) for turn in turns]
    finally:
        await episode.close()


@pytest.mark.prove
def test_instances_for_an_episode_keep_their_state_and_for_a_call_lose_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    both = section(
        folder, function_tool_path=str(folder / "shout.py"), instances="call", result_characters=20
    )
    kwargs = {"adds": {"create_kwargs": {"start": 3}, "execute_kwargs": {"times": 2}}, "old": None}
    row = {"extra_info": {"need_tools_kwargs": True, "tools_kwargs": kwargs}}
    turns = (calling(("adds", {"number": 1}), ("adds", {"number": 101})), calling(("adds", {"number": 1})))
    with played({"episode": section(folder), "call": both | {"result_kept": "both"}}) as play:
        beginning, (first, second, last) = play.wait(
            steps(play, "episode", {"extra_info": {"tools_kwargs": kwargs}}, *turns, said("done"))
        )
        offered, (old,) = play.wait(
            steps(
                play,
                "episode",
                {"extra_info": {"tool_selection": ["old"]}},
                calling(("old", {"word": "hi "})),
            )
        )
        whole, (apart, again, loud) = play.wait(
            steps(play, "call", row, *turns, calling(("shout", {"word": "hey"})))
        )
        with pytest.raises(EnvironmentFailed, match="the row wants tea; there is adds, old"):
            play.wait(steps(play, "episode", {"extra_info": {"tool_selection": ["tea"]}}))
    assert [tool["function"]["name"] for tool in beginning.tools] == ["adds", "old"]
    assert beginning.messages[-1]["content"] == "begins with 3"
    tail = f"{'!' * 40}\n[image]"
    assert [one["content"] for one in first.messages] == [f"5 at turn 1{tail}", "ValueError: too much"]
    assert [one.get("is_error", False) for one in first.messages] == [False, True]
    assert [one["content"] for one in second.messages] == [f"7 at turn 2{tail}"]
    assert [step.reward for step in (first, second, last)] == [-0.125, -0.125, 0.0]
    assert [step.terminated for step in (first, second, last)] == [False, False, True]
    assert [tool["function"]["name"] for tool in offered.tools] == ["old"]
    assert (old.messages[0]["content"], old.reward) == ("hi token", 0.5)
    assert [tool["function"]["name"] for tool in whole.tools] == ["adds", "old", "shout"]
    assert again.messages[0]["content"].startswith("5 at turn ")
    assert "[cut: 20 of 59 characters]" in again.messages[0]["content"]
    assert (apart.reward, again.reward, loud.reward) == (-0.125, -0.125, 0.25)
    assert loud.messages[0]["content"] == "HEY"


def test_what_an_instance_is_worth_counts_for_the_turn_that_changed_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    given = {"create_kwargs": {"start": 9}, "calc_reward_kwargs": {"goal": 10}}
    row = {"extra_info": json.dumps({"need_tools_kwargs": True, "tools_kwargs": {"adds": given}})}
    turn = calling(("adds", {"number": 1}))
    with played({"episode": section(folder)}) as play:
        beginning, found = play.wait(steps(play, "episode", row, turn, turn, said("done")))
    assert [tool["function"]["name"] for tool in beginning.tools] == ["adds"]
    assert [step.reward for step in found] == [0.875, -1.125, 0.0]


MCP = "verl.tools.mcp_base_tool.MCPBaseTool"
SERVERS = {"mcpServers": {"files": {"command": "serve", "args": ["/srv"]}, "far": {"url": "http://h/mcp"}}}


def test_entries_of_mcp_are_servers(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text(json.dumps(SERVERS), encoding="utf-8")
    mcp = {"mcp_servers_config_path": str(tmp_path / "servers.json")}
    tools = {"tools": [{"class_name": MCP, "config": {"type": "mcp", "rate_limit": 5}, "mcp": mcp}]}
    (tmp_path / "tools.yaml").write_text(yaml.safe_dump(tools), encoding="utf-8")
    found = children_read(VerlToolsConfig.model_validate(section(tmp_path)))
    assert found["entries"] == []
    assert {name: (one["command"], one["url"]) for name, one in found["servers"].items()} == {
        "files": (["serve", "/srv"], None),
        "far": ([], "http://h/mcp"),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tools: {}", "a list `tools` is expected"),
        ("tools: [{config: {type: native}}]", r"tools\[0\]: an entry has a class_name"),
        ("tools: [{class_name: Adds}]", "class_name is module.Class, got Adds"),
        ("tools: [{class_name: a.B, config: {type: sandbox}}]", "native or mcp, got 'sandbox'"),
        ("tools: [{class_name: a.B, config: {url: '${oc.env:URL}'}}]", "refers to something else"),
        ("tools: [{class_name: a.B, config: {type: mcp}}]", "a.B may do something with what a server says"),
        (
            f"tools: [{{class_name: {MCP}, config: {{type: mcp}}}}]",
            "mcp_servers_config_path has to name a file",
        ),
        (
            f"tools: [{{class_name: {MCP}, config: {{type: mcp}}, mcp: {{mcp_servers_config_path: SERVERS}}}}]",
            "files has env, which does not map on a server here",
        ),
    ],
)
def test_an_entry_that_can_be_no_tool_is_named(tmp_path: Path, text: str, says: str) -> None:
    servers = {"mcpServers": {"files": {"command": "serve", "env": {"KEY": "x"}}}}
    (tmp_path / "servers.json").write_text(json.dumps(servers), encoding="utf-8")
    text = text.replace("SERVERS", str(tmp_path / "servers.json"))
    (tmp_path / "tools.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        children_read(VerlToolsConfig.model_validate(section(tmp_path)))


def test_a_section_that_names_no_file_is_refused() -> None:
    with pytest.raises(ValueError, match="has to name a file"):
        VerlToolsConfig()
