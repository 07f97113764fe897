"""Runs of verl, imported as they are, train two steps with the tiny model in place of theirs.

The made files have the shapes of the documents' own; the documents' own are imported and trained too, where they lie
beside the checkout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.endpoint_server import Call, scripted_endpoint
from tests.support.old_reward_server import old_reward_server
from tests.support.paths import ROOT
from tests.support.verl_files import (
    GRPO_YAML,
    GURU_SH,
    II_VERL_YAML,
    MAIN_PPO_SH,
    RUBRIC_SH,
    SEEDS,
    block_with,
    write,
)
from tests.support.verl_runs import millrace, two_steps, verl_rows, write_parquet

pytestmark = pytest.mark.e2e

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k_train.jsonl"
needs_gsm8k = pytest.mark.skipif(
    not GSM8K.exists(), reason=f"no {GSM8K.name} in ../shared/data beside the checkout"
)
needs_seeds = pytest.mark.skipif(
    not SEEDS.is_dir(), reason="no ../shared/reference/seeds beside the checkout"
)
CRITERIA = "1. Adds one (10 points)"


def imported(folder: Path, *words: str) -> dict[str, Any]:
    """Import what lies in a folder into its run.yaml, and return that."""
    done = millrace("import", *words, "-o", "run.yaml", folder=folder, HOME=str(folder))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))
    return found


def rows_at(
    folder: Path, train: str, held_out: str, rows: list[dict[str, Any]], *, column: str = "prompt"
) -> tuple[str, ...]:
    """Write rows, and return the settings that name them in place of theirs."""
    write_parquet(folder / train, rows)
    write_parquet(folder / held_out, rows[:4])
    return tuple(
        f"data.{which}={{type: dataset, path: {file}, prompt_column: {column}}}"
        for which, file in (("train", train), ("held_out", held_out))
    )


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def ii_thought_rows() -> list[dict[str, Any]]:
    """Return rows with verification_info, as II-Thought has them."""
    return [
        {
            "id": f"math-{number}",
            "data_source": "made",
            "messages": [{"role": "user", "content": f"{number} + 1?"}],
            "verification_info": json.dumps(
                {"type": "math_verifiable", "answer": {"value": str(number + 1)}}
            ),
        }
        for number in range(24)
    ]


def graded_rows() -> list[dict[str, Any]]:
    """Return rows with criteria, as RRM has them."""
    return verl_rows("made_tinyv", criteria=CRITERIA)


def graded(call: Call) -> str:
    """Grade the self-test's answers, four and five for two and two, as it wants them, and every other one 7."""
    points = {"the sum is \\boxed{four}": 10, "the sum is \\boxed{five}": 0}
    return f"Total Score: {next((one for text, one in points.items() if text in call.prompt), 7)}/10"


@pytest.mark.prove
def test_a_configuration_of_grpo_trains_two_steps(tmp_path: Path) -> None:
    write(tmp_path, "grpo.yaml", GRPO_YAML)
    rows_at(tmp_path, "data/gsm8k/train.parquet", "data/gsm8k/test.parquet", verl_rows())
    imported(tmp_path, "grpo.yaml")
    steps = two_steps(tmp_path / "run.yaml", name="grpo")
    assert [step["step"] for step in steps] == [1, 2]


def of_ii_verl(folder: Path, text: str) -> None:
    """Import II-VERL's YAML, and train it at an old reward server's."""
    write(folder, "config.yaml", text)
    settings = rows_at(folder, "train.parquet", "test.parquet", ii_thought_rows(), column="messages")
    found = imported(folder, "config.yaml")
    assert found["scorers"]["tasks"]["reward"]["scorer"]["type"] == "reward_api"
    with old_reward_server() as server:
        server.script = lambda body: (200, {"score": float(len(body["llm_output"]) % 2)})
        steps = two_steps(
            folder / "run.yaml", *settings, f"scorers.tasks.reward.scorer.urls=[{server.url}]", name="thought"
        )
        assert len(steps) == 2
        assert len(server.asked) > 8
        assert {json.loads(body["verification_info"])["type"] for body in server.asked} == {"math_verifiable"}
    dumps = folder / found["learner"]["dumps"]["parquet"]
    for step in (1, 2):  # 4 groups of 2
        rows = pq.read_table(dumps / "train" / f"{step}.parquet").to_pylist()
        assert len(rows) == 8
        for row in rows:
            number = int(row["id"].removeprefix("math-"))
            assert f"{number} + 1?" in row["llm_output"].replace("<|endoftext|>", "")
            assert json.loads(row["verification_info"])["answer"]["value"] == str(number + 1)
            assert row["data_source"] == "made"
            assert row["score"] in {0.0, 1.0}


