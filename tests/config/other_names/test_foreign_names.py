"""Names of verl, TRL and prime-rl are answered with ours, or with why there is none here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.explanations import ConfigError, _all_keys
from config.loading import load_run
from config.other_names.foreign_names import NOT_HERE, OURS
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


@pytest.mark.parametrize(("theirs", "ours"), OURS.items())
def test_every_key_of_ours_in_the_table_is_one(theirs: str, ours: str) -> None:
    assert ours in OUR_KEYS
    assert theirs not in OUR_KEYS, "a name that both have is read, and needs no answer"


@pytest.mark.parametrize("theirs", NOT_HERE)
def test_every_key_in_a_reason_is_one_of_ours(theirs: str) -> None:
    reason = NOT_HERE[theirs]
    named = {word.rstrip(",:;").partition("=")[0] for word in reason.split() if "." in word.rstrip(",:;")}
    for key in named:
        assert key.replace("PART", "NAME") in OUR_KEYS, key


@pytest.mark.parametrize("theirs", [*OURS, *NOT_HERE])
def test_each_of_their_names_gets_its_answer_alone(said: Callable[[str], str], theirs: str) -> None:
    text = said(f"{theirs}=1")
    assert {**OURS, **NOT_HERE}[theirs] in text
    assert text.startswith("unknown key ")


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
def test_a_name_is_answered_wherever_it_is_written(
    said: Callable[[str], str], word: str, answers: list[str]
) -> None:
    text = said(word)
    assert [answer for answer in answers if answer not in text] == []
