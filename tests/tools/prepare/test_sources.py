"""Where records come from: `datasets` for real, on folders of the hub's shape; saved folders; the real files of shared/data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.paths import DATA
from tests.support.told import Patch
from tools.main import main
from tools.prepare.catalogue import find
from tools.prepare.preparation import Hub, Preparation
from tools.prepare.spool import Spool
from tools.prepare.stages import PreparedRows, PrepareRequest, prepare

pytestmark = pytest.mark.process

RECORDS = [{"problem": f"How much is {n} + 1?", "answer": str(n + 1)} for n in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set as the hub has one: a parquet file for each split."""
    (tmp_path / "set" / "data").mkdir(parents=True)
    for split, count in (("train", 5), ("test", 2)):
        path = tmp_path / "set" / "data" / f"{split}-00000-of-00001.parquet"
        pq.write_table(pa.Table.from_pylist(RECORDS[:count]), path)
    return tmp_path / "set"


def carried_out(preparation: Preparation, request: PrepareRequest, folder: Path) -> PreparedRows:
    with Spool(folder) as spool:
        return prepare(preparation, request, spool)


def test_a_hub_name_is_loaded_by_datasets_at_the_commit_that_the_hub_names(
    folder: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """`datasets` takes the folder for its name; only the question for the commit is answered here."""
    asked = []

    def commit_of(path: str, revision: str | None) -> str:
        asked.append((path, revision))
        return "5" * 40

    monkeypatch.setattr("tools.prepare.source.commit_of", commit_of)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    one = replace(find("deepscaler_preview"), source=Hub(path=str(folder), revision="v1"))
    found = carried_out(one, PrepareRequest(), tmp_path)
    assert len(found.chosen) == 5
    origin = {"hub": str(folder), "config": None, "split": "train", "file": None, "revision": "5" * 40}
    assert found.origin == origin
    carried_out(one, PrepareRequest(revision="main"), tmp_path)
    assert asked == [(str(folder), "v1"), (str(folder), "main")]


def test_a_folder_of_the_hubs_shape_and_a_saved_one_have_the_split(folder: Path, tmp_path: Path) -> None:
    one = find("math_500")
    (tmp_path / "out").mkdir()
    found = carried_out(one, PrepareRequest(split="test", path=folder), tmp_path / "out")
    assert len(found.chosen) == 2
    assert [file["name"] for file in found.origin["files"]] == ["data/test-00000-of-00001.parquet"]
    saved = datasets.DatasetDict({"test": datasets.Dataset.from_list(RECORDS[:3])})
    saved.save_to_disk(str(tmp_path / "saved"))
    assert len(carried_out(one, PrepareRequest(split="test", path=tmp_path / "saved"), tmp_path).chosen) == 3


def test_rows_of_unlike_shape_in_one_file_go_into_one_schema(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for number in range(3000):  # several pieces
            spool.add({"n": number, "extra": {"a": 1} if number < 2000 else {"b": ["x"]}, "maybe": None})
        spool.write(tmp_path / "rows.parquet", range(3000))
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert rows[0] == {"n": 0, "extra": {"a": 1, "b": None}, "maybe": None}
    assert rows[2999] == {"n": 2999, "extra": {"a": None, "b": ["x"]}, "maybe": None}


def real(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"{DATA / name} is not there")
    return DATA / name


@pytest.mark.prove
def test_the_real_gsm8k_is_prepared_whole(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    words = ["--source", str(real("gsm8k_train.jsonl")), "-o", str(out)]
    assert main(["prepare", "gsm8k", *words]) == 0
    rows = pq.read_table(out).to_pylist()
    assert len(rows) == 7473
    assert all(row["reward_model"]["ground_truth"].lstrip("-").replace(".", "").isdigit() for row in rows)


def test_the_real_math_500_is_prepared_in_its_publishers_columns(tmp_path: Path) -> None:
    """The file here has the answer behind the solution, in one column."""
    records = []
    for line in real("math500.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        solution, _, answer = found["answer"].rpartition("The answer is: ")
        records.append({"problem": found["question"], "solution": solution, "answer": answer})
    source = tmp_path / "math.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    out = tmp_path / "rows.parquet"
    assert main(["prepare", "math_500", "--source", str(source), "-o", str(out)]) == 0
    assert pq.read_table(out).num_rows == 500


@pytest.mark.prove
def test_the_real_mbpp_has_the_tasks_of_each_split_and_their_solutions_pass(tmp_path: Path) -> None:
    for split, count, shown in (("train", 374, 1), ("test", 500, 3)):
        out = tmp_path / f"{split}.parquet"
        words = ["--source", str(real("mbpp.jsonl")), "--split", split, "-o", str(out)]
        assert main(["prepare", "mbpp", *words]) == 0
        rows = pq.read_table(out).to_pylist()
        assert len(rows) == count, "no reference fails"
        assert rows[0]["prompt"][0]["content"].count("assert ") == shown
