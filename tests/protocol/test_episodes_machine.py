"""Some hundred random actions of groups of episodes; `make prove-protocol` does many more, on two versions of Redis.

The invariants, beside those of the base: 13 and 16 to 23 of the protocol's page. 16: a turn that was seen is recorded,
and every group comes to its end. 17: a record was sampled for its very call, under its group's floor, and is written
once. 18: an attempt that is not the newest changes nothing, nor does what comes after an episode's end, and what is asked
twice has its effect once. 19: what is handed over is there at that moment, each record once. 20: nothing is left of a
group that is gone, each call is named by who asks it, and a generator's own stream expires. 21: who asks the same gets
the same, unless Redis went back; a failure is its own attempt's. 22: a completion holds every call that its play asked.
23: full memory refuses nothing of a group that is there.

PROTOCOL_ACTIONS and the others are those of test_random_runs.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from tests.protocol.episodes_machine import machine_on
from tests.protocol.random_runs import run_batch
from tests.support.edited_scripts import without_line

pytestmark = pytest.mark.redis

ACTIONS = int(os.environ.get("PROTOCOL_ACTIONS", "250"))
SEED = int(os.environ.get("PROTOCOL_SEED", "1"))
WITHOUT = os.environ.get("PROTOCOL_WITHOUT", "")
REPORT = os.environ.get("PROTOCOL_REPORT", "")

# Rule -> the script, the line that is taken out, what stands in its place. Of the others random runs see nothing in so many
# actions; test_episodes.py of the broker has a case for each.
BROKEN: Mapping[str, tuple[str, str, str]] = {
    "an open counts once": ("open", "if redis.call('HGET', turns, 'attempt') == attempt then", "if false then"),
    "a call is of the newest attempt": ("call", "if redis.call('HGET', turns, 'attempt') ~= attempt then return {'gone'} end", ""),
    "a record is found": ("call", "if record then return {'turn', record} end", ""),
    "a call is out once": ("call", "if asked and exists(split(asked)) then return {'asked'} end", ""),
    "an ended episode asks nothing": ("call", "if redis.call('HEXISTS', turns, 'end:' .. k) == 1 then return {'ended'} end", ""),
    "a failure is its own attempt's": ("call", "if of == attempt then", "if of then"),
    "full memory refuses no call": ("call", "redis.call('XDEL', STREAMS.policy_calls, '0-1')", ""),
    "a call that nobody asks is dropped": ("begin_call", "  remove(stream, entry)\n", ""),
    "a generator's own stream expires": ("keep_calls", "return redis.call('PEXPIRE', stream, ARGV[2])", "return 1"),
    "another end is refused": ("end", "ended == result and 'ok' or 'ended'", "'ok'"),
    "a held-out group needs no slot": ("keys", "if not slot then return is_eval(id) end", "if not slot then return false end"),
    "an answer is asked": ("answer", "local is_asked = redis.call('HGET', turns, 'asked:' .. at) == stream .. ' ' .. entry and is_floor(id, floor)", "local is_asked = redis.call('EXISTS', turns) == 1"),
    "an answer takes its call": ("answer", "if not asked_at(stream, entry) then remove(stream, entry) end", ""),
    "a hand-over is of the newest attempt": ("hand_over", "if (attempt ~= '' or dest ~= 'dead') and redis.call('HGET', turns, 'attempt') ~= attempt then return 0 end", ""),
    "a hand-over forgets": ("hand_over", "if source == 'episodes' then forget(id) end", ""),
    "retirement forgets": ("retire", "  forget(id)\n", ""),
    "forgetting takes the calls": ("keys", "if string.sub(field, 1, 6) == 'asked:' then remove(split(redis.call('HGET', turns, field))) end", ""),
}  # fmt: skip


@pytest.mark.timeout(300 + ACTIONS // 5)
def test_invariants_hold_at_random(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_on(redis_url)
    if WITHOUT:
        without_line(*BROKEN[WITHOUT])(monkeypatch)
    failure = run_batch(machine, ACTIONS, first_seed=SEED, without=WITHOUT, report=REPORT)
    assert bool(failure) == bool(WITHOUT), f"without {WITHOUT}, {machine.actions} actions found nothing"
