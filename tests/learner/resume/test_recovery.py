"""A learner that goes on: what a kill, a forgetful Redis and an operator leave is brought together again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import WentBack
from broker.group_ids import retried
from broker.keys import PROMPTS
from broker.protocol.run_state import DRAIN, GO_ON, PAUSE, ask
from broker.protocol.streams import dead_letter_entry
from learner.groups.evaluation import asked_for
from learner.groups.lag import LagRule
from learner.incarnation import DRAINED, STOPPED
from learner.journal.ledger import DROPPED, GroupOutcome, Ledger, read_ledger
from learner.reporting.metrics_file import read_metrics
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import Chain
from tests.support.journals import groups
from tests.support.loop import Hands, make_trainer

pytestmark = pytest.mark.process


def rounds_of(chain: Chain) -> Any:
    return read_ledger(chain.run.folder / "journal").evaluations


def assert_nothing_is_lost(chain: Chain, *, steps: int) -> None:
    """Every id that the cursor names has one outcome, and every step is there once."""
    ledger = read_ledger(chain.run.folder / "journal")
    assert ledger.twice == []
    assert [record["step"] for record in ledger.steps] == list(range(steps))
    position = int(chain.client.hget(chain.keys("cursor"), "position"))
    assert {str(ordinal) for ordinal in range(position)} <= ledger.outcomes.keys() | chain.slots
    assert not chain.slots & ledger.outcomes.keys()


def once_before(owner: Any, name: str, act: Callable[[], object], *, call: int) -> list[int]:
    """Do `act` before the `call`-th call of a method; returns how often that was called so far."""
    real, calls = getattr(owner, name), [0]

    def wrapped(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            act()
        return real(*args, **options)

    setattr(owner, name, wrapped)
    return calls


def flush(chain: Chain) -> None:
    chain.client.flushall()


def go_back_a_little(chain: Chain) -> None:
    """The last writes are gone: `seq`, and with it an announcement."""
    chain.client.hincrby(chain.keys("cursor"), "seq", -2)
    newest = chain.client.xrevrange(chain.keys("weights"), count=1)
    chain.client.xdel(chain.keys("weights"), newest[0][0])
    chain.client.hincrby(chain.keys("run"), "version", -1)


@pytest.mark.prove(cases=("announce-flush", "retire-go_back_a_little", "issue-go_back_a_little"))
@pytest.mark.parametrize("harm", [flush, go_back_a_little])
@pytest.mark.parametrize("place", ["announce", "retire", "issue"])
def test_a_redis_that_forgets_in_the_middle_of_a_step_costs_nothing(
    make_chain: MakeChain, train: Train, caplog: pytest.LogCaptureFixture, *, place: str, harm: Any
) -> None:
    chain = make_chain(learner={"steps": 6}, evaluation={"every": 2, "prompts": 2, "samples": 2})
    trainer = make_trainer(chain)
    calls = once_before(chain.run_owner, place, lambda: harm(chain), call=4)
    with caplog.at_level(logging.WARNING):
        train(chain, trainer=trainer)
    assert calls[0] >= 4
    assert "recovering reason=redis at" in caplog.text
    assert ("redis_was_empty" in caplog.text) == (harm is flush)
    assert_nothing_is_lost(chain, steps=6)
    assert trainer.policy.steps == trainer.version == 6  # type: ignore[attr-defined]
    assert sorted(rounds_of(chain)) == [0, 2, 4, 6]


def test_an_entry_that_somebody_deletes_is_issued_again_with_its_old_floor(
    make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chain = make_chain(learner={"steps": 3})
    trainer = make_trainer(chain)

    def pass_time(_: str) -> None:
        if "issued_again" not in caplog.text:
            chain.elapsed += 5.0  # until it looks around for them once more

    monkeypatch.setattr(trainer.selection, "_set_state", pass_time)
    for group_id in chain.issue(4):
        chain.sample(group_id)
    for group_id in ("0", "1"):
        chain.score(group_id)
    gone = chain.entry("2")
    chain.client.xdel(chain.keys(gone.stream), gone.entry_id)
    chain.client.hdel(chain.keys("where"), "3")
    train(chain, trainer=trainer)
    assert "issued_again count=2 groups=2 3" in caplog.text
    assert_nothing_is_lost(chain, steps=3)


def test_a_deleted_cursor_is_made_again_from_the_slots_and_what_never_died_is_not_retried(
    make_chain: MakeChain, train: Train, caplog: pytest.LogCaptureFixture
) -> None:
    chain = make_chain(learner={"steps": 4})
    trainer = make_trainer(chain)
    chain.issue(3)
    chain.client.hset(chain.keys("retries"), "0", "1-1")
    chain.selection.poll()
    assert "retry_refused group=0 reason=it has no outcome yet" in caplog.text
    assert chain.client.hlen(chain.keys("retries")) == 0
    assert chain.slots == {"0", "1", "2"}
    chain.client.delete(chain.keys("cursor"))
    train(chain, trainer=trainer)
    assert_nothing_is_lost(chain, steps=4)
    assert issued(chain) == len(chain.journal.ledger.outcomes) + len(chain.slots)


def test_a_smaller_budget_drops_what_could_not_train_in_time_once(make_chain: MakeChain) -> None:
    """Random runs found it: between retiring and looking at the slots Redis went back, and nothing had noticed yet."""
    every_group_trains = {"zero_variance": "keep"}  # else they are surplus, which is the next step's
    chain = make_chain(learner={"steps": 9, "max_lag": 0, "filters": every_group_trains})
    chain.issue(5)
    trainer = make_trainer(chain)
    chain.journal.end({"0": GroupOutcome(DROPPED, "before"), "1": GroupOutcome(DROPPED, "before")})
    trainer.recovery.recover()
    trainer.metrics.close()
    outcomes = chain.journal.ledger.outcomes
    assert set(outcomes) == {"0", "1", "2"}, (
        "the others are three, and two may stay: 2 a step, all of floor 0"
    )
    assert (chain.journal.ledger.twice, outcomes["0"].detail) == ([], "before")
    assert {outcome.kind for outcome in outcomes.values()} == {DROPPED}
    assert outcomes["2"].detail.startswith("config: with groups_per_step=2 and max_lag=0")
    assert chain.slots == {"3", "4"}


@pytest.mark.parametrize(
    ("floors", "version", "size", "lag", "gone"),
    [
        ([], 0, 2, 1, 0),
        ([0, 0, 0, 0], 0, 2, 1, 0),  # two steps of two
        ([0, 0, 0, 0, 0], 0, 2, 1, 1),
        ([0, 0, 0], 1, 2, 1, 1),  # floor 0 must train at version 1
        ([0, 1, 1, 1], 1, 2, 1, 0),  # one of floor 0 now, three of floor 1 by version 2
        ([0, 1, 1, 1, 1], 1, 2, 1, 1),
        ([0, 0, 5], 5, 2, 1, 2),  # nobody may train floor 0 any more
        ([3, 3, 3], 3, 1, 2, 0),
    ],
)
def test_the_oldest_go_till_in_time(floors: list[int], version: int, size: int, lag: int, gone: int) -> None:
    rule = LagRule(groups_per_step=size, max_lag=lag)
    assert rule.too_many(floors, version) == gone
    assert rule.too_many(floors[gone:], version) == 0


def test_a_drained_run_trains_what_is_in_flight_alone(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"steps": 50, "groups_per_step": 3, "filters": {"zero_variance": "keep"}})
    chain.issue(4)
    ask(chain.link, chain.keys, DRAIN)
    train(chain, end=DRAINED)
    ledger = read_ledger(chain.run.folder / "journal")
    assert [len(record["ids"]) for record in ledger.steps] == [3, 1]  # the last step takes what is left
    assert chain.slots == set()
    assert (chain.run.folder / "checkpoints" / "step-000002").is_dir()
    assert (chain.run.folder / "model").is_dir()


def test_a_paused_run_waits(make_chain: MakeChain, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = make_chain(learner={"steps": 3})
    ask(chain.link, chain.keys, PAUSE)
    trainer = make_trainer(chain)
    paused_at: list[int] = []

    def hear(text: str) -> None:
        if "the operator, who paused the run: millrace resume test" in text:
            paused_at.append(trainer.version)
            ask(chain.link, chain.keys, GO_ON)

    monkeypatch.setattr(trainer.selection, "_set_state", hear)
    train(chain, trainer=trainer)
    assert set(paused_at) == {0}
    assert_nothing_is_lost(chain, steps=3)


def issued(chain: Chain) -> int:
    return int(chain.client.hget(chain.keys("cursor"), "issued") or 0)


def test_a_drain_from_before_the_start_lets_nothing_in(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"steps": 50}, evaluation={"every": 5, "prompts": 2, "samples": 2})
    ask(chain.link, chain.keys, DRAIN)
    trainer = train(chain, end=DRAINED)
    assert (issued(chain), trainer.version) == (0, 0)
    assert sorted(chain.journal.ledger.evaluations) == [0]


def test_a_paused_run_that_starts_again_lets_nothing_in_and_evaluates_all_the_same(
    make_chain: MakeChain, hands: list[Hands], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = {"every": 5, "prompts": 2, "samples": 2, "deadline_s": 0.1}
    chain = make_chain(learner={"steps": 50}, evaluation=evaluation)
    ask(chain.link, chain.keys, PAUSE)
    trainer = make_trainer(chain)
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        if len(said) == 3:  # long past the deadline, and nobody was there; now somebody is
            hands.append(Hands(chain))
            hands[0].start()
        if "the operator, who paused" in text:
            chain.stop.set()

    monkeypatch.setattr(trainer.selection, "_set_state", hear)
    assert trainer.train() == STOPPED
    trainer.feeder.stop()
    trainer.metrics.close()
    assert "evaluation of version 0, 2 groups missing" in said[0]
    assert said[0].endswith("training is paused by the operator: millrace resume test")
    assert issued(chain) == 0
    result = chain.journal.ledger.evaluations[0]
    assert (result["prompts"], result["missing"]) == (2, 0)


def test_a_signal_in_a_drain_leaves_the_rest(make_chain: MakeChain, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = make_chain(learner={"steps": 50}, evaluation={"every": 0})
    chain.issue(3)
    chain.score("0")
    chain.score("1")
    ask(chain.link, chain.keys, DRAIN)
    trainer = make_trainer(chain)

    def hear(text: str) -> None:
        if trainer.version == 1:
            chain.stop.set()  # "2" is still to be sampled

    monkeypatch.setattr(trainer.selection, "_set_state", hear)
    assert trainer.train() == STOPPED
    trainer.feeder.stop()
    trainer.metrics.close()
    assert chain.slots == {"2"}
    assert not (chain.run.folder / "model").exists()


def test_a_round_that_was_given_up_begins_anew_where_redis_goes_back(make_chain: MakeChain) -> None:
    chain = make_chain(evaluation={"every": 5, "prompts": 3, "samples": 2})
    trainer = make_trainer(chain)
    trainer.recovery.recover()
    trainer._evaluate(wait=False)
    trainer.feeder.turn()
    for index in (0, 1):
        chain.score(f"eval-0-{index}", [1.0, 0.0])
    chain.read()
    current = trainer.evaluation.rounds.open[0]
    current.asked_again = current.is_given_up = True  # its deadline
    chain.client.hincrby(chain.keys("cursor"), "seq", -1)
    with pytest.raises(WentBack):
        chain.run_owner.check()
    trainer.recovery.recover()
    trainer._record_rounds()
    assert chain.journal.ledger.evaluations == {}, "it has its time again"
    trainer._give_up_rounds()  # reads once more
    trainer._record_rounds()
    trainer.metrics.close()
    result = chain.journal.ledger.evaluations[0]
    assert (result["prompts"], result["missing"], result["pass_rate"]) == (2, 1, 0.5)


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("version", "lost", "sampled"), [(5, [2, 4], [6]), (3, [2], [4, 6]), (4, [2], [4, 6])]
)
def test_a_round_that_redis_lost_while_no_learner_lived_is_issued_again_or_has_no_figure(
    make_chain: MakeChain,
    train: Train,
    caplog: pytest.LogCaptureFixture,
    *,
    version: int,
    lost: list[int],
    sampled: list[int],
) -> None:
    """Only the rounds of the version that the new life begins with can be sampled by their own weights."""
    chain = make_chain(learner={"steps": 6}, evaluation={"every": 2, "prompts": 2, "samples": 2})
    chain.journal.evaluation(0, {"ids": ["eval-0-0", "eval-0-1"], "pass_rate": 0.25, "samples": 4})
    for step in range(version):  # the life before: killed, and Redis is emptied
        chain.journal.append(step, groups(f"{2 * step}", f"{2 * step + 1}"), [[0.5, -0.5], [0.5, -0.5]])
    trainer = make_trainer(chain)
    trainer.policy_version.trained = version
    train(chain, trainer=trainer)
    assert_nothing_is_lost(chain, steps=6)
    rounds = rounds_of(chain)
    rates = {
        result["version"]: (result["pass_rate"], "reason" in result)
        for line in read_metrics(chain.run.folder)
        for result in line.get("evaluations", ())
    }
    assert rates == {**dict.fromkeys(lost, (None, True)), **dict.fromkeys(sampled, (0.5, False))}
    assert sorted(rounds) == sorted({0, *lost, *sampled})
    for old in lost:
        assert (rounds[old]["missing"], rounds[old]["samples"]) == (2, 0)
        told = f"weights of version {version} are not those of version {old}"
        assert rounds[old]["reason"].startswith("Redis had nothing of this round when the learner recovered")
        assert rounds[old]["reason"].endswith(told)
        assert f"evaluation_lost version={old} reason=" in caplog.text
    for own in sampled:
        assert (rounds[own]["min_version"], rounds[own]["missing"]) == (own, 0)


def test_rounds_are_asked_for_by_the_lives_that_trained_the_steps(make_chain: MakeChain) -> None:
    chain = make_chain(evaluation={"every": 2, "prompts": 2, "samples": 2})
    configs = {1: "evaluation: {every: 3}", 2: "evaluation: {every: 0}", 3: None}
    ledger = Ledger(
        incarnations=[{"fence": fence, "config": config} for fence, config in configs.items()],
        steps=[{"step": step, "fence": 1 + step // 4} for step in range(12)],
    )
    assert asked_for(ledger, chain.run) == {0, 3, 8, 10}


def test_a_dead_group_that_is_wanted_again_is_a_new_group(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"steps": 12})
    trainer = make_trainer(chain)
    (poisoned,) = chain.issue(1)
    dead_letter_entry(chain.link, chain.keys, chain.entry(poisoned), reason="three workers died of it")
    chain.read()
    ((dead_letter, _),) = chain.client.xrange(chain.keys("dead"))
    chain.client.hset(chain.keys("retries"), poisoned, dead_letter)
    train(chain, trainer=trainer)
    ledger = read_ledger(chain.run.folder / "journal")
    assert (ledger.outcomes["0"].kind, ledger.outcomes["0-r1"].kind) == ("dead", "trained")
    assert ledger.retries == {"0": 1}
    assert chain.client.hget(chain.keys("cursor"), "retry:0") == b"1"
    assert chain.client.hlen(chain.keys("retries")) == chain.depth("dead") == 0
    assert issued(chain) == len(ledger.outcomes | dict.fromkeys(chain.slots))
    assert_nothing_is_lost(chain, steps=12)


def test_a_retry_in_an_empty_redis_moves_no_cursor_past_what_is_to_come(make_chain: MakeChain) -> None:
    """The retry comes in before the ordinals do; a second recovery finds its slot, and group 2's number in its name."""
    chain = make_chain(learner={"steps": 4})
    trainer = make_trainer(chain)
    dead = chain.issue(3)[2]
    dead_letter_entry(chain.link, chain.keys, chain.entry(dead), reason="it failed")
    chain.read()
    chain.journal.retry(dead, 1)
    chain.client.flushall()
    trainer.recovery.recover()
    trainer.feeder.insert([retried(dead, 1)])
    assert trainer.feeder.turn()
    assert chain.slots == {"2-r1"}
    trainer.recovery.recover()
    assert trainer.feeder.position == 0
    while trainer.feeder.turn():
        pass
    assert chain.slots >= {"0", "1", "2-r1"}


