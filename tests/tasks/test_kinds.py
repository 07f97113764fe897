"""Task kinds: each is declared once, and everything that knows kinds is derived from that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from config.scorer_kinds import SECTIONS
from scorers.api import all_tasks
from tasks.kinds import BY_NAME, DATA_SOURCES, KINDS, TASK_OF_TYPE, TaskKind
from tests.support.paths import ROOT


def test_every_section_is_declared_once_and_every_row_type_belongs_to_one_kind() -> None:
    assert [kind.name for kind in KINDS if kind.section is not SECTIONS[kind.name]] == []
    assert sorted(kind.name for kind in KINDS) == sorted(SECTIONS)
    types = [row.name for kind in KINDS for row in kind.rows]
    assert len(types) == len(set(types))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_scorer_that_a_kind_names_is_there_in_a_folder_of_its_name(kind: TaskKind) -> None:
    module, _, name = kind.scorer.partition(":")
    assert callable(getattr(import_module(module), name))
    assert module.split(".")[1] == kind.name


def test_the_defaults_of_score_have_a_task_for_every_type_of_rows() -> None:
    assert set(TASK_OF_TYPE.values()) <= all_tasks().tasks.keys()


def test_a_data_source_decides_by_marks_then_by_its_whole_name_then_by_the_longer_beginning() -> None:
    order = [pattern for pattern, _ in DATA_SOURCES]
    for first, then in (
        ("*_tinyv*", "math__*"),
        ("codegen__*", "*_prime*"),
        ("logic__zebra_puzzle*", "logic__*"),
        ("stem__web*", "stem__*"),
        ("MATH", "math__*"),
    ):
        assert order.index(first) < order.index(then), (first, then)


TOY = '''"""A toy scorer: the answer is the reference backwards."""

from scorers.custom import SimpleScorer


class Backwards(SimpleScorer):
    name, version = "backwards", "1"

    def __init__(self, config):
        self._config = config

    def score(self, text, verification_info):
        return self.scored(text[::-1] == verification_info["answer"]["value"], "read backwards")
'''
SECTION = '''
class BackwardsConfig(ScorerSection):
    """Answers backwards."""

    type: Literal["backwards"] = "backwards"


ScorerConfig = Annotated[
    BackwardsConfig
    | MathConfig'''
KIND = """
    TaskKind(section=sections.BackwardsConfig, scorer="scorers.backwards.scorer:Backwards", about="answers backwards",
             rows=(RowType(name="backwards", sources=("toy/backwards",)),)),
    TaskKind(
        section=sections.CustomConfig,"""
USE = """
import json
from scorers import score
from tasks.kinds import as_table
from tasks.route import route

row = {"data_source": "toy/backwards", "reward_model": {"ground_truth": "abc"}}
task, info = route(row)
print(json.dumps([task, score("cba", info).value, score("abc", info).value, as_table()[-2]]))
"""


@pytest.mark.prove
@pytest.mark.process
@pytest.mark.timeout(120)
def test_a_scorer_is_added_by_its_folder_its_section_and_one_declaration(tmp_path: Path) -> None:
    """A copy of the packages, with these three changes and no other, routes, scores and documents the new kind."""
    for package in ("config", "broker", "tasks", "web", "sandbox", "verdicts", "scorers"):
        shutil.copytree(ROOT / package, tmp_path / package)  # with its bytecode
    (tmp_path / "scorers" / "backwards").mkdir()
    (tmp_path / "scorers" / "backwards" / "__init__.py").write_text("")
    (tmp_path / "scorers" / "backwards" / "scorer.py").write_text(TOY)
    for file, before, after in (
        ("config/scorer_kinds.py", "\nScorerConfig = Annotated[\n    MathConfig", SECTION),
        ("tasks/kinds.py", "\n    TaskKind(\n        section=sections.CustomConfig,", KIND),
    ):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (tmp_path / file).write_text(text.replace(before, after), encoding="utf-8")
    command, variables = [sys.executable, "-c", USE], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    task, right, wrong, row = json.loads(done.stdout)
    assert (task, right, wrong) == ("backwards", 1.0, 0.0)
    assert row.startswith("| `backwards` | answers backwards | `backwards` |")
    assert "backwards" not in BY_NAME  # the copy alone has it