@pytest.mark.prove
@pytest.mark.parametrize(
    "text", [II_VERL_YAML, pytest.param(None, marks=needs_seeds)], ids=["made", "documents'"]
)
def test_a_configuration_of_ii_verl_trains_two_steps_at_its_own_reward_server(
    text: str | None, tmp_path: Path
) -> None:
    of_ii_verl(tmp_path, text or block_with("000", "adv_estimator", "data:"))


def of_main_ppo(folder: Path, text: str, *words: str) -> None:
    """Import a call of main_ppo, with overrides of its own, and train it."""
    write(folder, "run_grpo.sh", text)
    settings = rows_at(folder, "data/gsm8k/train.parquet", "data/gsm8k/test.parquet", verl_rows())
    found = imported(folder, "run_grpo.sh", "trainer.logger=[console]", *words)
    assert found["learner"]["advantage"] == {"scale": "std", "baseline": "mean"}
    assert len(two_steps(folder / "run.yaml", *settings, name="ppo")) == 2


@pytest.mark.prove
@pytest.mark.parametrize(
    "text", [MAIN_PPO_SH, pytest.param(None, marks=needs_seeds)], ids=["made", "documents'"]
)
def test_a_published_script_of_gsm8k_trains_two_steps(text: str | None, tmp_path: Path) -> None:
    of_main_ppo(tmp_path, text or block_with("001", "main_ppo"))


@pytest.mark.prove
@needs_seeds
def test_the_documents_yaml_by_its_command_line_trains_two_steps(tmp_path: Path) -> None:
    call = block_with("001", "train-ppo", "--config_path").split()
    write(tmp_path, call[call.index("--config_path") + 1], block_with("001", "algorithm:", "rollout:"))
    settings = rows_at(tmp_path, "data/gsm8k/train.parquet", "data/gsm8k/test.parquet", verl_rows())
    imported(tmp_path, *call, "trainer.total_epochs=1")
    assert len(two_steps(tmp_path / "run.yaml", *settings, name="words")) == 2


def of_rubric(folder: Path, text: str) -> None:
    """Import RRM's script, and train it at a served rubric model's."""
    write(folder, "run_rubric.sh", text)
    settings = rows_at(folder, "train.parquet", "test.parquet", graded_rows())
    found = imported(folder, "run_rubric.sh", "made/policy", "trainer.logger=[console]")
    rubric = found["scorers"]["tasks"]["rubric"]["scorer"]
    assert (rubric["type"], rubric["mode"], rubric["weight"]) == ("rubric", "tinyv_only", 1.0)
    assert found["judge"]["serve"]["tensor_parallel"] == 8
    assert (found["model"]["path"], found["learner"]["groups_per_step"]) == ("made/policy", 512)
    with scripted_endpoint() as server:
        server.script = graded
        endpoint = f"scorers.tasks.rubric.scorer.endpoint={{urls: [{server.url}], model: judge}}"
        steps = two_steps(folder / "run.yaml", *settings, endpoint, "judge.serve=null", name="rubric")
    assert len(steps) == 2
    dumps = found["learner"]["dumps"]
    for step in steps:
        rows = lines_of(folder / dumps["rollouts"] / f"{step['step']}.jsonl")
        assert sum(row["score"] for row in rows) / len(rows) == pytest.approx(step["reward_mean_trained"])
        assert all(row["step"] == step["step"] and row["input"] for row in rows)
    assert dumps["held_out"] == f"{dumps['rollouts']}/validation"  # both are one folder there
    assert {path.name for path in (folder / dumps["held_out"]).iterdir()} >= {"0.jsonl", "2.jsonl"}
    assert all(0 < step["reward_mean"] <= 0.7 for step in steps), "an answer without text is 0, and no grade"


