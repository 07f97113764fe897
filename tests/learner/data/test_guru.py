"""A folder in the published shape of guru-RL-92k: 16 data sources in files of unlike columns, some rows compressed."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.codec import decode_prompt, encode_prompt
from config.data import DatasetSource
from config.run import Run
from learner.data.ingest import Ingested, ingest
from learner.data.lengths import tokenize
from learner.data.prompts import open_sources
from learner.data.row import Row, RowError
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.ingested import with_data, with_tasks
from tests.support.verl_runs import write_parquet

pytestmark = pytest.mark.model

# Data source: the task that scores its rows, a ground truth as published, and keys of extra_info of its own.
GRID = [[1, 0], [0, 1]]
ZEBRA = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
LEETCODE = json.dumps({"functional": "def check(f):\n    assert f(1) == 2\n\ncheck(Solution().next)"})
STDIO = json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})
SOURCES: Mapping[str, tuple[str, Any, Mapping[str, Any]]] = {
    "math__merged_deduped_dapo_or1_dataset": ("math", "37", {"reward_metric": "default"}),
    "math__deepscaler_preview": ("math", "\\frac{1}{2}", {"original_question": "how much?"}),
    "codegen__leetcode2k": ("code", LEETCODE, {"prefix": "import math", "difficulty": "Easy"}),
    "codegen__livecodebench": ("code", STDIO, {"function_name": "", "reference": ""}),
    "codegen__primeintellect": ("code", STDIO, {"function_name": None, "dataset": "deepcoder"}),
    "codegen__taco": ("code", STDIO, {"reference": "print(int(input()) + 1)", "source": "codeforces"}),
    "stem_web": ("stem_llm_judge", "4.5 J", {"question": "how much heat?", "token_length": 5}),
    "simulation__arcagi1": ("logic", GRID, {}),
    "simulation__arcagi2": ("logic", GRID, {}),
    "simulation__barc": ("logic", GRID, {}),
    "logic__graph_logical_dataset": ("logic", "fdebme", {"lookahead": 3}),
    "logic__ordering_puzzle_dataset": ("logic", ["owl", "crow", "wren"], {"num_objects": 3}),
    "logic__zebra_puzzle_dataset": ("logic", ZEBRA, {"grid_size": "2x1", "raw_input": ["a", "b"]}),
    "simulation__codeio": ("simulation", '"output": {"count": 4}', {}),
    "table__hitab": ("table", "12.5|9.1", {}),
    "table__multihier": ("table", "7", {}),
}
COUNTS = {source: 3 + number for number, source in enumerate(SOURCES)}  # 3, 4, ... 18: 168 rows
KINDS = ("math", "code", "logic", "simulation", "table", "tinyv", "rubric")
TASKS = {"stem_llm_judge": {"type": "judge"}, **{kind: {"type": kind} for kind in KINDS}}


@pytest.fixture
def run(run: Run) -> Run:
    return with_tasks(run, TASKS)


def guru_row(source: str = "math__deepscaler_preview", number: int = 1) -> dict[str, Any]:
    """A row with the columns that all files have, and leftovers that only its own source's file has."""
    _, truth, extra = SOURCES[source]
    row: dict[str, Any] = {
        "data_source": source,
        "prompt": [{"role": "user", "content": f"{source} question {number}"}],
        "ability": source.partition("_")[0],
        "apply_chat_template": True,
        "qwen2.5_7b_pass_rate": 0.5,
        "qwen3_30b_pass_rate": 0.9375,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": number, **extra},
    }
    if source == "stem_web":
        row |= {"raw_prompt": "how much heat?", "response": "4.5 J"}
    if source.startswith("codegen"):
        row |= {"task_id": f"task-{number}", "entry_point": "next"}
    if source == "logic__zebra_puzzle_dataset":
        row |= {"is_unique": True, "solution": {"rows": [["x"]]}}
    return row


