"""Columns of Arrow as rows: what `datasets` gives, by that library itself, and what reading has changed, by row."""

from __future__ import annotations

import csv
import datetime as dt
import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from config.data import DatasetSource
from config.run import Run
from learner.data.arrow import BatchReader
from learner.data.file_formats import tables_of
from learner.data.ingest import ingest
from learner.data.row import Row
from learner.data.store import RowStore
from tests.support.ingested import load_rows, with_tasks
from tests.support.verl_runs import write_jsonl, write_parquet

pytestmark = pytest.mark.model

TASKS = ("math", "search", "table", "choice", "code", "logic")
TEXT = "`datasets` keeps text and numbers of a mixed column as JSON"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    datasets.disable_progress_bars()


@pytest.fixture
def run(run: Run) -> Run:
    return with_tasks(run, {name: {"type": name} for name in TASKS})


def read_file(path: Path) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    with pq.ParquetFile(path) as file:
        reader = BatchReader(file.schema_arrow)
        return [row for batch in file.iter_batches() for row in reader.rows(batch)]


def column(path: Path, array: pa.Array) -> list[tuple[Any, tuple[str, ...]]]:
    pq.write_table(pa.table({"x": array}), path / "x.parquet")
    return [(row["x"], changed) for row, changed in read_file(path / "x.parquet")]


def by_datasets(path: Path) -> Any:
    """What `datasets` itself reads of a file."""
    cache = path.parent / f"hf{path.suffix}"
    return datasets.load_dataset(
        path.suffix[1:].removesuffix("l"), data_files=str(path), split="train", cache_dir=str(cache)
    )


