"""`millrace data check`: a table by source, and the rows that can't be used in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from config.loading import load_run
from learner.data.ingest import ingest
from learner.data.prompts import load_tokenizer, open_sources
from learner.data.refused import RefusedRows
from learner.data.row import RowError
from tests.conftest import ROOT
from tests.support.told import Capsys, Patch
from tools.main import main

pytestmark = pytest.mark.process

MODEL = ROOT / "config/recipes/demo_model"


def verl(source: str, question: str, truth: Any) -> dict[str, Any]:
    prompt = [{"role": "user", "content": question}]
    return {"data_source": source, "prompt": prompt, "reward_model": {"style": "rule", "ground_truth": truth}}


TRAIN = [
    verl("openai/gsm8k", "one?", "1"),
    verl("openai/gsm8k", "one?", "1"),  # repeated
    verl("openai/gsm8k", "two?", ""),  # unusable
    verl("openai/gsm8k", "long? " * 400, "4"),  # too long
    verl("simulation__arcagi1", "a grid?", [[1, 0], [0, 1]]),
    verl("simulation__arcagi1", "another?", "[[1, 2"),  # its scorer refuses it
    verl("math__deepscaler_preview", "half?", "\\frac{1}{2}"),
    verl("math__deepscaler_preview", "nothing?", "\\frac{1}{2"),  # its own reference is wrong
]
HELD_OUT = [verl("openai/gsm8k", "one?", "1"), verl("openai/gsm8k", "new?", "9")]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for name, rows in (("train", TRAIN), ("held", HELD_OUT)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    files = {"train": "train.jsonl", "held_out": "held.jsonl"}
    tasks = {"math": {"scorer": {"type": "math"}}, "logic": {"scorer": {"type": "logic"}}}
    return write_config(tmp_path, files, scorers={"tasks": tasks})


def write_config(folder: Path, files: Mapping[str, str], **sections: Any) -> Path:
    sources = {name: {"type": "dataset", "path": str(folder / file)} for name, file in files.items()}
    data = {**sources, "cache_dir": str(folder / "cache")}
    path = folder / "run.yaml"
    path.write_text(json.dumps({"name": "small", "model": {"path": str(MODEL)}, "data": data, **sections}))
    return path


def check(config: Path, *words: str) -> int:
    """Check on one processor: as many processes score rows as there are processors."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    try:
        return main(["data", "check", str(config), *words])
    finally:
        os.sched_setaffinity(0, every)


