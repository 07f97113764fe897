"""A group's age is the time in which somebody could work on it: a pause, an outage and full memory kill nobody."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, Keys
from broker.protocol.run_state import DRAIN, PAUSE
from learner.groups.working_time import WorkingTime
from tests.conftest import RedisServer
from tests.support.chain import Chain, make_run
from tests.support.made_up_time import MadeUpTime
from tests.support.step_selection import stop_at_the_first_wait, take

pytestmark = pytest.mark.process

FULL = 1  # bytes of maxmemory


def deaths(chain: Chain) -> set[str]:
    chain.read()
    return set(chain.journal.ledger.outcomes)


def look(chain: Chain, *, after_s: float = 0.0) -> None:
    chain.elapsed += after_s
    chain.selection._looked = 0.0
    chain.selection.poll()


def test_a_pause_ages_nobody_and_the_deadline_passes_after_it(chain: Chain) -> None:
    ids = chain.issue(2)
    chain.sample(ids[0])
    chain.wanted = PAUSE
    look(chain)
    look(chain, after_s=1000)
    chain.wanted = ""
    look(chain, after_s=200)
    assert chain.reconciliation.latest.places[PROMPTS] == chain.reconciliation.latest.places[ROLLOUTS] == 1
    assert 200 <= chain.reconciliation.latest.oldest_s < 210
    assert deaths(chain) == set()
    assert 1000 <= chain.told_lost[-1] < 1010  # who plays the groups subtracts it, too
    look(chain, after_s=101)
    assert deaths(chain) == set(ids)


def test_full_memory_ages_nobody_and_a_wait_says_how_many_groups_are_stuck(chain: Chain) -> None:
    ids = chain.issue(3)
    for group_id in ids[:2]:
        chain.sample(group_id)
    chain.client.config_set("maxmemory", FULL)
    try:
        look(chain)
        look(chain, after_s=1000)
        assert deaths(chain) == set()
        said = stop_at_the_first_wait(chain)
        assert take(chain, 0) is None
        mib = -(-chain.client.info("memory")["used_memory"] // 2**20)
        told = f"; redis is full: 2 groups in rollouts wait for {mib} MiB of memory; no generator is"
        assert told in said[-1]
    finally:
        chain.client.config_set("maxmemory", 0)
    look(chain)
    assert chain.selection.memory_note() == ""
    look(chain, after_s=301)
    assert deaths(chain) == set(ids)


def test_an_outage_of_redis_ages_nobody_and_the_deadline_passes_after_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", "--appendfsync", "always")
    made_up = MadeUpTime()
    link = RedisLink(server.url, outage_s=600, clock=made_up.clock, sleep=made_up.sleep)
    chain = Chain(make_run(tmp_path), link, Keys("test"))
    try:
        ids = chain.issue(2)
        chain.sample(ids[0])
        look(chain)
        server.kill()
        made_up.later(310, server.start)
        chain.read()  # or whatever else asks Redis for something
        look(chain, after_s=310)
        assert deaths(chain) == set()
        look(chain, after_s=301)
        assert deaths(chain) == set(ids)
    finally:
        chain.journal.close()
        link.close()
        server.kill()


@pytest.mark.parametrize(
    ("before", "after", "is_excused"),
    [
        ("", "", False),  # a long step, in which the others work; or a generator that stands still
        ("", PAUSE, False),  # the pause was asked for at its end
        (PAUSE, "", False),  # it began right after the pause
        (PAUSE, PAUSE, True),
        (DRAIN, DRAIN, False),
    ],
)
def test_an_excuse_was_seen_at_both_looks(chain: Chain, *, before: str, after: str, is_excused: bool) -> None:
    (group_id,) = chain.issue()
    chain.wanted = before
    look(chain)
    chain.wanted = after
    look(chain, after_s=301)
    assert deaths(chain) == (set() if is_excused else {group_id})


def test_what_was_lost_before_a_groups_first_look_counts_for_it_too(chain: Chain) -> None:
    """Issued just before a pause, or looked at anew after a Redis that went back."""
    look(chain)
    chain.issue(1, issued_at=time.time() - 250)  # of which 240 passed in a pause
    chain.reconciliation.time.look(is_paused=True, group_bytes=0.0)
    chain.elapsed += 240
    chain.reconciliation.time.look(is_paused=True, group_bytes=0.0)
    look(chain)
    assert 10 <= chain.reconciliation.latest.oldest_s < 15


def test_the_time_in_which_the_run_was_stopped_ages_nobody(chain: Chain) -> None:
    chain.reconciliation.time = WorkingTime(chain.run_owner, chain.clock, away_s=240)
    chain.issue(1, issued_at=time.time() - 250)
    look(chain)
    assert 10 <= chain.reconciliation.latest.oldest_s < 15
    assert 240 <= chain.told_lost[-1] < 245


def test_a_rounds_deadline_comes_no_nearer_while_nobody_can_work(chain: Chain) -> None:
    chain.issue_eval(0, 1)
    current = chain.evaluation.rounds.open[0]
    current.since -= 1000
    chain.wanted = PAUSE
    look(chain)
    began = current.since
    look(chain, after_s=400)
    assert 400 <= current.since - began < 405
    chain.evaluation.rounds.excuse(10_000.0)
    assert current.since <= time.monotonic(), "no round begins in the future"
