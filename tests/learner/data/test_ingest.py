"""What is read of a source: once, whole or not at all, and anew where a byte has changed."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest

from config.data import DataConfig, DatasetSource
from config.run import Run
from learner.data.ingest import Ingested, ingest
from learner.data.lengths import prompt_lengths, tokenize
from learner.data.prompts import load_tokenizer, open_sources
from learner.data.row import RowError
from learner.data.store import RowStore
from tests.conftest import ROOT
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import with_data
from tests.support.verl_runs import verl_rows, write_jsonl, write_parquet

pytestmark = pytest.mark.model


def row(number: int, **more: Any) -> dict[str, Any]:
    info = {"type": "math", "answer": {"value": str(number)}}
    return {
        "messages": [{"role": "user", "content": f"question {number}"}],
        "verification_info": info,
        **more,
    }


def verl(number: int, source: str = "openai/gsm8k") -> dict[str, Any]:
    (made,) = verl_rows(source, count=1)
    return made | {"reward_model": {"style": "rule", "ground_truth": str(number)}}


def jsonl(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_jsonl(path, rows)


def parquet(path: Path, *rows: Mapping[str, Any]) -> Path:
    return write_parquet(path, rows)


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
    assert answers(read(run, tmp_path / "rows", limit=3)) == ["1", "2", "3"], "of the whole source"


def test_a_pattern_names_files(run: Run, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        parquet(tmp_path / f"rows/train__{number}.parquet", row(number))
    parquet(tmp_path / "rows/test__4.parquet", row(4))
    assert answers(read(run, tmp_path / "rows/train__*.parquet")) == ["1", "2", "3"]
    assert answers(read(run, tmp_path / "**/test*.parquet")) == ["4"]
    with pytest.raises(RowError, match=r"none__\*\.parquet: no file of \.jsonl, \.json, \.parquet, \.csv"):
        read(run, tmp_path / "rows/none__*.parquet")


@pytest.mark.parametrize(
    ("train", "name"), [("train/x", "online_eval/x"), ("train-0", "test-0")], ids=["subfolders", "names"]
)
def test_a_folders_split_is_in_its_files_names(run: Run, tmp_path: Path, train: str, name: str) -> None:
    for number, file in enumerate((train, name)):
        parquet(tmp_path / f"rows/{file}.parquet", row(number))
    split = re.split("[/-]", name)[0]
    assert answers(read(run, tmp_path / "rows")) == ["0"]
    assert answers(read(run, tmp_path / "rows", split=split)) == ["1"]
    with pytest.raises(RowError, match=r"other\) can't be read: its files are of the splits train, test"):
        read(run, tmp_path / "rows", split="other")


def test_objects_and_values_with_commas_are_read_and_columns_may_mix_types(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([row(1), row(2)]))
    (tmp_path / "rows.csv").write_text("question,answer\nwhat?,007\nand?,8\n")
    assert answers(read(run, tmp_path / "rows.json")) == ["1", "2"]
    options = {"prompt_template": "{question}", "answer_column": "answer"}
    assert answers(read(run, tmp_path / "rows.csv", **options)) == ["007", "8"]
    options = {"prompt_template": "{question}", "answer_column": "answer"}
    mixed = [{"question": "2 + 3?", "answer": 5}, {"question": 7, "answer": "7"}]
    assert answers(read(run, jsonl(tmp_path / "rows.jsonl", *mixed), **options)) == ["5", "7"]


# ------------------------------------------------------------------------------------------------- once, and only whole


def test_rows_are_read_once_and_found_again_wherever_the_file_lies(run: Run, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(1), row(2))
    first, names = read(run, path), kept(run)
    again = read(run, shutil.copy(path, tmp_path / "moved.jsonl"))
    assert kept(run) == names, "nothing was written again"
    assert (answers(again), again.fingerprint) == (["1", "2"], first.fingerprint)


@pytest.mark.parametrize("change", ["a byte", "a key", "a task"])
def test_rows_are_read_anew_where_what_makes_them_has_changed(run: Run, tmp_path: Path, change: str) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(1), row(2))
    before = read(run, path)
    if change == "a byte":
        jsonl(path, row(1), row(3))
    elif change == "a task":
        tasks = {"math": run.scorers.tasks["math"], "also": run.scorers.tasks["math"]}
        run = run.model_copy(update={"scorers": run.scorers.model_copy(update={"tasks": tasks})})
    after = read(run, path, **({"system_prompt": "think"} if change == "a key" else {}))
    assert len(kept(run)) == 2
    # A run that goes on may have other tasks, whose rows are the same; other bytes or keys make other rows.
    assert (after.fingerprint == before.fingerprint) == (change == "a task")


NO_REFERENCE = {"verification_info": {"type": "math", "answer": {"value": " "}}}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"messages": "what?"}, r": no column 'verification_info' among messages"),
        (row(1) | {"messages": 7}, r" row 0: the prompt must be a text or a list of role and content, got '7'"),
        (row(1) | NO_REFERENCE, r" row 0: no answer to check against"),
        (verl(1, "polaris_tinyv"), r" row 0: .*"),
        (None, " can't be read"),
    ],
    ids=["a column is missing", "a number for a chat", "an empty reference", "no such task", "cut off"],
)  # fmt: skip
def test_bad_input_is_named_and_leaves_nothing(run: Run, tmp_path: Path, bad: Any, message: str) -> None:
    path = parquet(tmp_path / "rows/rows.parquet", bad or row(0))
    if bad is None:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RowError, match=rf"rows\.parquet{message}"):
        read(run, tmp_path / "rows")
    rows = [row(number) for number in range(5)] + [row(5, messages=[{"role": "user", "content": 5}])]
    with pytest.raises(RowError, match=r"rows\.jsonl row 5, line 6: the prompt must be a text or a list"):
        read(run, jsonl(tmp_path / "rows.jsonl", *rows))
    assert kept(run) == []


def test_unusable_rows_are_quarantined_and_counted_in_a_prompts_row(
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
    assert "rows_quarantined count=1 of=3" in caplog.text
    parquet(tmp_path / "a.parquet", verl(0), verl(1) | {"reward_model": None}, verl(2))
    jsonl(tmp_path / "b.jsonl", row(3), row(4))
    sources = [DatasetSource(path=str(tmp_path / name)) for name in ("a.parquet", "b.jsonl")]
    tokenizer: Any = OneTokenACharacter()
    prompts = open_sources(with_data(run, bad_rows="quarantine"), sources, tokenizer, shuffle=False)
    assert [prompts.place(draw)[0].row for draw in range(4)] == [0, 2, 3, 4]


@pytest.fixture
def _own_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.usefixtures("_own_hub")
def test_what_datasets_cant_load_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a name of a configuration is loaded as a name on the hub is: by `datasets`."""
    with pytest.raises(RowError, match=r"owner/nothing_of_this_name \(split train\) can't be read"):
        read(run, "owner/nothing_of_this_name")
    folder = tmp_path / "guru"  # two files whose ground truths are unlike
    parquet(folder / "a.parquet", verl(1))
    parquet(folder / "b.parquet", {**verl(2), "reward_model": {"style": "rule", "ground_truth": [[1, 0]]}})
    with pytest.raises(RowError) as error:
        read(run, folder, config_name="default")
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{folder} (split train) can't be read: An error occurred while generating")
    assert "list" in line  # what pyarrow says of the two types
    keys = f"data.train.path='{folder}/**/*.parquet' data.train.config_name=null"
    assert f"name its files instead, {keys}" in line
    load = datasets.load_dataset  # the folder is named as a data set of the hub is
    monkeypatch.setattr(
        datasets, "load_dataset", lambda _, *given, **named: load(str(folder), *given, **named)
    )
    with pytest.raises(RowError) as error:
        read(run, "LLM360/guru-RL-92k", revision="main")
    assert str(error.value).endswith(
        "files with unlike columns are read as files: `hf download --repo-type dataset LLM360/guru-RL-92k --revision "
        "main --local-dir FOLDER`, and data.train.path=FOLDER"
    )


