"""`millrace plan`: figures that can be computed on paper, combinations that make no sense, and what would change them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from config.loading import load_run
from tests.support.paths import RECIPES
from tests.support.told import Millrace, Patch
from tools.doctor.gpu_memory import check_gpu_memory
from tools.estimates.model import shape_of, size_of
from tools.estimates.stores import redis_room
from tools.plan.cards import planned

PlanOf = Callable[..., dict[str, Any]]
SIZES = {"hidden_size": 1024, "num_hidden_layers": 10, "intermediate_size": 4096, "vocab_size": 32_000}
SIZES |= {"num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 4096}

LAKE = "scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}}"


@pytest.fixture
def plan_of(tmp_path: Path, millrace: Millrace) -> PlanOf:
    """Plan a run of 4 groups x 4 completions of 1,000 tokens, with one generator and a model of a billion parameters."""
    model = tmp_path / "Made-1B"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(SIZES))
    config = tmp_path / "run.yaml"
    config.write_text(
        f"# Made for one GPU of 40 GB.\nname: made\nruns_dir: {tmp_path}\nmodel: {{path: {model}}}\n"
        "data: {train: {type: procedural}, max_prompt_tokens: 24}\nsampling: {group_size: 4, max_tokens: 1000}\n"
        "generators: {engine: {type: vllm, kv_cache_mb: 400, gpu_memory_utilization: 0.3, max_num_seqs: 40}, gpus: [0]}\n"
        "learner: {gpus: [1], groups_per_step: 4, max_lag: 2, tokens_per_micro_batch: 1024}\n"
    )

    def plan(*words: str, code: int = 0) -> dict[str, Any]:
        told = millrace("plan", config, *words, "--json")
        assert told.code == code
        return dict(told.json)

    return plan


def numbers(plan: Mapping[str, Any], section: str, name: str) -> dict[str, float]:
    (found,) = [one for one in plan["figures"] if (one["section"], one["name"]) == (section, name)]
    return dict(found["numbers"])


def said(plan: Mapping[str, Any], word: str) -> dict[str, Any]:
    (found,) = [one for one in plan["findings"] if word in one["seen"]]
    return dict(found)


def test_the_figures_are_arithmetic_that_can_be_done_on_paper(plan_of: PlanOf) -> None:
    plan = plan_of("--step-s", "10", "--answer-tokens", "500")
    cache = numbers(plan, "memory", "KV cache")
    assert (
        cache["token_bytes"] == 2 * 10 * 2 * 128 * 2
    )  # keys and values, layers, heads, their width, bfloat16
    assert cache["cache_tokens"] == (400 << 20) // 10_240 == 40_960
    assert cache["completions"] == 40  # 40,960 tokens are 40 sequences of 1,024
    flow = numbers(plan, "groups and lag", "expected lag")
    assert flow["most_versions"] == flow["bound_versions"] == 2  # a budget of 12 groups is three steps' worth
    assert flow["least_versions"] == 10 / 4 / 2  # ten groups side by side, half of 2.5 steps
    assert numbers(plan, "rates", "generator")["tokens_per_s"] == 4 * 4 * 500 / 10
    assert numbers(plan, "rates", "generator")["completion_tokens_per_s"] == 800 / 40
    assert numbers(plan, "rates", "learner's rank")["tokens_per_s"] == 4 * 4 * 524 / 10
    assert numbers(plan, "rates", "weights")["bytes_per_s"] == 2e9 / 10
    assert numbers(plan, "rates", "scorers")["worker_s"] == 2 * 10 / 16
    assert numbers(plan, "rates", "deadline")["tokens_per_s"] == 12 * 4 * 1000 / 300
    assert numbers(plan, "Redis and disk", "Redis")["groups_bytes"] == 16 * 4024 * 12, "four steps' worth"
    layers = 10 * (1024 * 128 * 2 * (8 + 2) + 3 * 1024 * 4096)
    attention = 6 * 10 * 1024 * 16 * 524**2
    operations = 6 * layers * 16 * 524 + 6 * 32_000 * 1024 * 16 * 500 + attention
    assert numbers(plan, "rates", "learner's rank")["operations"] == operations


def test_what_turns_cost_is_said_of_runs_with_agents_alone(plan_of: PlanOf) -> None:
    plain = plan_of()
    assert not {"episodes", "turns", "prefill"} & {one["name"] for one in plain["figures"]}
    game = LAKE.replace("Lake'", "Lake', max_turns: 5")
    plan = plan_of(game, "agents.episodes=40", "--step-s", "10")
    assert numbers(plan, "groups and lag", "episodes")["episodes"] == 40  # of 12 groups of 4
    assert said(plan, "room for 40 episodes")["do"].startswith("agents.count=2,")
    turns = numbers(plan, "rates", "turns")
    assert (turns["calls"], turns["calls_per_s"]) == (16 * 5, 8)
    prefill = numbers(plan, "rates", "prefill")
    assert prefill == {"tokens": 16 * 1024, "again_tokens": 40 * 524}  # 24 of the prompt, and half of 1,000
    redis = numbers(plan, "Redis and disk", "Redis")["groups_bytes"]
    assert redis == pytest.approx(3 * numbers(plain, "Redis and disk", "Redis")["groups_bytes"])


@pytest.mark.parametrize(
    "engine", ["generators.engine.new_weights=keep_cache", "generators.engine={type: hf}"]
)
def test_without_a_prefix_cache_each_turn_computes_its_conversation_whole(
    plan_of: PlanOf, engine: str
) -> None:
    game = LAKE.replace("Lake'", "Lake', max_turns: 5")
    prefill = numbers(plan_of(game, engine, "generators.gpus=[]", "learner.gpus=[]"), "rates", "prefill")
    assert prefill == {"tokens": 16 * 5 * 524, "again_tokens": 0}


def test_every_figure_that_rests_on_an_assumption_names_one_with_a_check(plan_of: PlanOf) -> None:
    plan = plan_of("--gpu", "H100")
    used = {letter for figure in plan["figures"] for letter in figure["rests_on"]}
    assert plan["assumptions"].keys() == used
    assert all(one["text"] and one["check"] for one in plan["assumptions"].values())
    assert "d" not in used  # the model's shape was read from its file
    tera = numbers(plan, "rates", "learner's rank")
    assert tera["mfu"] == pytest.approx(tera["tera_per_s"] / 989.5)


@pytest.mark.parametrize(("words", "level", "seen", "do"), [
    (["sampling.group_size=1"], "problem", "every advantage is 0", "sampling.group_size=8"),
    (["generators.engine.max_model_len=512"], "problem", "max_model_len=512", "max_model_len=1024"),
    (["sampling.max_tokens=5000"], "problem", "4,096 positions", "sampling.max_tokens=4072"),
    (["generators.engine.kv_cache_mb=9"], "problem", "vLLM won't start", "kv_cache_mb"),
    (["generators.engine.max_num_seqs=256"], "note", "preempted", "max_num_seqs=40"),
    (["generators.engine.tensor_parallel=3", "generators.gpus=[0,2,3]"], "problem", "8 heads", "divisor"),
    (["learner.gpus=[0]", "generators.engine.kv_cache_mb=null"], "problem", "share GPU 0", "kv_cache_mb"),
    (["generators.gpus=[0,2]"], "note", "the others idle", "generators.count=2"),
    (["generators.count=2"], "note", "they share cards", "generators.count=1"),
    (["learner.max_lag=0"], "note", "take turns", "learner.max_lag=1"),
    (["learner.groups_in_flight=4"], "note", "has no effect", "groups_in_flight=8"),
    (["learner.ranks=32", "learner.gpus=[]"], "problem", "for 32 ranks", "fewer learner.ranks"),
    (["learner.zero.stage=0"], "problem", "in 16 bits", "learner.zero.stage=1"),
    (["learner.zero.stage=2"], "note", "nobody to split with", "learner.zero.stage=1"),
    (["learner.zero.offload_weights=true"], "problem", "needs learner.zero.stage=3", "stage=3"),
    (["learner.tokens_per_micro_batch=512"], "note", "micro-batch to itself", "=1024"),
    (["model.dtype=float32", "learner.attention=flash"], "problem", "no kernels", "attention=auto"),
    (["learner.group_deadline_s=2"], "note", "long answers would die", "group_deadline_s=100"),
    (["learner.optimizer.warmup_steps=100"], "note", "never gets to lr", "warmup_steps=10"),
    (["broker.maxmemory_mb=1"], "note", "the learner waits", "broker.maxmemory_mb="),
    (["--gpu-memory", "16"], "problem", "too little", "which frees"),
    ([LAKE, "learner.filters.truncated=mask"], "note", "(tasks lake): out of turns", "truncated=null"),
    (["model.path=me/nameless"], "problem", "can't be told without its files", "hf download me/nameless"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_what_makes_no_sense_is_said_with_what_to_set(
    plan_of: PlanOf, words: list[str], level: str, seen: str, do: str
) -> None:
    found = said(plan_of(*words, code=1 if level == "problem" else 0), seen)
    assert found["level"] == level
    assert do in found["do"]


def test_an_environment_whose_cut_episodes_train_is_nothing_to_say_against(plan_of: PlanOf) -> None:
    for words in ([LAKE], [LAKE, "learner.filters.truncated=keep"], ["learner.filters.truncated=mask"]):
        assert not [one for one in plan_of(*words)["findings"] if "truncated" in one["seen"]]


def test_the_rounds_of_several_sets_are_summed(plan_of: PlanOf) -> None:
    hard = "{name: hard, type: procedural, size: 64, every: 10, prompts: 20, samples: 4}"
    greedy = "{name: greedy, type: procedural, size: 64, every: 5, prompts: 10, samples: 4, temperature: 0}"
    never = "{name: never, type: procedural, size: 64, every: 0, prompts: 60}"
    plan = plan_of(f"data.held_out=[{hard}, {greedy}, {never}]")
    found = said(plan, "held-out rounds")
    assert "10 completions a step, beside 16 trained ones: 38%" in found["seen"]  # 80 of 10 steps, 10 of 5
    assert found["do"] == "every=13 of data.held_out's hard, every=7 of data.held_out's greedy"
    rounds = numbers(plan, "Redis and disk", "Redis")["evaluation_bytes"]
    assert rounds == (20 * (4 * 1000 + 24) + 10 * (1000 + 24)) * 12


def test_an_engine_without_a_model_has_no_kv_cache(plan_of: PlanOf) -> None:
    names = {figure["name"] for figure in plan_of("generators.engine={type: fake}")["figures"]}
    assert {"learner's rank", "sampled"} <= names
    assert not {"KV cache", "vLLM generator"} & names


def test_a_plain_plan_has_nothing_to_say_against_it(plan_of: PlanOf) -> None:
    assert {one["level"] for one in plan_of()["findings"]} == {"ok"}


def test_what_would_change_it_is_beside_the_plan_as_it_is(plan_of: PlanOf) -> None:
    plan = plan_of()
    rows = {row["setting"]: row for row in plan["changes"]}
    before = rows[""]
    assert before["groups"] == 12
    assert rows["learner.max_lag=3"]["groups"] == 16
    assert rows["learner.max_lag=3"]["redis_bytes"] == before["redis_bytes"], "as many may be in flight"
    assert rows["learner.gradient_checkpointing=true"]["rank_bytes"] < before["rank_bytes"]
    assert all(row | {"setting": ""} != before for setting, row in rows.items() if setting)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_has_a_plan_and_says_what_doctor_says(recipe: Path, millrace: Millrace) -> None:
    told = millrace("plan", recipe, "--json")
    plan, run = told.json, load_run(["--config", str(recipe)])
    assert told.code == 0
    assert {one["level"] for one in plan["findings"]} <= {"ok", "note"}
    assert numbers(plan, "groups and lag", "in flight")["groups"] >= 8
    assert numbers(plan, "Redis and disk", "Redis")["groups_bytes"] == redis_room(run).groups
    cards = planned(recipe, memory_gb=None, name="").of(run)
    size = size_of(run.model)
    assert size is not None
    shape = shape_of(run.model, size)
    findings = check_gpu_memory(run, shape, cards)
    doctors = [one.seen for one in findings if one.name == "GPU memory"]
    assert [one["seen"] for one in plan["findings"] if one["name"] == "GPU memory"] == doctors
    assert bool(doctors) == (recipe.stem not in {"demo_cpu", "demo_agents"})


def test_the_table_has_100_columns_and_nothing_is_started(monkeypatch: Patch, millrace: Millrace) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plan starts nothing and asks nobody")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    told = millrace("plan", RECIPES / "math_qwen2.5-7b_8gpu.yaml")
    assert (told.code, max(map(len, told.lines)) <= 100) == (0, True)
    assert "what would change it, each by itself" in told.lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "abacus"], "no peak is known"),
        (["--gpu-memory", "-1"], "no positive number"),
        (["--answer-tokens", "5000"], "sampling.max_tokens=24"),
    ],
)
def test_words_that_can_be_no_plan_are_refused(words: list[str], said: str, millrace: Millrace) -> None:
    told = millrace("plan", RECIPES / "demo_cpu.yaml", *words)
    assert (told.code, said in told.err) == (2, True)


def test_a_served_judge_has_a_figure_and_may_not_measure_beside_another_role(plan_of: PlanOf) -> None:
    judge = ("scorers.tasks={rubric: {scorer: {type: rubric}}}", "judge.serve.model=Org/Judge-3B")
    plan = plan_of(*judge, "judge.serve.gpus=[1]", code=1)
    assert numbers(plan, "memory", "served judge")["weights_bytes"] == 3_085_938_688 * 2
    assert said(plan, "judge.serve.kv_cache_mb is unset")["level"] == "problem"
    alone = plan_of(*judge, "judge.serve.gpus=[2]")
    assert said(alone, "GPU 2: judge")["level"] == "ok"
