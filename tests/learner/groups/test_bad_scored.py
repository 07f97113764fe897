"""What may come back wrong to the learner: it ends with the reason, no step trains on it, and the next one is read."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest

from broker import codec
from broker.keys import DEAD, ROLLOUTS, SCORED
from broker.protocol.streams import hand_over
from tests.support.chain import Chain, make_prompt, make_scored


@pytest.mark.parametrize("group_id", ["0", "eval-0-0"])
def test_a_group_of_a_version_that_is_not_there_yet_dies_with_both(chain: Chain, group_id: str) -> None:
    """Packed into a step it would end the run: its lag is negative."""
    if group_id == "0":
        chain.issue()
    else:
        chain.issue_eval(0, 1)
    (good,) = chain.issue()
    entry = chain.entry(group_id)
    early = make_scored(codec.decode_prompt(entry.raw), [1.0, 0.0], version=3)
    assert hand_over(chain.link, chain.keys, entry, SCORED, codec.encode_scored(early))
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == {good}
    ((_, letter),) = chain.client.xrange(chain.keys(DEAD))
    assert letter[b"reason"].startswith(b"sampled by version 3, and the learner is at 0: ")
    if group_id == "0":
        assert chain.journal.ledger.outcomes["0"].detail.encode() == letter[b"reason"]
        assert chain.slots == {good}


TOO_LARGE, NO_NUMBER = np.array([99, 100], "<i4").tobytes(), np.array([-0.5, np.nan], "<f4").tobytes()


@pytest.mark.parametrize(
    ("place", "name", "value", "why"),
    [
        ("prompt", "token_ids", TOO_LARGE, "token id 100, and the policy has 100 tokens"),
        ("completion", "token_ids", TOO_LARGE, "token id 100, and the policy has 100 tokens"),
        ("completion", "logprobs", NO_NUMBER, "1 of 2 log-probabilities are not finite"),
    ],
)
def test_tokens_that_nothing_can_train_on_never_reach_a_step(
    chain: Chain, place: str, name: str, value: bytes, why: str
) -> None:
    bad, good = chain.issue(2)
    tree = msgpack.unpackb(codec.pack(make_scored(make_prompt(bad), [1.0, 0.0])))
    rollout = tree["rollout"]
    where = rollout["prompt"] if place == "prompt" else rollout["completions"][1]["segments"][0]
    where[name] = value
    chain.score(bad, payload=msgpack.packb(tree))
    chain.score(good)
    chain.read()
    assert set(chain.buffer.groups) == chain.slots == {good}
    assert why in chain.journal.ledger.outcomes[bad].detail


@pytest.mark.parametrize(
    "floor", [{}, {b"floor": b"7"}, {b"floor": b"x"}], ids=["none", "another", "no number"]
)
@pytest.mark.parametrize("stream", [ROLLOUTS, SCORED])
def test_a_group_whose_header_has_not_the_floor_of_its_slot_dies_at_its_deadline_at_the_latest(
    chain: Chain, stream: str, floor: dict[bytes, bytes]
) -> None:
    """Where it stayed, rule 3 would end all training."""
    (group_id,) = chain.issue()
    (chain.sample if stream == ROLLOUTS else chain.score)(group_id)
    entry = chain.entry(group_id)
    spoilt = {name: value for name, value in entry.raw.items() if name != b"floor"} | floor
    chain.client.xdel(chain.keys(stream), entry.entry_id)
    added = chain.client.xadd(chain.keys(stream), spoilt).decode()
    chain.client.hset(chain.keys("where"), group_id, f"{stream} {added}")
    chain.read()
    chain.intake.look_around()
    chain.elapsed += chain.run.learner.group_deadline_s + 1
    chain.intake.look_around()
    chain.read()
    assert chain.journal.ledger.outcomes[group_id].kind == DEAD
    assert chain.slots == set()


def test_a_group_of_the_version_that_was_just_announced_is_none_of_them(chain: Chain) -> None:
    (group_id,) = chain.issue()
    chain.announce(1)
    entry = chain.entry(group_id)
    fresh = make_scored(codec.decode_prompt(entry.raw), [1.0, 0.0], version=1)
    assert hand_over(chain.link, chain.keys, entry, SCORED, codec.encode_scored(fresh))
    chain.read()
    assert set(chain.buffer.groups) == {group_id}


@pytest.mark.parametrize("group_id", ["0", "7"], ids=["an id of ours", "an id that we do not know"])
def test_another_runs_scored_group_is_nobodys_and_no_step_has_it(chain: Chain, group_id: str) -> None:
    (ours,) = chain.issue()
    chain.sample(ours)
    theirs = codec.encode_scored(make_scored(make_prompt(group_id), [0.25, 0.75]))
    chain.client.xadd(chain.keys(SCORED), theirs)
    chain.read()
    assert chain.buffer.groups == {}
    assert (chain.depth(SCORED), chain.depth(DEAD), chain.depth(ROLLOUTS)) == (0, 1, 1)
    assert chain.journal.ledger.outcomes == {}, "nobody's has no outcome"
    chain.score(ours)
    chain.read()
    assert chain.buffer.groups[ours].rewards == (1.0, 0.0), "our own"
