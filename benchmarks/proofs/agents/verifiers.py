"""verifiers, of two generations: tasksets of version 1, and what `load_environment` makes."""

from __future__ import annotations

from typing import Any

from benchmarks.proofs.agents.player import calls
from benchmarks.proofs.agents.stage import KindStage

SUMS = """
import verifiers.v1 as vf

class SumData(vf.TaskData):
    answer: int

class SumTask(vf.Task[SumData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        if trace.last_reply == "crash":
            raise RuntimeError("no judge")
        return float(trace.last_reply == str(self.data.answer))

    @vf.reward(weight=0.5)
    async def brief(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 3)

class SumConfig(vf.TasksetConfig):
    rows: int = 10

class SumTaskset(vf.Taskset[SumTask, SumConfig]):
    def load(self):
        for i in range(self.config.rows):
            yield SumTask(SumData(prompt=f"What is {i} + {i}?", answer=2 * i), self.config.task)

__all__ = ["SumTaskset"]
"""
SHOP = '''
import verifiers.v1 as vf

class Shop(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "shop"

    @vf.tool
    async def price(self, thing: str) -> int:
        """Say what a thing costs."""
        return {"tea": 3}[thing]

class ShopConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()
    image: str | None = None

class ShopTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float("3" in trace.last_reply)

class ShopTaskset(vf.Taskset[ShopTask, ShopConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Shop(config.tools)]

    def load(self):
        yield ShopTask(vf.TaskData(prompt="How much is tea?", image=self.config.image), self.config.task)

__all__ = ["ShopTaskset"]

if __name__ == "__main__":
    Shop.run()
'''
OLD = '''
import verifiers as vf
from datasets import Dataset

async def price(thing: str) -> int:
    """Say what a thing costs.

    Args:
        thing: its name
    """
    return {"tea": 3}[thing]

class Guess(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "No."}]

    @vf.stop
    async def is_right(self, state):
        said = state["trajectory"][-1]["completion"] if state["trajectory"] else []
        return bool(said) and said[-1]["content"] == state["answer"]

def right(completion, answer, **kwargs):
    if completion[-1]["content"] == "crash":
        raise RuntimeError("no judge")
    return float(answer in completion[-1]["content"])

def best(completions, **kwargs) -> list[float]:
    return [1.0 for _ in completions]

def load_environment(kind: str = "sums", **kwargs):
    sums = Dataset.from_list([{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(10)])
    shop = Dataset.from_list([{"question": "How much is tea?", "answer": "3"}])
    rubric = vf.Rubric(funcs=[best if kind == "group" else right])
    if kind == "shop":
        return vf.ToolEnv(dataset=shop, eval_dataset=sums, tools=[price], rubric=rubric)
    if kind == "guess":
        return Guess(dataset=sums, rubric=rubric)
    return vf.SingleTurnEnv(dataset=sums, rubric=rubric, system_prompt="Be brief.")
'''
BUYS = calls(("price", {"thing": "tea"}))
HELD_OUT = 1_000_000_000  # the first seed of `split: eval`


def tasksets(stage: KindStage) -> None:
    """Play tasksets of verifiers' version 1, one with a toolset."""
    stage.file("sums_v1.py", SUMS)
    stage.file("shop_v1.py", SHOP)
    stage.file("sympy_v1.py", SUMS + "from verifiers.v1 import verify_boxed_math_answer\n")
    stage.file("gone_v1.py", "def load_environment():\n    pass\n")
    at = {"type": "verifiers", "id": "sums-v1", "held_out_rows": 2}
    with stage.plays({**at, "options": {"rows": 12}}) as player:
        right, wrong, crash = player.run("14"), player.run("A sum."), player.run("crash")
        held_out = player.run("22", seed=HELD_OUT + 1)
    stage.holds("a seed is a row, and its own loop asks the policy", right.read(0) == ["What is 7 + 7?"])
    stage.holds(
        "rewards are added by their weights, and named",
        (right.reward, wrong.reward) == (1.5, 0.0),
        "brief 0.5, right 1" in (right.finish.remark if right.finish else ""),
    )
    stage.holds("seeds of split: eval play the rows that are held out", held_out.reward == 1.5)
    stage.holds("an error in a reward is no reward", crash.failed("run", "TaskError", is_policys=False))
    with stage.plays({"type": "verifiers", "id": "owner/shop-v1@latest"}) as player:
        shop = player.run(calls(("shop_price", {"thing": "tea"})), "It is 3.")
        limit = player.run(*[calls(("shop_price", {"thing": "tea"}))] * 2)
    stage.holds(
        "tools of a toolset are called, by MCP",
        [tool["function"]["name"] for tool in shop.asked[0].tools] == ["shop_price"],
        shop.read(1)[-1] == "3",
        shop.reward == 1.0,
    )
    stage.holds("what a limit ends is scored as it stands", limit.reward == 0.0)
    _refused(stage)


