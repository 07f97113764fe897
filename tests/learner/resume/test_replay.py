"""Training the journal's steps again, with a policy whose weights are a hash of all that it was given."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from broker.errors import RunFailed
from learner.journal.ledger import read_ledger
from learner.resume.replay import Interrupted, catch_up
from learner.training.checkpoint import Checkpoints, load
from tests.support.chain import make_run
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tests.support.journals import flip

SMALL = {"tokens_per_micro_batch": 48}


def make(tmp_path: Path, *lives: int, **learner: Any) -> JournaledRun:
    """Return a run of so many steps in each life."""
    made = JournaledRun(make_run(tmp_path, learner=SMALL | learner), HashPolicy())
    for steps in lives:
        made.live(steps)
    return made


def again(made: JournaledRun, policy: Any, version: int = 0, **options: Any) -> int:
    run, ledger = options.pop("run", made.run), options.pop("ledger", read_ledger(made.journal))
    return catch_up(run, policy, made.journal, ledger, version, **options)


def test_every_step_of_every_life_is_trained_again_as_it_was(tmp_path: Path) -> None:
    made = make(tmp_path, 2)
    changes: dict[str, Any] = {"filters": {"truncated": "keep"}, "optimizer": {"lr": 1e-3, "grad_clip": 0.5}}
    made.live(2, tokens_per_micro_batch=4096, **changes)
    made.live(1, tokens_per_micro_batch=30, objective={"clip_low": 0.1, "dual_clip": None})
    now = make_run(tmp_path, learner={"tokens_per_micro_batch": 9999, "optimizer": {"lr": 1.0}})
    policy = HashPolicy()
    assert again(made, policy, run=now) == 5
    assert policy.weights == made.policy.weights
    assert policy.rows == made.policy.rows  # each packed by its own life's budget
    assert policy.rows[2] == policy.rows[3] == 1 < policy.rows[0] < policy.rows[4]
    assert [version for version, _ in policy.steps] == [0, 1, 2, 3, 4]
    rates = [settings.optimizer.lr for _, settings in policy.steps if settings]
    assert rates == [1e-6] * 2 + [1e-3] * 3


def test_a_step_trains_again_in_the_smaller_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make(tmp_path)
    made.live(1, tokens_per_micro_batch=30)
    made.live(2, tokens_per_micro_batch=4096)
    policy = HashPolicy()
    with caplog.at_level(logging.WARNING):
        assert again(made, policy, run=make_run(tmp_path, learner={"tokens_per_micro_batch": 48})) == 3
    assert policy.rows[0] == made.policy.rows[0]  # smaller already: with the bits that it had
    assert made.policy.rows[1:] == [1, 1]
    assert min(policy.rows[1:]) > 1
    assert {settings.tokens_per_micro_batch for _, settings in policy.steps if settings} == {30, 48}
    assert "smaller_rows steps=2 first=2 tokens_per_micro_batch=48 recorded=4096" in caplog.text


def test_only_steps_after_a_checkpoint_train(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make(tmp_path)
    assert again(made, HashPolicy()) == 0, "before the first step"
    made.live(5, checkpoints=(2, 4))
    policy = HashPolicy("something else")
    newest: Any = Checkpoints(made.run).newest_good()
    progress = load(policy, newest)
    assert (progress.version, progress.fence) == (4, 1)
    assert again(made, policy, progress.version) == 5
    assert policy.weights == made.policy.weights
    assert [version for version, _ in policy.steps] == [4]
    assert again(made, policy, 5) == 5
    assert len(policy.steps) == 1, "with no later step nothing is trained"
    again(made, HashPolicy())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    there = [path.name for path in (made.run.folder / "checkpoints").iterdir()]
    assert sorted(there) == ["step-000002", "step-000004"]


def test_what_is_gone_damaged_or_missing_ends_it_and_is_named(tmp_path: Path) -> None:
    made, policy = make(tmp_path, 2, 2), HashPolicy()
    with pytest.raises(
        RunFailed, match="have done 7 steps, and the journal ends with step 4: records were lost"
    ):
        again(made, policy, 7)
    ledger = read_ledger(made.journal)
    del ledger.steps[2]
    with pytest.raises(RunFailed, match=r"record of step 3 is missing.*step 4 comes in its place"):
        again(made, policy, ledger=ledger)
    ledger = read_ledger(made.journal)
    ledger.incarnations[0] = {**ledger.incarnations[0], "config": "learner: {no_such_key: 1}"}
    told = r"step 1 .*settings that this version can't read \(ledger 1\).*no_such_key"
    with pytest.raises(RunFailed, match=told):
        again(made, policy, ledger=ledger)
    assert policy.steps == []  # noticed before anything is trained
    assert list(made.run.folder.glob("checkpoints/replay-*")) == []
    record = ledger.steps[2]
    flip(made.journal / record["file"], record["offset"] + 100)
    with pytest.raises(RunFailed, match=r"step 3 can't be trained again: .* is damaged"):
        again(made, HashPolicy())
    (made.journal / record["file"]).unlink()
    told = r"step 3 can't be trained again: .* is gone with its file.*learner\.resume"
    with pytest.raises(RunFailed, match=told):
        again(made, HashPolicy())


def test_a_signal_ends_it_before_the_next_step(tmp_path: Path) -> None:
    made = make(tmp_path, 4)
    policy: Any = HashPolicy()
    with pytest.raises(Interrupted, match="before step 3, and the journal's last is 4"):
        again(made, policy, is_stopped=lambda: len(policy.steps) == 2)
    assert [version for version, _ in policy.steps] == [0, 1]
    assert not list(made.run.folder.glob("checkpoints/*")), "nothing is left behind"


@pytest.mark.parametrize(("seed", "step"), [("other weights", 1), ("model", 4)])
def test_other_weights_than_the_record_has_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: str, step: int
) -> None:
    """The first step sees a wrong start, the last one another rounding on the way."""
    made = make(tmp_path, 4)
    policy = HashPolicy(seed)
    if step > 1:
        original = policy.step

        def rounds(batch: Any, learner: Any = None) -> dict[str, float]:
            metrics = original(batch, learner)
            policy.weights = policy.weights.replace("0", "1")
            return metrics

        policy.step = rounds  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert again(made, policy) == 4
    assert caplog.messages[0].startswith(f"weights_differ step={step} ")
    assert "another machine, number of threads or ranks" in caplog.messages[0]