@pytest.mark.prove
def test_each_row_is_counted_by_its_source_and_bad_ones_are_in_a_file(
    config: Path, tmp_path: Path, capsys: Capsys
) -> None:
    out = tmp_path / "left.jsonl"
    assert check(config, "-o", str(out), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["quarantined"] == 3
    train, held_out = (
        {name: {key: n for key, n in counts.items() if n} for name, counts in each["counts"].items()}
        for each in found["sources"]
    )
    assert train == {
        "openai/gsm8k": {"rows": 4, "usable": 2, "unusable": 1, "too_long": 1, "repeated": 1},
        "simulation__arcagi1": {"rows": 2, "usable": 1, "refused": 1},
        "math__deepscaler_preview": {"rows": 2, "usable": 1, "wrong": 1},
    }
    assert held_out == {"openai/gsm8k": {"rows": 2, "usable": 2, "in_train": 1}}
    records = [json.loads(line) for line in out.read_text().splitlines()]
    left = [(record["source"], record["row"], record["by"]) for record in records]
    assert left == [("data.train", *one) for one in ((2, "reading"), (5, "refused"), (7, "wrong"))]
    assert "train.jsonl row 7: its reference " in records[2]["reason"]
    assert records[2]["verification_info"]["answer"] == {"value": "\\frac{1}{2"}


@pytest.mark.prove
def test_the_table_is_for_people(config: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check(config, "--no-gold") == 1
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    assert lines[1] == ["rows", "usable", "unusable", "refused", "too", "long", "repeated"]
    assert ["openai/gsm8k", "4", "2", "1", "0", "1", "1"] in lines
    assert ["all", "8", "5", "1", "1", "1", "1"] in lines
    assert said.endswith("2 rows in small-quarantine.jsonl\n")
    records = [json.loads(line) for line in (tmp_path / "small-quarantine.jsonl").read_text().splitlines()]
    assert [(record["row"], record["by"]) for record in records] == [(2, "reading"), (5, "refused")]
    assert "train.jsonl row 5: " in records[1]["reason"]


@pytest.mark.prove
def test_data_without_a_bad_row_are_said_to_be_so(
    config: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert check(config, f"data.train.path={tmp_path / 'held.jsonl'}", "data.held_out=") == 0
    assert capsys.readouterr().out.endswith("every row can be used\n")
    assert not list(tmp_path.glob("*quarantine*"))


@pytest.mark.prove
def test_why_rows_of_an_environment_are_untested_is_said(tmp_path: Path, capsys: Capsys) -> None:
    lake = {"type": "custom", "import_path": "tests.support.own_environments:Guess"}
    tasks = {"lake": {"environment": lake, "scorer": {"type": "environment"}}}
    config = write_config(tmp_path, {}, scorers={"tasks": tasks})
    assert check(config, "data.train={type: environment, task: lake, size: 3}") == 0
    table, untested, *_ = capsys.readouterr().out.split("  untested: ")
    assert [line.split()[-3:] for line in table.splitlines()[1:3]] == [
        ["rows", "usable", "untested"],
        ["3"] * 3,
    ]
    assert untested.startswith(
        "the environment of task 'lake' has no method `reference`, which would play its rows (3"
    )


def test_a_source_that_can_not_be_read_is_named(config: Path, capsys: Capsys) -> None:
    assert check(config, "data.train.path=/none/rows.jsonl") == 1
    assert "/none/rows.jsonl (split train) can't be read" in capsys.readouterr().err


@pytest.mark.prove
def test_a_run_with_the_gold_test_trains_on_none_of_the_rows_that_fail_it(config: Path) -> None:
    words = ["--config", str(config), "data.bad_rows=quarantine"]
    tested, plain = (load_run([*words, f"data.gold_test={flag}"]) for flag in ("true", "false"))
    tokenizer = load_tokenizer(tested)
    prompts = open_sources(tested, tested.data.train_sources, tokenizer, shuffle=False)
    assert [prompts.place(draw)[0].row for draw in range(len(prompts))] == [0, 1, 4, 6]
    (verdicts,) = ingest(tested, tested.data.train_sources[0]).rows.folder.glob("gold-*.json")  # type: ignore[union-attr]
    before = verdicts.stat().st_mtime_ns
    again = open_sources(tested, tested.data.train_sources, tokenizer, shuffle=False)
    assert again.fingerprint == prompts.fingerprint
    assert verdicts.stat().st_mtime_ns == before, "the next start reads the verdicts"
    untested = open_sources(plain, plain.data.train_sources, tokenizer, shuffle=False)
    # The wrong one trains, but none that its scorer refuses.
    assert [untested.place(draw)[0].row for draw in range(len(untested))] == [0, 1, 4, 6, 7]
    assert untested.fingerprint != prompts.fingerprint
    only_wrong = tested.data.train_sources[0].model_copy(update={"limit": 3})
    limited = load_run([*words, "data.gold_test=true", "data.max_prompt_tokens=1"])
    with pytest.raises(RowError, match="no prompt of 2 is within"):
        open_sources(limited, [only_wrong], tokenizer, shuffle=False)


def test_changed_values_and_doubtful_names_are_said_by_row(
    tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    """The scorers' process is not asked: what is looked at here is found when the rows are read."""
    monkeypatch.setattr(
        RefusedRows, "_ask", lambda _, __, answers: answers.write(b'{"rows": 0, "unchecked": {}}\n')
    )
    chat = json.dumps([{"role": "user", "content": "one?"}])
    truths = ["7", "007", '"007"', "true"]
    table = pa.table(
        {
            "data_source": ["math"] * len(truths),
            "prompt": [chat] * len(truths),
            "reward_model": pa.StructArray.from_arrays([pa.array(truths, pa.json_())], ["ground_truth"]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    config = write_config(tmp_path, {"train": "rows.parquet"})
    quietly = ("--no-gold", "-o", str(tmp_path / "left.jsonl"))
    assert check(config, *quietly) == 1
    said = capsys.readouterr().out
    assert "rows.parquet row 1: column reward_model.ground_truth: '007' is read as 7" in said
    assert "row 0:" not in said
    assert "row 2:" not in said
    assert "row 3: no answer to check against in verification_info: the value is True" in said
    assert "data_source 'math', 3 rows: read as the rubric paper" in said
    assert "changed" in said.splitlines()[1]
    assert check(config, *quietly, "--json", "data.source_types.math=prime_math") == 1
    [source] = json.loads(capsys.readouterr().out)["sources"]
    assert source["doubts"] == []
    assert len(source["changed"]) == source["counts"]["math"]["changed"] == 1