@pytest.mark.prove
@pytest.mark.parametrize(
    "text", [RUBRIC_SH, pytest.param(None, marks=needs_seeds)], ids=["made", "documents'"]
)
def test_a_script_of_the_rubric_model_trains_two_steps(text: str | None, tmp_path: Path) -> None:
    of_rubric(tmp_path, text or block_with("004", "main_ppo"))


@pytest.mark.prove
@needs_gsm8k
def test_a_verl_users_afternoon_from_script_and_parquet_to_two_steps(tmp_path: Path) -> None:
    """GSM8K itself, in the rows that verl's own script makes of it, where that script puts them."""
    rows = []
    for index, line in enumerate(GSM8K.read_text(encoding="utf-8").splitlines()[:300]):
        row = json.loads(line)
        question = f'{row["question"]} Think step by step, and put the answer behind "####".'
        found = verl_rows(count=1, question=question, answer=row["answer"])[0]
        truth = row["answer"].rpartition("#### ")[2].replace(",", "")
        found |= {
            "prompt": [{"role": "user", "content": question}],
            "reward_model": {"style": "rule", "ground_truth": truth},
        }
        found["extra_info"] |= {"index": index}
        rows.append(found)
    for name in ("train", "test"):
        write_parquet(tmp_path / f"data/gsm8k/{name}.parquet", rows[:280] if name == "train" else rows[280:])
    write(tmp_path, "run_grpo.sh", MAIN_PPO_SH)
    found_run = imported(tmp_path, "run_grpo.sh", "trainer.logger=[console]")
    assert found_run["data"]["train"]["path"] == str(tmp_path / "data/gsm8k/train.parquet")
    assert found_run["scorers"]["tasks"].keys() == {"math"}
    assert len(two_steps(tmp_path / "run.yaml", name="afternoon")) == 2


@pytest.mark.prove
def test_a_slurm_script_of_reasoning360_trains_two_steps(tmp_path: Path) -> None:
    write(tmp_path, "train.sh", GURU_SH)
    train, held_out = "data/train/math__combined_54.4k.parquet", "data/online_eval/math__math_500.parquet"
    rows_at(tmp_path, train, held_out, verl_rows("math__made"))
    found = imported(tmp_path, "train.sh", "trainer.logger=[console]")
    assert found["data"]["train"]["path"] == f"./{train}"
    shorter = "scorers.tasks.math.penalties.overlong={buffer_tokens: 4, max_tokens: 8}"
    assert len(two_steps(tmp_path / "run.yaml", shorter, name="guru")) == 2


@pytest.mark.prove
def test_a_reward_file_of_ones_own_trains_two_steps(tmp_path: Path) -> None:
    write(
        tmp_path,
        "my_reward.py",
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1):\n"
        "    assert data_source == 'nobody/knows'\n"
        "    return {'score': scale * (len(solution_str) % 2), 'length': len(solution_str)}\n",
    )
    write(tmp_path, "grpo.yaml", GRPO_YAML)
    rows_at(tmp_path, "data/gsm8k/train.parquet", "data/gsm8k/test.parquet", verl_rows("nobody/knows"))
    words = ("custom_reward_function.path=my_reward.py", "+custom_reward_function.reward_kwargs.scale=0.5")
    found = imported(tmp_path, "grpo.yaml", *words)
    assert found["scorers"]["tasks"]["reward"]["scorer"]["options"] == {"scale": 0.5}
    steps = two_steps(tmp_path / "run.yaml", name="own")
    assert all(0 <= step["reward_mean"] <= 0.5 for step in steps)
    assert len(steps) == 2
