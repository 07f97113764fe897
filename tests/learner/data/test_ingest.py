"""What is read of a source: once, whole or not at all, and anew where a byte has changed."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from config.data import DataConfig, DatasetSource
from config.run import Run
from learner.data.ingest import Ingested, ingest
from learner.data.lengths import prompt_lengths, tokenize
from learner.data.prompts import load_tokenizer, open_sources
from learner.data.row import RowError
from learner.data.store import RowStore
from tests.conftest import ROOT
from tests.support.chain import make_run
from tests.support.character_tokenizer import OneTokenACharacter


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return with_data(make_run(tmp_path), cache_dir=tmp_path / "cache")


def with_data(run: Run, **update: Any) -> Run:
    return run.model_copy(update={"data": run.data.model_copy(update=update)})


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"question {number}"}],
        "verification_info": {"type": "math", "answer": {"value": str(number)}},
        **more,
    }


def verl(number: int, source: str = "openai/gsm8k") -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": f"question {number}"}],
        "reward_model": {"style": "rule", "ground_truth": str(number)},
    }


def jsonl(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def read(run: Run, path: Path | str, **options: Any) -> Ingested:
    return ingest(run, DatasetSource(path=str(path), **options))


def answers(found: Ingested) -> list[str]:
    return [row.verification_info["answer"]["value"] for row in found.rows.rows()]


def kept(run: Run) -> list[str]:
    """The names in the folder of kept rows."""
    return sorted(path.name for path in Path(str(run.data.cache_dir)).glob("*"))


# ------------------------------------------------------------------------------------------------ which files there are


def test_a_folder_of_unlike_files_is_read_whole_in_the_order_of_names(run: Run, tmp_path: Path) -> None:
    parquet(tmp_path / "rows/b.parquet", row(3, difficulty=0.5), row(4, difficulty=0.7))
    jsonl(tmp_path / "rows/a.jsonl", row(1), row(2, note="more"))
    parquet(tmp_path / "rows/deep/c.parquet", verl(5))
    (tmp_path / "rows/notes.txt").write_text("no rows")
    assert answers(read(run, tmp_path / "rows")) == ["1", "2", "3", "4", "5"]


def test_a_pattern_names_files(run: Run, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        parquet(tmp_path / f"rows/train__{number}.parquet", row(number))
    parquet(tmp_path / "rows/test__4.parquet", row(4))
    assert answers(read(run, tmp_path / "rows/train__*.parquet")) == ["1", "2", "3"]
    assert answers(read(run, tmp_path / "**/test*.parquet")) == ["4"]
    with pytest.raises(
        RowError, match=r"none__\*\.parquet: no file of \.jsonl, \.json, \.parquet, \.csv has"
    ):
        read(run, tmp_path / "rows/none__*.parquet")


def test_the_split_of_a_folder_is_its_subfolder_or_what_its_files_names_say(run: Run, tmp_path: Path) -> None:
    parquet(tmp_path / "by_folder/train/x.parquet", row(1))
    parquet(tmp_path / "by_folder/online_eval/x.parquet", row(2))
    parquet(tmp_path / "by_name/train-0.parquet", row(3))
    parquet(tmp_path / "by_name/test-0.parquet", row(4))
    assert answers(read(run, tmp_path / "by_folder")) == ["1"]
    assert answers(read(run, tmp_path / "by_folder", split="online_eval")) == ["2"]
    assert answers(read(run, tmp_path / "by_name")) == ["3"]
    assert answers(read(run, tmp_path / "by_name", split="test")) == ["4"]
    with pytest.raises(
        RowError, match=r"split other\) can't be read: its files are of the splits train, test"
    ):
        read(run, tmp_path / "by_name", split="other")


def test_a_limit_is_of_the_whole_source(run: Run, tmp_path: Path) -> None:
    jsonl(tmp_path / "rows/a.jsonl", row(1), row(2))
    jsonl(tmp_path / "rows/b.jsonl", row(3), row(4))
    assert answers(read(run, tmp_path / "rows", limit=3)) == ["1", "2", "3"]


def test_a_list_of_objects_and_values_with_commas_are_read_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([row(1), row(2)]))
    (tmp_path / "rows.csv").write_text("question,answer\nwhat?,007\nand?,8\n")
    assert answers(read(run, tmp_path / "rows.json")) == ["1", "2"]
    options = {"prompt_template": "{question}", "answer_column": "answer"}
    assert answers(read(run, tmp_path / "rows.csv", **options)) == ["007", "8"]


# ------------------------------------------------------------------------------------------------- once, and only whole


def test_rows_are_read_once_and_found_again_wherever_the_file_lies(run: Run, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(1), row(2))
    first, names = read(run, path), kept(run)
    again = read(run, shutil.copy(path, tmp_path / "moved.jsonl"))
    assert kept(run) == names, "nothing was written again"
    assert (answers(again), again.fingerprint) == (["1", "2"], first.fingerprint)


@pytest.mark.parametrize(
    "change", ["a byte", "how the rows are read", "a task"], ids=["a byte", "a key", "a task"]
)
def test_rows_are_read_anew_where_what_makes_them_has_changed(run: Run, tmp_path: Path, change: str) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(1), row(2))
    before = read(run, path)
    options: dict[str, Any] = {}
    if change == "a byte":
        jsonl(path, row(1), row(3))
    elif change == "a task":
        tasks = {"math": run.scorers.tasks["math"], "also": run.scorers.tasks["math"]}
        run = run.model_copy(update={"scorers": run.scorers.model_copy(update={"tasks": tasks})})
    else:
        options = {"system_prompt": "think"}
    after = read(run, path, **options)
    assert len(kept(run)) == 2
    # A run that goes on may have other tasks, whose rows are the same; other bytes or keys make other rows.
    assert (after.fingerprint == before.fingerprint) == (change == "a task")


def test_a_row_that_can_not_be_used_leaves_nothing_half_written(run: Run, tmp_path: Path) -> None:
    rows = [row(number) for number in range(5)] + [row(5, messages=None)]
    path = jsonl(tmp_path / "rows.jsonl", *rows)
    with pytest.raises(RowError, match=r"rows\.jsonl row 5, line 6: no prompt"):
        read(run, path)
    assert kept(run) == []


def test_rows_that_can_not_be_used_may_be_quarantined_and_counted(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = verl(1) | {"reward_model": {"style": "rule", "ground_truth": None}}
    path = parquet(tmp_path / "rows.parquet", verl(0), bad, verl(2))
    with caplog.at_level(logging.WARNING):
        found = read(with_data(run, bad_rows="quarantine"), path)
    assert (answers(found), found.count, found.rows.numbers.tolist()) == (["0", "2"], 3, [0, 2])
    (facts,) = found.rows.quarantined()
    assert (facts["row"], facts["data_source"], facts["by"]) == (1, "openai/gsm8k", "reading")
    assert "rows.parquet row 1: no answer" in facts["reason"]
    assert any("rows_quarantined count=1 of=3" in message for message in caplog.messages)
    assert isinstance(found.rows, RowStore)


def test_a_prompts_row_counts_those_that_were_left_out(run: Run, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", verl(0), verl(1) | {"reward_model": None}, verl(2))
    jsonl(tmp_path / "b.jsonl", row(3), row(4))
    sources = [DatasetSource(path=str(tmp_path / name)) for name in ("a.parquet", "b.jsonl")]
    tokenizer: Any = OneTokenACharacter()
    prompts = open_sources(with_data(run, bad_rows="quarantine"), sources, tokenizer, shuffle=False)
    assert [prompts.place(draw)[0].row for draw in range(4)] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: path.write_bytes(path.read_bytes()[:-9]),
            r"rows\.parquet \(split train\) can't be read",
        ),
        (
            lambda path: parquet(path, {"messages": "what?"}),
            r"rows\.parquet: no column 'verification_info' among messages",
        ),
        (
            lambda path: parquet(path, row(1) | {"messages": 7}),
            r"rows\.parquet row 0: the prompt must be a text or a list of role and content, got '7'",
        ),
        (
            lambda path: parquet(
                path, row(1) | {"verification_info": {"type": "math", "answer": {"value": " "}}}
            ),
            r"rows\.parquet row 0: no answer to check against",
        ),
        (lambda path: parquet(path, verl(1, "polaris_tinyv")), r"rows\.parquet row 0: .*"),
    ],
    ids=["cut off", "a column is missing", "a number for a chat", "an empty reference", "no such task"],
)
def test_bad_input_is_named_and_leaves_nothing(run: Run, tmp_path: Path, spoil: Any, message: str) -> None:
    spoil(parquet(tmp_path / "rows/rows.parquet", row(0)))
    with pytest.raises(RowError, match=message):
        read(run, tmp_path / "rows")
    assert kept(run) == []


def test_a_column_of_lines_may_mix_types_as_long_as_each_row_can_be_used(run: Run, tmp_path: Path) -> None:
    options = {"prompt_template": "{question}", "answer_column": "answer"}
    mixed = [{"question": "2 + 3?", "answer": 5}, {"question": 7, "answer": "7"}]
    assert answers(read(run, jsonl(tmp_path / "rows.jsonl", *mixed), **options)) == ["5", "7"]
    jsonl(tmp_path / "rows.jsonl", row(0), row(1, messages=[{"role": "user", "content": 5}]))
    with pytest.raises(RowError, match=r"rows\.jsonl row 1, line 2: the prompt must be a text or a list"):
        read(run, tmp_path / "rows.jsonl")


def test_a_name_on_the_hub_is_named_where_there_is_no_network(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(RowError, match=r"owner/nothing_of_this_name \(split train\) can't be read"):
        read(run, "owner/nothing_of_this_name")


def uneven(folder: Path) -> None:
    """Two files whose ground truths are unlike, which `datasets` does not load together."""
    parquet(folder / "a.parquet", verl(1))
    parquet(folder / "b.parquet", {**verl(2), "reward_model": {"style": "rule", "ground_truth": [[1, 0]]}})


def test_what_datasets_can_not_put_together_is_named_with_its_cause_and_the_way_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a name of a configuration is loaded as a name on the hub is: by `datasets`."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    uneven(tmp_path / "guru")
    with pytest.raises(RowError) as error:
        read(run, tmp_path / "guru", config_name="default")
    (line,) = str(error.value).splitlines()
    assert line.startswith(
        f"{tmp_path / 'guru'} (split train) can't be read: An error occurred while generating"
    )
    assert "list" in line  # what pyarrow says of the two types
    assert (
        f"name its files instead, data.train.path='{tmp_path / 'guru'}/**/*.parquet' data.train.config_name=null"
        in line
    )


def test_a_name_on_the_hub_whose_files_are_unlike_is_to_be_downloaded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, but that the folder is named as a data set of the hub is."""
    uneven(tmp_path / "there")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    load = datasets.load_dataset
    monkeypatch.setattr(
        datasets, "load_dataset", lambda _, *given, **named: load(str(tmp_path / "there"), *given, **named)
    )
    with pytest.raises(RowError) as error:
        read(run, "LLM360/guru-RL-92k", revision="main")
    assert str(error.value).endswith(
        "files with unlike columns are read as files: `hf download --repo-type dataset LLM360/guru-RL-92k --revision "
        "main --local-dir FOLDER`, and data.train.path=FOLDER"
    )


