"""Rows as other systems' files hold them: verl's columns, code and patches, one's own tasks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.codec import decode_prompt, encode_prompt
from config.data import DatasetSource, TrainDataset
from config.loading import load_run
from config.run import Run
from config.scorer_kinds import CodeConfig, CustomConfig, JudgeConfig, MathConfig, RubricConfig, SweConfig
from config.scorers import ScorersConfig, TaskConfig
from learner.data.prompts import open_sources
from learner.data.row import Row, RowError
from tests.support.chain import make_run
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import load_rows

CHAT = [{"role": "user", "content": "2 + 3?"}]
TASKS = {
    "math": TaskConfig(),
    "hard": TaskConfig(scorer=MathConfig(deadline_s=60.0)),
    "code": TaskConfig(scorer=CodeConfig()),
    "swe": TaskConfig(scorer=SweConfig()),
    "judge": TaskConfig(scorer=JudgeConfig()),
    "rubric": TaskConfig(scorer=RubricConfig()),
    "parity": TaskConfig(scorer=CustomConfig(import_path="parity:Parity")),
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path).model_copy(update={"scorers": ScorersConfig(tasks=TASKS)})


def read(run: Run, folder: Path, *records: Mapping[str, Any], **options: Any) -> Sequence[Row]:
    """Through a parquet file, as such data come."""
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(list(records)), path)
    return load_rows(run, DatasetSource(path=str(path), **options))[0]


def verl(source: str, truth: Any, **extra: Any) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": CHAT,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": 7, **extra},
    }


def test_verls_rows_train_as_they_are(run: Run, tmp_path: Path) -> None:
    code = {"inputs": ["1\n"], "outputs": ["2\n"]}
    rows = read(
        run,
        tmp_path,
        verl("openai/gsm8k", "72"),
        verl("AIME", "204"),
        verl("apps", json.dumps(code)),
        verl("codegen__leetcode2k", json.dumps({"functional": "check(f)"}), prefix="import math"),
        verl("parity", "odd"),
    )
    assert [(row.task, row.verification_info) for row in rows] == [
        ("math", {"type": "gsm8k", "answer": {"value": "72"}}),
        ("math", {"type": "prime_math", "answer": {"value": "204"}}),
        ("code", {"type": "code", "answer": code}),
        ("code", {"type": "code", "answer": {"functional": "check(f)", "prefix": "import math"}}),
        (
            "parity",
            {"type": "parity", "answer": {"value": "odd"}, "extra_info": {"index": 7, "prefix": None}},
        ),
    ]
    assert {tuple(turn["content"] for turn in row.messages) for row in rows} == {("2 + 3?",)}


def test_a_prompt_says_where_its_row_comes_from_whatever_the_rows_shape(run: Run, tmp_path: Path) -> None:
    (of_verl,) = read(run, tmp_path, verl("openai/gsm8k", "72"))
    given = {"messages": CHAT, "verification_info": {"type": "math", "answer": {"value": "5"}}}
    (ours,) = read(run, tmp_path, given | {"data_source": "numina"})
    (by_columns,) = read(
        run,
        tmp_path,
        {"question": "2 + 3?", "answer": "5", "data_source": "mine"},
        prompt_template="{question}",
        answer_column="answer",
    )
    (silent,) = read(run, tmp_path, given)
    (numbered,) = read(run, tmp_path, given | {"data_source": 7})
    assert [row.data_source for row in (of_verl, ours, by_columns, silent, numbered)] == [
        "openai/gsm8k",
        "numina",
        "mine",
        "",
        "",
    ]
    assert ours.task == "math"
    tokenizer: Any = OneTokenACharacter()
    read(run, tmp_path, given | {"data_source": "numina"})
    source = open_sources(run, [DatasetSource(path=str(tmp_path / "rows.parquet"))], tokenizer, shuffle=False)
    assert encode_prompt(source.training_prompt("0", first_row=0))["source"] == "numina"


def test_nested_columns_reach_the_wire_and_come_back(run: Run, tmp_path: Path) -> None:
    """Structs and lists of parquet, through the prompt's bytes."""
    cases = [{"input": "1\n", "output": "2\n"}, {"input": "2\n", "output": "3\n"}]
    record = {
        "messages": CHAT,
        "verification_info": {"type": "code_verifiable", "answer": {"test_cases": cases}},
    }
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "rows.parquet")
    tokenizer: Any = OneTokenACharacter()
    source = open_sources(run, [DatasetSource(path=str(tmp_path / "rows.parquet"))], tokenizer, shuffle=False)
    fields = encode_prompt(source.training_prompt("0", first_row=0)) | {"floor": "0"}
    sent = decode_prompt(
        {
            name.encode(): value if isinstance(value, bytes) else value.encode()
            for name, value in fields.items()
        }
    )
    assert sent.task == "code"
    assert sent.verification_info == {"type": "code_verifiable", "answer": {"test_cases": cases}}