def test_a_run_with_more_steps_ends_what_was_over_though_redis_is_emptied_then(
    make_chain: MakeChain, train: Train, hands: list[Hands]
) -> None:
    chain = make_chain(learner={"steps": 4, "max_lag": 3}, evaluation={"every": 0})
    for _ in range(40):
        chain.filters.kept_share.note(kept=False)  # so the last step has a whole budget in flight
    train(chain)
    over = chain.journal.ledger.over
    assert over
    hands[0].stop.set()
    hands.pop().join(timeout=10)
    shutil.rmtree(chain.run.folder / "model")

    more = make_chain(learner={"steps": 30, "max_lag": 3}, evaluation={"every": 0})
    trainer = make_trainer(more)
    once_before(more.run_owner, "issue", lambda: flush(more), call=3)
    train(more, trainer=trainer)
    assert_nothing_is_lost(more, steps=30)
    ledger = more.journal.ledger
    assert ledger.open_retries == []
    assert {group_id: ledger.newest_try(group_id) for group_id in over} == {
        group_id: retried(group_id, 1) for group_id in over
    }
    assert not set(over) & {group_id.partition("-")[0] for group_id in ledger.over}


def test_a_run_of_epochs_does_not_end_before_a_retry_that_redis_forgot(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"epochs": 1, "steps": 100})
    trainer = make_trainer(chain)
    chain.journal.end({group_id: GroupOutcome(DROPPED, "over: ") for group_id in chain.issue(10)})
    chain.journal.retry("3", 1)
    chain.client.flushall()
    trainer.recovery.recover()
    trainer.metrics.close()
    while trainer.feeder.turn():
        pass
    assert chain.slots == {"3-r1"}
    assert trainer.feeder.has_issued_all
    assert not trainer.selection.has_run_dry()


