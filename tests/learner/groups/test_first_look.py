"""What the learner's look at the first groups sees, and that it touches nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from broker import codec
from broker.errors import RunFailed
from broker.keys import SCORED
from broker.messages import End
from config.run import Run
from learner.groups.first_look import FirstLook
from learner.journal.ledger import DROPPED, read_ledger
from learner.training.backend import Differences
from learner.training.batch import Batch
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import Chain, FilePolicy, make_prompt, make_run, make_scored
from tests.support.differences import no_differences

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
    chain.take_in(
        vocabulary=100, first_look=FirstLook(chain.run, policy, chain.journal, chain.version, began=began)
    )
    return chain


def sampled_by(chain: Chain, generator: str, count: int = 1) -> list[str]:
    """Issue groups which this generator samples."""
    ids = chain.issue(count)
    for group_id in ids:
        chain.sample(group_id, generator=generator)
        chain.score(group_id)
    return ids


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
    for words in (
        f"generator g (engine {engine}) does not sample from the learner's model",
        "a token of group 0, completion 1, has a log-probability 7.31 nats from the learner's at version 0",
        "0.5 at any token in float32",
    ):
        assert words in str(failed.value)
    assert (chain.slots, chain.depth(SCORED), chain.journal.ledger.outcomes) == (set(ids), 3, {})


def test_episodes_are_their_turns_generators_and_not_their_players(make_chain: MakeChain) -> None:
    chain = make_chain(model={"path": "m", "dtype": "float32"}, generators=VLLM)
    scored = make_scored(make_prompt("0"), [1.0, None, 0.0], generator="an agent")
    right, failed, wrong = scored.rollout.completions
    played = (
        replace(right, generators=("a",), ended_by=End.MESSAGE),
        replace(failed, segments=(), ended_by=End.FAILED),
        replace(wrong, generators=("a", "b"), ended_by=End.MESSAGE),
    )
    group = replace(scored, rollout=replace(scored.rollout, completions=played))
    policy: Any = Compared(largest=7.31, only="b")
    look = FirstLook(chain.run, policy, chain.journal, chain.version, began=0.0)
    with pytest.raises(RunFailed, match=r"^generator a\+b .*a token of group 0, completion 2, has"):
        look([group])
    (batch,) = policy.shown
    assert (batch.generators, batch.generator_ids.tolist()) == (("a", "a+b"), [0, 1])


def test_a_learner_started_again_drops_what_another_model_sampled(make_chain: MakeChain) -> None:
    chain = make_chain(model={"path": "m", "dtype": "float32"}, generators=VLLM)
    sampled_by(chain, "of before", 2)
    later = time.time()
    looking(chain, Compared(largest=7.31, only="of before"))
    with pytest.raises(RunFailed, match="generator of before"):
        chain.read()

    policy = Compared(largest=7.31, only="of before")
    looking(chain, policy, began=later)  # again, beside a generator with the right model
    (mine,) = sampled_by(chain, "right")
    chain.read()
    assert chain.slots == set(chain.buffer.groups) == {mine}
    assert {chain.journal.ledger.outcomes[each].kind for each in ("0", "1")} == {DROPPED}
    assert "another_model: its log-probabilities are up to 7.31" in chain.journal.ledger.outcomes["0"].detail

    (wrong,) = sampled_by(chain, "of before")  # and one that was not mended
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
    make_chain: MakeChain, *, dtype: str, mismatch: Any, largest: float, k3: float, says: str
) -> None:
    chain = make_chain(model={"path": "m", "dtype": dtype}, generators=VLLM, learner={"mismatch": mismatch})
    looking(chain, Compared(largest=largest, k3=k3))
    (group_id,) = chain.issue(1)
    chain.score(group_id)
    with pytest.raises(RunFailed, match=says) if says else nullcontext():
        chain.read()


def test_each_generator_is_looked_at_and_named_if_it_differs(make_run_alone: Callable[..., Run]) -> None:
    run = make_run_alone(groups_per_step=2)
    policy = Compared(largest=4.0, only="bad")
    names = ["good", "good", "good", "bad-1", "good", "bad-2"]
    groups = [make_scored(make_prompt(str(i)), (1, 0), generator=name) for i, name in enumerate(names)]
    with pytest.raises(RunFailed) as failed:
        look(run, policy)(groups)
    assert [batch.generators for batch in policy.shown] == [("bad-1", "bad-2", "good")]
    assert len(set(policy.shown[0].prompts)) == 4  # a step's groups, and the first of each further generator
    for name, is_named in (("bad-1", True), ("bad-2", True), ("good", False)):
        assert (f"generator {name} (engine vllm)" in str(failed.value)) is is_named


def look(run: Run, policy: Any, *, version: int = 0, steps: int = 0) -> FirstLook:
    journal: Any = SimpleNamespace(ledger=SimpleNamespace(steps=[{}] * steps))
    now: Any = SimpleNamespace(trained=version)
    return FirstLook(run, policy, journal, now, began=0.0)


@pytest.fixture
def make_run_alone() -> Callable[..., Run]:
    def make(*, generators: dict[str, Any] = VLLM, temperature: float = 1.0, **learner: Any) -> Run:
        sections = {"model": {"path": "m", "dtype": "float32"}, "sampling": {"temperature": temperature}}
        return make_run(Path("runs"), generators=generators, learner=learner, **sections)

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
    policy, group = Compared(largest=9.0), make_scored(make_prompt("0"), (1.0, 0.0), version=group_version)
    look(make_run_alone(**changes), policy, **facts)([group])
    assert policy.shown == []


def test_a_run_that_begins_with_a_checkpoint_is_looked_at_too_whatever_entry_comes_in_the_way(
    make_run_alone: Callable[..., Run], make_chain: MakeChain
) -> None:
    with pytest.raises(RunFailed, match="at version 40"):
        look(make_run_alone(), Compared(largest=9.0), version=40)(
            [make_scored(make_prompt("0"), (1.0, 0.0), version=40)]
        )
    chain, policy = make_chain(generators=VLLM), Compared()
    looking(chain, policy)
    (group_id,) = chain.issue(1)
    fields = codec.encode_scored(make_scored(make_prompt(group_id), (1.0, 0.0)))
    chain.client.xadd(chain.keys(SCORED), {**fields, next(iter(fields)): b"broken"})
    chain.score(group_id)
    chain.read()
    assert len(policy.shown) == 1


def test_the_loop_looks_at_a_steps_groups_once_and_trains(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(generators=VLLM, learner={"steps": 2, "groups_per_step": 2})
    policy = Compared()
    looking(chain, policy)
    train(chain, policy=policy)
    assert sum(len(set(batch.prompts)) for batch in policy.shown) == 2
    assert all(batch.loss_mask.any() and not batch.lags.any() for batch in policy.shown)
    assert len(read_ledger(chain.run.folder / "journal").steps) == 2
