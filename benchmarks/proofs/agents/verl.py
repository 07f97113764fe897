"""verl's tools, of two generations: its own `BaseTool`, a YAML as its pages have it, and `@function_tool`."""

from __future__ import annotations

import json

from benchmarks.proofs.agents.player import calls
from benchmarks.proofs.agents.stage import KindStage

TOOLS = '''
from verl.tools.base_tool import BaseTool

class Answer(BaseTool):
    """As verl's example for GSM8K: it says what an answer is worth, and takes a little off where that is no more."""

    def __init__(self, config, tool_schema):
        super().__init__(config, tool_schema)
        self.instances = {}

    async def create(self, instance_id=None, ground_truth=None, **kwargs):
        if ground_truth is None:
            ground_truth = kwargs.get("create_kwargs", {}).get("ground_truth")
        self.instances[instance_id] = {"truth": ground_truth, "answer": "", "worth": 0.0}
        return CREATED

    async def execute(self, instance_id, parameters, **kwargs):
        instance = self.instances[instance_id]
        instance["answer"] = str(parameters.get("answer", ""))
        worth = await self.calc_reward(instance_id)
        step, instance["worth"] = (0.0 if worth > instance["worth"] else self.config["penalty"]), worth
        return ANSWERED(f"{instance['answer']} is worth {worth}"), step, {}

    async def calc_reward(self, instance_id, **kwargs):
        return float(self.instances[instance_id]["answer"] == self.instances[instance_id]["truth"])

    async def release(self, instance_id, **kwargs):
        del self.instances[instance_id]
'''
NEW = "from verl.tools.schemas import ToolResponse" + TOOLS.replace(
    "CREATED", "instance_id, ToolResponse()"
).replace("ANSWERED(", "ToolResponse(text=")
OLD = TOOLS.replace("CREATED", "instance_id").replace("ANSWERED(", "str(")
FUNCTIONS = '''
from verl.tools.function_tool import function_tool

@function_tool
def double(number: int):
    """Double a number.

    Args:
        number: to double
    """
    return str(2 * number), 0.25
'''
YAML = """
tools:
  - class_name: own_answer.Answer
    config: {type: native, penalty: -0.05}
    tool_schema:
      type: function
      function:
        name: answer
        description: Says what an answer is worth.
        parameters:
          type: object
          properties: {answer: {type: string, description: The answer.}}
          required: [answer]
"""
KWARGS = {"answer": {"create_kwargs": {"ground_truth": "42"}}}
ROW = {"extra_info": {"need_tools_kwargs": True, "tools_kwargs": KWARGS}}
TURNS = tuple(calls(("answer", {"answer": text})) for text in ("41", "42", "42"))


def new(stage: KindStage) -> None:
    """Play with the newest verl."""
    stage.file("own_answer.py", NEW)
    functions = stage.file("own_functions.py", FUNCTIONS)
    yaml = {"type": "verl_tools", "tool_config_path": str(stage.file("tools.yaml", YAML)), "memory_mb": 8192}
    with stage.plays({**yaml, "function_tool_path": str(functions)}) as player:
        whole = player.play(
            calls(("double", {"number": 21})),
            *TURNS,
            "42",
            row={"extra_info": json.dumps({"tools_kwargs": KWARGS})},
        )
        only = player.play(*TURNS[:2], row=ROW)
        odd = player.play(calls(("double", {"number": [1]}), ("double", {}), ("treble", {})), row={})
    with stage.plays({**yaml, "instances": "call"}) as player:
        apart = player.play(*TURNS, row=ROW)
    stage.holds(
        "classes and functions are offered together",
        whole.tools == ["answer", "double"],
        whole.said[0] == "42",
    )
    stage.holds("a row with need_tools_kwargs is offered what it names", only.tools == ["answer"])
    _holds(stage, whole.rewards[1:], whole.said[1:], is_over=whole.is_over)
    stage.holds("a function's reward counts", whole.rewards[0] == 0.25)
    stage.holds(
        "with one instance a call, calls know nothing of each other", apart.rewards == [-0.05, 0.0, 0.0]
    )
    stage.holds(
        "errors are told, and cost no episode",
        len(odd.said) == 3,
        odd.failure is None,
        "there is no tool 'treble'" in odd.said[2],
    )
    with stage.plays({**yaml, "tool_config_path": str(stage.folder / "none.yaml")}) as player:
        none = player.play("?")
    stage.holds("a file that is not there is named", none.failed("start", "none.yaml", is_policys=False))


def old(stage: KindStage) -> None:
    """Play with verl 0.4, whose tools answer texts, and with its own example for GSM8K."""
    stage.file("own_answer.py", OLD)
    yaml = {"type": "verl_tools", "tool_config_path": str(stage.file("tools.yaml", YAML)), "memory_mb": 8192}
    with stage.plays(yaml) as player:
        found = player.play(*TURNS, "42", row=ROW)
    _holds(stage, found.rewards, found.said, is_over=found.is_over)
    example = YAML.replace("own_answer.Answer", "verl.tools.gsm8k_tool.Gsm8kTool")
    with stage.plays({**yaml, "tool_config_path": str(stage.file("gsm8k.yaml", example))}) as player:
        gsm8k = player.play(*TURNS, "42", row=ROW)
    stage.holds(
        "verl's own tool for GSM8K is played", gsm8k.rewards == [-0.05, 1.0, -0.05, 0.0], gsm8k.is_over
    )


def _holds(stage: KindStage, rewards: list[float | None], said: list[str], *, is_over: bool) -> None:
    stage.holds(
        "a tool's answers are read", said == ["41 is worth 0.0", "42 is worth 1.0", "42 is worth 1.0"]
    )
    stage.holds(
        "a call's reward, and what calc_reward grew by, count for the turn",
        rewards == [-0.05, 1.0, -0.05, 0.0],
    )
    stage.holds("a message without calls ends it", is_over)
