"""The doctor's table of GPU memory: what is on each GPU, whether it fits, and what to change where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.generators import VllmEngineConfig
from config.gpus import Card
from config.loading import load_run
from config.run import Run
from generators.engines.vllm.memory import wait_for_room
from tests.support.findings import NOTE, OK, PROBLEM, assert_found, only
from tests.support.paths import RECIPES
from tests.tools.conftest import MakeRun
from tools.doctor.findings import CheckFinding, Level
from tools.doctor.gpu_memory import check_gpu_memory
from tools.estimates.learner import GIB, rank_memory
from tools.estimates.model import Size, shape_of, size_of

VLLM = {"type": "vllm", "gpu_memory_utilization": 0.35}
HALF_A_BILLION = Size(494_000_000, "by a test")


def cards(*totals: float) -> tuple[Card, ...]:
    found = enumerate(int(total * GIB) for total in totals)
    return tuple(Card(name=str(index), free_bytes=0, total_bytes=total) for index, total in found)


def shared(make_run: MakeRun, **learner: Any) -> Run:
    """Return a run whose generator and learner share GPU 0."""
    return make_run(
        data={"train": {"type": "procedural"}, "max_prompt_tokens": 512},
        sampling={"max_tokens": 512},
        generators={"engine": VLLM, "gpus": [0]},
        learner={"gpus": [0], "gradient_checkpointing": True, "tokens_per_micro_batch": 8192, **learner},
    )


def found(run: Run, seen: tuple[Card, ...], size: Size | None = HALF_A_BILLION) -> list[CheckFinding]:
    return list(check_gpu_memory(run, None if size is None else shape_of(run.model, size), seen))


def test_the_table_has_a_rank_by_term_and_the_sum_on_each_gpu(make_run: MakeRun) -> None:
    findings = found(shared(make_run), cards(24))
    table = only(findings, "learner GPUs").seen.splitlines()
    head = "estimate for its one rank, GiB; 0.49 billion parameters, taken for Qwen2.5-0.5B"
    assert table[0].startswith(head)
    assert table[0].endswith("GPUs of 24.0 GiB")
    assert table[1].split() == ["weights", "gradients", "optimizer", "activations", "head", "CUDA", "total"]
    *terms, total = map(float, table[2].split())
    assert total == pytest.approx(sum(terms), abs=0.4) == pytest.approx(13.4, abs=0.1)
    assert [len(line) for line in table[1:]] == [len(table[1])] * 2  # aligned
    assert_found(only(findings, "vLLM GPUs"), OK, "KV cache 5.5, vLLM itself 2.0: 8.4")
    assert_found(only(findings, "GPU memory"), OK, "GPU 0: learner 13.4 + generator 8.4 = 21.8 of 24.0 GiB")


SHORT = {"ranks": 1, "gradient_checkpointing": False, "tokens_per_micro_batch": 1024}


@pytest.mark.parametrize(
    ("total", "learner", "level", "seen", "do"),
    [
        (22.0, {}, NOTE, "nothing is left for the estimate's error", "learner.tokens_per_micro_batch="),
        (16.0, {}, PROBLEM, "too little", "learner.zero.offload_optimizer=true, which frees"),
        (8.0, {}, PROBLEM, "too little", "several of a smaller generators.engine.kv_cache_mb"),
        (14.0, SHORT, PROBLEM, "too little", "learner.zero.offload_optimizer=true"),
    ],
)
def test_what_does_not_fit_is_said_with_the_setting_that_makes_it_fit(  # noqa: PLR0917 - a table of cases
    make_run: MakeRun, total: float, learner: dict[str, Any], level: Level, seen: str, do: str
) -> None:
    assert_found(only(found(shared(make_run, **learner), cards(total)), "GPU memory"), level, seen, do)


def test_more_ranks_are_told_of_the_stage_that_splits_more(make_run: MakeRun) -> None:
    run = make_run(
        data={"train": {"type": "procedural"}, "max_prompt_tokens": 512},
        generators={"engine": VLLM, "gpus": [4]},
        learner={"ranks": 4, "gpus": [0, 1, 2, 3], "gradient_checkpointing": True},
    )
    seven = Size(7_000_000_000, "by a test")
    findings = found(run, cards(80, 80, 80, 80, 80), seven)
    learner, generator = [finding for finding in findings if finding.name == "GPU memory"]
    assert_found(learner, PROBLEM, "GPUs 0, 1, 2, 3: learner ", "learner.zero.stage=2, which frees")
    assert_found(generator, OK, "GPU 4: generator 28.0 of 80.0 GiB")


def test_without_a_gpu_the_table_is_made_all_the_same_and_nothing_is_said_to_fit(make_run: MakeRun) -> None:
    findings = found(shared(make_run), ())
    # Of an unknown GPU vLLM takes an unknown share.
    assert [finding.name for finding in findings] == ["learner GPUs"]
    assert "no GPU is seen here" in findings[0].seen


def test_a_run_for_a_cpu_and_a_model_of_unknown_size_have_no_table(make_run: MakeRun) -> None:
    assert found(shared(make_run), cards(24), size=None) == []
    assert found(make_run(learner={"device": "cpu"}), cards(24)) == []
    assert found(make_run(), ()) == []
    assert found(make_run(), cards(24)) != []


EIGHT, FOUR_TIMES_EIGHT = "eight GPUs of 80 GB", "four nodes of eight GPUs of 80 GB"
# The cards that each recipe names in its first lines; an 80 GB card shows 79.2 GiB, one of 24 GB 23.99.
NAMED = {
    "gsm8k_qwen2.5-0.5b_1gpu": ("one GPU of 24 GB", cards(23.99)),
    "gsm8k_qwen2.5-1.5b_2gpu": ("two GPUs of 80 GB", cards(*[79.2] * 2)),
    "mastermind_qwen2.5-1.5b_1gpu": ("one GPU of 80 GB", cards(79.2)),
    "reverse-text_qwen3-0.6b_2gpu": ("two GPUs of 24 GB", cards(*[23.99] * 2)),
    "guru_qwen2.5-7b_4x8gpu": (FOUR_TIMES_EIGHT, cards(*[79.2] * 32)),
    "guru_qwen2.5-32b_16x8gpu": ("16 nodes of eight GPUs of 80 GB", cards(*[79.2] * 128)),
    **dict.fromkeys(("math_r1-distill-1.5b_8gpu", "math_qwen2.5-7b_8gpu"), (EIGHT, cards(*[79.2] * 8))),
    **dict.fromkeys(("code_qwen2.5-coder-7b_8gpu", "swe_qwen2.5-coder-7b_8gpu"), (EIGHT, cards(*[79.2] * 8))),
    **dict.fromkeys(("rrm_train_grade", "rrm_policy_polaris"), (EIGHT, cards(*[79.2] * 8))),
}
CPU_RECIPES = {"demo_cpu", "demo_agents"}


def test_every_recipe_for_gpus_names_its_cards() -> None:
    assert {recipe.stem for recipe in RECIPES.glob("*.yaml")} == NAMED.keys() | CPU_RECIPES


@pytest.mark.parametrize("name", NAMED)
def test_a_recipe_fits_the_cards_that_it_names(name: str) -> None:
    words, seen = NAMED[name]
    file: Path = RECIPES / f"{name}.yaml"
    head = file.read_text(encoding="utf-8").partition("name:")[0]
    assert words in " ".join(head.replace("#", " ").split())
    run = load_run(["--config", str(file)])
    findings = found(run, seen, size_of(run.model))
    assert {finding.level for finding in findings} == {OK}
    assert sum(finding.name == "GPU memory" for finding in findings) >= 1


def test_what_the_learner_leaves_of_a_shared_card_is_enough_for_a_generator_that_restarts() -> None:
    run = load_run(["--config", str(RECIPES / "gsm8k_qwen2.5-0.5b_1gpu.yaml")])
    size = size_of(run.model)
    assert size is not None
    shape, (card,) = shape_of(run.model, size), cards(23.99)
    learner = rank_memory(run, shape, card_bytes=card.total_bytes).total
    beside = Card(name="0", free_bytes=card.total_bytes - learner, total_bytes=card.total_bytes)
    engine = VllmEngineConfig.model_validate(run.generators.engine.model_dump())
    wait_for_room(engine, weights_bytes=2 * shape.parameters, ask=lambda: [beside], sleep=not_at_all)


def not_at_all(seconds: float) -> None:
    raise AssertionError(f"a wait of {seconds} s for memory")


def test_a_served_judge_is_counted_on_its_own_gpu(make_run: MakeRun) -> None:
    serve = {"model": "Org/Judge-3B", "gpus": [1], "kv_cache_mb": 4096, "gpu_memory_utilization": 0.2}
    run = make_run(
        generators={"engine": VLLM, "gpus": [0]},
        learner={"gpus": [0], "gradient_checkpointing": True, "tokens_per_micro_batch": 8192},
        scorers={"tasks": {"rubric": {"scorer": {"type": "rubric"}}}},
        judge={"serve": serve},
    )
    shares = [finding.seen for finding in found(run, cards(24, 24)) if "judge" in finding.seen]
    # 3.09 billion parameters of 2 bytes are 5.7 GiB
    assert shares == [
        "estimate for the judge that is served, GiB: weights 5.7, KV cache 4.0, vLLM itself 2.0: 11.7",
        "GPU 1: judge 11.7 of 24.0 GiB",
    ]
    small = [finding for finding in found(run, cards(24, 10)) if "GPU 1: judge 11.7" in finding.seen]
    assert_found(small[0], PROBLEM, "too little", "of judge.serve")
