"""The gold test: one process examines the rows of all sources, and each source has its own verdicts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.data import DatasetSource
from config.run import Run
from config.scorers import TaskConfig
from learner.data import scorers_process
from learner.data.gold import gold_tests
from learner.data.ingest import ingest
from learner.data.row import Row
from learner.data.store import RowList, RowStore
from tests.support.ingested import with_tasks
from tests.support.verl_runs import write_jsonl

pytestmark = pytest.mark.process

RIGHT, BROKEN = "4", "5"  # references, of which the second is worth a half to this run's own scorer
TASKS = {"math": {"type": "custom", "import_path": "own_four:Four"}}
OWN = """
from scorers.custom import SimpleScorer

class Four(SimpleScorer):
    name, version = "four", "1"

    def score(self, text, verification_info):
        return self.scored(1.0 if "{4}" in text else 0.5, "is it four?")
"""


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Have a scorer of one's own for mathematics: what sympy takes to be imported is nothing that is tested here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_four.py").write_text(OWN)
    return with_tasks(run, TASKS)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return the programs of the scorers that were started."""
    programs: list[tuple[str, ...]] = []
    start = scorers_process.start

    def counted(words: Any, answers: Any) -> subprocess.Popen[bytes]:
        programs.append(tuple(words))
        return start(words, answers)

    monkeypatch.setattr(scorers_process, "start", counted)
    return programs


@pytest.fixture
def one_processor() -> Iterator[None]:
    """Leave what is started one processor: it starts one worker, and not several, which each import for seconds."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    yield
    os.sched_setaffinity(0, all_of_them)


@pytest.mark.prove
def test_a_row_that_its_environment_plays_is_examined_by_that_episode(run: Run, one_processor: None) -> None:
    riddle = {"type": "custom", "import_path": "tests.support.own_environments:Riddle"}
    own = TaskConfig.model_validate({"environment": riddle, "scorer": {"type": "environment"}})
    run = with_tasks(run, {"riddle": own, **TASKS})
    played = [
        Row(
            messages=(),
            task="riddle",
            verification_info={"type": "riddle", "seed": 17, "reference": reference},
        )
        for reference in (["what?", "17"], ["18"], None)
    ]
    info = {"type": "math", "answer": {"value": RIGHT}}
    answered = Row(messages=({"role": "user", "content": "2 + 2?"},), task="math", verification_info=info)
    one, other = gold_tests(run, [RowList([answered, *played[:2]]), RowList([played[2], answered])])
    assert list(one.left_out) == [2]
    assert "its reference scores 0.5: reward 0 of -1 to 1" in one.left_out[2][1]
    assert (one.untested, other.left_out) == ({}, {})
    assert other.untested == {"the environment of task 'riddle' has no reference for this row": [0]}


def stored(run: Run, file: Path, *answers: str) -> RowStore | RowList:
    """Return the stored rows of a file, with these references."""
    rows = [
        {"problem": f"{number} in {file.name}?", "answer": answer} for number, answer in enumerate(answers)
    ]
    source = DatasetSource(
        path=str(write_jsonl(file, rows)), prompt_template="{problem}", answer_column="answer", task="math"
    )
    return ingest(run, source).rows


def test_one_process_examines_all_sources_once(
    run: Run, tmp_path: Path, started: list[tuple[str, ...]], one_processor: None
) -> None:
    first = stored(run, tmp_path / "first.jsonl", RIGHT, BROKEN, RIGHT)
    second = stored(run, tmp_path / "second.jsonl", BROKEN, RIGHT)
    made = RowList([first[1], first[0]])
    expected = [[1], [0], [1], [0]]
    found = gold_tests(run, [first, second, first, made])
    assert [sorted(one.left_out) for one in found] == expected
    assert {by for one in found for by, _ in one.left_out.values()} == {"wrong"}
    assert started == [("-m", "scorers.gold")]
    assert [sorted(one.left_out) for one in gold_tests(run, [second, first])] == [[0], [1]]
    assert len(started) == 1, "the verdicts lie beside the rows"
