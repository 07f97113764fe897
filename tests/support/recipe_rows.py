"""Made rows of the shape that each recipe reads, and what stands in the place of its model, its GPUs and its judge.

In: a recipe's name and a folder. Out: files in that folder, and the settings that name them. What a recipe names by a
file or a pattern is written there; what it names on the hub is written beside it, and named in its place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.games import gem_beside
from tests.support.paths import ROOT
from tests.support.verl_runs import verl_rows, write_jsonl, write_parquet

Rows = Sequence[Mapping[str, Any]]
COUNT = 8
STDIO = json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})
ZEBRA = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
GURU: Mapping[str, Any] = {  # data source, and a ground truth as published: each of the six domains
    "math__deepscaler_preview": "\\frac{1}{2}",
    "codegen__primeintellect": STDIO,
    "logic__zebra_puzzle_dataset": ZEBRA,
    "simulation__codeio": '"output": {"count": 4}',
    "table__hitab": "12.5|9.1",
    "stem_web": "4.5 J",
}
# Guru's online evaluation: the name of a file, the data source of its rows, and a ground truth.
ONLINE: Sequence[tuple[str, str, Any]] = (
    ("math__math_500", "math__math_500", "42"),
    ("math__aime_repeated_8x_240", "math__aime_repeated_8x", "42"),
    ("math__amc_repeated_4x_332", "math__amc_repeated_4x", "42"),
    ("codegen__humaneval_164", "codegen__humaneval", json.dumps({"functional": "assert f() == 1"})),
    ("codegen__mbpp_200", "codegen__mbpp", json.dumps({"functional": "assert f() == 1"})),
    ("codegen__livecodebench_279", "codegen__livecodebench", STDIO),
    ("logic__ordering_puzzle_dataset_100", "logic__ordering_puzzle_dataset", ["a", "b"]),
    ("logic__zebra_puzzle_dataset_200", "logic__zebra_puzzle_dataset", ZEBRA),
    ("logic__arcagi1_200", "simulation__arcagi1", [[0, 1], [1, 0]]),
    ("simulation__codeio_200", "simulation__codeio", '"output": {"count": 4}'),
    ("table__multihier_200", "table__multihier", "9"),
    ("table__hitab_200", "table__hitab", "12.5|9.1"),
    ("stem__supergpqa_200", "stem__supergpqa", "B"),
)
CRITERIA = "1. Adds one (10 points)"


def guru_rows(source: str, truth: Any) -> Rows:
    reward = {"reward_model": {"style": "rule", "ground_truth": truth}, "ability": source.partition("_")[0]}
    rows = verl_rows(source, count=COUNT)
    for number, row in enumerate(rows):
        row |= {
            "prompt": [{"role": "user", "content": f"{source} {number}?"}],
            "apply_chat_template": True,
            **reward,
        }
    return rows


def guru(folder: Path) -> tuple[str, ...]:
    for source, truth in GURU.items():
        write_parquet(folder / f"guru/train/{source}_{COUNT}.parquet", guru_rows(source, truth))
    for file, source, truth in ONLINE:
        write_parquet(folder / f"guru/online_eval/{file}.parquet", guru_rows(source, truth))
    return ()


def graded(folder: Path) -> tuple[str, ...]:
    """Write gradings with the right grade, as RRM is trained on."""
    grade = {"reward_model": {"style": "rule", "ground_truth": 0.7}}
    rows = [row | grade for row in verl_rows("grade", count=COUNT)]
    for name in ("train", "test"):
        write_parquet(folder / f"data/{name}_rrm.parquet", rows)
    return ()


def polaris(folder: Path) -> tuple[str, ...]:
    """Write questions with criteria, as a policy is trained on with an RRM."""
    rows = verl_rows("polaris_tinyv", count=COUNT, criteria=CRITERIA)
    for name in ("train", "test"):
        write_parquet(folder / f"data/{name}_polaris.parquet", rows)
    return ()


def patches(folder: Path) -> tuple[str, ...]:
    """Write issues with the reference's patch."""
    answer = {"code_context": {"a.py": "x = 1\n"}, "oracle_new_content": {"a.py": "x = 2\n"}}
    row = {
        "messages": [{"role": "user", "content": "x has to be 2. a.py: x = 1"}],
        "verification_info": json.dumps({"type": "swe", "answer": answer}),
    }
    for name in ("train", "test"):
        write_parquet(folder / f"data/swe_{name}.parquet", [row] * COUNT)
    return ()