def from_json(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as a user does: JSON lines, `load_dataset("json")`, `to_parquet`."""
    by_datasets(write_jsonl(folder / "in.jsonl", rows)).to_parquet(str(folder / "rows.parquet"))
    return folder / "rows.parquet"


def test_mixed_columns_come_back_as_datasets_gives_them_and_changes_are_said(tmp_path: Path) -> None:
    answers = [7, "text", ["a", 1], {"a": [1, None]}, None, 1.5, True, 'a "quoted" one', "", r"\frac{1}{2}"]
    rows = [{"id": i, "answer": a, "deep": {"of": [{"v": a}]}, "list": [a, a]} for i, a in enumerate(answers)]
    path = from_json(tmp_path, rows)
    assert b'"_type": "Json"' in pq.read_schema(path).metadata[b"huggingface"]
    assert read_file(path) == [(row, ()) for row in rows]
    assert list(by_datasets(path)) == rows
    [*found] = read_file(from_json(tmp_path, [{"answer": [1]}, {"answer": "007"}, {"answer": "1.50"}]))
    assert [row["answer"] for row, _ in found] == [[1], 7, 1.5]
    said = f"column answer: '007' is read as 7: {TEXT}", f"column answer: '1.50' is read as 1.5: {TEXT}"
    assert [changed for _, changed in found] == [(), said[:1], said[1:]]


DIGITS = "a number has no more digits"


@pytest.mark.parametrize(
    ("text", "value", "change"),
    [
        ("7", 7, ""),
        ("-0.5", -0.5, ""),
        ("0.413", 0.413, ""),  # pandas' reader of JSON makes 0.41300000000000003 of it
        ("1.0", 1.0, ""),
        ('"7"', "7", ""),
        ('"007"', "007", ""),
        ("true", True, ""),
        ("null", None, ""),
        ('{"a": 1}', {"a": 1}, ""),
        ("123456789012345678901234567890", 123456789012345678901234567890, ""),
        ("1e5", 1e5, ""),
        ('"two\nlines"', "two\nlines", ""),
        ("007", 7, TEXT),
        ("-012", -12, TEXT),
        ("00", 0, TEXT),
        ("01.50", 1.5, TEXT),
        ("1.50", 1.5, TEXT),
        ("2.00", 2.0, TEXT),
        ("0.10", 0.1, TEXT),
        ("5.", 5.0, TEXT),
        ("3.14159265358979323846", 3.141592653589793, DIGITS),
        ("[0.1000000000000000055]", [0.1], DIGITS),
        ("1e400", float("inf"), DIGITS),
        ('{"a": 1, "a": 2}', {"a": 2}, "more than once"),
        ("1/2", "1/2", "it is no JSON"),
        ("12 apples", "12 apples", "it is no JSON"),
        ("", "", "it is no JSON"),
        ("{'a': 1}", "{'a': 1}", "it is no JSON"),
    ],
)
def test_a_text_of_json_is_its_value(tmp_path: Path, text: str, value: Any, change: str) -> None:
    [(found, said)] = column(tmp_path, pa.array([text], pa.json_()))
    assert (found, type(found), len(said)) == (value, type(value), bool(change))
    assert not change or change in said[0]


def test_a_column_that_only_the_metadata_call_json_is_read_alike(tmp_path: Path) -> None:
    features = {
        "a": {"_type": "Json"},
        "b": {"feature": {"_type": "Json"}, "_type": "List"},
        "c": {"d": {"_type": "Json"}},
        "e": {"dtype": "string", "_type": "Value"},
    }
    table = pa.table({"a": ['"x"'], "b": [["1", None]], "c": [{"d": '["y"]'}], "e": ['"z"']})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    assert read_file(tmp_path / "x.parquet") == [
        ({"a": "x", "b": [1, None], "c": {"d": ["y"]}, "e": '"z"'}, ())
    ]


@pytest.mark.parametrize(
    "metadata", [b"no json", b"{}", b'{"info": null}', b'{"info": {"features": []}}', b"[1]"]
)
def test_metadata_of_another_shape_say_nothing(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"a": ['"x"']}).replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_file(tmp_path / "x.parquet") == [({"a": '"x"'}, ())]


STRINGS, DAY = pa.map_(pa.string(), pa.string()), dt.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([[("a", "1"), ("b", None)], [], None], STRINGS), [{"a": "1", "b": None}, {}, None]),
        (pa.array([[(1, "x")], [(2, "y")]], pa.map_(pa.int64(), pa.string())), [{"1": "x"}, {"2": "y"}]),
        (pa.array([[(True, 1)]], pa.map_(pa.bool_(), pa.int8())), [{"true": 1}]),
        (pa.array([[(DAY, 1)]], pa.map_(pa.date32(), pa.int8())), [{"2026-01-02": 1}]),
        (pa.array([[[("a", "1")]]], pa.list_(STRINGS)), [[{"a": "1"}]]),
        (pa.array([{"m": [("a", "1")], "n": 1}], pa.struct({"m": STRINGS, "n": pa.int8()})), [{"m": {"a": "1"}, "n": 1}]),
        (pa.array([[("a", [("b", "1")])]], pa.map_(pa.string(), STRINGS)), [{"a": {"b": "1"}}]),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), ["a", "b", None, "a"]),
        (pa.array([5, None]).dictionary_encode(), [5, None]),
        (pa.array([{"a": "x"}], pa.struct({"a": pa.dictionary(pa.int32(), pa.string())})), [{"a": "x"}]),
        (pa.array(["a", None], pa.large_string()), ["a", None]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.array([["a"], None], pa.large_list(pa.large_string())), [["a"], None]),
        (pa.array([["a", None]], pa.list_view(pa.string())), [["a", None]]),
        (pa.array([["a", "b"], None], pa.list_(pa.string(), 2)), [["a", "b"], None]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array([[None, None], [], None], pa.list_(pa.null())), [[None, None], [], None]),
        (pa.array([{"a": None}, None], pa.struct({"a": pa.null()})), [{"a": None}, None]),
        (pa.array([[{"a": None}, None]], pa.list_(pa.struct({"a": pa.list_(pa.null())}))), [[{"a": None}, None]]),
        (pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), [Decimal("1.50"), None]),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), [Decimal("1.50")]),
        (pa.array(["{}", None], pa.json_(pa.large_string())), [{}, None]),
        (pa.ListArray.from_arrays([0, 2], pa.array(['{"b": 1}', None], pa.json_())), [[{"b": 1}, None]]),
        (pa.array([1.5, None], pa.float32()), [1.5, None]),
    ],
)  # fmt: skip
def test_every_type_of_column_is_a_python_value(tmp_path: Path, array: pa.Array, values: list[Any]) -> None:
    assert column(tmp_path, array) == [(value, ()) for value in values]
    try:
        loaded = by_datasets(tmp_path / "x.parquet")
    except ValueError as error:
        assert "does not have a datasets dtype" in str(error)  # noqa: PT017 - maps and views: it can't read them
    else:
        assert list(loaded["x"]) == values


@pytest.mark.parametrize(
    ("array", "value", "said"),
    [
        (pa.array([0.1], pa.float32()), 0.10000000149011612, "'0.1' is read as 0.10000000149011612: the file has float32"),
        (pa.array([1.1], pa.float16()), 1.099609375, "'1.1' is read as 1.099609375: the file has float16"),
        (pa.array([[("a", "1"), ("a", "2")]], STRINGS), {"a": "2"}, "'1' is read as '2': the map has this key more than once"),
    ],
)  # fmt: skip
def test_other_changed_values_say_so_too(tmp_path: Path, array: pa.Array, value: Any, said: str) -> None:
    [(found, changed)] = column(tmp_path, array)
    assert found == value
    assert said in changed[0]


def rows_of(run: Run, path: Path, **options: Any) -> Sequence[Row]:
    return load_rows(run, DatasetSource(path=str(path), **options))[0]


def of_columns(run: Run, path: Path, **options: Any) -> list[Any]:
    found = rows_of(run, path, prompt_template="{q}", answer_column="answer", **options)
    return [row.verification_info["answer"]["value"] for row in found]


def test_right_answers_of_a_mixed_column_have_no_quotation_marks_and_aliases_stay_a_list(
    run: Run, tmp_path: Path
) -> None:
    answers = [7, "seven", "a \\boxed{b}", 1.5, "12:30", True]
    path = from_json(tmp_path, [{"q": "?", "answer": answer} for answer in answers])
    assert of_columns(run, path) == ["7", "seven", "a \\boxed{b}", "1.5", "12:30", "True"]
    path = from_json(tmp_path, [{"q": "?", "answer": ["Rome", "Roma"]}, {"q": "?", "answer": "Rome"}])
    assert of_columns(run, path, task="qa_em") == [["Rome", "Roma"], "Rome"]


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([Decimal("1.50"), Decimal("7.00"), Decimal("-0.25")], pa.decimal128(10, 2)), ["1.5", "7", "-0.25"]),
        (pa.array([Decimal("12345678901234567890.123456789")], pa.decimal128(38, 9)), ["12345678901234567890.123456789"]),
        (pa.array([Decimal(7)], pa.decimal128(38, 0)), ["7"]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array([7], pa.uint64()), ["7"]),
        (pa.array(["x", "7"], pa.json_()), ["x", "7"]),
        (pa.array([uuid.UUID(int=1).bytes], pa.uuid()), [str(uuid.UUID(int=1))]),
        (pa.array([DAY], pa.date32()), ["2026-01-02"]),
        (pa.array([dt.time(1, 2)], pa.time32("s")), ["01:02:00"]),
    ],
)  # fmt: skip
def test_answers_of_every_type_are_references(run: Run, tmp_path: Path, array: pa.Array, texts: Any) -> None:
    pq.write_table(pa.table({"q": ["?"] * len(array), "answer": array}), tmp_path / "rows.parquet")
    assert of_columns(run, tmp_path / "rows.parquet") == texts


CHAT = [{"role": "user", "content": "2 + 3?"}]
CALLS: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "tool", "name": "f", "content": "sun"},
]
INFO = {"type": "math", "answer": {"value": "5"}}


def test_chats_with_calls_and_verls_csv_rows_are_read_whole(run: Run, tmp_path: Path) -> None:
    mixed = [{"role": "assistant", "tool_calls": [{"function": {"name": "g", "arguments": {"y": [1]}}}]}]
    chats = [{"messages": chat, "verification_info": json.dumps(INFO)} for chat in (CALLS, CHAT, mixed)]
    calls, chat, _ = rows_of(run, from_json(tmp_path, chats))
    assert list(chat.messages) == CHAT
    assert list(calls.messages) == [CALLS[0], {**CALLS[1], "content": ""}, CALLS[2]]
    row = {"data_source": "openai/gsm8k", "prompt": json.dumps(CHAT), "reward_model": '{"ground_truth": "5"}'}
    checks = pa.array([[("style", "rule"), ("ground_truth", "5")]], STRINGS)
    table = pa.table({"data_source": ["openai/gsm8k"], "prompt": [CHAT], "reward_model": checks})
    pq.write_table(table, tmp_path / "rows.parquet")
    for path in (write_file(tmp_path / "rows.csv", row), tmp_path / "rows.parquet"):
        [found] = rows_of(run, path)
        assert (list(found.messages), found.verification_info["answer"]) == (CHAT, {"value": "5"})


def write_file(path: Path, row: Mapping[str, Any]) -> Path:
    if path.suffix == ".parquet":
        return write_parquet(path, [row])
    if path.suffix == ".jsonl":
        return write_jsonl(path, [row])
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["messages", "prompt"])
@pytest.mark.parametrize("as_text", [json.dumps, str], ids=["JSON", "Python's text"])
def test_a_chat_as_text_is_a_chat_in_every_kind_of_file(
    run: Run, tmp_path: Path, suffix: str, name: str, as_text: Callable[[Any], str]
) -> None:
    chat = [{"role": "system", "content": 'Say "so",\nplease.'}, *CHAT]
    row = {name: as_text(chat), "verification_info": json.dumps(INFO)}
    [found] = rows_of(run, write_file(tmp_path / f"rows.{suffix}", row), prompt_column=name)
    assert list(found.messages) == chat


def test_a_saved_data_set_with_a_mixed_column_is_read_as_its_parquet_is(run: Run, tmp_path: Path) -> None:
    path = from_json(tmp_path, [{"q": "?", "answer": answer} for answer in ("007", [1], 0.413)])
    saved = tmp_path / "saved"
    by_datasets(path).save_to_disk(str(saved))
    [table] = tables_of(run, DatasetSource(path=str(saved)))
    records = list(table.records(["answer"]))
    assert [record.values["answer"] for record in records] == [7, [1], 0.413]
    assert [len(record.changed) for record in records] == [1, 0, 0]


def test_changed_values_are_said_at_start(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = from_json(tmp_path, [{"q": "?", "answer": answer} for answer in ("x", "007", [1])])
    source = DatasetSource(path=str(path), prompt_template="{q}", answer_column="answer")
    with caplog.at_level(logging.WARNING):
        found = ingest(run, source)
    assert isinstance(found.rows, RowStore)
    assert [facts["row"] for facts in found.rows.changed()] == [1]
    assert "rows_changed count=1 of=3" in caplog.text
    assert f"{path} row 1: column answer: '007' is read as 7" in caplog.text
    assert [row.changed for row in found.rows.rows()] == [(), (), ()]


def test_a_type_that_datasets_does_not_know_is_read_from_the_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    table = pa.table({"q": ["?"], "answer": ["5"], "m": pa.array([[("a", "1")]], STRINGS)})
    pq.write_table(table, folder / "train.parquet")
    assert of_columns(run, folder) == ["5"]