def test_a_folder_that_can_not_be_written_is_named_with_its_key(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        RowError, match=r"can't be kept in .*file/below.*data\.cache_dir names another folder"
    ):
        read(with_data(run, cache_dir=tmp_path / "file/below"), jsonl(tmp_path / "rows.jsonl", row(1)))


def test_large_rows_come_back_as_they_were(run: Run, tmp_path: Path) -> None:
    """A row of many tests is compressed on the disk."""
    tests = {"inputs": [f"{number}\n" * 50 for number in range(100)], "outputs": ["1\n"] * 100}
    info = {"type": "math", "answer": {"value": "x" * 5000}, "more": tests}
    found = read(run, jsonl(tmp_path / "rows.jsonl", row(0) | {"verification_info": info}, row(1)))
    assert found.rows[0].verification_info == info
    assert found.rows[1].verification_info["answer"] == {"value": "1"}


# -------------------------------------------------------------------------------------------------------------- lengths


def demo_run(run: Run) -> Run:
    return run.model_copy(
        update={"model": run.model.model_copy(update={"path": str(ROOT / "config/recipes/demo_model")})}
    )


def test_lengths_are_those_of_the_tokens_and_are_read_from_the_disk_the_next_time(
    run: Run, tmp_path: Path
) -> None:
    raw = {"apply_chat_template": False, "raw_prompt": "as it is"}
    rows = [row(number, apply_chat_template=None, raw_prompt=None) for number in range(1100)]
    found = read(run, jsonl(tmp_path / "rows.jsonl", *rows, row(7) | raw))
    tokenizer = load_tokenizer(demo_run(run))
    lengths, failed = prompt_lengths(tokenizer, found.rows)
    assert lengths.tolist() == [len(tokenize(tokenizer, each)) for each in found.rows.rows()]
    assert lengths[-1] == len(tokenizer.encode("as it is", add_special_tokens=False))
    assert failed == {}
    assert isinstance(found.rows, RowStore)
    (file,) = found.rows.folder.glob("lengths-*.npy")
    before = file.stat().st_mtime_ns
    assert prompt_lengths(tokenizer, found.rows)[0].tolist() == lengths.tolist()
    assert file.stat().st_mtime_ns == before
    tokenizer.chat_template = f"{tokenizer.chat_template}!"  # another template: other lengths
    assert prompt_lengths(tokenizer, found.rows)[0][0] > lengths[0]


