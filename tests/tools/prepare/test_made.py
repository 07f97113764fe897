"""Rows that are made here: the sampler's and the puzzles'. Each can be answered, and the splits share none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from config.data import DatasetSource
from config.scorers import ScorersConfig, TaskConfig
from learner.data.ingest import ingest
from scorers.api import all_tasks
from scorers.child.row_worker import RowScorer
from scorers.gold.rendering import gold_response
from tasks.route import route
from tests.support.chain import make_run
from tests.support.told import Capsys
from tools.main import main

pytestmark = pytest.mark.process

CONFIG = all_tasks()
PUZZLES = ("zebra_puzzle_dataset", "ordering_puzzle_dataset", "graph_logical_dataset")
DOMAINS = {"math", "codegen", "stem", "logical_reasoning", "coding-inference", "table"}
TASKS = ("math", "code", "choice", "logic", "simulation", "table")


def rows_of(out: Path, *words: object) -> list[dict[str, Any]]:
    assert main(["prepare", *map(str, words), "-o", str(out)]) == 0
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows


def is_right(scorer: RowScorer, row: dict[str, Any]) -> bool:
    task, info = route(row, CONFIG.tasks)
    gold = gold_response(info, row["extra_info"].get("reference") or "", CONFIG.tasks[task].scorer)
    result = scorer.result(json.dumps({"llm_output": gold, **row}).encode())
    return bool(result["value"] == 1.0)


@pytest.mark.prove
def test_the_sampler_has_as_many_rows_of_each_domain_all_right(tmp_path: Path, scorer: RowScorer) -> None:
    train = rows_of(tmp_path / "train.parquet", "sampler")
    test = rows_of(tmp_path / "test.parquet", "sampler", "--split", "test")
    assert Counter(row["ability"] for row in train) == dict.fromkeys(DOMAINS, 4)
    assert Counter(row["ability"] for row in test) == dict.fromkeys(DOMAINS, 2)
    assert not {row["extra_info"]["index"] for row in train} & {row["extra_info"]["index"] for row in test}
    assert len({str(row["prompt"]) for row in (*train, *test)}) == 36, "no prompt twice"
    assert [row for row in (*train, *test) if not is_right(scorer, row)] == []
    assert max(len(row["prompt"][0]["content"]) for row in (*train, *test)) < 700


def test_a_run_reads_the_sampler_and_gives_each_row_to_its_scorer(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    rows_of(out, "sampler")
    tasks = {name: TaskConfig.model_validate({"scorer": {"type": name}}) for name in TASKS}
    run = make_run(tmp_path).model_copy(update={"scorers": ScorersConfig(tasks=tasks)})
    run = run.model_copy(update={"data": run.data.model_copy(update={"cache_dir": tmp_path / "cache"})})
    found = ingest(run, DatasetSource(path=str(out)))
    assert Counter(row.task for row in found.rows.rows()) == dict.fromkeys(TASKS, 4)


@pytest.mark.parametrize("name", PUZZLES)
def test_puzzles_are_rows_whose_own_answer_is_right_and_a_smaller_file_is_the_beginning_of_a_larger_one(
    name: str, tmp_path: Path, scorer: RowScorer
) -> None:
    rows = rows_of(tmp_path / "rows.parquet", name, "--size", 8)
    assert len(rows) == 8
    assert {row["data_source"] for row in rows} == {f"logic__{name}"}
    assert [row["extra_info"]["id"] for row in rows] == [str(row["extra_info"]["index"]) for row in rows]
    assert [row for row in rows if not is_right(scorer, row)] == []
    assert "<answer>" in rows[0]["prompt"][0]["content"]
    assert rows_of(tmp_path / "few.parquet", name, "--size", 3) == rows[:3]
    assert rows_of(tmp_path / "other.parquet", name, "--size", 3, "--seed", 7) != rows[:3]
    test = rows_of(tmp_path / "test.parquet", name, "--split", "test", "--size", 3)
    assert not {row["extra_info"]["index"] for row in rows} & {row["extra_info"]["index"] for row in test}


def test_what_is_made_here_has_no_source(tmp_path: Path, capsys: Capsys) -> None:
    assert main(["prepare", "sampler", "--source", "x", "-o", str(tmp_path / "rows.parquet")]) == 1
    assert "sampler is made here: it has neither --source nor --revision" in capsys.readouterr().err