def test_a_deleted_cursor_counts_a_retry_that_has_its_slot(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"steps": 4})
    trainer = make_trainer(chain)
    chain.journal.end({group_id: GroupOutcome(DROPPED, "over: ") for group_id in chain.issue(1)})
    chain.journal.retry("0", 1)
    for _ in range(2):
        trainer.recovery.recover()
        while trainer.feeder.turn():
            pass
        assert "0-r1" in chain.slots
        assert chain.client.hget(chain.keys("cursor"), "retry:0") == b"1"
        chain.client.delete(chain.keys("cursor"))
    trainer.metrics.close()


def test_a_forgotten_retry_comes_in_again_and_an_ended_one_is_counted(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"steps": 4})
    trainer = make_trainer(chain)
    for group_id in chain.issue(2):
        dead_letter_entry(chain.link, chain.keys, chain.entry(group_id), reason="it failed")
        chain.read()
        chain.client.hset(chain.keys("retries"), group_id, "1-1")
    chain.selection.poll()
    trainer.feeder.is_open = False
    assert not trainer.feeder.turn(), "a drained run takes none"
    trainer.feeder.is_open = True
    for _ in range(3):  # the first finds Redis elsewhere
        trainer.feeder.turn()
    assert chain.slots == {"0-r1", "1-r1"}
    assert trainer.progress().first_row == 2, "a run from here begins after them"
    dead_letter_entry(chain.link, chain.keys, chain.entry("1-r1"), reason="it failed again")
    chain.read()
    chain.client.flushall()
    with pytest.raises(WentBack):
        chain.run_owner.check()
    trainer.recovery.recover()
    trainer.selection._checked = 0.0
    trainer.selection.poll()
    trainer.metrics.close()
    assert trainer.feeder.turn()
    assert chain.slots == {"0-r1"}
    assert chain.depth(PROMPTS) == len(chain.slots)
    cursor = {name.decode(): value for name, value in chain.client.hgetall(chain.keys("cursor")).items()}
    assert (cursor["retry:0"], cursor["retry:1"]) == (b"1", b"1")


@pytest.mark.parametrize("lag", [0, 1])
def test_a_later_life_leaves_the_surplus_to_the_next_step(make_chain: MakeChain, lag: int) -> None:
    """It is the last issued that has no room, and what is scored already trains."""
    chain = make_chain(learner={"steps": 9, "max_lag": lag})
    scored = chain.issue(8)[:4]
    for group_id in scored:
        chain.score(group_id)
    trainer = make_trainer(chain)
    trainer.recovery.recover()
    trainer.metrics.close()
    assert chain.journal.ledger.outcomes == {}
    assert len(chain.slots) == 8
    trainer.outcomes.drop_surplus(trainer.version)
    assert set(scored[: 2 * (lag + 1)]) <= chain.slots


def test_one_stall_of_all_that_is_in_flight_ends_no_run(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"steps": 9, "max_lag": 0})
    assert chain.run.most_in_flight == 8 > 2 * chain.run.budget
    for group_id in chain.issue(8):
        dead_letter_entry(chain.link, chain.keys, chain.entry(group_id), reason="deadline")
    while chain.intake.read(block_s=0):
        pass
    assert len(chain.journal.ledger.outcomes) == 8
