"""Keys that have another name now: the old one is read in every layer, with a warning."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from config.loading import from_yaml, load_run, to_yaml
from config.other_names.renamed_keys import current_path, with_current_names

TEXT = """\
name: base
model: {path: tiny}
data:
  train: {type: procedural, size: 8}
learner: {tokens_per_row: 77}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(TEXT)
    return path


def test_an_old_name_in_a_file_is_read_and_warned_about(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run = load_run(["--config", str(file)])
    assert run.learner.tokens_per_micro_batch == 77
    (warning,) = [record.getMessage() for record in caplog.records if "renamed_key" in record.getMessage()]
    assert "old=learner.tokens_per_row new=learner.tokens_per_micro_batch" in warning
    assert str(file) in warning


def test_a_later_layer_wins_whatever_name_it_uses(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = load_run(["--config", str(file), "learner.tokens_per_micro_batch=5"])
    assert new.learner.tokens_per_micro_batch == 5
    old = load_run(["--config", str(file), "learner.tokens_per_row=6"])
    assert old.learner.tokens_per_micro_batch == 6
    monkeypatch.setenv("MILLRACE_LEARNER__TOKENS_PER_ROW", "7")
    assert load_run(["--config", str(file)]).learner.tokens_per_micro_batch == 7


def test_a_stored_configuration_with_an_old_name_is_the_same_run(file: Path) -> None:
    run = load_run(["--config", str(file)])
    stored = to_yaml(run).replace("tokens_per_micro_batch", "tokens_per_row")
    assert stored != to_yaml(run)
    assert from_yaml(stored) == run


def test_only_what_was_renamed_gets_another_path() -> None:
    assert current_path(("learner", "steps")) == ("learner", "steps")
    tree = {"name": "x", "learner": {"tokens_per_row": 3, "optimizer": {}}}
    assert with_current_names(tree) == {
        "name": "x",
        "learner": {"tokens_per_micro_batch": 3, "optimizer": {}},
    }


def test_an_old_name_below_any_task_is_read_and_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        TEXT.replace("learner: {tokens_per_row: 77}", "scorers:\n  tasks:\n    math:\n      also:\n")
        + "        style: {scorer: {type: format}, weight: 0.25}\n"
    )
    with caplog.at_level(logging.WARNING):
        run = load_run(["--config", str(path), "scorers.tasks.math.extra_scorers.style.gate=0.5"])
    (style,) = run.scorers.tasks["math"].extra_scorers.values()
    assert (style.scorer.type, style.weight, style.gate) == ("format", 0.25, 0.5)
    assert (
        "old=scorers.tasks.math.also.style.weight new=scorers.tasks.math.extra_scorers.style.weight"
        in caplog.text
    )
    assert from_yaml(to_yaml(run).replace("extra_scorers:", "also:")) == run
    assert current_path(("scorers", "tasks", "also")) == ("scorers", "tasks", "also")  # a task of this name
