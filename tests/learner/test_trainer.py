"""The loop, with everything real but the model and the other roles: Redis, journal, feeder, weights, metrics."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

from broker import codec
from broker.checksums import weights_checksum
from broker.errors import Fenced, RunFailed
from broker.keys import PROMPTS, SCORED
from config.learner import LearnerConfig
from learner.incarnation import STOPPED
from learner.journal.ledger import read_ledger, read_step
from learner.journal.writer import Journal
from learner.objective.kl_coefficient import KlCoefficient
from learner.reporting.curves import TIMES
from learner.reporting.metrics_file import read_metrics
from learner.resume.replay import kl_after
from learner.training.batch import Batch, pack
from learner.training.checkpoint import read_progress
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import FilePolicy
from tests.support.loop import make_trainer


def test_three_steps_without_a_finite_gradient_end_the_run(make_chain: MakeChain, train: Train) -> None:
    class Skips(FilePolicy):
        def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
            is_skipped = batch.policy_version in {1, 3, 4, 5}
            stepped = {} if is_skipped else super().step(batch, settings)
            return {"tokens": 4.0, "seconds": 0.1, **stepped, "skipped": float(is_skipped)}

    chain = make_chain(learner={"steps": 9, "max_skipped_steps": 3})
    with pytest.raises(RunFailed, match=r"gradients of 3 steps in a row, up to version 6, were not finite"):
        train(chain, policy=Skips())
    assert len(read_ledger(chain.run.folder / "journal").steps) == 6
    newest = codec.decode_announcement(chain.client.xrevrange(chain.keys("weights"), count=1)[0][1])
    assert newest.version == 6  # announced and committed, so that the next start goes on behind it
    assert [line["skipped"] for line in read_metrics(chain.run.folder)] == [0, 1, 0, 1, 1, 1]


def test_a_generator_too_far_from_the_learner_ends_the_run(make_chain: MakeChain, train: Train) -> None:
    class Apart(FilePolicy):
        def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
            kl = 0.3 if batch.policy_version == 1 else 0.1
            found = {"mismatch_kl@g0": 0.0, "mismatch_max@g0": 0.0, "mismatch_max@g1": 2.0}
            return super().step(batch, settings) | found | {"mismatch_kl@g1": kl}

    chain = make_chain(learner={"steps": 3, "mismatch": {"stop_above": 0.2}})
    told = r"generator g1 has mismatch_kl=0\.3000, above learner\.mismatch\.stop_above"
    with pytest.raises(RunFailed, match=told):
        train(chain, policy=Apart())
    lines = read_metrics(chain.run.folder)
    assert [line["generators"]["g1"]["mismatch_kl"] for line in lines] == [0.1, 0.3]  # the step stands
    assert not any("@" in name for line in lines for name in line)


def test_a_divergence_is_taken_from_the_rewards_and_adapts(make_chain: MakeChain, train: Train) -> None:
    class Pulled(FilePolicy):
        def __init__(self) -> None:
            super().__init__()
            self.coefs: list[float] = []

        def divergences(self, batch: Batch) -> list[float]:
            return [0.5 * (number % 2) for number in range(len(batch.prompts))]  # every second completion

        def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
            self.coefs.append(batch.kl_coef)
            return super().step(batch, settings)

    kl = {"coef": 0.1, "place": "reward", "target": 0.01, "horizon": 80}
    chain = make_chain(learner={"steps": 3, "objective": {"kl": kl}, "checkpoint": {"every": 2}})
    policy = Pulled()
    train(chain, policy=policy)

    section = chain.run.learner.objective.kl
    ledger = read_ledger(chain.run.folder / "journal")
    expected = [0.1, 0.1 * (1 + 0.2 * 4 / 80), 0.1 * (1 + 0.2 * 4 / 80) ** 2]  # far above the target
    assert policy.coefs == pytest.approx(expected)
    assert [record["kl"]["coef"] for record in ledger.steps] == policy.coefs
    for record, coef in zip(ledger.steps, policy.coefs, strict=True):
        groups, advantages = read_step(chain.run.folder / "journal", record)
        for group, own in zip(groups, advantages, strict=True):
            earned = [reward for reward in group.rewards if reward is not None]
            rewards = [reward - coef * 0.5 * (place % 2) for place, reward in enumerate(earned)]
            mean = sum(rewards) / len(rewards)
            assert own == pytest.approx([reward - mean for reward in rewards])
    lines = read_metrics(chain.run.folder)
    assert [line["kl_coef"] for line in lines] == policy.coefs
    assert lines[0]["reward_mean_trained"] == 0.5  # what was earned, not what the divergence left of it
    # A learner that goes on has the coefficient that this one would have had.
    state = read_progress(chain.run.folder / "checkpoints/step-000002").kl
    assert KlCoefficient(section, state).value == policy.coefs[2]
    stored = read_step(chain.run.folder / "journal", ledger.steps[1])
    batch = pack(*stored, tokens_per_micro_batch=64, truncated="mask", policy_version=1)
    assert kl_after(section, ledger.steps[1], batch, {}) == state


def test_a_run_of_one_epoch_ends_once_every_row_has(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"epochs": 1, "steps": 100}, evaluation={"every": 0})
    trainer = make_trainer(chain)
    chain.selection.breaches = 3
    train(chain, trainer=trainer)
    assert {record["lag_breaches"] for record in read_metrics(chain.run.folder)} == {3}
    ledger = read_ledger(chain.run.folder / "journal")
    dropped = {group_id for group_id, outcome in ledger.outcomes.items() if outcome.kind == "dropped"}
    assert dropped == {"2", "5", "8"}  # of ten rows
    trained = [group_id for record in ledger.steps for group_id in record["ids"]]
    assert sorted(trained) == ["0", "1", "3", "4", "6", "7", "9"]
    assert [len(record["ids"]) for record in ledger.steps] == [2, 2, 2, 1]  # what is left, however few
    assert (chain.run.folder / "model").is_dir()


def test_what_was_issued_beyond_the_last_step_is_dropped_as_over(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"steps": 4, "max_lag": 3}, evaluation={"every": 0})
    for _ in range(40):
        chain.filters.kept_share.note(kept=False)  # so the last step has a whole budget in flight
    train(chain)
    ledger = read_ledger(chain.run.folder / "journal")
    over = [outcome for outcome in ledger.outcomes.values() if outcome.detail.startswith("over: ")]
    assert len(over) >= 2
    assert {outcome.kind for outcome in over} == {"dropped"}
    assert len(ledger.outcomes) == int(chain.client.hget(chain.keys("cursor"), "issued"))
    assert (chain.slots, chain.depth(PROMPTS), chain.depth(SCORED)) == (set(), 0, 0)
    oldest = min(int(group_id) for group_id in ledger.over)
    state = json.loads((chain.run.folder / "checkpoints/step-000004/state.json").read_text())["state"]
    assert state["first_row"] == oldest, "a new run from this checkpoint begins with what was over"

    trainer = make_trainer(chain)  # the run is given more steps
    chain.version.trained = chain.version.announced = 4
    for _ in range(2):
        trainer.outcomes.retry_the_rest()
        assert chain.journal.ledger.retries == dict.fromkeys(ledger.over, 1)
    assert chain.journal.ledger.over == []
    chain.selection.poll_operator()
    assert sorted(trainer.feeder._retries) == sorted(f"{group_id}-r1" for group_id in ledger.over)
    trainer.publisher.close()


@pytest.mark.parametrize("max_lag", [0, 1])
def test_what_a_step_did_not_need_is_surplus_and_no_group_gets_too_old(
    make_chain: MakeChain, train: Train, max_lag: int
) -> None:
    chain = make_chain(learner={"steps": 8, "max_lag": max_lag}, evaluation={"every": 0})
    for _ in range(100):
        chain.filters.kept_share.note(kept=False)  # so a step has as much in flight as it may
    train(chain)
    ledger = read_ledger(chain.run.folder / "journal")
    kinds = Counter(outcome.detail.partition(":")[0] for outcome in ledger.outcomes.values())
    assert kinds["surplus"] > 0
    assert len(ledger.outcomes) == int(chain.client.hget(chain.keys("cursor"), "issued"))
    records = read_metrics(chain.run.folder)
    assert sum(record["dropped_by_reason"].get("surplus", 0) for record in records) == kinds["surplus"]
    assert sum(record["dropped_by_reason"].get("over", 0) for record in records) == kinds["over"]
    assert max(record["lag_max"] for record in records) <= max_lag
    assert (chain.slots, chain.selection.breaches) == (set(), 0)


def test_a_run_trains_what_it_issued_and_leaves_nothing(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(
        learner={"steps": 6, "checkpoint": {"every": 2, "keep": 2}, "samples_every": 3},
        evaluation={"every": 2, "prompts": 3, "samples": 4},
    )
    train(chain)
    folder = chain.run.folder

    ledger = read_ledger(folder / "journal")
    assert [step["step"] for step in ledger.steps] == list(range(6))
    assert ledger.twice == []
    issued = int(chain.client.hget(chain.keys("cursor"), "issued"))
    assert len(ledger.outcomes) == issued  # every group has one outcome
    assert chain.slots == set()
    assert chain.client.hlen(chain.keys("where")) == chain.depth(PROMPTS) == chain.depth(SCORED) == 0
    assert sum(outcome.kind == "trained" for outcome in ledger.outcomes.values()) == 12
    assert sorted(ledger.evaluations) == [0, 2, 4, 6]
    assert chain.selection.breaches == 0

    newest = codec.decode_announcement(chain.client.xrevrange(chain.keys("weights"), count=1)[0][1])
    assert (newest.version, Path(newest.path)) == (6, (folder / "weights" / "v000006").absolute())
    weights = Path(newest.path) / "model.safetensors"
    assert weights.read_text() == "weights 6"
    assert (newest.checksum, newest.size_bytes) == (weights_checksum([weights]), 9)
    # Version 5 may be published behind the last step.
    assert ledger.checksums[4] == xxhash.xxh3_128(b"weights 4").hexdigest()
    assert sorted(path.name for path in (folder / "weights").iterdir()) == ["v000005", "v000006"]
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-000004", "step-000006"]
    state = json.loads((folder / "checkpoints/step-000006/state.json").read_text())
    state = state["state"]
    begins = min(map(int, ledger.over), default=issued)  # with what no step took
    assert (state["version"], state["first_row"], state["fingerprint"]) == (6, begins, "f")

    records = read_metrics(folder)
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[0].keys() >= {"step", "reward_mean", "lag_mean", "lag_max", "groups", "tokens", "seconds"}
    counts = [(record["groups"], record["tokens"], record["lag_breaches"]) for record in records]
    assert counts == [(2, 8, 0)] * 6
    assert {f"seconds_{part}" for part in TIMES} == {  # the picture leaves no time out
        name for record in records for name in record if name.startswith("seconds_")
    }
    assert all(0 <= record["lag_max"] <= 1 for record in records)
    assert (records[0]["eval_version"], records[0]["eval_pass_rate"]) == (0, 0.25)
    assert records[-1]["eval_version"] == 6
    rounds = [result["version"] for record in records for result in record.get("evaluations", ())]
    assert rounds == [0, 2, 4, 6]
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert [sample["step"] for sample in samples] == [1, 3, 6]
    assert (samples[0]["reward"], samples[0]["answer"]) == (1.0, "5")


def test_a_learner_that_wakes_after_a_newer_one_began_touches_no_checkpoint(make_chain: MakeChain) -> None:
    chain = make_chain()
    trainer = make_trainer(chain)
    newer = Journal(chain.run.folder / "journal", chain.journal.fence + 1, run="test")
    with pytest.raises(Fenced):
        trainer._save()
    newer.close()
    trainer.metrics.close()
    assert not (chain.run.folder / "checkpoints").exists()


def test_no_slot_is_freed_before_the_next_version_is_announced(
    make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain(learner={"steps": 2})
    order: list[tuple[str, int]] = []

    def watch(owner: object, name: str, number: Callable[..., int]) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            order.append((name, number(*args)))
            return real(*args, **options)

        monkeypatch.setattr(owner, name, call)

    watch(chain.journal, "append", lambda step, *_: step)
    watch(chain.run_owner, "announce", lambda announcement: announcement.version)
    watch(chain.run_owner, "retire", len)
    monkeypatch.setattr("learner.groups.filters.why_empty", lambda *_, **__: None)  # nothing else ends
    train(chain)
    told = [("announce", 0), ("retire", 0), ("announce", 1), ("retire", 2), ("announce", 2), ("retire", 2)]
    assert [(name, number) for name, number in order if name != "append"] == told
    for step in (0, 1):  # a step stands before the version that it makes is told
        assert order.index(("append", step)) < order.index(("announce", step + 1))


def test_a_full_disk_ends_the_run_and_acknowledges_nothing(
    make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain(learner={"filters": {"zero_variance": "keep"}})
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(chain.journal._payloads, "_stream", full)
        told = r"No space left on device\. Nothing of this step was acknowledged"
        with pytest.raises(RunFailed, match=told):
            train(chain)
    assert chain.slots == {"0", "1", "2", "3"}
    assert int(chain.client.hget(chain.keys("run"), "version")) == 0
    assert read_ledger(chain.run.folder / "journal").steps == []


def test_a_stop_ends_after_the_step_with_a_checkpoint(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain()
    timer = threading.Timer(0.3, chain.stop.set)
    timer.start()
    trainer = train(chain, end=STOPPED)
    assert len(read_ledger(chain.run.folder / "journal").steps) == trainer.version
    assert len(read_metrics(chain.run.folder)) == trainer.version
    state = json.loads((chain.run.folder / f"checkpoints/step-{trainer.version:06d}/state.json").read_text())
    assert state["state"]["first_row"] == min(map(int, chain.slots))  # the oldest group without an outcome


def test_a_stop_in_the_last_evaluation_gives_nothing_up_and_the_next_learner_has_it_whole(
    make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain(learner={"steps": 2}, evaluation={"every": 2, "prompts": 2, "samples": 2})
    real = chain.score

    def nobody_scores_the_last_round(group_id: str, *args: Any, **options: Any) -> None:
        if group_id.startswith("eval-2"):
            raise ValueError
        real(group_id, *args, **options)

    monkeypatch.setattr(chain, "score", nobody_scores_the_last_round)
    trainer = make_trainer(chain)

    def say(text: str) -> None:
        if "evaluation of version 2" in text:
            chain.stop.set()

    monkeypatch.setattr(trainer.selection, "_set_state", say)
    train(chain, trainer=trainer, end=STOPPED)
    assert sorted(chain.journal.ledger.evaluations) == [0]
    assert not (chain.run.folder / "model").exists()

    monkeypatch.setattr(chain, "score", real)
    chain.stop.clear()
    following = make_trainer(chain)
    following.policy_version.trained = following.policy.steps = 2  # type: ignore[attr-defined]
    train(chain, trainer=following)
    result = chain.journal.ledger.evaluations[2]
    assert (result["missing"], result["prompts"]) == (0, 2)
    lines = [(record["step"], record.get("eval_version")) for record in read_metrics(chain.run.folder)]
    assert lines == [(1, 0), (2, 2)]  # though no step followed the round


@pytest.mark.parametrize(
    ("owner", "name", "lines"),
    [("checkpoints", "save", [(1, 0), (2, None)]), ("policy", "save_model", [(1, 0), (2, None), (3, 3)])],
)
def test_what_a_checkpoint_covers_has_its_lines_however_soon_the_kill_comes(
    make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch, *, owner: str, name: str, lines: Any
) -> None:
    class Killed(BaseException):
        """Nothing of the process goes on after it."""

    chain = make_chain(
        learner={"steps": 3, "checkpoint": {"every": 2}}, evaluation={"every": 3, "prompts": 2, "samples": 2}
    )
    trainer = make_trainer(chain)
    real = getattr(getattr(trainer, owner), name)

    def die(*args: Any) -> None:
        real(*args)
        raise Killed

    monkeypatch.setattr(getattr(trainer, owner), name, die)
    close = trainer.metrics.close
    monkeypatch.setattr(trainer.metrics, "close", lambda: None)  # a kill closes nothing
    with pytest.raises(Killed):
        train(chain, trainer=trainer)
    found = [(record["step"], record.get("eval_version")) for record in read_metrics(chain.run.folder)]
    assert found == lines
    close()
