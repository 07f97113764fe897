"""What `millrace up` looks at before it starts anything: what would fail each time, and is seen at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.explanations import ConfigError
from config.loading import load_run
from tests.support.paths import RECIPES, ROOT
from tests.support.told import Patch
from tests.tools.conftest import MakeRun
from tools.doctor.light import CheckedMachine, check_light

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

CPU = CheckedMachine(has_gpu=False, has=lambda _name: "1")
GPU = CheckedMachine(has_gpu=True, has=lambda _name: "1")
BARE = CheckedMachine(has_gpu=True, has=lambda _name: "")
WORKS = """
from scorers.custom import SimpleScorer

class Letter(SimpleScorer):
    name = version = "1"
    def score(self, text, verification_info): return self.scored(1, "")
"""
PLAYED = """
def look_up(key: str) -> str:
    "Look a key up."
    return key

class Game:
    def reset(self, row, seed): return row["level"]
    def step(self, action): return "", 0.0, True, False, {}
"""
HF = {"engine": {"type": "hf"}}


def refused(said: str, run: object, machine: CheckedMachine, words: tuple[str, ...] = ()) -> str:
    """Return why a run is refused, which has `said` in it: "" where it is not."""
    found = ""
    try:
        check_light(run, words, machine)  # type: ignore[arg-type]
    except ConfigError as error:
        found = str(error)
    assert (said in found, bool(found)) == (True, bool(said)), found
    return found


def refused_in(folder: Path, patch: Patch, said: str, task: Any, mine: str = PLAYED, **more: Any) -> str:
    """The same of a run of one task, in a folder with `mine.py`."""
    patch.chdir(folder)
    (folder / "mine.py").write_text(mine)
    tree = {"name": "own", "model": {"path": "tiny"}, "data": {"train": {"type": "procedural"}}, **more}
    (folder / "run.yaml").write_text(json.dumps({**tree, "scorers": {"tasks": {"own": task}}}))
    words = ("--config", "run.yaml")
    return refused(said, load_run(words), GPU, words)


@pytest.mark.parametrize(
    ("machine", "sections", "said"),
    [
        (CPU, {}, "generators.engine.kv_cache_mb is not set"),
        (CPU, {"generators": {"engine": {"type": "vllm"}}}, "or generators.engine.type=hf"),
        (CPU, {"generators": {"engine": {"type": "vllm", "kv_cache_mb": 256}}}, ""),
        (GPU, {}, ""),
        (CPU, {"generators": HF}, ""),
        (CPU, {"generators": {"engine": {"type": "fake"}}}, ""),
        (BARE, {}, "vllm, transformers, torch, deepspeed: not installed"),
        (BARE, {"generators": HF}, "pip install 'millrace[model]'"),
        (BARE, {"generators": {"engine": {"type": "fake"}}}, "transformers, torch, deepspeed: not installed"),
        (CPU, {"generators": HF, "learner": {"device": "cuda"}}, "learner.device=cuda"),
        (CPU, {"generators": HF, "learner": {"gpus": [0]}}, "learner.gpus"),
        (CPU, {"generators": {**HF, "gpus": [0, 1]}}, "generators.gpus"),
        (GPU, {"generators": {**HF, "gpus": [0, 1]}, "learner": {"device": "cuda", "gpus": [0]}}, ""),
    ],
)
def test_an_engine_that_cant_start_here_is_refused_with_what_to_set(
    make_run: MakeRun, machine: CheckedMachine, sections: dict[str, object], said: str
) -> None:
    refused(said, make_run(**sections), machine)


@pytest.mark.parametrize(
    ("source", "path", "said"),
    [
        ("", "gone:Letter", "No module named 'gone'"),
        ("class Letter: pass", "mine:Lettr", "mine has no Lettr; did you mean Letter?"),
        ("import nothing_like_it", "mine:Letter", "No module named 'nothing_like_it'"),
        ("1 / 0", "mine:Letter", "division by zero"),
        ("class Letter: pass", "mine:Letter", "is no scorer, it lacks"),
        (WORKS, "mine:Letter", ""),
    ],
)
def test_a_scorer_that_cant_be_imported_is_refused_by_its_key(
    tmp_path: Path, monkeypatch: Patch, source: str, path: str, said: str
) -> None:
    task = {"scorer": {"type": "custom", "import_path": path}}
    found = refused_in(tmp_path, monkeypatch, said, task, source)
    assert not said or found.startswith("scorers.tasks.own.scorer: "), "the key that names it"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"type": "tools", "functions": ["mine:look_in"]}, "scorers.tasks.own.environment: task own"),
        ({"type": "tools", "functions": ["mine:look_up"]}, ""),
        ({"type": "custom", "import_path": "gone:Game"}, "No module named 'gone'"),
        ({"type": "custom", "import_path": "mine:Game"}, ""),  # an empty row is none of its own
    ],
)
def test_an_environment_that_cant_start_is_refused_by_its_task(
    tmp_path: Path, monkeypatch: Patch, environment: Any, said: str
) -> None:
    refused_in(tmp_path, monkeypatch, said, {"scorer": {"type": "math"}, "environment": environment})


@pytest.mark.prove  # a tokenizer is loaded
@pytest.mark.parametrize(
    ("model", "said"), [("demo_model", "does not show tools"), ("demo_agents_model", "")]
)
def test_a_template_that_shows_no_tools_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: Patch, model: str, said: str
) -> None:
    task = {"scorer": {"type": "math"}, "environment": {"type": "tools", "functions": ["mine:look_up"]}}
    data = {"train": {"type": "procedural"}, "max_prompt_tokens": 64}
    more: dict[str, Any] = {
        "model": {"path": str(RECIPES / model)},
        "sampling": {"max_tokens": 128},
        "data": data,
    }
    found = refused_in(tmp_path, monkeypatch, said, task, **more)
    assert not said or "scorers.tasks.own.environment: " in found


# On a machine without a GPU.
WITHOUT_TORCH = """
import sys, tools.main as m
code = m.main(sys.argv[1:])
assert 'torch' not in sys.modules, 'torch was imported'
sys.exit(code)
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("generators.engine.type=vllm", "generators.engine.kv_cache_mb is not set"),
        ("model.path=./gone generators.engine.type=hf", "there is no such"),
        ("data.train.type=dataset data.train.path=gone.jsonl generators.engine.type=hf", "there is no such"),
    ],
)
def test_up_refuses_before_it_starts_anything_and_without_torch(
    tmp_path: Path, values: str, said: str
) -> None:
    words = ["up", str(ROOT / "config/recipes/demo_cpu.yaml"), f"runs_dir={tmp_path}/runs", *values.split()]
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr
    assert not (tmp_path / "runs").exists()
