"""What the learner's look at the first groups sees, and that it touches nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broker import codec
from broker.errors import RunFailed
from broker.keys import SCORED
from config.run import Run
from learner.groups.first_look import FirstLook
from learner.groups.intake import Intake
from learner.incarnation import FINISHED
from learner.journal.ledger import DROPPED, read_ledger
from learner.training.backend import Differences
from learner.training.batch import Batch
from tests.learner.conftest import MakeChain
from tests.support.chain import Chain, FilePolicy, make_prompt, make_scored
from tests.support.differences import no_differences
from tests.support.loop import Hands, make_trainer

VLLM = {"engine": {"type": "vllm"}}


class Compared(FilePolicy):
    """A policy that says what it is told of each completion, and keeps what it was shown."""

    def __init__(self, largest: float = 0.0, k3: float = 0.0, only: str = "") -> None:
        super().__init__()
        self.shown: list[Batch] = []
        self._largest, self._k3, self._only = largest, k3, only

    def differences(self, batch: Batch) -> Differences:
        self.shown.append(batch)
        found = no_differences(batch)
        for place, index in enumerate(batch.generator_ids):
            if self._only in batch.generators[index]:
                found.largest[place] = self._largest if place else 0.0
                found.k3[place] = self._k3 * found.tokens[place]
        return found


def looking(chain: Chain, policy: Any, *, began: float = 0.0) -> Chain:
    """Return the chain with an intake that looks at its first groups, as a learner that has just been started."""
    chain.buffer.clear()
    chain.intake = Intake(
        chain.run,
        chain.run_owner,
        chain.journal,
        chain.buffer,
        chain.evaluation,
        version=chain.version,
        vocabulary=100,
        first_look=FirstLook(chain.run, policy, chain.journal, chain.version, began=began),
    )
    chain.selection.intake = chain.intake
    return chain


@pytest.mark.parametrize("engine", ["vllm", "hf"])
@pytest.mark.parametrize("rewards", [(1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (None, None)])
def test_a_generator_that_holds_another_model_ends_the_run_before_anything_has_an_outcome(
    make_chain: MakeChain, engine: str, rewards: tuple[float | None, float | None]
) -> None:
    chain = make_chain(model={"path": "m", "dtype": "float32"}, generators={"engine": {"type": engine}})
    looking(chain, Compared(largest=7.31, k3=2.0))
    ids = chain.issue(3)
    for group_id in ids:
        chain.score(group_id, rewards)
    with pytest.raises(RunFailed) as failed:
        chain.read()
    said = str(failed.value)
    assert f"generator g (engine {engine}) does not sample from the learner's model" in said
    assert (
        "a token of group 0, completion 1, has a log-probability 7.31 nats from the learner's at version 0"
        in said
    )
    assert "0.5 at any token in float32" in said
    assert chain.slots == set(ids)
    assert chain.depth(SCORED) == 3
    assert not chain.journal.ledger.outcomes


def test_a_learner_that_is_started_again_drops_what_another_model_sampled_and_keeps_the_rest(
    make_chain: MakeChain,
) -> None:
    chain = make_chain(model={"path": "m", "dtype": "float32"}, generators=VLLM)
    for group_id in chain.issue(2):
        chain.sample(group_id, generator="of before")
        chain.score(group_id)
    later = time.time()
    looking(chain, Compared(largest=7.31, only="of before"))
    with pytest.raises(RunFailed, match="generator of before"):
        chain.read()

    policy = Compared(largest=7.31, only="of before")
    looking(chain, policy, began=later)  # again, beside a generator with the right model
    (mine,) = chain.issue(1)
    chain.sample(mine, generator="right")
    chain.score(mine)
    chain.read()
    assert chain.slots == {mine}
    assert set(chain.buffer.groups) == {mine}
    assert {chain.journal.ledger.outcomes[each].kind for each in ("0", "1")} == {DROPPED}
    assert "another_model: its log-probabilities are up to 7.31" in chain.journal.ledger.outcomes["0"].detail

    (wrong,) = chain.issue(1)  # and one that was not mended
    chain.sample(wrong, generator="of before")
    chain.score(wrong)
    with pytest.raises(RunFailed, match="generator of before"):
        chain.read()
    assert chain.slots == {mine, wrong}


@pytest.mark.parametrize(
    ("dtype", "mismatch", "largest", "k3", "says"),
    [
        ("float32", {}, 0.5, 9.0, ""),
        ("float32", {}, 0.51, 0.0, "0.5 at any token in float32"),
        ("float32", {"stop_above": 0.01}, 0.4, 0.1, ""),  # the step's own look is for that
        ("float32", {}, np.inf, 0.0, "inf nats"),
        ("bfloat16", {}, 3.0, 0.4, ""),
        ("bfloat16", {}, 3.0, 0.6, "a mean divergence of 0.5 nats a token in bfloat16"),
        ("bfloat16", {"stop_above": 0.05}, 3.0, 0.06, "a mean divergence of 0.05 nats a token in bfloat16"),
        ("bfloat16", {"stop_above": 2.0}, 3.0, 1.9, ""),
        ("float16", {}, 3.0, np.inf, "a mean divergence of 0.5 nats a token in float16"),
    ],
)
def test_the_bound_goes_by_the_type(
    make_chain: MakeChain, *, dtype: str, mismatch: dict[str, float], largest: float, k3: float, says: str
) -> None:
    chain = make_chain(model={"path": "m", "dtype": dtype}, generators=VLLM, learner={"mismatch": mismatch})
    looking(chain, Compared(largest=largest, k3=k3))
    (group_id,) = chain.issue(1)
    chain.score(group_id)
    if not says:
        chain.read()
        return
    with pytest.raises(RunFailed, match=says):
        chain.read()


def test_each_generator_is_looked_at_and_those_that_differ_are_named(
    make_run_alone: Callable[..., Run],
) -> None:
    run = make_run_alone(groups_per_step=2)
    policy = Compared(largest=4.0, only="bad")
    groups = [
        make_scored(make_prompt(str(i)), (1.0, 0.0), generator=name)
        for i, name in enumerate(["good", "good", "good", "bad-1", "good", "bad-2"])
    ]
    with pytest.raises(RunFailed) as failed:
        look(run, policy)(groups)
    assert [batch.generators for batch in policy.shown] == [("bad-1", "bad-2", "good")]
    assert len(set(policy.shown[0].prompts)) == 4  # a step's groups, and the first of each further generator
    assert "generator bad-1 (engine vllm)" in str(failed.value)
    assert "generator bad-2 (engine vllm)" in str(failed.value)
    assert "generator good" not in str(failed.value)


def look(run: Run, policy: Any, *, version: int = 0, steps: int = 0) -> FirstLook:
    class Of:
        def __init__(self, **facts: Any) -> None:
            vars(self).update(facts)

    journal: Any = Of(ledger=Of(steps=[{}] * steps))
    now: Any = Of(trained=version)
    return FirstLook(run, policy, journal, now, began=0.0)


@pytest.fixture
def make_run_alone() -> Callable[..., Run]:
    def make(*, generators: dict[str, Any] = VLLM, temperature: float = 1.0, **learner: Any) -> Run:
        return Run.model_validate(
            {
                "name": "alone",
                "model": {"path": "m", "dtype": "float32"},
                "data": {"train": {"type": "procedural"}},
                "sampling": {"temperature": temperature},
                "generators": generators,
                "learner": learner,
            }
        )

    return make


@pytest.mark.parametrize(
    ("changes", "facts", "group_version"),
    [
        ({}, {"steps": 1}, 0),  # step 1 stands: the steps look from now on
        ({"generators": {"engine": {"type": "fake"}}}, {}, 0),  # no model at all
        ({"temperature": 0.7}, {}, 0),  # asked for by a configuration of before
        ({}, {"version": 3}, 2),  # of an older version than the learner has begun with
    ],
)
def test_groups_of_which_nothing_follows_are_passed_over(
    make_run_alone: Callable[..., Run], changes: dict[str, Any], facts: dict[str, int], group_version: int
) -> None:
    policy = Compared(largest=9.0)
    group = make_scored(make_prompt("0"), (1.0, 0.0), version=group_version)
    look(make_run_alone(**changes), policy, **facts)([group])
    assert policy.shown == []


def test_a_run_that_begins_with_a_checkpoint_is_looked_at_too(make_run_alone: Callable[..., Run]) -> None:
    policy = Compared(largest=9.0)
    with pytest.raises(RunFailed, match="at version 40"):
        look(make_run_alone(), policy, version=40)([make_scored(make_prompt("0"), (1.0, 0.0), version=40)])


def test_the_whole_loop_looks_at_a_steps_groups_once_and_trains(
    make_chain: MakeChain, hands: list[Hands]
) -> None:
    chain = make_chain(generators=VLLM, learner={"steps": 2, "groups_per_step": 2})
    policy = Compared()
    looking(chain, policy)
    hands.append(Hands(chain))
    hands[0].start()
    trainer = make_trainer(chain, policy=policy)
    assert trainer.train() == FINISHED
    trainer.metrics.close()
    assert sum(len(set(batch.prompts)) for batch in policy.shown) == 2
    assert all(batch.loss_mask.any() and not batch.lags.any() for batch in policy.shown)
    assert len(read_ledger(chain.run.folder / "journal").steps) == 2


def test_an_entry_that_is_no_group_does_not_come_in_the_way(make_chain: MakeChain) -> None:
    chain = make_chain(generators=VLLM)
    policy = Compared()
    looking(chain, policy)
    (group_id,) = chain.issue(1)
    fields = codec.encode_scored(make_scored(make_prompt(group_id), (1.0, 0.0)))
    chain.client.xadd(chain.keys(SCORED), {**fields, next(iter(fields)): b"broken"})
    chain.score(group_id)
    chain.read()
    assert len(policy.shown) == 1
