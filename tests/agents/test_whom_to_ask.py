"""Whom the next turn of a conversation is asked of, and how one is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agents.turns import BEHIND_S, SHUN_S, Queues, TurnDesk
from broker.protocol.episodes import Asking, Attempt, CallState, PolicyCall
from tests.support.in_loop import in_loop
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


class Unanswered:
    """Episodes whose every turn is in flight."""

    def ask_all(self, many: Sequence[Asking]) -> list[tuple[CallState, bytes]]:
        return [(CallState.ASKED, b"") for _ in many]


@in_loop
async def test_a_turn_that_is_given_up_just_when_a_hint_comes_is_given_up() -> None:
    async def at_once(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return call(*args, **named)

    episodes: Any = Unanswered()
    desk = TurnDesk(episodes, at_once, lease_s=60)
    turn = asyncio.create_task(desk.turn(Attempt("17", 0, "token", 1, 1, (None,)), PolicyCall(0, "key"), b""))
    await asyncio.sleep(0.01)
    desk._hint("17 0")
    turn.cancel()
    await asyncio.wait([turn], timeout=1)
    assert turn.cancelled()
