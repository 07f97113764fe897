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

FUNCTIONAL = '{"functional": "assert next(1) == 2"}'
ZEBRA = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
# Name: samples, the task that scores it, and a row as the file has it. AIME's 30 problems stand there eight times.
TASKS: Mapping[str, tuple[int, str, Mapping[str, Any]]] = {
    "aime": (
        4,
        "math",
        {"file": "math__aime_repeated_8x_240", "source": "math__aime_repeated_8x", "truth": "204"},
    ),
    "math": (1, "math", {"file": "math__math_500", "source": "math__math", "truth": "3"}),
    "humaneval": (
        4,
        "code",
        {"file": "codegen__humaneval_164", "source": "codegen__humaneval", "truth": FUNCTIONAL},
    ),
    "mbpp": (1, "code", {"file": "codegen__mbpp_500", "source": "codegen__mbpp", "truth": FUNCTIONAL}),
    "livecodebench": (
        4,
        "code",
        {"file": "codegen__livecodebench_279", "source": "codegen__livecodebench", "truth": FUNCTIONAL},
    ),
    "arcagi1": (
        4,
        "logic",
        {"file": "logic__arcagi1_400", "source": "simulation__arcagi1", "truth": [[1, 0], [0, 1]]},
    ),
    "zebra_puzzle_dataset": (
        4,
        "logic",
        {"file": "logic__zebra_puzzle_dataset_300", "source": "logic__zebra_puzzle_dataset", "truth": ZEBRA},
    ),
    "gpqa_diamond": (
        4,
        "choice",
        {"file": "stem__gpqa_diamond_198", "source": "stem__gpqa_diamond_no_box", "truth": "C"},
    ),
    "supergpqa": (1, "choice", {"file": "stem__supergpqa_1k", "source": "stem__supergpqa", "truth": "B"}),
    "finqa": (1, "table", {"file": "table__finqa_1.1k", "source": "table__finqa", "truth": 0.5}),
    "hitab": (1, "table", {"file": "table__hitab_1k", "source": "table__hitab", "truth": "12.5"}),
    "multihier": (4, "table", {"file": "table__multihier_336", "source": "table__multihier", "truth": "7"}),
    "codeio": (
        4,
        "simulation",
        {"file": "simulation__codeio_500", "source": "simulation__codeio", "truth": '"output": {"count": 4}'},
    ),
    "cruxeval-i": (
        1,
        "simulation",
        {"file": "simulation__cruxeval-i_800", "source": "simulation__cruxeval-i"},
    ),
    "cruxeval-o": (
        1,
        "simulation",
        {"file": "simulation__cruxeval-o_800", "source": "simulation__cruxeval-o"},
    ),
    "ifeval": (1, "instructions", {"file": "ood__ifeval_541", "source": "ood__ifeval"}),
    "livebench_reasoning": (
        1,
        "livebench",
        {"file": "ood__livebench_reasoning_150", "source": "ood__livebench"},
    ),
    "livebench_language": (
        1,
        "livebench",
        {"file": "ood__livebench_language_140", "source": "ood__livebench"},
    ),
    "livebench_data_analysis": (
        1,
        "livebench",
        {"file": "ood__livebench_data_analysis_150", "source": "ood__livebench"},
    ),
}
PROGRAM = '{"functional": "def f(x):\\n    return x"}'
SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "cruxeval-i": {
        "truth": PROGRAM,
        "extra": {"reference": "1", "original_prompt": "```python\nassert f(??) == 1\n```\n"},
    },
    "cruxeval-o": {
        "truth": PROGRAM,
        "extra": {"reference": "1", "original_prompt": "```python\nassert f(1) == ??\n```\n"},
    },
    "ifeval": {
        "truth": [{"keyword": None}],
        "extra": {"instruction_id_list": ["punctuation:no_comma"], "prompt": "no commas"},
    },
    "livebench_reasoning": {"truth": "yes", "extra": {"category": "reasoning", "task": "web_of_lies_v2"}},
    "livebench_language": {"truth": "a, b", "extra": {"category": "language", "task": "connections"}},
    "livebench_data_analysis": {
        "truth": "{'name': 'full_name'}",
        "extra": {"category": "data_analysis", "task": "tablejoin"},
    },
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the demo with the layer over it, in a folder with a file of each task."""
    folder = tmp_path / "data/offline_eval"
    folder.mkdir(parents=True)
    for name, (_, _, facts) in TASKS.items():
        special = SPECIAL.get(name, {})
        row = {
            "data_source": facts["source"],
            "prompt": [{"role": "user", "content": f"a question of {name}"}],
            "reward_model": {"style": "rule", "ground_truth": special.get("truth", facts.get("truth"))},
            "extra_info": {"split": "test", "index": 0, **special.get("extra", {})},
        }
        pq.write_table(pa.Table.from_pylist([row]), folder / f"{facts['file']}.parquet")
    monkeypatch.chdir(tmp_path)
    recipes = ROOT / "config/recipes"
    return load_run(
        [
            *("--config", str(recipes / "demo_cpu.yaml")),
            *("--config", str(recipes / "evaluation/reasoning360.yaml")),
            "data.cache_dir=cache",
        ]
    )


def test_every_task_has_their_samples_and_lengths(run: Run) -> None:
    sets = {each.name: each for each in run.data.held_out_sets}
    assert {name: each.samples for name, each in sets.items()} == {
        name: task[0] for name, task in TASKS.items()
    }
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
    for ordinal, (name, (samples, task, _)) in enumerate(TASKS.items()):
        prompt = rows.training_prompt(str(ordinal), first_row=0)
        assert (prompt.task, prompt.n, prompt.top_p) == (task, samples, 0.7), name
        assert prompt.messages[0]["content"] == f"a question of {name}"
