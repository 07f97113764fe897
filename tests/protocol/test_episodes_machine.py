"""Some hundred random actions of groups of episodes; with EPISODES_ACTIONS as many as one wants, from EPISODES_SEED on.

The invariants, beside those of the base: 13, 16 to 21 and 23 of the protocol's page. 16: a turn that was seen is
recorded, and every group comes to its end. 17: a record was sampled for its very call, and is written once. 18: an
attempt that is not the newest changes nothing, and what is asked twice has its effect once. 19: what is handed over is
there at that moment, each record once. 20: nothing is left of a group that is gone, and each call is named by who asks
it. 21: who asks the same gets the same, unless Redis went back. 23: full memory refuses nothing of a group that is there.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.protocol.broken_rules import without_line
from tests.protocol.episodes_machine import EpisodesMachine, machine_on
from tests.protocol.invariants import Violated

pytestmark = pytest.mark.redis

ACTIONS = int(os.environ.get("EPISODES_ACTIONS", "250"))
SEED = int(os.environ.get("EPISODES_SEED", "1"))
MOST = 6_000  # actions, in which a missing rule has to show
RULES_A_RUN = 25  # of a dozen moves at most


def run_until(machine: type[EpisodesMachine], actions: int, *, first_seed: int) -> None:
    """Raises what a run fails with."""
    number = first_seed * 10_000
    while machine.actions < actions:
        batch = settings(
            max_examples=min(10, math.ceil(actions / 60)),
            stateful_step_count=RULES_A_RUN,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        run_state_machine_as_test(seed(number)(machine), settings=batch)
        number += 1


@pytest.mark.timeout(120 + ACTIONS // 20)
def test_invariants_hold_at_random(redis_url: str) -> None:
    machine = machine_on(redis_url)
    run_until(machine, ACTIONS, first_seed=SEED)
    assert machine.actions >= ACTIONS
    logging.getLogger(__name__).info("actions=%d %s", machine.actions, dict(machine.did))


# Rule -> the script, the line that is taken out, what stands in its place. Of the others random runs see nothing in so many
# actions; test_episodes.py of the broker has a case for each.
BROKEN: Mapping[str, tuple[str, str, str]] = {
    "an open counts once": ("open", "if redis.call('HGET', turns, 'attempt') == attempt then", "if false then"),
    "a call is of the newest attempt": ("call", "if redis.call('HGET', turns, 'attempt') ~= attempt then return {'gone'} end", ""),
    "a record is found": ("call", "if record then return {'turn', record} end", ""),
    "a call is out once": ("call", "if asked and exists(split(asked)) then return {'asked'} end", ""),
    "an answer is asked": ("answer", "local is_asked = redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry and is_floor(id, floor)", "local is_asked = redis.call('EXISTS', turns) == 1"),
    "an answer takes its call": ("answer", "remove(stream, entry)", ""),
    "a hand-over is of the newest attempt": ("hand_over", "if (attempt ~= '' or dest ~= 'dead') and redis.call('HGET', turns, 'attempt') ~= attempt then return 0 end", ""),
    "a hand-over forgets": ("hand_over", "if source == 'episodes' then forget(id) end", ""),
    "retirement forgets": ("retire", "  forget(id)\n", ""),
    "forgetting takes the calls": ("keys", "if string.sub(field, 1, 6) == 'asked:' then remove(split(redis.call('HGET', turns, field))) end", ""),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_is_missing_is_seen(name: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_line(*BROKEN[name])(monkeypatch)
    machine = machine_on(redis_url)
    with pytest.raises((Violated, AssertionError)):
        run_until(machine, MOST, first_seed=1)