def test_a_template_that_fails_for_a_row_is_named_with_it_or_costs_that_row_alone(
    run: Run, tmp_path: Path
) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(0), row(1, messages=[{"role": "tool", "content": "5"}]), row(2))
    tokenizer = load_tokenizer(demo_run(run))
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    source = DatasetSource(path=str(path))
    with pytest.raises(RowError, match=r"rows\.jsonl row 1: the chat template of .* fails: .*no tools here"):
        open_sources(run, [source], tokenizer, shuffle=False)
    prompts = open_sources(with_data(run, bad_rows="quarantine"), [source], tokenizer, shuffle=False)
    assert [prompts.place(draw)[0].row for draw in range(2)] == [0, 2]


def test_the_fingerprint_of_several_sources_changes_with_each_and_with_their_shares(
    run: Run, tmp_path: Path
) -> None:
    for name, number in (("a", 1), ("b", 2)):
        jsonl(tmp_path / f"{name}.jsonl", row(number))

    def fingerprint(*sources: dict[str, Any]) -> str:
        read_as = {"type": "dataset"}
        data = DataConfig.model_validate(
            {
                "train": [
                    read_as | {"path": str(tmp_path / f"{each.pop('file')}.jsonl")} | each for each in sources
                ]
            }
        )
        tokenizer: Any = OneTokenACharacter()
        return open_sources(run, data.train_sources, tokenizer, shuffle=True).fingerprint

    a, b = {"file": "a"}, {"file": "b"}
    found = [
        fingerprint(dict(a), dict(b)),
        fingerprint(dict(b), dict(a)),
        fingerprint(dict(a)),
        fingerprint(a | {"weight": 2.0}, dict(b)),
        fingerprint(a | {"epochs": 2}, dict(b)),
    ]
    assert len(set(found)) == len(found)
    assert fingerprint(dict(a), dict(b)) == found[0]


@pytest.mark.parametrize(
    ("types", "row_type", "is_said"),
    [
        ({}, "hendrycks_math", True),
        ({"math": "prime_math"}, "prime_math", False),
        ({"math": "hendrycks_math"}, "hendrycks_math", False),
        ({"gsm8k": "math"}, "hendrycks_math", True),
    ],
)
def test_a_data_source_that_two_systems_read_in_two_ways_is_said_at_every_start(
    run: Run,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    types: dict[str, str],
    row_type: str,
    *,
    is_said: bool,
) -> None:
    path = jsonl(tmp_path / "rows.jsonl", verl(1, "math"), verl(2, "MATH"), verl(3, "math"))
    run = with_data(run, source_types=types)
    for _ in range(2):
        caplog.clear()
        source = DatasetSource(path=str(path))
        types_read = [row.verification_info["type"] for row in ingest(run, source).rows.rows()]
        assert types_read == [row_type, "prime_math", row_type]
        tokenizer: Any = OneTokenACharacter()
        open_sources(run, [source], tokenizer, shuffle=False)
        assert caplog.text.count("data_source 'math', 2 rows: read as the rubric paper") == is_said
