"""Rows as other systems' files hold them: verl's columns, code and patches, one's own tasks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.codec import decode_prompt, encode_prompt
from config.data import DatasetSource, TrainDataset
from config.loading import load_run
from config.run import Run
from config.scorer_kinds import CodeConfig, CustomConfig, JudgeConfig, MathConfig, RubricConfig, SweConfig
from config.scorers import TaskConfig
from learner.data.prompts import open_sources
from learner.data.row import Row, RowError
from tests.support.chain import make_run
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import load_rows, with_data, with_tasks
from tests.support.verl_runs import write_jsonl, write_parquet

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("own_cache")]
CHAT = [{"role": "user", "content": "2 + 3?"}]
GIVEN = {"messages": CHAT, "verification_info": {"type": "math", "answer": {"value": "5"}}}
TASKS = {
    "math": TaskConfig(),
    "hard": TaskConfig(scorer=MathConfig(deadline_s=60.0)),
    "code": TaskConfig(scorer=CodeConfig()),
    "swe": TaskConfig(scorer=SweConfig()),
    "judge": TaskConfig(scorer=JudgeConfig()),
    "rubric": TaskConfig(scorer=RubricConfig()),
    "parity": TaskConfig(scorer=CustomConfig(import_path="parity:Parity")),
}


@pytest.fixture
def run(run: Run) -> Run:
    return with_tasks(run, TASKS)


Read = Callable[..., Sequence[Row]]


@pytest.fixture
def read(run: Run, tmp_path: Path) -> Read:
    """Read records through a parquet file, as such data come."""

    def read_as(*records: Mapping[str, Any], by: Run = run, **options: Any) -> Sequence[Row]:
        path = write_parquet(tmp_path / "rows.parquet", records)
        return load_rows(by, DatasetSource(path=str(path), **options))[0]

    return read_as


def fields_of_first_prompt(run: Run, folder: Path) -> dict[str, Any]:
    """Return what the first of the rows that were read is on the wire."""
    tokenizer: Any = OneTokenACharacter()
    source = open_sources(run, [DatasetSource(path=str(folder / "rows.parquet"))], tokenizer, shuffle=False)
    return dict(encode_prompt(source.training_prompt("0", first_row=0)))


def verl(source: str, truth: Any, **extra: Any) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": CHAT,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": 7, **extra},
    }


def test_verls_rows_train_as_they_are(read: Read) -> None:
    code = {"inputs": ["1\n"], "outputs": ["2\n"]}
    rows = read(
        verl("openai/gsm8k", "72"),
        verl("AIME", "204"),
        verl("apps", json.dumps(code)),
        verl("codegen__leetcode2k", json.dumps({"functional": "check(f)"}), prefix="import math"),
        verl("parity", "odd"),
    )
    own = {"type": "parity", "answer": {"value": "odd"}, "extra_info": {"index": 7, "prefix": None}}
    assert [(row.task, row.verification_info) for row in rows] == [
        ("math", {"type": "gsm8k", "answer": {"value": "72"}}),
        ("math", {"type": "prime_math", "answer": {"value": "204"}}),
        ("code", {"type": "code", "answer": code}),
        ("code", {"type": "code", "answer": {"functional": "check(f)", "prefix": "import math"}}),
        ("parity", own),
    ]
    assert {tuple(turn["content"] for turn in row.messages) for row in rows} == {("2 + 3?",)}
    (of_list,) = read(verl("OLYMPIAD_BENCH", ["2"]))
    assert of_list.verification_info["answer"] == {"value": "2"}, "a list of one is that one"


def test_a_prompt_says_where_its_row_is_from_and_nested_columns_come_back(
    run: Run, read: Read, tmp_path: Path
) -> None:
    by_columns = {"question": "2 + 3?", "answer": "5", "data_source": "mine"}
    keys = {"prompt_template": "{question}", "answer_column": "answer"}
    sources = [
        *(row.data_source for row in read(verl("openai/gsm8k", "72"))),
        *(row.data_source for row in read(by_columns, **keys)),
        *(row.data_source for row in read(GIVEN)),
        *(row.data_source for row in read(GIVEN | {"data_source": 7})),
        *(row.data_source for row in read(GIVEN | {"data_source": "numina"})),
    ]
    assert sources == ["openai/gsm8k", "mine", "", "", "numina"]
    assert fields_of_first_prompt(run, tmp_path)["source"] == "numina"
    # Structs and lists of parquet, through the prompt's bytes.
    cases = [{"input": "1\n", "output": "2\n"}, {"input": "2\n", "output": "3\n"}]
    info = {"type": "code_verifiable", "answer": {"test_cases": cases}}
    read({"messages": CHAT, "verification_info": info})
    fields = fields_of_first_prompt(run, tmp_path) | {"floor": "0"}
    sent = decode_prompt({k.encode(): v if isinstance(v, bytes) else v.encode() for k, v in fields.items()})
    assert (sent.task, dict(sent.verification_info)) == ("code", info)


def test_what_an_environment_reads_of_a_row_travels_by_itself(run: Run, read: Read) -> None:
    tools = {"tools_kwargs": {"look": {"create_kwargs": {"place": "cave"}}}}
    section = {"type": "verl_tools", "tool_config_path": "tools.yaml"}
    tasks = {"math": {"scorer": {"type": "math"}, "environment": section}}
    playing = Run.model_validate(run.model_dump() | {"scorers": {"tasks": tasks}})
    record = verl("AIME", "204", **tools)
    assert read(record, by=playing)[0].columns == {"extra_info": {"index": 7, **tools}}
    assert read(record)[0].columns == {}


def test_a_row_for_a_judge_brings_its_question_and_one_for_a_rubric_model_its_criteria(read: Read) -> None:
    info = json.dumps({"type": "llm_judge", "answer": {"value": "five"}})
    keys = {"prompt_column": "q", "answer_column": "a", "task": "judge"}
    rows = [
        *read({"q": "2 + 3?", "a": "five"}, **keys),
        *read({"messages": CHAT, "verification_info": info}),
        *read(verl("stem_web", "five")),
    ]
    expected = {"value": "five", "question": "2 + 3?"}
    assert [row.verification_info["answer"] for row in rows] == [expected] * 3
    beside = verl("polaris_tinyv", "5") | {"criteria": "States 5"}
    rows = [*read(beside, verl("polaris_tinyv", "5", criteria="States 5"))]
    answer = {"value": "5", "question": "2 + 3?", "criteria": "States 5"}
    assert [(row.task, row.verification_info["answer"]) for row in rows] == [("rubric", answer)] * 2


def test_verification_info_comes_first_and_edits_lose_what_parquet_adds(read: Read) -> None:
    info = json.dumps({"type": "math", "answer": {"value": "5"}})
    rows = read(*(verl("AIME", "6") | {"verification_info": given} for given in (info, None)))
    assert [row.verification_info["answer"]["value"] for row in rows] == ["5", "6"]
    # In a column of objects each row has the paths of all rows.

    def row(path: str) -> dict[str, Any]:
        edit = {"code_context": {path: "a"}, "oracle_new_content": {path: "b"}}
        return {"messages": CHAT, "verification_info": {"type": "swe", "answer": edit}}

    rows = read(row("one.py"), row("two.py"))
    contexts = [row.verification_info["answer"]["code_context"] for row in rows]
    assert contexts == [{"one.py": "a"}, {"two.py": "a"}]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("math", ("math", "math")),
        ("gsm8k", ("math", "gsm8k")),
        ("hard", ("hard", "math")),
        ("parity", ("parity", "parity")),
    ],
)
def test_a_column_map_names_a_task_or_a_type(read: Read, task: str, expected: tuple[str, str]) -> None:
    (row,) = read({"q": "2 + 3?", "a": "5"}, prompt_template="{q}", answer_column="a", task=task)
    assert (row.task, row.verification_info["type"]) == expected
    assert row.verification_info["answer"] == {"value": "5"}


@pytest.mark.parametrize(("options", "column"), [({}, "task"), ({"task_column": "which"}, "which")])
def test_a_column_may_name_the_task(read: Read, options: Mapping[str, Any], column: str) -> None:
    rows = read(GIVEN | {column: "hard"}, GIVEN | {column: None}, **options)
    assert [row.task for row in rows] == ["hard", "math"]
    record = GIVEN | {column: "summarise"}
    with pytest.raises(RowError, match="row 0: no scorer for task 'summarise'"):
        read(record, **options)
    assert [row.task for row in read(record, task_column=None)] == ["math"], "it means something else"


UNLIKE_CODE = {"messages": CHAT, "info": '{"type": "code", "answer": {}}'}


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (
            verl("openai/gsm8", "5"),
            {},
            r"rows.parquet row 0: unknown data_source 'openai/gsm8'; did you mean",
        ),
        (verl("logic__new", "5"), {}, "data_source 'logic__new' are not scored by this version"),
        (verl("AIME", ["1", "2"]), {}, "row 0: no answer: a reference must be one value"),
        (UNLIKE_CODE, {"verification_column": "info"}, "row 0, column info: no answer: a row of type 'code'"),
        (verl("AIME", "1") | {"prompt": []}, {}, "row 0: the prompt must be a text or a list"),
    ],
)
def test_what_no_scorer_could_use_is_refused_when_it_is_read(
    read: Read, record: Mapping[str, Any], options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(RowError, match=message):
        read(record, **options)


QUESTION = {"question": "2 + 3?", "answer": "5"}
BY_QUESTION = "data.train.prompt_template='{question}' data.train.answer_column=answer"


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (QUESTION, BY_QUESTION),
        (QUESTION | {"answer": "2 + 3 is 5\n#### 5"}, f"{BY_QUESTION} data.train.answer_pattern='#### (.+)'"),
        (
            {"problem": "2 + 3?", "solution": "5", "level": 3},
            "data.train.prompt_template='{problem}' data.train.answer_column=solution",
        ),
        (
            {"prompt": "2 + 3?", "ground_truth": "5"},
            "data.train.prompt_template='{prompt}' data.train.answer_column=ground_truth",
        ),
        ({"text": "2 + 3?", "label": "5"}, ""),
        ({"mesages": "2 + 3?", "answer": "5"}, ""),
    ],
)
def test_rows_of_a_question_and_an_answer_get_the_keys_that_read_them(
    read: Read, tmp_path: Path, record: Mapping[str, Any], hint: str
) -> None:
    with pytest.raises(RowError, match="no column") as refused:
        read(record)
    said = str(refused.value)
    assert ("rows of a question and an answer are read with" in said) is bool(hint)
    if hint:
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
    path = str(write_jsonl(tmp_path / "rows.jsonl", [QUESTION]))
    sources = tuple(TrainDataset(path=path, weight=weight) for weight in (1, 2))
    held_out = DatasetSource(path=path, split="test")
    run = with_data(run, train=sources, held_out=held_out)
    for source, key in (*zip(sources, ("train.0", "train.1"), strict=True), (held_out, "held_out")):
        with pytest.raises(RowError) as refused:
            load_rows(run, source)
        hint = f"data.{key}.prompt_template='{{question}}' data.{key}.answer_column=answer"
        assert str(refused.value).endswith(f"are read with {hint}")


def test_a_task_that_the_run_lacks_is_said_with_what_to_add(read: Read, tmp_path: Path) -> None:
    record = verl("apps", json.dumps({"inputs": ["1"], "outputs": ["2"]}))
    with pytest.raises(RowError, match=r"row 0: .* add scorers\.tasks\.code\.scorer\.type=code$") as refused:
        read(record, by=make_run(tmp_path))
    (row,) = of_words(tmp_path, *shlex.split(str(refused.value).rpartition(": add ")[2]))
    assert row.task == "code"


def test_every_bad_row_is_listed_and_the_reason_names_the_first_few(read: Read) -> None:
    with pytest.raises(RowError) as refused:
        read(*[GIVEN, GIVEN | {"messages": []}] * 6, GIVEN)
    lines, said = refused.value.rows, str(refused.value)
    assert [re.findall(r" row (\d+): ", line) for line in lines] == [
        [str(index)] for index in range(1, 13, 2)
    ]
    assert said.startswith(lines[0])
    assert (lines[2] in said, lines[3] in said) == (True, False)
    assert said.endswith("and 3 more bad rows: `millrace data check CONFIG` lists all")
