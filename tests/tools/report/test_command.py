"""`millrace report` of one run, of two, and of none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chain import make_run
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tests.support.told import Capsys
from tools.main import main

pytestmark = pytest.mark.model


@pytest.fixture
def made(tmp_path: Path) -> JournaledRun:
    made = JournaledRun(make_run(tmp_path), HashPolicy())
    made.live(3)
    return made


def report(made: JournaledRun, *words: str) -> int:
    return main(["report", made.run.name, *words, "--runs-dir", str(made.run.runs_dir)])


def test_it_is_written_beside_the_run_without_a_tokenizer_too(made: JournaledRun, capsys: Capsys) -> None:
    assert report(made) == 0
    file = made.run.folder / "report.html"
    assert capsys.readouterr().out == f"{file}\n"
    assert "Scorers" in file.read_text()


def test_two_runs_make_one_page(made: JournaledRun, tmp_path: Path, capsys: Capsys) -> None:
    out = tmp_path / "both.html"
    assert report(made, made.run.name, "-o", str(out)) == 0
    assert out.read_text().count(f"</i>{made.run.name}</h1>") == 2


def test_a_run_that_is_not_there_is_named(made: JournaledRun, capsys: Capsys) -> None:
    assert report(made, "another") == 1
    assert "another" in capsys.readouterr().err