def test_a_ground_truth_that_is_a_list_of_one_is_that_one(run: Run, tmp_path: Path) -> None:
    (row,) = read(run, tmp_path, verl("OLYMPIAD_BENCH", ["2"]))
    assert row.verification_info["answer"] == {"value": "2"}


def test_a_row_for_a_judge_takes_its_question_along(run: Run, tmp_path: Path) -> None:
    info = {"type": "llm_judge", "answer": {"value": "five"}}
    (mapped,) = read(
        run, tmp_path, {"q": "2 + 3?", "a": "five"}, prompt_column="q", answer_column="a", task="judge"
    )
    (given,) = read(run, tmp_path, {"messages": CHAT, "verification_info": json.dumps(info)})
    (verls,) = read(run, tmp_path, verl("stem_web", "five"))
    answers = [row.verification_info["answer"] for row in (mapped, given, verls)]
    assert answers == [{"value": "five", "question": "2 + 3?"}] * 3


def test_a_row_for_a_rubric_model_brings_its_criteria_beside_it_or_in_extra_info(
    run: Run, tmp_path: Path
) -> None:
    rows = read(
        run,
        tmp_path,
        verl("polaris_tinyv", "5") | {"criteria": "States 5"},
        verl("polaris_tinyv", "5", criteria="States 5"),
    )
    assert [(row.task, row.verification_info["answer"]) for row in rows] == [
        ("rubric", {"value": "5", "question": "2 + 3?", "criteria": "States 5"})
    ] * 2


def test_a_row_with_both_shapes_is_read_by_its_verification_info(run: Run, tmp_path: Path) -> None:
    info = {"type": "math", "answer": {"value": "5"}}
    rows = read(
        run,
        tmp_path,
        verl("AIME", "6") | {"verification_info": json.dumps(info)},
        verl("AIME", "6") | {"verification_info": None},
    )
    assert [row.verification_info["answer"]["value"] for row in rows] == ["5", "6"]


def test_edits_of_several_files_lose_what_parquet_adds(run: Run, tmp_path: Path) -> None:
    """In a column of objects each row has the paths of all rows."""

    def row(path: str) -> dict[str, Any]:
        return {
            "messages": CHAT,
            "verification_info": {
                "type": "swe",
                "answer": {"code_context": {path: "a"}, "oracle_new_content": {path: "b"}},
            },
        }

    rows = read(run, tmp_path, row("one.py"), row("two.py"))
    assert [row.verification_info["answer"]["code_context"] for row in rows] == [
        {"one.py": "a"},
        {"two.py": "a"},
    ]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("math", ("math", "math")),
        ("gsm8k", ("math", "gsm8k")),
        ("hard", ("hard", "math")),
        ("parity", ("parity", "parity")),
    ],
)
def test_a_column_map_names_a_task_or_a_type(
    run: Run, tmp_path: Path, task: str, expected: tuple[str, str]
) -> None:
    (row,) = read(
        run, tmp_path, {"q": "2 + 3?", "a": "5"}, prompt_template="{q}", answer_column="a", task=task
    )
    assert (row.task, row.verification_info["type"]) == expected
    assert row.verification_info["answer"] == {"value": "5"}


@pytest.mark.parametrize(("options", "column"), [({}, "task"), ({"task_column": "which"}, "which")])
def test_a_column_may_name_the_task(
    run: Run, tmp_path: Path, options: Mapping[str, Any], column: str
) -> None:
    info = json.dumps({"type": "math", "answer": "5"})
    rows = read(
        run,
        tmp_path,
        {"messages": CHAT, "verification_info": info, column: "hard"},
        {"messages": CHAT, "verification_info": info, column: None},
        **options,
    )
    assert [row.task for row in rows] == ["hard", "math"]


