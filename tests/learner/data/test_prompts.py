"""Rows of data sets, and the order in which they become prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from broker.codec import decode_prompt, encode_prompt
from broker.errors import RunFailed
from broker.messages import Split
from config.data import SourceConfig
from config.learner import LearnerConfig
from config.run import Run
from learner.data.prompts import PromptSource, Sampling, check_reference, load_tokenizer, open_sources
from learner.data.row import Row, RowError
from tests.conftest import ROOT, SHARED
from tests.support.chain import make_run
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import load_rows
from tests.support.tiny import write_tiny_model

CHAT = [{"role": "user", "content": "2 + 3?"}]
INFO = {"type": "math", "answer": {"value": "5"}}
ROW = Row(messages=({"role": "user", "content": "2 + 3?"},), task="math", verification_info=INFO)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path, seed=7)


def source(path: Path | str, **options: Any) -> SourceConfig:
    config: SourceConfig = TypeAdapter(SourceConfig).validate_python(
        {"type": "dataset", "path": str(path)} | options
    )
    return config


def jsonl(folder: Path, *rows: Mapping[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def open_rows(
    run: Run, rows: Sequence[Mapping[str, Any]], folder: Path, *, shuffle: bool = True
) -> PromptSource:
    tokenizer: Any = OneTokenACharacter()
    return open_sources(run, [source(jsonl(folder, *rows))], tokenizer, shuffle=shuffle)


def numbered(count: int) -> list[dict[str, Any]]:
    return [
        {
            "messages": [{"role": "user", "content": f"question {i}"}],
            "verification_info": {"type": "math", "answer": {"value": str(i)}},
        }
        for i in range(count)
    ]


# ------------------------------------------------------------------------------------------------------------- the rows


def write_jsonl(folder: Path, row: Mapping[str, Any]) -> str:
    return str(jsonl(folder, row))


def write_parquet(folder: Path, row: Mapping[str, Any]) -> str:
    path = folder / "rows.parquet"
    datasets.Dataset.from_list([row]).to_parquet(path)
    return str(path)


def write_saved_folder(folder: Path, row: Mapping[str, Any]) -> str:
    datasets.Dataset.from_list([row]).save_to_disk(folder / "saved")
    return str(folder / "saved")


def write_saved_splits(folder: Path, row: Mapping[str, Any]) -> str:
    datasets.DatasetDict({"train": datasets.Dataset.from_list([row])}).save_to_disk(folder / "splits")
    return str(folder / "splits")


@pytest.mark.parametrize("write", [write_jsonl, write_parquet, write_saved_folder, write_saved_splits])
@pytest.mark.parametrize(
    "info",
    [INFO, json.dumps(INFO), json.dumps({"type": "math_verifiable", "answer": "5"})],
    ids=["object", "text", "an older name and a bare answer"],
)
def test_rows_of_the_ii_thought_shape_are_read_as_they_are(
    run: Run, tmp_path: Path, write: Any, info: Mapping[str, Any] | str
) -> None:
    (row,), _ = load_rows(run, source(write(tmp_path, {"messages": CHAT, "verification_info": info})))
    assert (row.messages, row.task, row.verification_info["answer"]) == (ROW.messages, "math", {"value": "5"})


def test_keys_that_only_other_rows_have_do_no_harm(run: Run, tmp_path: Path) -> None:
    """In a column of objects every row gets the keys of all, with None where it had none."""
    other = {"type": "math", "answer": {"value": "6", "explanation": "twice 3"}, "source": "elsewhere"}
    rows_in = [{"messages": CHAT, "verification_info": info} for info in (INFO, other)]
    pq.write_table(pa.Table.from_pylist(rows_in), tmp_path / "rows.parquet")
    rows, _ = load_rows(run, source(tmp_path / "rows.parquet"))
    assert rows[0].verification_info["source"] is None
    assert [row.verification_info["answer"]["value"] for row in rows] == ["5", "6"]


@pytest.mark.parametrize(
    ("options", "row", "content", "answer"),
    [
        (
            {"prompt_column": "question", "answer_column": "answer"},
            {"question": "2 + 3?", "answer": "5"},
            ["2 + 3?"],
            "5",
        ),
        (
            {"prompt_column": "question", "answer_column": "answer"},
            {"question": "2 + 3?", "answer": 5},
            ["2 + 3?"],
            "5",
        ),
        (
            {
                "prompt_template": "{a} + {b}? \\boxed{}",
                "answer_column": "sum",
                "answer_pattern": "#### (.+)",
            },
            {"a": 2, "b": 3, "sum": "easy\n#### 5 "},
            ["2 + 3? \\boxed{}"],
            "5",
        ),
        (
            {"prompt_template": "{q}", "answer_column": "a", "system_prompt": "Think."},
            {"q": "{a}?", "a": "5"},
            ["Think.", "{a}?"],
            "5",
        ),  # what a row says is never a template
        (
            {"system_prompt": "Think."},
            {"messages": CHAT, "verification_info": INFO},
            ["Think.", "2 + 3?"],
            "5",
        ),
    ],
    ids=["columns", "a number", "template and pattern", "braces in a row", "system turn"],
)
def test_other_rows_are_read_by_a_column_map(
    run: Run,
    tmp_path: Path,
    *,
    options: Mapping[str, Any],
    row: Mapping[str, Any],
    content: list[str],
    answer: str,
) -> None:
    (found,), _ = load_rows(run, source(jsonl(tmp_path, row), **options))
    assert [turn["content"] for turn in found.messages] == content
    assert found.verification_info == {"type": "math", "answer": {"value": answer}}


GOOD = {"messages": CHAT, "verification_info": INFO}
COLUMNS = {"prompt_template": "{question}", "answer_column": "answer"}


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        (
            {"messages": CHAT, "verification_info": {"type": "math", "answer": {"value": None}}},
            {},
            r"rows\.jsonl row 1, line 2: no answer .* in verification_info",
        ),
        (
            {"messages": CHAT, "verification_info": {"type": "math", "answer": {"value": " "}}},
            {},
            r"row 1, line 2: no answer",
        ),
        (
            {"messages": CHAT, "verification_info": None},
            {},
            r"row 1, line 2: verification_info is missing or null",
        ),
        (
            {"messages": CHAT, "verification_info": {"type": "mathh", "answer": {"value": "5"}}},
            {},
            r"row 1, line 2: no scorer for rows of type 'mathh'; did you mean math\?",
        ),
        ({"messages": None, "verification_info": INFO}, {}, r"row 1, line 2: no prompt: .*prompt_column"),
        ({"messages": [], "verification_info": INFO}, {}, r"row 1, line 2: the prompt must be"),
        (
            {"messages": [{"role": "user", "content": None}], "verification_info": INFO},
            {},
            r"row 1, line 2: the prompt must be",
        ),
        (
            {"question": "2 + 3?", "answer": ""},
            COLUMNS,
            r"rows\.jsonl row 1, line 2: no answer in column answer",
        ),
        ({"question": "2 + 3?", "answer": None}, COLUMNS, r"row 1, line 2: no answer in column answer"),
        (
            {"question": None, "answer": "5"},
            COLUMNS,
            r"row 1, line 2: prompt_template needs question, and it is empty",
        ),
        ({"question": " ", "answer": "5"}, COLUMNS, r"row 1, line 2: the prompt must be"),
        (
            {"question": "2 + 3?", "answer": "it is 5"},
            COLUMNS | {"answer_pattern": "#### (.+)"},
            r"row 1, line 2: answer does not match answer_pattern '#### \(\.\+\)': 'it is 5'",
        ),
    ],
)
def test_a_row_that_can_not_be_used_is_named_with_its_file_number_and_column(
    run: Run, tmp_path: Path, bad: Mapping[str, Any], options: Mapping[str, Any], message: str
) -> None:
    good: Mapping[str, Any] = {"question": "2 + 3?", "answer": "#### 5"} if options else GOOD
    with pytest.raises(RowError, match=message):
        load_rows(run, source(jsonl(tmp_path, good, bad), **options))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"messages": [{"role": "user"', r"can't be read: line 4 is no JSON: "),
        ("[1]", r"can't be read: line 4 is no object of JSON"),
        ('{"messages": null, "verification_info": null}', r"row 2, line 4: no prompt"),
    ],
)
def test_a_line_is_named_by_its_number_in_the_file(run: Run, tmp_path: Path, line: str, message: str) -> None:
    file = jsonl(tmp_path, GOOD, GOOD)
    good, other = Path(file).read_text().splitlines()
    Path(file).write_text(f"{good}\n\n{other}\n{line}\n")
    with pytest.raises(RowError, match=message):
        load_rows(run, source(file))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"verification_column": "verificaton_info"},
            r"no column 'verificaton_info'.*did you mean verification_info\?",
        ),
        ({"prompt_template": "{message}"}, r"no column 'message' among .*did you mean messages\?"),
        ({"split": "test", "path": "saved"}, r"split test\) can't be read"),
        ({"path": "nowhere.jsonl"}, r"nowhere\.jsonl \(split train\) can't be read"),
        ({"answer_column": "a", "answer_pattern": "#### .+"}, "has no group"),
        ({"answer_column": "a", "answer_pattern": "#### ("}, "is no regular expression"),
    ],
)
def test_a_source_that_can_not_be_read_says_why(
    run: Run, tmp_path: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.DatasetDict({"train": datasets.Dataset.from_list([GOOD])}).save_to_disk(tmp_path / "saved")
    path = tmp_path / options.pop("path") if "path" in options else jsonl(tmp_path, GOOD)
    with pytest.raises(RowError, match=message):
        load_rows(run, source(path, **options))


def test_only_the_first_rows_are_read_where_a_limit_is_set(run: Run, tmp_path: Path) -> None:
    rows, _ = load_rows(run, source(jsonl(tmp_path, *numbered(5)), limit=2))
    assert [row.messages[0]["content"] for row in rows] == ["question 0", "question 1"]


def test_a_procedural_source_has_rows_and_a_fingerprint_that_changes_with_them(run: Run) -> None:
    def procedural(**options: Any) -> tuple[list[Row], str]:
        config: SourceConfig = TypeAdapter(SourceConfig).validate_python({"type": "procedural"} | options)
        return load_rows(run, config)

    rows, fingerprint = procedural(size=8)
    assert [row.task for row in rows] == ["math"] * 8
    assert procedural(size=8)[1] == fingerprint != procedural(size=9)[1]
    with pytest.raises(RowError, match="size=1000000"):
        procedural(size=1_000_000)


def test_gsm8k_is_read_as_published(run: Run) -> None:
    path = SHARED / "data" / "gsm8k_test.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    rows, _ = load_rows(
        run, source(path, prompt_template="{question}", answer_column="answer", answer_pattern="#### (.+)")
    )
    assert len(rows) == 1319
    assert rows[0].messages[0]["content"].endswith("every day at the farmers' market?")
    assert rows[0].verification_info == {"type": "math", "answer": {"value": "18"}}


# ------------------------------------------------------------------------------------------------------------ the order


def draws(prompts: PromptSource, first: int, count: int) -> list[int]:
    return [prompts.place(draw)[0].row for draw in range(first, first + count)]


def test_the_order_is_a_function_of_seed_and_ordinal_alone(run: Run, tmp_path: Path) -> None:
    prompts, again = (open_rows(run, numbered(20), tmp_path) for _ in range(2))
    in_order = draws(prompts, 0, 60)
    backwards = [again.place(draw)[0].row for draw in reversed(range(60))]
    assert backwards[::-1] == in_order
    other = open_rows(run.model_copy(update={"seed": 8}), numbered(20), tmp_path)
    assert draws(other, 0, 20) != in_order[:20]


def test_every_epoch_has_every_row_once_in_an_order_of_its_own(run: Run, tmp_path: Path) -> None:
    prompts = open_rows(run, numbered(20), tmp_path)
    first, second = draws(prompts, 0, 20), draws(prompts, 20, 20)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert [prompts.place(draw)[0].epoch for draw in (0, 19, 20, 40)] == [0, 0, 1, 2]


def test_without_shuffling_the_order_is_the_datas(run: Run, tmp_path: Path) -> None:
    assert draws(open_rows(run, numbered(3), tmp_path, shuffle=False), 0, 6) == [0, 1, 2, 0, 1, 2]


def test_a_prompt_over_the_limit_is_counted_and_left_out_and_never_cut(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = numbered(12)  # `question 9` has 10 characters, `question 10` 11
    short = run.model_copy(update={"data": run.data.model_copy(update={"max_prompt_tokens": 10})})
    with caplog.at_level(logging.WARNING):
        prompts = open_rows(short, rows, tmp_path)
    assert "prompts_left_out count=2 of=12 longest_tokens=11 data.max_prompt_tokens=10" in caplog.messages
    assert sorted(draws(prompts, 0, 10)) == list(range(10))
    lengths = {len(prompts.training_prompt(str(i), first_row=0).token_ids) for i in range(10)}
    assert lengths == {10}
    assert prompts.fingerprint != open_rows(run, rows, tmp_path).fingerprint  # ordinals mean other rows now


def test_a_source_of_nothing_but_long_prompts_is_refused(run: Run, tmp_path: Path) -> None:
    short = run.model_copy(update={"data": run.data.model_copy(update={"max_prompt_tokens": 3})})
    with pytest.raises(
        RowError, match=r"no prompt of 2 is within data\.max_prompt_tokens=3; the longest has 10"
    ):
        open_rows(short, numbered(2), tmp_path)


def test_the_same_ordinal_makes_the_same_prompt_and_survives_the_wire(run: Run, tmp_path: Path) -> None:
    prompts = open_rows(run, numbered(20), tmp_path)
    prompt, again = (prompts.training_prompt("23", first_row=0) for _ in range(2))
    assert (prompt.seed, prompt.row, list(prompt.token_ids)) == (again.seed, again.row, list(again.token_ids))
    assert (
        prompt.seed != prompts.training_prompt("3", first_row=20).seed
    )  # another group samples something else
    assert (prompt.group_id, prompt.split, prompt.epoch, prompt.n) == (
        "23",
        Split.TRAIN,
        1,
        run.sampling.group_size,
    )
    fields = {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in encode_prompt(prompt).items()
    } | {b"floor": b"4"}
    read = decode_prompt(fields)
    assert (read.floor, read.messages, read.verification_info) == (
        4,
        prompt.messages,
        prompt.verification_info,
    )


def test_an_evaluation_prompt_is_sampled_as_its_set_says(run: Run, tmp_path: Path) -> None:
    prompts = open_rows(run, numbered(4), tmp_path, shuffle=False)
    sampling = Sampling(n=run.evaluation.samples, temperature=run.evaluation.temperature, max_tokens=9)
    prompt = prompts.evaluation_prompt("eval-40-3", 3, sampling)
    assert (prompt.group_id, prompt.split, prompt.row) == ("eval-40-3", Split.EVAL, 3)
    assert (prompt.n, prompt.temperature) == (run.evaluation.samples, run.evaluation.temperature)


def test_a_real_tokenizer_ends_where_the_models_turn_begins(run: Run, tmp_path: Path) -> None:
    model = run.model.model_copy(update={"path": str(ROOT / "config/recipes/demo_model")})
    tokenizer = load_tokenizer(run.model_copy(update={"model": model}))
    prompts = open_sources(run, [source(jsonl(tmp_path, GOOD))], tokenizer, shuffle=False)
    text = tokenizer.decode(prompts.training_prompt("0", first_row=0).token_ids)
    assert "2 + 3?" in str(text).replace("<unk>", "")
    assert str(text).rstrip().endswith("assistant")


def test_a_reference_of_other_tokens_is_refused_before_anything_heavy_is_loaded(
    run: Run, tmp_path: Path
) -> None:
    own = ROOT / "config/recipes/demo_model"
    tokenizer = load_tokenizer(
        run.model_copy(update={"model": run.model.model_copy(update={"path": str(own)})})
    )

    def check(reference: Path | None) -> None:
        kl = {"coef": 0.1, "reference": None if reference is None else str(reference)}
        learner = LearnerConfig.model_validate({"objective": {"kl": kl}})
        check_reference(run.model_copy(update={"learner": learner}), tokenizer)

    check(None)  # the policy's own files
    check(own)
    with pytest.raises(RunFailed, match=r"kl\.reference=.*of its tokens are not the policy's"):
        check(write_tiny_model(tmp_path / "other"))
    with pytest.raises(RunFailed, match=r"kl\.reference=.*its tokenizer can't be loaded"):
        check(tmp_path / "nothing")