def packed(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as the second repository has it: two columns as text, by gzip and base64."""
    texts = {
        name: base64.b64encode(gzip.compress(json.dumps(row[name]).encode())).decode()
        for name in ("reward_model", "extra_info")
    }
    return {**row, **texts}


@pytest.fixture
def guru(tmp_path: Path) -> Path:
    """The folder, in which every second file has compressed rows."""
    folder = tmp_path / "guru"
    for at, (source, count) in enumerate(COUNTS.items()):
        rows = [guru_row(source, number) for number in range(count)]
        path = folder / f"train/{source}_{count}.parquet"
        write_parquet(path, [packed(row) for row in rows] if at % 2 else rows)
    write_parquet(folder / "online_eval/math__math_500.parquet", [guru_row(number=900)])
    # A number for a truth, and no extra_info at all.
    prompt = [{"role": "user", "content": "what share?"}]
    finqa = {"data_source": "table__finqa", "prompt": prompt, "reward_model": {"ground_truth": 0.42}}
    write_parquet(folder / "offline_eval/table__finqa_1.parquet", [finqa])
    return folder


def read(run: Run, path: Path, **options: Any) -> Ingested:
    return ingest(run, DatasetSource(path=str(path), **options))


def read_rows(run: Run, folder: Path, *rows: Mapping[str, Any]) -> list[Row]:
    return list(read(run, write_parquet(folder / "rows.parquet", rows)).rows.rows())


def test_the_folder_loads_whole_with_its_splits_and_each_sources_rows_reach_their_scorer(
    run: Run, guru: Path
) -> None:
    assert len(SOURCES) == 16
    found = read(run, guru)
    assert found.count == len(found.rows) == sum(COUNTS.values()) == 168
    rows = list(found.rows.rows())
    assert Counter(row.data_source for row in rows) == COUNTS
    assert {row.data_source: row.task for row in rows} == {source: of[0] for source, of in SOURCES.items()}
    by_source = {row.data_source: row.verification_info["answer"] for row in rows}
    assert by_source["codegen__leetcode2k"]["prefix"] == "import math"
    assert by_source["codegen__taco"]["outputs"] == ["2\n"]
    assert by_source["simulation__arcagi2"]["value"] == GRID
    assert by_source["logic__zebra_puzzle_dataset"]["value"] == ZEBRA
    assert by_source["stem_web"] == {"value": "4.5 J", "question": "how much heat?"}
    (online,) = read(run, guru, split="online_eval").rows.rows()
    assert (online.task, online.messages[0]["content"]) == ("math", "math__deepscaler_preview question 900")
    (offline,) = read(run, guru, split="offline_eval").rows.rows()
    assert offline.verification_info == {"type": "finqa", "answer": {"value": 0.42}}


def test_compressed_rows_are_as_before_and_raw_prompts_as_they_are(run: Run, tmp_path: Path) -> None:
    for row in (guru_row(source) for source in SOURCES):
        write_parquet(tmp_path / f"plain/{row['data_source']}.parquet", [row])
        write_parquet(tmp_path / f"packed/{row['data_source']}.parquet", [packed(row)])
    plain, unpacked = (list(read(run, tmp_path / name).rows.rows()) for name in ("plain", "packed"))
    assert len(plain) == len(unpacked) == 16
    assert plain == unpacked
    row = guru_row() | {"apply_chat_template": False, "raw_prompt": "Question: 1 + 1?\nAnswer:"}
    raw, chat = read_rows(run, tmp_path, row, row | {"apply_chat_template": True})
    encoder: Any = Encoder()
    assert "".join(map(chr, tokenize(encoder, raw))) == "Question: 1 + 1?\nAnswer:"
    assert chat.raw_prompt == ""
    assert raw.messages == chat.messages, "scorers and reports see the question all the same"
    with pytest.raises(RowError, match=r"row 0: apply_chat_template is false, and raw_prompt has no text"):
        read_rows(run, tmp_path, row | {"raw_prompt": " "})


class Encoder:
    """A tokenizer that is asked for the tokens of a text, and never for those of a chat."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(character) for character in text]


def test_rows_of_polaris_go_to_their_model_and_an_unknown_source_is_refused(run: Run, tmp_path: Path) -> None:
    criteria = "1. Sets up the recurrence (3 points)"
    row = guru_row() | {"data_source": "polaris_tinyv", "criteria": criteria}
    graded, verified = read_rows(run, tmp_path, row, row | {"criteria": None})
    assert (graded.task, graded.verification_info["answer"]["criteria"]) == ("rubric", criteria)
    assert verified.task == "tinyv"
    no_tinyv = with_tasks(run, {name: task for name, task in TASKS.items() if name != "tinyv"})
    with pytest.raises(RowError, match=r"rows\.parquet row 1: no criteria to grade by: .*'polaris_tinyv'"):
        read_rows(no_tinyv, tmp_path, row, row | {"criteria": None})
    row = guru_row() | {"data_source": "my_own_set"}
    with pytest.raises(RowError, match=r"row 0: unknown data_source 'my_own_set'.*`data\.unknown_source`"):
        read_rows(run, tmp_path, row)
    (known,) = read_rows(with_data(run, unknown_source="prime_math"), tmp_path, row)
    assert (known.task, known.verification_info["type"]) == ("math", "prime_math")
    with pytest.raises(RowError, match=r"data\.unknown_source=prim_math is no type of rows; did you mean"):
        read_rows(with_data(run, unknown_source="prim_math"), tmp_path, row)


def test_columns_of_ones_choice_travel_with_the_prompt_and_over_the_wire(run: Run, tmp_path: Path) -> None:
    row = guru_row(number=5)
    write_parquet(tmp_path / "rows/plain.parquet", [row])
    write_parquet(tmp_path / "rows/packed.parquet", [packed(row)])
    names = ("ability", "qwen3_30b_pass_rate", "extra_info.index", "extra_info.nothing", "nothing.at.all")
    tokenizer: Any = OneTokenACharacter()
    source = DatasetSource(path=str(tmp_path / "rows"))
    prompts = open_sources(with_data(run, columns=names), [source], tokenizer, shuffle=False)
    for ordinal in ("0", "1"):
        prompt = prompts.training_prompt(ordinal, first_row=0)
        assert prompt.columns == {"ability": "math", "qwen3_30b_pass_rate": 0.9375, "extra_info.index": 5}
        fields = encode_prompt(prompt) | {"floor": "0"}
        sent = {k.encode(): v if isinstance(v, bytes) else v.encode() for k, v in fields.items()}
        assert decode_prompt(sent).columns == prompt.columns


@pytest.mark.parametrize("text", ["H4sIAAAA", "H4sI no base64 at all", "H4sIAAAAAAAAAw=="])
def test_a_row_that_is_not_what_was_compressed_is_named(run: Run, tmp_path: Path, text: str) -> None:
    with pytest.raises(RowError, match=r"row 0: reward_model begins as text packed with gzip and base64"):
        read_rows(run, tmp_path, packed(guru_row("table__hitab")) | {"reward_model": text})