def test_a_column_that_means_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    record = {"messages": CHAT, "verification_info": '{"type": "math", "answer": "5"}', "task": "summarise"}
    with pytest.raises(RowError, match="row 0: no scorer for task 'summarise'"):
        read(run, tmp_path, record)
    assert [row.task for row in read(run, tmp_path, record, task_column=None)] == ["math"]


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (
            verl("openai/gsm8", "5"),
            {},
            r"rows.parquet row 0: unknown data_source 'openai/gsm8'; did you mean openai/gsm8k",
        ),
        (
            verl("logic__new", "5"),
            {},
            "row 0: rows of data_source 'logic__new' are not scored by this version",
        ),
        (verl("AIME", ["1", "2"]), {}, "row 0: no answer: a reference must be one value"),
        (
            {"messages": CHAT, "info": '{"type": "code", "answer": {}}'},
            {"verification_column": "info"},
            "row 0, column info: no answer: a row of type 'code' needs test_cases, or",
        ),
        (verl("AIME", "1") | {"prompt": []}, {}, "row 0: the prompt must be a text or a list"),
    ],
)
def test_what_no_scorer_could_use_is_refused_when_it_is_read(
    run: Run, tmp_path: Path, record: Mapping[str, Any], options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(RowError, match=message):
        read(run, tmp_path, record, **options)


def test_a_task_that_the_run_lacks_is_said_with_what_to_add(tmp_path: Path) -> None:
    record = verl("apps", json.dumps({"inputs": [], "outputs": []}))
    with pytest.raises(RowError, match=r"row 0: .* add scorers\.tasks\.code\.scorer\.type=code$"):
        read(make_run(tmp_path), tmp_path, record)


QUESTION = {"question": "2 + 3?", "answer": "5"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (QUESTION, "data.train.prompt_template='{question}' data.train.answer_column=answer"),
        (
            QUESTION | {"answer": "2 + 3 is 5\n#### 5"},
            (
                "data.train.prompt_template='{question}' data.train.answer_column=answer "
                "data.train.answer_pattern='#### (.+)'"
            ),
        ),
        (
            {"problem": "2 + 3?", "solution": "5", "level": 3},
            "data.train.prompt_template='{problem}' data.train.answer_column=solution",
        ),
        (
            {"prompt": "2 + 3?", "ground_truth": "5"},
            "data.train.prompt_template='{prompt}' data.train.answer_column=ground_truth",
        ),
        ({"text": "2 + 3?", "label": "5"}, None),
        ({"mesages": "2 + 3?", "answer": "5"}, None),
    ],
)
def test_rows_of_a_question_and_an_answer_get_the_keys_that_read_them(
    run: Run, tmp_path: Path, record: Mapping[str, Any], hint: str | None
) -> None:
    with pytest.raises(RowError, match="no column") as refused:
        read(run, tmp_path, record)
    said = str(refused.value)
    assert ("rows of a question and an answer are read with" in said) is (hint is not None)
    if hint is None:
        return
    assert hint in said
    (row,) = of_words(tmp_path, *shlex.split(hint))
    assert row.verification_info["answer"] == {"value": "5"}, "what the hint says reads them"


def of_words(folder: Path, *words: str) -> Sequence[Row]:
    """Return the rows of the file that `read` wrote, as a run with these words of a shell reads them."""
    config = folder / "run.yaml"
    config.write_text(
        "name: words\nmodel: {path: tiny}\n"
        f"data: {{train: {{type: dataset, path: {folder / 'rows.parquet'}}}, cache_dir: {folder / 'cache'}}}\n"
    )
    run = load_run(["--config", str(config), *words])
    [source] = run.data.train_sources
    return load_rows(run, source)[0]


def test_the_hint_has_the_key_of_its_source(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n")
    sources = tuple(TrainDataset(path=str(path), weight=weight) for weight in (1, 2))
    held_out = DatasetSource(path=str(path), split="test")
    run = run.model_copy(
        update={"data": run.data.model_copy(update={"train": sources, "held_out": held_out})}
    )
    for source, key in (*zip(sources, ("train.0", "train.1"), strict=True), (held_out, "held_out")):
        with pytest.raises(RowError) as refused:
            load_rows(run, source)
        hint = f"data.{key}.prompt_template='{{question}}' data.{key}.answer_column=answer"
        assert str(refused.value).endswith(f"are read with {hint}")


def test_the_task_that_a_hint_adds_reads_the_row(tmp_path: Path) -> None:
    record = verl("apps", json.dumps({"inputs": ["1"], "outputs": ["2"]}))
    with pytest.raises(RowError) as refused:
        read(make_run(tmp_path), tmp_path, record)
    words = shlex.split(str(refused.value).rpartition(": add ")[2])
    (row,) = of_words(tmp_path, *words)
    assert row.task == "code"


def test_every_bad_row_is_listed_and_the_reason_names_the_first_few(run: Run, tmp_path: Path) -> None:
    good = {"messages": CHAT, "verification_info": {"type": "math", "answer": {"value": "5"}}}
    bad = good | {"messages": []}
    with pytest.raises(RowError) as refused:
        read(run, tmp_path, *[good, bad] * 6, good)
    lines = refused.value.rows
    assert len(lines) == 6
    assert [re.findall(r" row (\d+): ", line) for line in lines] == [
        [str(index)] for index in (1, 3, 5, 7, 9, 11)
    ]
    said = str(refused.value)
    assert said.startswith(lines[0])
    assert (lines[2] in said, lines[3] in said) == (True, False)
    assert said.endswith("and 3 more bad rows: `millrace data check CONFIG` lists all")