def test_large_rows_come_back_and_a_folder_that_cant_be_written_is_named(run: Run, tmp_path: Path) -> None:
    """A row of many tests is compressed on the disk."""
    tests = {"inputs": [f"{number}\n" * 50 for number in range(100)], "outputs": ["1\n"] * 100}
    info = {"type": "math", "answer": {"value": "x" * 5000}, "more": tests}
    path = jsonl(tmp_path / "rows.jsonl", row(0) | {"verification_info": info}, row(1))
    found = read(run, path)
    assert found.rows[0].verification_info == info
    assert found.rows[1].verification_info["answer"] == {"value": "1"}
    (tmp_path / "file").write_text("no folder")
    told = r"can't be kept in .*file/below.*data\.cache_dir names another folder"
    with pytest.raises(RowError, match=told):
        read(with_data(run, cache_dir=tmp_path / "file/below"), path)


# -------------------------------------------------------------------------------------------------------------- lengths


def demo_run(run: Run) -> Run:
    model = run.model.model_copy(update={"path": str(ROOT / "config/recipes/demo_model")})
    return run.model_copy(update={"model": model})


def test_lengths_are_those_of_the_tokens_and_are_read_from_the_disk(run: Run, tmp_path: Path) -> None:
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


def test_a_template_that_fails_for_a_row_is_named_or_costs_that_row_alone(run: Run, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "rows.jsonl", row(0), row(1, messages=[{"role": "tool", "content": "5"}]), row(2))
    tokenizer = load_tokenizer(demo_run(run))
    fails = "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    tokenizer.chat_template = f"{{% for m in messages %}}{fails}{{{{ m.content }}}}{{% endfor %}}"
    source = DatasetSource(path=str(path))
    with pytest.raises(RowError, match=r"rows\.jsonl row 1: the chat template of .* fails: .*no tools here"):
        open_sources(run, [source], tokenizer, shuffle=False)
    prompts = open_sources(with_data(run, bad_rows="quarantine"), [source], tokenizer, shuffle=False)
    assert [prompts.place(draw)[0].row for draw in range(2)] == [0, 2]


