"""Reasoning360's evaluation as a layer: samples and lengths as theirs, and every file's rows reach their scorer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from config.loading import load_run
from config.run import Run
from learner.collect.rows import open_rows
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.paths import ROOT
from tests.support.told import Patch

FUNCTIONAL, PROGRAM = '{"functional": "assert next(1) == 2"}', '{"functional": "def f(x):\\n    return x"}'
ZEBRA = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
FIRST, LAST = (
    {"reference": "1", "original_prompt": f"```python\nassert f({given}) == {answer}\n```\n"}
    for given, answer in (("??", "1"), ("1", "??"))
)
COMMAS = {"instruction_id_list": ["punctuation:no_comma"], "prompt": "no commas"}
LIES = {"category": "reasoning", "task": "web_of_lies_v2"}
GROUPS = {"category": "language", "task": "connections"}
JOIN = {"category": "data_analysis", "task": "tablejoin"}
# Name: samples, the task that scores it, the file's name behind the domain's, its data source, the row's ground truth and
# what `extra_info` has. AIME's 30 problems stand there eight times.
TASKS: Mapping[str, tuple[int, str, str, str, Any, Mapping[str, Any]]] = {
    "aime": (4, "math", "math__aime_repeated_8x_240", "math__aime_repeated_8x", "204", {}),
    "math": (1, "math", "math__math_500", "math__math", "3", {}),
    "humaneval": (4, "code", "codegen__humaneval_164", "codegen__humaneval", FUNCTIONAL, {}),
    "mbpp": (1, "code", "codegen__mbpp_500", "codegen__mbpp", FUNCTIONAL, {}),
    "livecodebench": (4, "code", "codegen__livecodebench_279", "codegen__livecodebench", FUNCTIONAL, {}),
    "arcagi1": (4, "logic", "logic__arcagi1_400", "simulation__arcagi1", [[1, 0], [0, 1]], {}),
    "zebra_puzzle_dataset": (
        *(4, "logic", "logic__zebra_puzzle_dataset_300", "logic__zebra_puzzle_dataset"), ZEBRA, {},
    ),
    "gpqa_diamond": (4, "choice", "stem__gpqa_diamond_198", "stem__gpqa_diamond_no_box", "C", {}),
    "supergpqa": (1, "choice", "stem__supergpqa_1k", "stem__supergpqa", "B", {}),
    "finqa": (1, "table", "table__finqa_1.1k", "table__finqa", 0.5, {}),
    "hitab": (1, "table", "table__hitab_1k", "table__hitab", "12.5", {}),
    "multihier": (4, "table", "table__multihier_336", "table__multihier", "7", {}),
    "codeio": (4, "simulation", "simulation__codeio_500", "simulation__codeio", '"output": {"count": 4}', {}),
    "cruxeval-i": (1, "simulation", "simulation__cruxeval-i_800", "simulation__cruxeval-i", PROGRAM, FIRST),
    "cruxeval-o": (1, "simulation", "simulation__cruxeval-o_800", "simulation__cruxeval-o", PROGRAM, LAST),
    "ifeval": (1, "instructions", "ood__ifeval_541", "ood__ifeval", [{"keyword": None}], COMMAS),
    "livebench_reasoning": (1, "livebench", "ood__livebench_reasoning_150", "ood__livebench", "yes", LIES),
    "livebench_language": (1, "livebench", "ood__livebench_language_140", "ood__livebench", "a, b", GROUPS),
    "livebench_data_analysis": (
        *(1, "livebench", "ood__livebench_data_analysis_150", "ood__livebench"), "{'name': 'full_name'}", JOIN,
    ),
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: Patch) -> Run:
    """Return the demo with the layer over it, in a folder with a file of each task."""
    folder = tmp_path / "data/offline_eval"
    folder.mkdir(parents=True)
    for name, (_, _, file, source, truth, extra) in TASKS.items():
        row = {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"a question of {name}"}],
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {"split": "test", "index": 0, **extra},
        }
        pq.write_table(pa.Table.from_pylist([row]), folder / f"{file}.parquet")
    monkeypatch.chdir(tmp_path)
    files = ("demo_cpu.yaml", "evaluation/reasoning360.yaml")
    layers = [word for file in files for word in ("--config", str(ROOT / "config/recipes" / file))]
    return load_run([*layers, "data.cache_dir=cache"])


def test_every_task_has_their_samples_and_lengths(run: Run) -> None:
    sets = {each.name: each for each in run.data.held_out_sets}
    assert [(name, each.samples) for name, each in sets.items()] == [
        (n, task[0]) for n, task in TASKS.items()
    ]
    assert {(each.temperature, each.top_p) for each in sets.values()} == {(1.0, 0.7)}
    for name, each in sets.items():
        expected = (16384, 16384) if name == "arcagi1" else (4096, 28672)
        assert (each.max_prompt_tokens, each.max_tokens) == expected
    assert {each.every for each in sets.values()} == {None}, "during training `evaluation.every` says it"


@pytest.mark.prove
def test_every_tasks_rows_are_found_and_reach_their_scorer(run: Run) -> None:
    tokenizer: Any = OneTokenACharacter()
    rows = open_rows(run, "held_out", tokenizer)
    assert [(each.name, each.prompts) for each in rows.sets] == [(name, 1) for name in TASKS]
    for ordinal, (name, (samples, task, *_)) in enumerate(TASKS.items()):
        prompt = rows.training_prompt(str(ordinal), first_row=0)
        length = 16384 if name == "arcagi1" else 28672
        found = (prompt.task, prompt.n, prompt.top_p, prompt.temperature, prompt.max_tokens)
        assert found == (task, samples, 0.7, 1.0, length), name
        assert prompt.messages[0]["content"] == f"a question of {name}"
