"""Names of verl, TRL and prime-rl are answered with ours; keys that have another name now are read, with a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from config.explanations import ConfigError, _all_keys
from config.loading import from_yaml, load_run, to_yaml
from config.other_names.foreign_names import NOT_HERE, OURS, answer
from config.other_names.renamed_keys import current_path, with_current_names
from config.run import Run

OUR_KEYS = {".".join(path) for path, _ in _all_keys(Run, ())}
BASE = "name: base\nmodel: {path: tiny}\ndata: {train: {type: procedural}}\n"


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str], str]:
    file = tmp_path / "run.yaml"
    file.write_text(BASE)

    def ask(word: str) -> str:
        with pytest.raises(ConfigError) as refused:
            load_run(["--config", str(file), word])
        return str(refused.value)

    return ask


def test_every_key_in_the_tables_is_ours_and_each_of_their_names_gets_its_answer() -> None:
    assert set(OURS.values()) <= OUR_KEYS
    assert {**OURS, **NOT_HERE}.keys() & OUR_KEYS == set(), (
        "a name that both have is read, and needs no answer"
    )
    for theirs, reason in NOT_HERE.items():
        words = [word.rstrip(",:;") for word in reason.split()]
        named = {word.partition("=")[0].replace("PART", "NAME") for word in words if "." in word}
        assert named <= OUR_KEYS, theirs
    for theirs, ours in {**OURS, **NOT_HERE}.items():
        assert answer(tuple(theirs.split(".")), 1).endswith(f" {ours}"), theirs


GROUP_SIZE = "sampling.group_size"


@pytest.mark.parametrize(
    ("word", "answers"),
    [
        (
            "actor_rollout_ref.rollout.n=8",
            [f"here rollout.n is {GROUP_SIZE}", "`millrace import FILE -o run.yaml`"],
        ),
        ("algorithm.kl_ctrl.kl_coef=0.001", ["here kl_ctrl.kl_coef is learner.objective.kl.coef"]),
        ("data.train_batch_size=128", ["here that is learner.groups_per_step"]),
        ("learner.kl_coef=0.1", ["here that is learner.objective.kl.coef"]),
        ("num_generations=8", [f"here that is {GROUP_SIZE}"]),
        ("sampling.num_generations=8", [f"here that is {GROUP_SIZE}"]),
        ("critic={optim: {lr: 1e-5}}", ["critic is not here, because no objective here has a value model"]),
        (
            "trainer={total_epochs: 3, save_freq: 20, critic_warmup: 0}",
            ["here total_epochs is learner.epochs", "here save_freq is learner.checkpoint.every"],
        ),
        ("learner.ppo_epochs=2", ["that is not here, because each group trains once"]),
        ("orchestrator={rollouts_per_example: 16}", ["here rollouts_per_example is"]),
        ("orchestrator={batch_size: 512}", ["batch_size is not"]),
        ("learner.stepz=2", ["did you mean learner.steps?"]),
    ],
)
def test_a_name_is_answered_wherever_it_is(said: Callable[[str], str], word: str, answers: list[str]) -> None:
    text = said(word)
    assert [answer for answer in answers if answer not in text] == []


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


def test_a_stored_old_name_is_the_same_run_and_nothing_else_is_renamed(file: Path) -> None:
    run = load_run(["--config", str(file)])
    stored = to_yaml(run).replace("tokens_per_micro_batch", "tokens_per_row")
    assert stored != to_yaml(run)
    assert from_yaml(stored) == run
    assert current_path(("learner", "steps")) == ("learner", "steps")
    tree = {"name": "x", "learner": {"tokens_per_row": 3, "optimizer": {}}}
    assert with_current_names(tree) == {
        "name": "x",
        "learner": {"tokens_per_micro_batch": 3, "optimizer": {}},
    }


def test_an_old_name_in_any_task_is_read_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
