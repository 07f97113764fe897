"""The desk finds what a generator answered: at once by a hint, and without hints by a look. Real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agents import turns
from agents.turns import TurnDesk
from broker import codec
from broker.connection import RedisLink
from broker.keys import EPISODES, Keys
from broker.protocol.episodes import Attempt, CallStream, Episodes, PolicyCall, key_of, with_id
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup, RunOwner
from tests.support.groups import a_prompt
from tests.support.in_loop import in_loop
from tests.support.waiting import wait_in_loop

LEASE_S = 10_000.0  # nobody looks by the clock
PROMPT = b"what is asked"
N = 40


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HEAR_S", 0.05)


class Board:
    """A group whose turns are asked, and the generator that answers them."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self.link, self.keys = link, keys
        owner = RunOwner(link, keys)
        owner.claim(0)
        owner.issue(0, 1, 10, 0, [NewGroup("0", codec.encode_prompt(a_prompt("0", n=N)), EPISODES)])
        consumer = Consumer(link, keys, EPISODES, "agent", lease_s=LEASE_S)
        (entry,) = consumer.lease(1, block_s=0)
        self.episodes = Episodes(consumer)
        self.calls = CallStream(link, keys, "g", lease_s=LEASE_S)
        opened = self.episodes.open(entry, N)
        assert opened is not None
        self.attempt: Attempt = opened

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[TurnDesk]:
        desk = TurnDesk(self.episodes, asyncio.to_thread, lease_s=LEASE_S)
        desk.start()
        try:
            yield desk
        finally:
            desk.close()

    def listeners(self) -> int:
        ((_, found),) = self.link.client.pubsub_numsub(self.keys.answered)
        return int(found)

    async def answer(self, count: int) -> list[bytes]:
        """Answer so many calls, each with a record of its own, when they are in flight."""
        records: list[bytes] = []

        def answered() -> bool:
            for entry in self.calls.lease(count, takes_over=False):
                asked = self.calls.begin(entry)
                assert asked is not None
                records.append(with_id(b"said"))
                assert self.calls.answer(asked, records[-1])
            return len(records) == count

        await wait_in_loop(answered)
        return records


@in_loop
async def test_turns_that_are_asked_together_are_all_answered(link: RedisLink, keys: Keys) -> None:
    board = Board(link, keys)
    async with board.desk() as desk:
        await wait_in_loop(lambda: board.listeners() == 1)
        asked = [desk.turn(board.attempt, PolicyCall(k, key_of(PROMPT, 0)), PROMPT) for k in range(N)]
        answered, found = await asyncio.gather(board.answer(N), asyncio.gather(*asked))
    assert sorted(told.record for told in found) == sorted(answered)
    assert not any(told.was_there for told in found)


@in_loop
async def test_an_answer_whose_hint_is_lost_is_found_when_hints_are_heard_again(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "AGAIN_S", 0.3)
    monkeypatch.setattr(turns, "LOOK_EVERY_S", LEASE_S)
    board = Board(link, keys)
    async with board.desk() as desk:
        await wait_in_loop(lambda: board.listeners() == 1)
        turn = asyncio.create_task(desk.turn(board.attempt, PolicyCall(0, key_of(PROMPT, 0)), PROMPT))
        await wait_in_loop(lambda: link.client.xlen(keys.stream("policy_calls")) == 1)
        link.client.client_kill_filter(_type="pubsub")
        (record,) = await board.answer(1)
        assert await asyncio.wait_for(turn, 20) == (record, False)
        assert await desk.turn(board.attempt, PolicyCall(0, key_of(PROMPT, 0)), PROMPT) == (record, True)


@in_loop
async def test_without_the_right_to_hear_hints_there_is_a_look_every_few_seconds(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LOOK_EVERY_S", 0.05)
    board = Board(link, keys)
    link.client.acl_setuser(
        "deaf", enabled=True, nopass=True, keys=["*"], commands=["+@all"], reset_channels=True
    )
    deaf = RedisLink(link.url.replace("://", "://deaf:@", 1), outage_s=10)
    consumer = Consumer(deaf, keys, EPISODES, "agent", lease_s=LEASE_S)
    desk = TurnDesk(Episodes(consumer), asyncio.to_thread, lease_s=LEASE_S)
    desk.start()
    try:
        turn = desk.turn(board.attempt, PolicyCall(0, key_of(PROMPT, 0)), PROMPT)
        (record,), found = await asyncio.gather(board.answer(1), asyncio.wait_for(turn, 20))
        assert found.record == record
    finally:
        desk.close()
        deaf.close()
        link.client.acl_deluser("deaf")
