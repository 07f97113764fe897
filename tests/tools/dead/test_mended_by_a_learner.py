"""What the audit finds and an operator asks for, put right by the learner's own recovery and retries. Real Redis."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.protocol.run_owner import RunOwner
from broker.protocol.streams import dead_letter_entry
from learner.groups.feeder import Feeder
from learner.groups.while_waiting import Operator
from learner.resume.recovery import Recovery
from tests.support.chain import Chain, make_source
from tests.support.laid_out import look, train
from tests.support.told import Millrace

StartLearner = Callable[[], tuple[Chain, Feeder]]


@pytest.fixture
def start_learner(chain: Chain) -> StartLearner:
    """Return the next incarnation of the chain's learner, recovered at the version of its ledger. Its feeder has no thread."""

    def start() -> tuple[Chain, Feeder]:
        chain.journal.close()
        RunOwner(chain.link, chain.keys).claim(chain.journal.fence)  # Redis may have forgotten it
        life = Chain(chain.run, chain.link, chain.keys)
        feeder = Feeder(
            chain.run, life.run_owner, make_source(chain.run), life.evaluation, life.version, first_row=0,
            known=life.journal.has, mean_bytes=lambda: 0.0,
        )  # fmt: skip
        life.version.trained = len(life.journal.ledger.steps)
        nothing: Any = None  # told of alone: no generator loads it
        publisher: Any = SimpleNamespace(rest=lambda: None, publish=lambda _, version: life.announce(version))
        parts = (life.intake, life.reconciliation, feeder, publisher, nothing)
        Recovery(*parts, version=life.version, publish_status=lambda _version: None).recover()
        return life, feeder

    return start


def test_an_entry_deleted_while_no_learner_runs_is_lost_until_one_starts_and_says_that_it_issued_it_again(
    chain: Chain, start_learner: StartLearner, caplog: pytest.LogCaptureFixture
) -> None:
    chain.issue(4)
    train(chain.journal, 0, "0", "1")
    chain.run_owner.retire(["0", "1"])
    chain.sample("2")
    entry = chain.entry("2")
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)
    found = look(chain)
    assert (found.lost, found.lost_ids, found.in_flight) == (1, ("2",), 1)

    with caplog.at_level(logging.WARNING):
        life, _ = start_learner()
    assert "issued_again count=1 groups=2" in caplog.text
    found = look(life)
    assert (found.issued, found.trained, found.in_flight) == (4, 2, 2)
    assert (found.lost, found.twice, found.is_clean) == (0, 0, True)
    assert life.entry("2").stream == "prompts"
    life.journal.close()


def test_an_emptied_redis_is_rebuilt_with_nothing_lost(chain: Chain, start_learner: StartLearner) -> None:
    chain.issue(4)
    train(chain.journal, 0, "0", "2")
    chain.client.flushall()
    assert look(chain).is_empty
    life, feeder = start_learner()
    while feeder.turn():
        pass
    found = look(life)
    assert (found.trained, found.lost, found.twice, found.is_empty, found.is_clean) == (2, 0, 0, False, True)
    assert found.issued + found.ahead == found.trained + found.in_flight
    assert {"1", "3"} <= life.slots
    life.journal.close()


def test_a_dead_group_that_is_asked_for_is_trained_on_under_its_new_id(
    chain: Chain, start_learner: StartLearner, at_redis: str, millrace: Millrace
) -> None:
    chain.issue(2)
    dead_letter_entry(chain.link, chain.keys, chain.entry("0"), reason="deadline")
    chain.read()  # the learner records it
    words = ["test", "--runs-dir", chain.run.runs_dir]
    assert millrace("dead", "retry", *words, "--group", "0").code == 0
    life, feeder = start_learner()
    Operator(life.run_owner, life.journal, feeder).retry_dead_groups()
    assert feeder.turn()
    found = look(life)
    assert (found.issued, found.dead, found.in_flight, found.retried, found.asked_again) == (3, 1, 2, 1, 0)
    life.score("0-r1")
    life.score("1")
    train(life.journal, 0, "0-r1", "1")
    life.run_owner.retire(["0-r1", "1"])
    found = look(life)
    assert (found.trained, found.dead, found.in_flight) == (2, 1, 0)
    assert (found.lost, found.twice, found.is_clean) == (0, 0, True)
    assert millrace("dead", "list", *words)[:2] == (0, "no dead letters\n")
    life.journal.close()
