"""Leases: who works on an entry, what becomes of it when its worker dies, and how often it was tried."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from broker import codec
from broker.keys import GROUP
from broker.protocol.consumer import Consumer, Renewer
from broker.protocol.streams import TRACEBACK_BYTES, Entry, bury, entries_by_stream
from tests.broker.conftest import Board, result_of
from tests.support.waiting import wait_until

LEASE_S = 60.0


@pytest.fixture
def worker(board: Board) -> Callable[..., Consumer]:
    """Consumers of `prompts`, by name."""
    return lambda name, lease_s=LEASE_S: Consumer(board.link, board.keys, "prompts", name, lease_s=lease_s)


Worker = Callable[..., Consumer]


def ids(entries: list[Entry]) -> list[str]:
    return [entry.group_id for entry in entries]


def pending(board: Board) -> dict[str, str]:
    """Entry id to consumer."""
    return {
        item["message_id"].decode(): item["consumer"].decode()
        for item in board.client.xpending_range(board.keys("prompts"), GROUP, "-", "+", 100)
    }


def go_silent(board: Board) -> None:
    """Every worker has been silent for a second more than a lease."""
    for entry_id, consumer in pending(board).items():
        board.client.xclaim(
            board.keys("prompts"), GROUP, consumer, 0, [entry_id], idle=int(LEASE_S + 1) * 1000, justid=True
        )


def idle_s(board: Board) -> float:
    (item,) = board.client.xpending_range(board.keys("prompts"), GROUP, "-", "+", 100)
    return float(item["time_since_delivered"]) / 1000


def test_entries_are_leased_in_order_and_each_to_one_worker(board: Board, worker: Worker) -> None:
    board.issue(0, 1, 2)
    a, b = worker("a"), worker("b")
    assert ids(a.lease(2, block_s=0)) == ["0", "1"]
    assert ids(b.lease(2, block_s=0)) == ["2"]
    assert a.lease(1, block_s=0) == []


def test_a_worker_that_comes_first_gets_what_was_issued_before_it(board: Board, worker: Worker) -> None:
    board.issue(0)
    assert ids(worker("a").lease(9, block_s=0)) == ["0"]


def test_a_waiting_worker_is_woken_by_new_work(board: Board, worker: Worker) -> None:
    a = worker("a")
    feeder = threading.Timer(0.2, lambda: board.issue(0))
    feeder.start()
    started = time.monotonic()
    assert ids(a.lease(1, block_s=20)) == ["0"]
    assert time.monotonic() - started < 10
    feeder.join()


def test_waiting_for_nothing_ends_in_time(worker: Worker) -> None:
    started = time.monotonic()
    assert worker("a").lease(1, block_s=0.2) == []
    assert 0.15 < time.monotonic() - started < 5


def test_a_dead_workers_entries_are_taken_over_after_the_lease_and_not_before(
    board: Board, worker: Worker
) -> None:
    board.issue(0, 1)
    dead, living = worker("dead"), worker("living")
    dead.lease(2, block_s=0)
    assert living.lease(2, block_s=0) == []
    go_silent(board)
    assert ids(living.lease(1, block_s=0)) == ["0"]  # no more than asked for
    assert ids(living.lease(1, block_s=0)) == ["1"]
    assert set(pending(board).values()) == {"living"}


def test_renewed_entries_are_not_taken_over(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    busy, other = worker("busy"), worker("other")
    held, released = busy.lease(2, block_s=0)
    busy.release(released)
    go_silent(board)
    busy.renew()
    assert ids(other.lease(2, block_s=0)) == ["1"]
    assert busy.hand_over(held, "rollouts", result_of(held))


def test_a_renewer_keeps_the_leases_of_a_busy_worker_until_it_is_stopped(
    board: Board, worker: Worker
) -> None:
    board.issue(0)
    busy, other = worker("busy", lease_s=0.5), worker("other")
    renewer = Renewer([busy])
    try:
        busy.lease(1, block_s=0)
        go_silent(board)
        wait_until(lambda: idle_s(board) <= LEASE_S, "a renewal")
        assert other.lease(1, block_s=0) == []
    finally:
        renewer.stop()
    go_silent(board)
    time.sleep(0.5)
    assert ids(other.lease(1, block_s=0)) == ["0"]


def test_a_worker_that_overslept_its_lease_does_not_take_it_back(board: Board, worker: Worker) -> None:
    """Its result counts all the same if it is the first: the hand-over decides, the lease does not."""
    board.issue(0)
    slow, quick = worker("slow"), worker("quick")
    (entry,) = slow.lease(1, block_s=0)
    go_silent(board)
    assert ids(quick.lease(1, block_s=0)) == ["0"]
    slow.renew()
    assert set(pending(board).values()) == {"quick"}
    assert slow.begin(entry) == 0
    assert slow.hand_over(entry, "rollouts", result_of(entry))
    assert not quick.hand_over(entry, "rollouts", result_of(entry))
    assert board.ids("rollouts") == ["0"]
    assert board.ids("dead") == []


def test_a_worker_does_not_take_over_what_it_holds_itself(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    a.lease(1, block_s=0)
    go_silent(board)
    assert a.lease(1, block_s=0) == []


def test_an_entry_whose_reading_was_lost_comes_back_to_its_own_reader(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    board.client.xreadgroup(GROUP, "a", {board.keys("prompts"): ">"})  # the reply never arrived
    go_silent(board)
    assert ids(a.lease(1, block_s=0)) == ["0"]


def test_attempts_are_counted_where_work_begins_and_nowhere_else(board: Board, worker: Worker) -> None:
    board.issue(0)
    a, b = worker("a"), worker("b")
    (entry,) = a.lease(1, block_s=0)
    assert a.begin(entry) == 1
    for _ in range(3):
        a.renew()
    go_silent(board)
    (entry,) = b.lease(1, block_s=0)
    go_silent(board)
    a.release(entry)
    (entry,) = a.lease(1, block_s=0)  # b took it over and never began
    assert a.begin(entry) == 2
    assert a.begin(entry) == 3
    assert b.begin(entry) == 0


def test_what_is_gone_can_not_be_begun(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    board.client.xdel(board.keys("prompts"), entry.entry_id)
    assert a.begin(entry) == 0


def test_entries_that_were_deleted_while_pending_are_acknowledged(board: Board, worker: Worker) -> None:
    """Redis 6.2 hands their ids out for ever."""
    board.issue(0, 1)
    for entry in worker("dead").lease(2, block_s=0):
        if entry.group_id == "0":
            board.client.xdel(board.keys("prompts"), entry.entry_id)
    go_silent(board)
    living = worker("living")
    assert ids(living.lease(9, block_s=0)) == ["1"]
    assert list(pending(board)) == [board.entry("1").entry_id]


def test_a_hand_over_acknowledges_its_entry(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    assert a.hand_over(entry, "rollouts", result_of(entry))
    assert pending(board) == {}
    a.renew()
    assert board.ids("prompts") == []


def test_a_lost_consumer_group_is_made_anew_at_the_beginning(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    a = worker("a")
    (first,) = a.lease(1, block_s=0)
    board.client.xgroup_destroy(board.keys("prompts"), GROUP)
    a.renew()  # nothing is anybody's; no error
    assert a.begin(first) == 0
    assert ids(a.lease(9, block_s=0)) == ["0", "1"]
    assert a.begin(first) == 1


def test_a_stream_that_vanishes_under_a_waiting_worker_is_waited_for_again(
    board: Board, worker: Worker
) -> None:
    a = worker("a")
    vandal = threading.Timer(0.2, lambda: board.client.delete(board.keys("prompts")))
    vandal.start()
    assert a.lease(1, block_s=1.0) == []
    vandal.join()
    board.issue(0)
    assert ids(a.lease(1, block_s=0)) == ["0"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [({"payload": b"\xc1"}, "payload: "), ({"v": "3"}, "schema version 3, this program reads 1 and 2")],
)
def test_an_undecodable_group_goes_to_dead_under_its_own_id(
    board: Board, worker: Worker, damage: dict[str, Any], reason: str
) -> None:
    group_id, fields = board.group("0")
    board.learner.issue(0, 1, 10, 0, [(group_id, {**fields, **damage})])
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    assert a.decode(entry, codec.decode_prompt) is None
    letter = codec.decode_dead(board.entry("0").raw)
    assert (letter.group_id, letter.stage) == ("0", "prompts")
    assert letter.reason.startswith(reason)
    assert board.slots() == {"0": 0}  # until the learner has recorded its end
    assert pending(board) == {}


def test_a_foreign_entry_goes_to_dead_as_nobodys_and_the_stage_goes_on(board: Board, worker: Worker) -> None:
    board.client.xadd(board.keys("prompts"), {"x": "y"})
    board.issue(0)
    a = worker("a")
    messages = [a.decode(entry, codec.decode_prompt) for entry in a.lease(9, block_s=0)]
    assert [message.group_id if message else None for message in messages] == [None, "0"]
    letter = codec.decode_dead(board.client.xrange(board.keys("dead"))[0][1])
    assert (letter.group_id, letter.reason) == ("?", "foreign entry: field 'v' is missing")


def test_a_readable_entry_that_where_does_not_name_goes_to_dead_when_its_result_comes(
    board: Board, worker: Worker
) -> None:
    """Otherwise it would be leased and sampled again and again."""
    board.issue(0)
    board.client.xadd(board.keys("prompts"), dict(board.entry("0").raw))  # a copy made by hand
    a = worker("a")
    counted = [a.hand_over(entry, "rollouts", result_of(entry)) for entry in a.lease(9, block_s=0)]
    assert counted == [True, False]
    assert (board.ids("prompts"), board.ids("rollouts"), board.ids("dead")) == ([], ["0"], ["?"])
    board.audit()


@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_dead_letter_holds_no_secret(
    is_foreign: bool, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    monkeypatch.setenv("REDIS_URL", "redis://user:planted-word@far:6379/0")
    board.issue(0)
    entry = board.entry("0")
    if is_foreign:
        board.client.hdel(board.keys("where"), "0")
    # Cut to its last 4000 bytes, the traceback would begin inside a secret that is masked too late.
    assert bury(
        board.link,
        board.keys,
        entry,
        reason="401 for hf_planted at redis://user:planted-word@far:6379/0",
        traceback="planted-word" + "x" * (TRACEBACK_BYTES - 4),
    )
    ((_, fields),) = board.client.xrange(board.keys("dead"))
    assert b"401 for ****" in fields[b"reason"]
    assert not [name for name, value in fields.items() if b"planted" in value or b"word" in value]


def test_burying_frees_the_entry_for_good(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    a.bury(entry, reason="5 attempts", attempts=5)
    assert codec.decode_dead(board.entry("0").raw).attempts == 5
    go_silent(board)
    assert a.lease(1, block_s=0) == []


@pytest.mark.parametrize(
    ("fields", "floor", "issued_at"),
    [
        ({b"floor": b"7", b"at": b"12.5"}, 7, 12.5),
        ({}, -1, 0.0),
        ({b"floor": b"--5", b"at": b"soon"}, -1, 0.0),
        ({b"floor": "²".encode(), b"at": b"nan"}, -1, 0.0),
        ({b"floor": b"-3", b"at": b"inf"}, -1, 0.0),
    ],
)
def test_a_header_that_is_no_number_is_none(fields: dict[bytes, bytes], floor: int, issued_at: float) -> None:
    entry = Entry("prompts", "1-1", fields)
    assert (entry.floor, entry.issued_at, entry.group_id) == (floor, issued_at, "?")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"protocol": 2},
        {"protocol": 3},
        {"protocol": 2, "legacy_responses": False},
        {"protocol": 3, "legacy_responses": False},
    ],
)
def test_a_read_of_streams_means_the_same_in_every_protocol(options: dict[str, Any], redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, **options) as client:
        for stream, entry_id in (("a", "1-0"), ("a", "2-0"), ("b", "1-0")):
            client.xadd(stream, {"group": entry_id}, id=entry_id)
        found = dict(entries_by_stream(client.xread({"a": "0", "b": "0"})))
        assert found == {
            b"a": [(b"1-0", {b"group": b"1-0"}), (b"2-0", {b"group": b"2-0"})],
            b"b": [(b"1-0", {b"group": b"1-0"})],
        }
        assert not list(entries_by_stream(client.xread({"a": "9", "b": "9"}))), "nothing has come"