def test_the_fingerprint_changes_with_each_source_and_its_share(run: Run, tmp_path: Path) -> None:
    def source(number: int, **share: float) -> dict[str, Any]:
        path = jsonl(tmp_path / f"{number}.jsonl", row(number))
        return {"type": "dataset", "path": str(path), **share}

    def fingerprint(*sources: dict[str, Any]) -> str:
        tokenizer: Any = OneTokenACharacter()
        data = DataConfig.model_validate({"train": sources})
        return open_sources(run, data.train_sources, tokenizer, shuffle=True).fingerprint

    one, other = source(1), source(2)
    shares = [source(1, weight=2.0), source(1, epochs=2)]
    lists = [(one, other), (other, one), (one,), *((share, other) for share in shares)]
    found = [fingerprint(*sources) for sources in lists]
    assert len(set(found)) == len(found)
    assert fingerprint(one, other) == found[0]


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
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, types: Any, row_type: str, *, is_said: bool
) -> None:
    path = jsonl(tmp_path / "rows.jsonl", verl(1, "math"), verl(2, "MATH"), verl(3, "math"))
    run, source = with_data(run, source_types=types), DatasetSource(path=str(path))
    for _ in range(2):
        caplog.clear()
        types_read = [row.verification_info["type"] for row in ingest(run, source).rows.rows()]
        assert types_read == [row_type, "prime_math", row_type]
        tokenizer: Any = OneTokenACharacter()
        open_sources(run, [source], tokenizer, shuffle=False)
        assert caplog.text.count("data_source 'math', 2 rows: read as the rubric paper") == is_said
