"""Rows without a prompt, and seeds in place of rows: the task's environment makes the problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from config.data import DatasetSource, EnvironmentSource
from config.run import Run
from config.scorers import TaskConfig
from learner.data.ingest import source_name
from learner.data.prompts import PromptSource, Sampling, lengths_of, open_sources
from learner.data.row import Row, RowError
from learner.data.store import RowList
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import load_rows, with_tasks
from tests.support.verl_runs import write_jsonl

TASKS = {
    "math": TaskConfig(),
    "lake": TaskConfig.model_validate(
        {"environment": {"type": "custom", "import_path": "lake:Lake"}, "scorer": {"type": "environment"}}
    ),
    "shop": TaskConfig.model_validate({"environment": {"type": "tools", "functions": ["shop:look"]}}),
}
SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "2 + 3?"}
FIVE = {"type": "math", "answer": {"value": "5"}}
LEVEL = {"verification_info": {"type": "lake", "level": 3}}
Read = Callable[..., Sequence[Row]]


@pytest.fixture
def run(run: Run) -> Run:
    return with_tasks(run, TASKS)


@pytest.fixture
def read(run: Run, tmp_path: Path) -> Read:
    def read_as(*records: Mapping[str, Any], **options: Any) -> Sequence[Row]:
        path = write_jsonl(tmp_path / "rows.jsonl", records)
        return load_rows(run, DatasetSource(path=str(path), **options))[0]

    return read_as


def seeds(**keys: Any) -> EnvironmentSource:
    return EnvironmentSource(task="lake", **{"size": 3, **keys})


def opened(run: Run, *sources: Any, shuffle: bool = False) -> PromptSource:
    tokenizer: Any = OneTokenACharacter()
    return open_sources(run, sources, tokenizer, shuffle=shuffle)


@pytest.mark.parametrize(
    "more", [{}, {"messages": []}, {"messages": None}], ids=["no column", "empty", "null"]
)
def test_an_environment_that_makes_the_prompt_takes_rows_that_have_none(read: Read, more: Any) -> None:
    (row,) = read(LEVEL | more)
    assert (row.messages, row.task, row.verification_info["level"]) == ((), "lake", 3)
    (row,) = read(LEVEL | more, system_prompt="Be brief.")
    assert row.messages == (SYSTEM,)
    first, second = read(LEVEL, {"messages": [ASKED], "verification_info": FIVE})
    assert (first.messages, second.messages) == ((), (ASKED,))


def test_rows_of_nemo_gym_travel_whole_to_their_sources_task(read: Read) -> None:
    asked = {"responses_create_params": {"input": [ASKED], "temperature": 0.3}, "expected": "5"}
    first, second = read(asked, asked | {"expected": None, "task": "math", "data_source": "x"}, task="lake")
    assert (first.messages, first.task) == ((), "lake")
    assert first.verification_info == {"type": "lake", "row": asked}
    whole = {"responses_create_params": asked["responses_create_params"], "task": "math", "data_source": "x"}
    assert second.verification_info == {"type": "lake", "row": whole}
    with pytest.raises(
        RowError, match="environment is of type nemo_gym, and the task of its source is 'math'"
    ):
        read(asked)


@pytest.mark.parametrize("system_prompt", [None, "Be brief."])
@pytest.mark.parametrize("task", ["math", "shop"])
def test_every_other_task_needs_one(read: Read, task: str, system_prompt: str | None) -> None:
    with pytest.raises(RowError, match=r"row 1, line 2: no prompt: the row has nothing in the column"):
        read(LEVEL, {"task": task, "verification_info": FIVE}, system_prompt=system_prompt)


@pytest.mark.parametrize("seed", [-1, 2**32, "7", True, 1.5])
def test_a_rows_seed_is_a_whole_number_where_an_environment_is_reset_with_it(read: Read, seed: Any) -> None:
    (row,) = read({"verification_info": {"type": "lake", "seed": 7}})
    assert row.verification_info == {"type": "lake", "seed": 7}
    with pytest.raises(
        RowError, match=r"row 0, line 1: the seed of a row is a whole number from 0 to 2\^32 - 1"
    ):
        read({"verification_info": {"type": "lake", "seed": seed}})
    (row,) = read({"messages": [ASKED], "verification_info": FIVE | {"seed": seed}})
    assert row.verification_info["seed"] == seed, "nobody reads it there"


def test_each_seed_is_a_row_which_has_its_number(run: Run) -> None:
    rows, fingerprint = load_rows(run, seeds())
    assert [row.verification_info for row in rows] == [{"type": "lake", "seed": seed} for seed in range(3)]
    assert all((row.messages, row.task) == ((), "lake") for row in rows)
    held_out, other = load_rows(run, seeds(split="eval", system_prompt="Be brief."))
    assert [row.verification_info["seed"] for row in held_out] == [
        1_000_000_000 + number for number in range(3)
    ]
    assert all(row.messages == (SYSTEM,) for row in held_out)
    assert source_name(seeds(split="eval")) == "environment lake eval"
    fingerprints = [load_rows(run, seeds(**keys))[1] for keys in ({"size": 4}, {"system_prompt": "x"}, {})]
    assert len({fingerprint, other, *fingerprints}) == 4
    assert fingerprints[-1] == fingerprint


def test_a_seed_becomes_a_prompt_without_ids_beside_rows_of_other_tasks(run: Run, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"messages": [ASKED], "verification_info": FIVE}, LEVEL])
    source = opened(run, seeds(), DatasetSource(path=str(rows)))
    prompts = [
        source.evaluation_prompt(f"eval-0-{index}", index, Sampling(n=2, temperature=1.0, max_tokens=8))
        for index in range(5)
    ]
    assert [prompt.task for prompt in prompts] == ["lake", "lake", "lake", "math", "lake"]
    assert [len(prompt.token_ids) > 0 for prompt in prompts] == [False, False, False, True, False]
    assert [prompt.row for prompt in prompts] == [0, 1, 2, 3, 4]
    assert prompts[2].verification_info["seed"] == 2
    assert prompts[4].messages == ()


def test_a_chat_travels_whole_to_agents_and_only_a_chat_does(run: Run, read: Read, tmp_path: Path) -> None:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": "1", "type": "function", "function": function}]
    asks = {"role": "assistant", "content": "", "tool_calls": calls}
    chat = [ASKED, asks, {"role": "tool", "tool_call_id": "1", "content": "4"}]
    records = [{"messages": chat, "task": task, "verification_info": FIVE} for task in ("shop", "math")]
    source = opened(run, DatasetSource(path=str(write_jsonl(tmp_path / "rows.jsonl", records))))
    sampling = Sampling(n=2, temperature=1.0, max_tokens=8)
    played, answered = (source.evaluation_prompt(f"eval-0-{row}", row, sampling) for row in range(2))
    assert list(played.messages) == chat
    assert [sorted(turn) for turn in answered.messages] == [["content", "role"]] * 3, "for people alone"
    raw = {"apply_chat_template": False, "raw_prompt": "2 + 3 =", "verification_info": FIVE}
    (row,) = read({**raw, "messages": [ASKED]})
    assert row.raw_prompt == "2 + 3 ="
    with pytest.raises(
        RowError, match="apply_chat_template is false, and the prompts of task 'shop' are ren"
    ):
        read({**raw, "messages": [ASKED], "task": "shop"})


def test_lengths_are_of_generators_prompts_and_rows_without_a_question_repeat(run: Run) -> None:
    long = Row(messages=(ASKED,), task="math", verification_info=FIVE)
    played = Row(messages=(ASKED,), task="shop", verification_info=FIVE)
    none = Row(messages=(), task="lake", verification_info=LEVEL["verification_info"])
    tokenizer: Any = OneTokenACharacter()
    lengths, failed = lengths_of(run, RowList([long, played, none]), tokenizer)
    assert np.flatnonzero(lengths).tolist() == [0]
    assert failed == {}
    assert RowList([none, none]).prompts.tolist() != RowList([long, none]).prompts.tolist()

    def row(seed: int, *messages: Any, task: str = "lake") -> Row:
        return Row(messages=messages, task=task, verification_info={"type": "lake", "seed": seed})

    others = [row(2), row(1, task="sea"), row(1, SYSTEM), row(2, SYSTEM)]
    rows = RowList([row(1), row(1), *others, row(1, ASKED), row(2, ASKED)])
    one, again, *unlike, asked, asked_again = rows.prompts.tolist()
    assert (one, asked) == (again, asked_again)
    assert len({one, asked, *unlike}) == 6