def _refused(stage: KindStage) -> None:
    """Name what can't be played."""
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "a harness that executes what the policy writes here": (
            {"id": "sums-v1", "agents": {"agent": {"harness": {"id": "bash"}}}},
            "harness bash of agent executes what the policy writes",
        ),
        "a package that is not there": ({"id": "no-such-v1"}, "has no package no_such_v1"),
        "an option that there is not": ({"id": "sums-v1", "options": {"lines": 3}}, "lines"),
        "an agent that there is not": ({"id": "sums-v1", "agents": {"judge": {}}}, "has no agent judge"),
        "an environment that evaluates what the policy writes": (
            {"id": "sympy-v1"},
            "uses verify_boxed_math_answer",
        ),
        "an environment of the older kind": ({"id": "gone-v1"}, "0.1.14 can"),
    }
    for what, (keys, says) in cases.items():
        with stage.plays({"type": "verifiers", **keys}) as player:
            stage.holds(f"{what} is refused by name", player.run("?").failed("start", says, is_policys=False))
    with stage.plays({"type": "verifiers", "id": "shop-v1", "options": {"image": "debian"}}) as player:
        told = player.run("?").failed("reset", "of the image debian", is_policys=False)
    stage.holds("a task that needs a container is refused by name", told)


def loaded(stage: KindStage) -> None:
    """Play what `load_environment` makes: one turn, several, tools."""
    stage.file("old_ones.py", OLD)
    stage.file("sums_v1.py", "__all__ = []\n")
    at = {"type": "verifiers", "id": "old-ones"}
    with stage.plays(at) as player:
        right, crash = player.run("14"), player.run("crash")
        none = player.run("?", seed=HELD_OUT)
    stage.holds(
        "SingleTurnEnv: a seed is a row",
        right.read(0) == ["Be brief.", "What is 7 + 7?"],
        right.reward == 1.0,
    )
    stage.holds(
        "an error in a reward function, which its rubric takes for 0, is no reward",
        crash.failed("run", "right: RuntimeError: no judge", is_policys=False),
    )
    stage.holds(
        "rows for evaluation that there are not are named",
        none.failed("reset", "held_out_rows", is_policys=False),
    )
    with stage.plays({**at, "options": {"kind": "shop"}}) as player:
        shop, held_out = player.run(BUYS, "It is 3."), player.run("2", seed=HELD_OUT + 1)
    stage.holds("ToolEnv: tools are called", shop.read(1)[-1] == "3", shop.reward == 1.0)
    stage.holds("seeds of split: eval play its own rows for evaluation", held_out.reward == 1.0)
    with stage.plays({**at, "options": {"kind": "guess"}, "max_turns": 3}) as player:
        guessed, limit = player.run("3", "14", "15"), player.run("3", "4", "5", "14")
    stage.holds(
        "MultiTurnEnv: it answers until it stops, or max_turns",
        (guessed.reward, len(guessed.asked)) == (1.0, 2),
        (limit.reward, len(limit.asked)) == (0.0, 3),
    )
    with stage.plays({**at, "options": {"kind": "group"}}) as player:
        stage.holds(
            "rewards of a whole group are refused by name",
            player.run("?").failed("start", "rewards a group as a whole", is_policys=False),
        )
    with stage.plays({**at, "id": "sums-v1"}) as player:
        stage.holds(
            "a taskset of version 1 is refused by name",
            player.run("?").failed("start", "has no load_environment", is_policys=False),
        )
