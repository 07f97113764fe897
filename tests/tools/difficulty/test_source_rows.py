"""Rows are written as their file has them, with columns beside them, and whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from broker.errors import PipelineError
from config.data import DatasetSource, EnvironmentSource
from tests.support.chain import make_run
from tests.support.ingested import load_rows, with_data
from tests.support.told import Patch
from tools.difficulty import source_rows
from tools.difficulty.source_rows import SourceRows, records_of

RATE = {"m_pass_rate": pa.float64()}


def written(path: Path, rows: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    found = SourceRows(
        lambda: iter(rows), lambda number: {"m_pass_rate": number / 4 if number else None}, RATE
    )
    assert found.write(path, **options) == parquet.read_metadata(path).num_rows
    listed: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return listed


def test_each_row_has_its_columns_and_the_new_ones(tmp_path: Path) -> None:
    info, other = {"q": "a", "info": {"x": 1}}, {"q": "c", "info": {"y": "z"}}
    rows: list[dict[str, Any]] = [info, {"q": "b", "more": [1, 2]}, other]
    assert written(tmp_path / "rows.parquet", rows) == [
        {"q": "a", "info": {"x": 1, "y": None}, "more": None, "m_pass_rate": None},
        {"q": "b", "info": None, "more": [1, 2], "m_pass_rate": 0.25},
        {"q": "c", "info": {"x": None, "y": "z"}, "more": None, "m_pass_rate": 0.5},
    ]


def test_seeds_of_an_environment_come_back_as_rows_of_a_data_set(tmp_path: Path) -> None:
    lake = {"environment": {"type": "custom", "import_path": "lake:Lake"}, "scorer": {"type": "environment"}}
    run = with_data(make_run(tmp_path, scorers={"tasks": {"lake": lake}}), cache_dir=tmp_path / "cache")
    for system_prompt in (None, "Be brief."):
        seeds = EnvironmentSource(task="lake", size=4, split="eval", system_prompt=system_prompt)
        found = SourceRows(partial(records_of, run, seeds), lambda _: {"m_pass_rate": 0.5}, RATE)
        file = tmp_path / f"{system_prompt}.parquet"
        assert found.write(file, keeps=lambda number: number > 1) == 2
        rows, _ = load_rows(run, DatasetSource(path=str(file)))
        assert rows == load_rows(run, seeds)[0][2:]


def test_only_rows_that_are_kept_are_in_the_file(tmp_path: Path) -> None:
    rows = [{"q": str(number)} for number in range(5)]
    found = written(tmp_path / "kept.parquet", rows, keeps=lambda number: number in {1, 4})
    assert [row["q"] for row in found] == ["1", "4"]


def test_a_column_of_unlike_values_becomes_json_over_all_chunks(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(source_rows, "CHUNK", 2)
    rows: list[dict[str, Any]] = [{"a": 1}, {"a": 2}, {"a": "three"}, {"a": None}, {"a": [4]}]
    found = written(tmp_path / "rows.parquet", rows)
    assert [row["a"] and json.loads(row["a"]) for row in found] == [1, 2, "three", None, [4]]


def test_numbers_of_two_chunks_have_the_wider_type(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(source_rows, "CHUNK", 1)
    found = written(tmp_path / "rows.parquet", [{"a": 1, "b": None}, {"a": 2.5, "b": True}])
    assert [(row["a"], row["b"]) for row in found] == [(1.0, None), (2.5, True)]


def test_a_column_that_is_there_already_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="have a column m_pass_rate already: give the model another name"):
        written(tmp_path / "rows.parquet", [{"m_pass_rate": 0.5}])


def test_an_error_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    passes = [0]

    def records() -> Iterator[dict[str, Any]]:
        passes[0] += 1
        yield {"a": 1}
        if passes[0] > 1:
            raise OSError(28, "No space left on device")

    rows = SourceRows(records, lambda _: {"m_pass_rate": None}, RATE)
    with pytest.raises(PipelineError, match="can't be written: No space left on device"):
        rows.write(tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_the_rows_of_a_source_are_those_that_it_has_within_its_limit(tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3)):
        lines = [json.dumps({"q": f"{name}{number}"}) for number in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    source = DatasetSource(path=f"{tmp_path}/*.jsonl", limit=4)
    assert [row["q"] for row in records_of(make_run(tmp_path), source)] == ["a0", "a1", "b0", "b1"]