def gsm8k(folder: Path) -> tuple[str, ...]:
    """Write GSM8K's rows, in place of the hub's."""
    rows = [{"question": f"{n} + 1?", "answer": f"one more\n#### {n + 1}"} for n in range(COUNT)]
    return in_place_of_the_hub(write_jsonl(folder / "rows.jsonl", rows))


def texts(folder: Path) -> tuple[str, ...]:
    """Write texts to reverse, in place of the hub's."""
    path = write_jsonl(folder / "rows.jsonl", [{"prompt": f"text {n}"} for n in range(COUNT)])
    return (f"data.train.path={path}",)


def mathematics(folder: Path) -> tuple[str, ...]:
    """Write II-Thought's and MATH-500's rows, in place of the hub's."""
    train = [
        {
            "messages": [{"role": "user", "content": f"{n} + 1?"}],
            "verification_info": json.dumps({"type": "math_verifiable", "answer": {"value": str(n + 1)}}),
        }
        for n in range(COUNT)
    ]
    held_out = [{"problem": f"{n} + 1?", "answer": str(n + 1)} for n in range(COUNT)]
    return (
        f"data.train.path={write_jsonl(folder / 'train.jsonl', train)}",
        f"data.held_out.path={write_jsonl(folder / 'test.jsonl', held_out)}",
    )


def demo(_: Path) -> tuple[str, ...]:
    """Write nothing: the demo makes its own problems."""
    return ()


def demo_agents(_: Path) -> tuple[str, ...]:
    """Write nothing, and name the demo's own model: the tiny one's template knows no tools."""
    return (f"model.path={ROOT / 'config/recipes/demo_agents_model'}", "sampling.max_tokens=160")


def mastermind(folder: Path) -> tuple[str, ...]:
    """Write no rows, as the seeds are none, but the tiny model for prompts as long as the game's; name who plays it."""
    shutil.copytree(ROOT / "config/recipes/demo_model", folder / "tiny", dirs_exist_ok=True)
    config = folder / "tiny/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 4096}))
    python = gem_beside(folder)
    return (
        f"model.path={folder / 'tiny'}",
        "sampling.max_tokens=640",
        *(f"scorers.tasks.{task}.environment.python={python}" for task in ("two_digits", "three_digits")),
        *(f"scorers.tasks.{task}.environment.turn_tokens=32" for task in ("two_digits", "three_digits")),
    )


def in_place_of_the_hub(path: Path) -> tuple[str, ...]:
    """Return the settings that name one file in place of a data set of the hub, to train on and held out."""
    return tuple(
        f"data.{which}.{key}={value}"
        for which in ("train", "held_out")
        for key, value in (("path", path), ("config_name", "null"))
    )


ROWS_OF: Mapping[str, Callable[[Path], tuple[str, ...]]] = {
    "code_qwen2.5-coder-7b_8gpu": guru,
    "demo_agents": demo_agents,
    "demo_cpu": demo,
    "gsm8k_qwen2.5-0.5b_1gpu": gsm8k,
    "gsm8k_qwen2.5-1.5b_2gpu": gsm8k,
    "guru_qwen2.5-32b_16x8gpu": guru,
    "guru_qwen2.5-7b_4x8gpu": guru,
    "mastermind_qwen2.5-1.5b_1gpu": mastermind,
    "math_qwen2.5-7b_8gpu": mathematics,
    "math_r1-distill-1.5b_8gpu": mathematics,
    "reverse-text_qwen3-0.6b_2gpu": texts,
    "rrm_policy_polaris": polaris,
    "rrm_train_grade": graded,
    "swe_qwen2.5-coder-7b_8gpu": patches,
}
# Recipes whose tasks have environments.
PLAYED = frozenset({"demo_agents", "mastermind_qwen2.5-1.5b_1gpu"})
# The task whose model somebody serves, for the recipes with `judge.serve`.
JUDGED = dict.fromkeys(("guru_qwen2.5-32b_16x8gpu", "guru_qwen2.5-7b_4x8gpu"), "judge")
JUDGED["rrm_policy_polaris"] = "rubric"


def asking(recipe: str, url: str) -> tuple[str, ...]:
    """Return the settings that ask a server which is there already, in place of the judge that a recipe serves."""
    if recipe not in JUDGED:
        return ()
    return ("judge.serve=null", f"scorers.tasks.{JUDGED[recipe]}.scorer.endpoint.urls=[{url}]")
