"""Rows of data sets, and the order in which they become prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from pydantic import TypeAdapter

from broker.codec import decode_prompt, encode_prompt
from broker.errors import RunFailed
from broker.messages import Split
from config.data import ProceduralSource, SourceConfig
from config.learner import LearnerConfig
from config.run import Run
from learner.data.lengths import tokenize
from learner.data.prompts import PromptSource, Sampling, check_reference, load_tokenizer, open_sources
from learner.data.row import Row, RowError
from tests.conftest import ROOT, SHARED
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import load_rows, with_data
from tests.support.tiny import write_tiny_model
from tests.support.verl_runs import write_jsonl, write_parquet

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("own_cache")]
CHAT = [{"role": "user", "content": "2 + 3?"}]
INFO = {"type": "math", "answer": {"value": "5"}}
GOOD = {"messages": CHAT, "verification_info": INFO}
DEMO_MODEL = ROOT / "config/recipes/demo_model"


@pytest.fixture
def run(run: Run) -> Run:
    return run.model_copy(update={"seed": 7})


def source(path: Path | str, **options: Any) -> SourceConfig:
    keys = {"type": "dataset", "path": str(path)} | options
    config: SourceConfig = TypeAdapter(SourceConfig).validate_python(keys)
    return config


def jsonl(folder: Path, *rows: Mapping[str, Any]) -> Path:
    return write_jsonl(folder / "rows.jsonl", rows)


def open_rows(
    run: Run, rows: Sequence[Mapping[str, Any]], folder: Path, *, shuffle: bool = True
) -> PromptSource:
    tokenizer: Any = OneTokenACharacter()
    return open_sources(run, [source(jsonl(folder, *rows))], tokenizer, shuffle=shuffle)


def numbered(count: int) -> list[dict[str, Any]]:
    return [GOOD | {"messages": [{"role": "user", "content": f"question {i}"}]} for i in range(count)]


def with_model(run: Run, path: Path) -> Run:
    return run.model_copy(update={"model": run.model.model_copy(update={"path": str(path)})})


# ------------------------------------------------------------------------------------------------------------- the rows


def saved(folder: Path, how: str, row: Mapping[str, Any]) -> Path:
    """Write a row as one kind of file or folder."""
    if how == "jsonl":
        return jsonl(folder, row)
    if how == "parquet":
        return write_parquet(folder / "rows.parquet", [row])
    rows = datasets.Dataset.from_list([row])
    (rows if how == "saved" else datasets.DatasetDict({"train": rows})).save_to_disk(folder / how)
    return folder / how


@pytest.mark.parametrize("how", ["jsonl", "parquet", "saved", "splits"])
@pytest.mark.parametrize(
    "info",
    [INFO, json.dumps(INFO), json.dumps({"type": "math_verifiable", "answer": "5"})],
    ids=["object", "text", "an older name and a bare answer"],
)
def test_rows_of_the_ii_thought_shape_are_read_as_they_are(
    run: Run, tmp_path: Path, how: str, info: Any
) -> None:
    (row,), _ = load_rows(run, source(saved(tmp_path, how, {"messages": CHAT, "verification_info": info})))
    assert (list(row.messages), row.task, row.verification_info["answer"]) == (CHAT, "math", INFO["answer"])


def test_keys_that_only_other_rows_have_do_no_harm(run: Run, tmp_path: Path) -> None:
    """In a column of objects every row gets the keys of all, with None where it had none."""
    other = {"type": "math", "answer": {"value": "6", "explanation": "twice 3"}, "source": "elsewhere"}
    rows_in = [{"messages": CHAT, "verification_info": info} for info in (INFO, other)]
    rows, _ = load_rows(run, source(write_parquet(tmp_path / "rows.parquet", rows_in)))
    assert rows[0].verification_info["source"] is None
    assert [row.verification_info["answer"]["value"] for row in rows] == ["5", "6"]


@pytest.mark.parametrize(
    ("options", "row", "content"),
    [
        ({"prompt_column": "q", "answer_column": "a"}, {"q": "2 + 3?", "a": "5"}, ["2 + 3?"]),
        ({"prompt_column": "q", "answer_column": "a"}, {"q": "2 + 3?", "a": 5}, ["2 + 3?"]),
        (
            {
                "prompt_template": "{a} + {b}? \\boxed{}",
                "answer_column": "sum",
                "answer_pattern": "#### (.+)",
            },
            {"a": 2, "b": 3, "sum": "easy\n#### 5 "},
            ["2 + 3? \\boxed{}"],
        ),
        (  # what a row says is never a template
            {"prompt_template": "{q}", "answer_column": "a", "system_prompt": "Think."},
            {"q": "{a}?", "a": "5"},
            ["Think.", "{a}?"],
        ),
        ({"system_prompt": "Think."}, GOOD, ["Think.", "2 + 3?"]),
    ],
    ids=["columns", "a number", "template and pattern", "braces in a row", "system turn"],
)
def test_other_rows_are_read_by_a_column_map(
    run: Run, tmp_path: Path, options: Mapping[str, Any], row: Mapping[str, Any], content: list[str]
) -> None:
    (found,), _ = load_rows(run, source(jsonl(tmp_path, row), **options))
    assert [turn["content"] for turn in found.messages] == content
    assert found.verification_info == INFO


def with_info(info: Any) -> Mapping[str, Any]:
    return GOOD | {"verification_info": info}


def question(text: Any, answer: Any) -> Mapping[str, Any]:
    return {"question": text, "answer": answer}


COLUMNS = {"prompt_template": "{question}", "answer_column": "answer"}
MISMATCH = r"answer does not match answer_pattern '#### \(\.\+\)': 'it is 5'"


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        (with_info({"type": "math", "answer": {"value": None}}), {}, "no answer .* in verification_info"),
        (with_info({"type": "math", "answer": {"value": " "}}), {}, "no answer"),
        (with_info(None), {}, "verification_info is missing or null"),
        (with_info({"type": "mathh", "answer": {"value": "5"}}), {}, "of type 'mathh'; did you mean math"),
        (GOOD | {"messages": None}, {}, "no prompt: .*prompt_column"),
        (GOOD | {"messages": []}, {}, "the prompt must be"),
        (GOOD | {"messages": [{"role": "user", "content": None}]}, {}, "the prompt must be"),
        (question("2 + 3?", ""), COLUMNS, "no answer in column answer"),
        (question("2 + 3?", None), COLUMNS, "no answer in column answer"),
        (question(None, "5"), COLUMNS, "prompt_template needs question, and it is empty"),
        (question(" ", "5"), COLUMNS, "the prompt must be"),
        (question("2 + 3?", "it is 5"), COLUMNS | {"answer_pattern": "#### (.+)"}, MISMATCH),
    ],
)
def test_a_row_that_cant_be_used_is_named_with_its_file_number_and_column(
    run: Run, tmp_path: Path, bad: Mapping[str, Any], options: Mapping[str, Any], message: str
) -> None:
    good = question("2 + 3?", "#### 5") if options else GOOD
    with pytest.raises(RowError, match=rf"rows\.jsonl row 1, line 2: .*{message}"):
        load_rows(run, source(jsonl(tmp_path, good, bad), **options))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"messages": [{"role": "user"', r"rows\.jsonl row 2, line 4: not JSON: "),
        ("[1]", r"row 2, line 4: a row must be an object, got list"),
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
            r"'verificaton_info'.*did you mean verification_info\?",
        ),
        ({"prompt_template": "{message}"}, r"no column 'message' among .*did you mean messages\?"),
        ({"split": "test", "path": "splits"}, r"split test\) can't be read"),
        ({"path": "nowhere.jsonl"}, r"nowhere\.jsonl \(split train\) can't be read"),
        ({"answer_column": "a", "answer_pattern": "#### .+"}, "has no group"),
        ({"answer_column": "a", "answer_pattern": "#### ("}, "is no regular expression"),
    ],
)
def test_a_source_that_cant_be_read_says_why(
    run: Run, tmp_path: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    saved(tmp_path, "splits", GOOD)
    path = tmp_path / options.pop("path") if "path" in options else jsonl(tmp_path, GOOD)
    with pytest.raises(RowError, match=message):
        load_rows(run, source(path, **options))


def test_a_procedural_source_has_rows_and_a_fingerprint_that_changes_with_them(run: Run) -> None:
    rows, fingerprint = load_rows(run, ProceduralSource(size=8))
    assert [row.task for row in rows] == ["math"] * 8
    again, other = (load_rows(run, ProceduralSource(size=size))[1] for size in (8, 9))
    assert again == fingerprint != other
    with pytest.raises(RowError, match="size=1000000"):
        load_rows(run, ProceduralSource(size=1_000_000))


def test_gsm8k_is_read_as_published(run: Run) -> None:
    path = SHARED / "data" / "gsm8k_test.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    keys = {"prompt_template": "{question}", "answer_column": "answer", "answer_pattern": "#### (.+)"}
    rows, _ = load_rows(run, source(path, **keys))
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


def test_long_prompts_are_left_out(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = numbered(12)  # `question 9` has 10 characters, `question 10` 11
    short = with_data(run, max_prompt_tokens=10)
    with caplog.at_level(logging.WARNING):
        prompts = open_rows(short, rows, tmp_path)
    assert "prompts_left_out count=2 of=12 longest_tokens=11 data.max_prompt_tokens=10" in caplog.messages
    assert sorted(draws(prompts, 0, 10)) == list(range(10))
    lengths = {len(prompts.training_prompt(str(i), first_row=0).token_ids) for i in range(10)}
    assert lengths == {10}
    assert prompts.fingerprint != open_rows(run, rows, tmp_path).fingerprint  # ordinals mean other rows now
    with pytest.raises(
        RowError, match=r"no prompt of 12 is within data\.max_prompt_tokens=3; the longest ha"
    ):
        open_rows(with_data(run, max_prompt_tokens=3), rows, tmp_path)


def test_the_same_ordinal_makes_the_same_prompt_and_each_set_its_own(run: Run, tmp_path: Path) -> None:
    prompts = open_rows(run, numbered(20), tmp_path)
    prompt, again = (prompts.training_prompt("23", first_row=0) for _ in range(2))
    assert (prompt.seed, prompt.row, list(prompt.token_ids)) == (again.seed, again.row, list(again.token_ids))
    other = prompts.training_prompt("3", first_row=20)
    assert prompt.seed != other.seed, "another group samples something else"
    assert (prompt.group_id, prompt.split, prompt.epoch) == ("23", Split.TRAIN, 1)
    assert prompt.n == run.sampling.group_size
    fields = encode_prompt(prompt) | {"floor": "4"}
    read = decode_prompt({k.encode(): v if isinstance(v, bytes) else v.encode() for k, v in fields.items()})
    expected = (4, prompt.messages, prompt.verification_info)
    assert (read.floor, read.messages, read.verification_info) == expected
    prompts = open_rows(run, numbered(4), tmp_path, shuffle=False)
    sampling = Sampling(n=run.evaluation.samples, temperature=run.evaluation.temperature, max_tokens=9)
    prompt = prompts.evaluation_prompt("eval-40-3", 3, sampling)
    assert (prompt.group_id, prompt.split, prompt.row) == ("eval-40-3", Split.EVAL, 3)
    assert (prompt.n, prompt.temperature) == (run.evaluation.samples, run.evaluation.temperature)


def test_what_a_tokenizers_own_class_does_to_a_text_is_done(run: Run) -> None:
    tokenizer: Any = load_tokenizer(with_model(run, DEMO_MODEL))
    row = Row(messages=(), raw_prompt="2 + 3?", task="math", verification_info={})
    plain = tokenize(tokenizer, row)

    class Filling(type(tokenizer)):  # type: ignore[misc]
        def encode(self, text: str, **options: Any) -> list[int]:
            return [7, *super().encode(text, **options)]

    tokenizer.__class__ = Filling
    assert tokenize(tokenizer, row) == [7, *plain]


def test_a_real_tokenizer_ends_where_the_turn_begins_and_a_reference_fits(run: Run, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(with_model(run, DEMO_MODEL))
    prompts = open_sources(run, [source(jsonl(tmp_path, GOOD))], tokenizer, shuffle=False)
    text = str(tokenizer.decode(prompts.training_prompt("0", first_row=0).token_ids))
    assert "2 + 3?" in text.replace("<unk>", "")
    assert text.rstrip().endswith("assistant")

    def check(reference: Path | None) -> None:
        kl = {"coef": 0.1, "reference": None if reference is None else str(reference)}
        learner = LearnerConfig.model_validate({"objective": {"kl": kl}})
        check_reference(run.model_copy(update={"learner": learner}), tokenizer)

    check(None)  # the policy's own files
    check(DEMO_MODEL)
    with pytest.raises(RunFailed, match=r"kl\.reference=.*of its tokens are not the policy's"):
        check(write_tiny_model(tmp_path / "other"))
    with pytest.raises(RunFailed, match=r"kl\.reference=.*its tokenizer can't be loaded"):
        check(tmp_path / "nothing")
