"""A bad row of a file is told in the same words by every verb that reads it, and the other rows are read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from config.data import DatasetSource
from config.loading import load_run
from learner.data.ingest import ingest
from learner.data.refused import RefusedRows
from learner.data.row import RowError
from tests.conftest import ROOT
from tests.support.told import Millrace, Patch, Told
from tools.difficulty.source_rows import records_of
from tools.prepare.preparation import BadRecord
from tools.prepare.source import table_records
from tools.row_file import RowFile

pytestmark = pytest.mark.process


def row(value: str = "72", kind: str = "math") -> dict[str, Any]:
    info = {"type": kind, "answer": {"value": value}}
    chat = [{"role": "user", "content": "6 x 12?"}]
    return {"llm_output": "\\boxed{72}", "label": True, "messages": chat, "verification_info": info}


BAD = {
    b"nope": "not JSON: Expecting value at character 1",
    b"\xff\xfe{}": "not UTF-8: byte 0 is 0xff",
    b"[1]": "a row must be an object, got list",
    b'{"messages": ' + b"[" * 50_000: "not JSON: maximum recursion",
    json.dumps(row(value=" ")).encode(): "no answer to check against",
}
GOOD = json.dumps(row()).encode()
LINES = [GOOD, b"", *BAD, GOOD]  # the bad ones are lines 3 to 7, and rows 1 to 5
TOLD = [f"line {line}: {said}" for line, said in enumerate(BAD.values(), 3)]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(LINES))
    return path


@pytest.fixture
def config(tmp_path: Path, rows: Path) -> Path:
    model, data = ROOT / "config/recipes/demo_model", {"cache_dir": str(tmp_path / "cache")}
    data |= {"train": {"type": "dataset", "path": str(rows)}}  # type: ignore[dict-item]
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps({"name": "small", "model": {"path": str(model)}, "data": data}))
    return path


def assert_told(found: list[str], beginning: str) -> None:
    wanted = [beginning + told for told in TOLD]
    assert [one[: len(said)] for one, said in zip(found, wanted, strict=True)] == wanted


def scored(path: Path, millrace: Millrace) -> tuple[Told, list[dict[str, Any]]]:
    out = path.with_name("scores.jsonl")
    told = millrace("score", path, "--workers", "1", "--out", out)
    return told, list(map(json.loads, out.read_text().splitlines()))


@pytest.mark.usefixtures("scored_here")
def test_score_gives_each_its_result(rows: Path, millrace: Millrace) -> None:
    told, found = scored(rows, millrace)
    assert (told.code, [one["line"] for one in found]) == (3, [1, 3, 4, 5, 6, 7, 8])
    assert_told([one["reason"] for one in found[1:-1]], "")
    assert [found[0]["value"], found[-1]["value"]] == [1.0, 1.0]


def test_judge_check_names_them_before_anybody_is_asked(rows: Path, millrace: Millrace) -> None:
    told = millrace("judge-check", rows)
    said = told.err.splitlines()
    assert (told.code, said[0]) == (2, f"millrace judge-check: {rows} can't be used:")
    assert_told(said[1:], "")


def test_data_check_writes_them_to_its_file(
    rows: Path, config: Path, tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    monkeypatch.setattr(
        RefusedRows, "_ask", lambda _, __, answers: answers.write(b'{"rows": 0, "unchecked": {}}\n')
    )
    out = tmp_path / "left.jsonl"
    told = millrace("data", "check", config, "--no-gold", "-o", out, "--json")
    left = list(map(json.loads, out.read_text().splitlines()))
    assert (told.code, [one["row"] for one in left]) == (1, [1, 2, 3, 4, 5])
    counts = told.json["sources"][0]["counts"]["(no data_source)"]
    assert (counts["rows"], counts["usable"], counts["unusable"]) == (7, 2, 5)
    for number, (one, said) in enumerate(zip(left, TOLD, strict=True), 1):
        assert one["reason"].startswith(f"{rows} row {number}, {said}")


def test_a_run_and_difficulty_begin_without_them_where_bad_rows_may_be_left_out(
    rows: Path, config: Path
) -> None:
    run = load_run(["--config", str(config), "data.bad_rows=quarantine"])
    found = ingest(run, run.data.train_sources[0])
    assert (found.count, [int(number) for number in found.rows.numbers]) == (7, [0, 6])
    kept = [bool(values) for values in records_of(run, DatasetSource(path=str(rows)))]
    assert kept == [True, False, False, False, False, True, True]  # the rows beside rates keep their numbers
    refusing = load_run(["--config", str(config)])
    with pytest.raises(RowError) as caught:
        ingest(refusing, refusing.data.train_sources[0])
    first = str(caught.value).splitlines()
    assert first[0] == f"{rows} row 1, {TOLD[0]}"
    assert first[-1].startswith("and 2 more bad rows: `millrace data check CONFIG`")


def test_prepare_ends_at_the_first(rows: Path) -> None:
    with pytest.raises(BadRecord) as caught:
        list(table_records(rows, "train"))
    assert str(caught.value) == f"{rows} row 1, {TOLD[0]}"


def test_a_file_without_one_row_is_told_by_its_first_line(config: Path, rows: Path) -> None:
    rows.write_bytes(b"\n" + next(iter(BAD)))
    run = load_run(["--config", str(config), "data.bad_rows=quarantine"])
    with pytest.raises(RowError) as caught:
        ingest(run, run.data.train_sources[0])
    assert str(caught.value) == f"{rows} row 0, line 2: not JSON: Expecting value at character 1"


def test_a_pipe_is_read_as_lines_whatever_its_name(tmp_path: Path) -> None:
    for name in ("rows.json", "rows.parquet"):
        found = RowFile(str(tmp_path / name), io.BytesIO(b"\n".join(LINES)))
        assert [line.number for line in found.lines()] == [1, 3, 4, 5, 6, 7, 8]


def as_list(path: Path) -> None:
    path.write_text(json.dumps([row(), 7, row(" ")], indent=1))


def as_csv(path: Path) -> None:
    info = ['"' + json.dumps(one["verification_info"]).replace('"', '""') + '"' for one in (row(), row(" "))]
    path.write_text(f'llm_output,verification_info\n\\boxed{{72}},{info[0]}\n"a\nb",{info[1]}\n')


def as_parquet(path: Path) -> None:
    table = pa.Table.from_pylist([row(), row(" ")])
    pq.write_table(table.append_column("extra", pa.array([None, b"\xff"])), path)


@pytest.mark.usefixtures("scored_here")
@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("rows.json", as_list, {2: "a row must be an object, got int", 3: "no answer to check against"}),
        ("rows.csv", as_csv, {4: "no answer to check against"}),
        ("rows.parquet", as_parquet, {2: "the row can't be written as JSON: bytes"}),
    ],
)
def test_score_reads_every_kind_of_file(
    name: str, write: Any, said: dict[int, str], tmp_path: Path, millrace: Millrace
) -> None:
    write(tmp_path / name)
    told, (first, *others) = scored(tmp_path / name, millrace)
    assert (told.code, first["value"], [one["line"] for one in others]) == (3, 1.0, [*said])
    assert all(one["reason"].startswith(f"line {one['line']}: {said[one['line']]}") for one in others)


def not_utf_8(path: Path) -> None:
    pq.write_table(pa.table({"llm_output": pa.array([b"\xff"]).view(pa.string())}), path)


@pytest.mark.usefixtures("scored_here")
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("cut.parquet", lambda path: path.write_text("PAR1")),
        ("text.parquet", not_utf_8),
        ("cut.json", lambda path: path.write_text("[{}")),
        ("cut.csv", lambda path: path.write_bytes(b"a,b\n\xff,1\n")),
    ],
)
def test_a_file_that_cant_be_read_ends_score_with_its_name(
    name: str, write: Any, tmp_path: Path, millrace: Millrace
) -> None:
    write(tmp_path / name)
    told, _ = scored(tmp_path / name, millrace)
    assert (told.code, f"{tmp_path / name} can't be read: " in told.err) == (2, True)
