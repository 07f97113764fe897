"""Leases that are given up before they run out, and names of consumers that go away. Real Redis."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import GROUP
from broker.protocol.consumer import Consumer, hand_back_within
from broker.protocol.streams import Entry
from tests.broker.conftest import Board, result_of
from tests.support.redis_servers import RedisServer

LEASE_S = 60.0


def a_worker(board: Board, name: str, stream: str = "prompts") -> Consumer:
    return Consumer(board.link, board.keys, stream, name, lease_s=LEASE_S)


def ids(entries: list[Entry]) -> list[str]:
    return [entry.group_id for entry in entries]


def names(board: Board) -> dict[str, int]:
    """Consumers of `prompts` with the number of their pending entries."""
    found = board.client.xinfo_consumers(board.keys("prompts"), GROUP)
    return {item["name"].decode(): item["pending"] for item in found}


def test_what_is_handed_back_is_taken_over_at_once_and_was_no_attempt(board: Board) -> None:
    board.issue(0, 1)
    ending, other = a_worker(board, "h-1-aa"), a_worker(board, "h-2-bb")
    begun, _ = ending.lease(2, block_s=0)
    assert ending.begin(begun) == 1
    assert other.lease(2, block_s=0) == [], "its leases stand"
    assert ending.hand_back() == 2
    assert other.is_handed_back()
    assert board.hash("tries") == {}
    taken = other.lease(2, block_s=0)
    assert ids(taken) == ["0", "1"]
    assert not other.is_handed_back()
    assert [other.begin(entry) for entry in taken] == [1, 1]


def test_only_what_this_worker_began_is_taken_off_the_count(board: Board) -> None:
    board.issue(0)
    first, second = a_worker(board, "h-1-aa"), a_worker(board, "h-2-bb")
    (entry,) = first.lease(1, block_s=0)
    assert first.begin(entry) == 1
    board.client.xclaim(
        board.keys("prompts"), GROUP, "h-1-aa", 0, [entry.entry_id], idle=3_600_000, justid=True
    )
    (entry,) = second.lease(1, block_s=0)
    assert second.begin(entry) == 2
    assert second.hand_back() == 1
    assert board.hash("tries") == {"0": "h-1-aa"}
    third = a_worker(board, "h-3-cc")
    (entry,) = third.lease(1, block_s=0)
    assert third.begin(entry) == 2, "the first one's stands"


def test_what_is_put_off_stays_leased_and_was_no_attempt(board: Board) -> None:
    board.issue(0)
    first, second = a_worker(board, "h-1-aa"), a_worker(board, "h-2-bb")
    (entry,) = first.lease(1, block_s=0)
    assert first.begin(entry) == 1
    board.client.xclaim(
        board.keys("prompts"), GROUP, "h-1-aa", 0, [entry.entry_id], idle=3_600_000, justid=True
    )
    assert first.uncount(entry)
    assert board.hash("tries") == {}
    assert second.lease(1, block_s=0) == [], "its lease begins anew"
    assert first.begin(entry) == 1
    assert first.hand_back() == 1
    assert not first.uncount(entry), "nobody's"
    (entry,) = second.lease(1, block_s=0)
    assert second.begin(entry) == 1
    board.client.delete(board.keys("prompts"))
    assert not second.uncount(entry), "Redis has lost it"


def test_what_is_another_workers_by_now_is_not_handed_back(board: Board) -> None:
    board.issue(0)
    slow, quick = a_worker(board, "slow"), a_worker(board, "quick")
    slow.lease(1, block_s=0)
    (item,) = board.client.xpending_range(board.keys("prompts"), GROUP, "-", "+", 1)
    board.client.xclaim(board.keys("prompts"), GROUP, "quick", 0, [item["message_id"]], justid=True)
    assert slow.hand_back() == 0
    assert names(board)["quick"] == 1
    assert not quick.is_handed_back()


def test_a_result_that_comes_after_the_hand_back_counts_if_it_is_the_first(board: Board) -> None:
    board.issue(0)
    ending, other = a_worker(board, "ending"), a_worker(board, "other")
    (entry,) = ending.lease(1, block_s=0)
    ending.hand_back()
    (again,) = other.lease(1, block_s=0)
    assert ending.hand_over(entry, "rollouts", result_of(entry))
    assert not other.hand_over(again, "rollouts", result_of(again))
    assert (board.ids("prompts"), board.ids("rollouts"), board.ids("dead")) == ([], ["0"], [])


def test_a_job_carries_nothing_that_was_handed_back(board: Board) -> None:
    board.issue(0, 1)
    for group_id in ("0", "1"):
        assert board.move(board.entry(group_id), "rollouts")
    scorers = a_worker(board, "scorers", "rollouts")
    held, waiting = scorers.read_new(2, block_s=0)
    scorers.hold(held)
    board.client.hset(board.keys("jobs"), mapping={held.entry_id: "j1", waiting.entry_id: "j1"})
    assert scorers.hand_back([waiting.entry_id]) == 2
    assert board.hash("jobs") == {}
    assert ids(scorers.take_over(2)) == ["0", "1"]


def test_a_name_goes_only_with_nothing_leased_to_it(board: Board) -> None:
    """Removing it together with a lease would hide the entry from everybody for ever."""
    board.issue(0)
    worker = a_worker(board, "h-1-aa")
    (entry,) = worker.lease(1, block_s=0)
    worker.leave()
    assert names(board) == {"h-1-aa": 1}
    assert worker.hand_over(entry, "rollouts", result_of(entry))
    worker.leave()
    assert names(board) == {}


def test_names_that_have_been_silent_for_long_go_when_somebody_comes(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.issue(0, 1)
    a_worker(board, "holds").lease(1, block_s=0)
    gone = a_worker(board, "gone")
    (entry,) = gone.lease(1, block_s=0)
    assert gone.hand_over(entry, "rollouts", result_of(entry))
    assert names(board) == {"holds": 1, "gone": 0}
    a_worker(board, "early")
    assert names(board) == {"holds": 1, "gone": 0}, "not before an hour"
    monkeypatch.setattr("broker.protocol.consumer.SILENT_S", 0.05)
    time.sleep(0.1)
    a_worker(board, "late")
    assert names(board) == {"holds": 1}


def test_a_process_that_must_end_waits_for_redis_no_longer_than_it_may(
    tmp_path: Path, board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path)
    link = RedisLink(server.url, outage_s=60)
    worker = Consumer(link, board.keys, "prompts", "h-1-aa", lease_s=LEASE_S)
    worker.hold(Entry("prompts", "1-1", {}))
    server.kill()
    started = time.monotonic()
    hand_back_within([worker.hand_back], 0.2)
    assert time.monotonic() - started < 5
    link.stop.set()  # as in a process that was told to end: the wait itself ends
    worker.hold(Entry("prompts", "1-1", {}))
    hand_back_within([worker.hand_back], 5.0)
    assert "hand_back_failed" in caplog.text


def test_full_memory_keeps_nobody_from_beginning_failing_handing_back_and_leaving(board: Board) -> None:
    board.issue(0, 1, 2)
    first, second, leaving = (a_worker(board, f"h-{number}-aa") for number in range(3))
    (held,) = first.lease(1, block_s=0)
    (failed,) = second.lease(1, block_s=0)
    (done,) = leaving.lease(1, block_s=0)
    assert leaving.hand_over(done, "rollouts", result_of(done))
    board.link.outage_s = 0.1
    board.client.config_set("maxmemory", 1)
    try:
        assert (first.begin(held), second.begin(failed)) == (1, 1)
        second.note_failure(failed, "Boom")
        assert first.hand_back() == 1
        leaving.leave()
    finally:
        board.client.config_set("maxmemory", 0)
    assert board.hash("tries") == {"1": "h-1-aa", "error:1": "Boom"}
    assert sorted(names(board)) == ["h-0-aa", "h-1-aa", "nobody"]
