"""What is kept of groups that never trained. Real Redis, a real journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from msgspec import structs

from broker import codec
from broker.keys import PROMPTS, ROLLOUTS, SCORED
from broker.messages import ScoredGroup
from broker.protocol.streams import bury, hand_over
from learner.groups.discarded import dropped
from learner.journal.ledger import DEAD, Outcome, read_ledger
from tests.support.chain import Chain, make_prompt, make_scored

OF_PROMPT = {"task": "math", "row": 0, "epoch": 0, "floor": 0, "n": 2, "issued_at": 1000.0}
SAMPLING = {"generator": "g", "sampled_at": 1002.5, "sample_seconds": 0.1, "sample_attempts": 2}
OF_ROLLOUT = {**OF_PROMPT, **SAMPLING, "versions": [[0, 4]]}
SCORING = {"worker": "w", "scored_at": 1003.5, "score_seconds": 0.1, "score_attempts": 1}
OF_SCORED = {**OF_ROLLOUT, **SCORING, "rewards": [1.0, 1.0]}


def returned(n: int = 2) -> ScoredGroup:
    """Group 0 with nothing to learn from, as it came back."""
    group = make_scored(make_prompt("0", n=n, issued_at=1000.0), [1.0] * n)
    rollout = structs.replace(group.rollout, sampled_at=1002.5, attempts=2)
    return structs.replace(group, rollout=rollout, scored_at=1003.5, attempts=1)


def bring_to(chain: Chain, stage: str) -> None:
    """Issue group 0 in second 1000 and let it come as far as `stage`."""
    chain.issue(issued_at=1000.0)
    if stage != PROMPTS:
        fields = codec.encode_rollout(returned().rollout)
        assert hand_over(chain.link, chain.keys, chain.entry("0"), ROLLOUTS, fields)
    if stage == SCORED:
        assert hand_over(chain.link, chain.keys, chain.entry("0"), SCORED, codec.encode_scored(returned()))


def facts_on_disk(chain: Chain) -> Mapping[str, Any]:
    (record,) = read_ledger(chain.journal.folder, follow="0").followed
    return dict(record["facts"])


def test_a_dropped_group_leaves_who_worked_on_it_and_when_on_the_disk_and_not_in_memory(chain: Chain) -> None:
    bring_to(chain, SCORED)
    chain.read()
    assert chain.journal.ledger.outcomes == {"0": Outcome("dropped", "zero_variance: every reward is 1", 4)}
    assert chain.journal.ledger.outcomes["0"].facts is None
    assert facts_on_disk(chain) == OF_SCORED


@pytest.mark.parametrize(
    ("stage", "facts", "tokens"), [(PROMPTS, OF_PROMPT, 0), (ROLLOUTS, OF_ROLLOUT, 4), (SCORED, OF_SCORED, 4)]
)
def test_a_dead_group_leaves_what_was_known_where_it_died(
    chain: Chain, stage: str, facts: dict[str, Any], tokens: int
) -> None:
    bring_to(chain, stage)
    letter = chain.entry("0")
    bury(chain.link, chain.keys, letter, reason="it failed", attempts=5)
    entry_id = chain.entry("0").entry_id
    chain.read()
    assert chain.journal.ledger.outcomes == {"0": Outcome(DEAD, "it failed", tokens)}
    died = {"died_at": int(entry_id.partition("-")[0]) / 1000, "stage": stage, "attempts": 5}
    assert facts_on_disk(chain) == {**facts, **died}


def test_a_letter_that_cant_be_read_leaves_when_and_where_it_died(chain: Chain) -> None:
    bring_to(chain, ROLLOUTS)
    entry = chain.entry("0")
    bury(chain.link, chain.keys, replace(entry, raw={**entry.raw, b"payload": b"\xc1"}), reason="torn")
    chain.read()
    assert chain.journal.ledger.outcomes == {"0": Outcome(DEAD, "torn")}
    assert facts_on_disk(chain).keys() == {"died_at", "stage", "attempts"}


def test_what_is_kept_of_sixteen_answers_is_some_hundred_bytes() -> None:
    assert len(msgpack.packb(dropped(returned(16), "zero_variance: every reward is 1").facts)) < 400
