"""Every command of docs/preparing_data.md is typed here, but those that need the hub and say so."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path

import pytest
import yaml

from benchmarks.pages.pages import NOT_YET_RUN, lines
from config.loading import load_run
from tests.conftest import ROOT
from tests.support.recipe_rows import ONLINE
from tests.support.told import Capsys, Patch
from tools.main import main
from tools.prepare.catalogue import PREPARATIONS
from tools.prepare.output import sized

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "preparing_data.md"


def test_each_command_of_the_page_does_as_it_says(tmp_path: Path, monkeypatch: Patch, capsys: Capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    rows = {
        "gsm8k_train.jsonl": {"question": "How much is 1 + 2?", "answer": "3\n#### 3"},
        "my_rows.jsonl": {"problem": "How much is 1 + 2?", "answer": "3", "level": "easy"},
    }
    for name, row in rows.items():
        (tmp_path / name).write_text(json.dumps(row) + "\n")
    typed = [line for line in lines() if line.page == PAGE and NOT_YET_RUN not in line.text]
    assert len(typed) > 5
    for line in typed:
        assert line.words[0] == "millrace", line
        assert main(line.words[1:]) == 0, (line, capsys.readouterr().err)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert "rows.parquet" in made
    assert "my_set.parquet" in made
    assert "data/train/openai_gsm8k_1.parquet" in made


def test_every_task_of_reasoning360s_evaluation_has_a_preparation_whose_file_it_reads() -> None:
    recipe = yaml.safe_load(
        (ROOT / "config/recipes/evaluation/reasoning360.yaml").read_text(encoding="utf-8")
    )
    files = [sized(one.file_name, rows) for one in PREPARATIONS.values() for rows in (200, 1319)]
    patterns = {task["name"]: Path(task["path"]).name for task in recipe["data"]["held_out"]}
    assert len(patterns) == 19
    assert [name for name, pattern in patterns.items() if not fnmatch.filter(files, pattern)] == []


@pytest.mark.parametrize("recipe", ["guru_qwen2.5-7b_4x8gpu", "guru_qwen2.5-32b_16x8gpu"])
def test_gurus_recipes_hold_out_its_13_online_sets_and_read_prepared_files(recipe: str) -> None:
    run = load_run(["--config", str(ROOT / "config" / "recipes" / f"{recipe}.yaml")])
    patterns = {one.name: Path(one.path).name for one in run.data.held_out_sets if one.type == "dataset"}
    published = [f"{file}.parquet" for file, _, _ in ONLINE]
    assert [fnmatch.filter(published, pattern) for pattern in patterns.values()] == [
        [one] for one in published
    ]
    prepared = [sized(one.file_name, rows) for one in PREPARATIONS.values() for rows in (200, 1319)]
    assert [name for name, pattern in patterns.items() if len(fnmatch.filter(prepared, pattern)) != 2] == []
    assert (run.evaluation.every, run.evaluation.samples, run.evaluation.temperature) == (10, 1, 1.0)
    assert run.evaluation.prompts >= 500  # rows of the largest set
