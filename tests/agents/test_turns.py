"""Whom the next turn of a conversation is asked of."""

from __future__ import annotations

from agents.turns import BEHIND_S, SHUN_S, Queues
from tests.support.made_up_time import MadeUpTime


def test_a_generator_that_falls_behind_is_not_asked_by_name_for_a_while() -> None:
    time = MadeUpTime()
    queues = Queues(time.clock)
    queues.note("slow", took_s=2 * BEHIND_S + 1, sampled_s=1.0)
    queues.note("busy", took_s=11.0, sampled_s=8.0)  # a long turn, which waited less than it took
    assert (queues.near("slow"), queues.near("busy"), queues.near("new")) == ("", "busy", "new")
    time.sleep(SHUN_S + 0.1)
    assert queues.near("slow") == "slow"
    queues.note("slow", took_s=2 * BEHIND_S + 1, sampled_s=1.0)
    queues.note("slow", took_s=1.0, sampled_s=1.0)
    assert queues.near("slow") == "slow", "it has caught up"
