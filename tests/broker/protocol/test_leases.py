"""Leases: who works on an entry, how often it was tried, and what becomes of it when its worker dies or gives it up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from broker import codec
from broker.connection import RedisLink
from broker.keys import GROUP
from broker.protocol.leases import Consumer, Renewer, hand_back_within
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import TRACEBACK_BYTES, Entry, dead_letter_entry, entries_by_stream
from tests.broker.conftest import Board, result_of
from tests.support.redis_servers import RedisServer
from tests.support.waiting import wait_until

LEASE_S = 60.0
Worker = Callable[..., Consumer]


@pytest.fixture
def worker(board: Board) -> Worker:
    """Consumers by name, of `prompts` unless another stream is named."""
    return lambda name, stream="prompts", lease_s=LEASE_S: Consumer(
        board.link, board.keys, stream, name, lease_s=lease_s
    )


def ids(entries: list[Entry]) -> list[str]:
    return [entry.group_id for entry in entries]


def taken(worker: Consumer, count: int = 9) -> list[str]:
    return ids(worker.lease(count, block_s=0))


def leased(board: Board) -> list[Any]:
    """Return what is leased in `prompts`, as XPENDING tells of it."""
    return list(board.client.xpending_range(board.keys("prompts"), GROUP, "-", "+", 100))


def holders(board: Board) -> dict[str, str]:
    """Entry id to consumer."""
    return {item["message_id"].decode(): item["consumer"].decode() for item in leased(board)}


def names(board: Board) -> dict[str, int]:
    """Consumers of `prompts` with the number of their pending entries."""
    found = board.client.xinfo_consumers(board.keys("prompts"), GROUP)
    return {item["name"].decode(): item["pending"] for item in found}


def go_silent(board: Board) -> None:
    """Every worker has been silent for a second more than a lease."""
    idle = int(LEASE_S + 1) * 1000
    for entry_id, name in holders(board).items():
        board.client.xclaim(board.keys("prompts"), GROUP, name, 0, [entry_id], idle=idle, justid=True)


def test_entries_are_leased_in_order_and_each_to_one_worker(board: Board, worker: Worker) -> None:
    board.issue(0, 1, 2)
    a, b = worker("a"), worker("b")  # who come after what was issued
    assert [taken(a, 2), taken(b, 2), taken(a, 1)] == [["0", "1"], ["2"], []]


def test_a_waiting_worker_is_woken_by_new_work_or_ends_in_time(board: Board, worker: Worker) -> None:
    a = worker("a")
    feeder = threading.Timer(0.2, lambda: board.issue(0))
    feeder.start()
    started = time.monotonic()
    assert ids(a.lease(1, block_s=20)) == ["0"]
    feeder.join()
    assert a.lease(1, block_s=0.2) == []
    assert 0.35 < time.monotonic() - started < 10


def test_a_dead_workers_entries_are_taken_over_after_the_lease_alone(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    dead, living = worker("dead"), worker("living")
    assert [taken(dead, 2), taken(living, 2)] == [["0", "1"], []]
    go_silent(board)
    assert [taken(living, 1), taken(living, 1)] == [["0"], ["1"]]  # no more than asked for
    assert {*holders(board).values()} == {"living"}


def test_renewed_entries_are_not_taken_over(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    busy, other = worker("busy"), worker("other")
    held, released = busy.lease(2, block_s=0)
    busy.release(released)
    go_silent(board)
    busy.renew()
    assert taken(other) == ["1"]
    assert busy.hand_over(held, "rollouts", result_of(held))


def test_a_renewer_keeps_a_busy_workers_leases_until_it_is_stopped(board: Board, worker: Worker) -> None:
    board.issue(0)
    busy, other = worker("busy"), worker("other")
    renewer = Renewer([busy], period_s=0.05)
    try:
        busy.lease(1, block_s=0)
        go_silent(board)
        wait_until(lambda: leased(board)[0]["time_since_delivered"] <= LEASE_S * 1000, "a renewal")
        assert taken(other) == []
    finally:
        renewer.stop()
    go_silent(board)
    assert taken(other) == ["0"]


class Between:
    """A link that lets something happen between the answer to a script and whoever asked."""

    def __init__(self, link: RedisLink, name: str, happens: Callable[[], object]) -> None:
        self._link, self._name, self._happens = link, name, happens

    def script(self, name: str, *arguments: Any) -> Any:
        found = self._link.script(name, *arguments)
        if name == self._name:
            self._happens()
        return found


def test_a_lease_that_is_lost_and_taken_back_during_a_renewal_is_renewed_from_then_on(
    board: Board, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.issue(0)
    slow, quick = worker("slow"), worker("quick")
    (entry,) = slow.lease(1, block_s=0)
    go_silent(board)
    assert taken(quick) == ["0"]

    def comes_back() -> None:
        quick.hand_back()
        monkeypatch.undo()
        assert slow.take_over(1) == [], "it is at work on it already"

    monkeypatch.setattr(slow, "link", Between(slow.link, "renew", comes_back))
    slow.renew()
    assert (slow.holds(entry), {*holders(board).values()}) == (True, {"slow"})
    go_silent(board)
    slow.renew()
    assert taken(quick) == []


def test_a_worker_that_overslept_its_lease_does_not_take_it_back(board: Board, worker: Worker) -> None:
    """Its result counts all the same if it is the first: the hand-over decides, the lease does not."""
    board.issue(0)
    slow, quick = worker("slow"), worker("quick")
    (entry,) = slow.lease(1, block_s=0)
    go_silent(board)
    assert taken(quick) == ["0"]
    slow.renew()
    assert {*holders(board).values()} == {"quick"}
    assert slow.begin(entry) == 0
    assert slow.hand_over(entry, "rollouts", result_of(entry))
    assert not quick.hand_over(entry, "rollouts", result_of(entry))
    assert (board.ids("prompts"), board.ids("rollouts"), board.ids("dead")) == ([], ["0"], [])


def test_a_worker_takes_over_of_its_own_only_what_it_does_not_know_of(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    board.client.xreadgroup(GROUP, "a", {board.keys("prompts"): ">"})  # the reply never arrived
    for expected in (["0"], []):  # the second time it holds it
        go_silent(board)
        assert taken(a) == expected


def test_attempts_are_counted_where_work_begins_and_nowhere_else(board: Board, worker: Worker) -> None:
    board.issue(0)
    a, b = worker("a"), worker("b")
    (entry,) = a.lease(1, block_s=0)
    assert entry.is_new
    assert a.begin(entry) == 1
    for _ in range(3):
        a.renew()
    go_silent(board)
    (entry,) = b.lease(1, block_s=0)
    assert not entry.is_new
    go_silent(board)
    a.release(entry)
    (entry,) = a.lease(1, block_s=0)  # b took it over and never began
    assert [a.begin(entry), a.begin(entry), b.begin(entry)] == [2, 3, 0]
    board.client.xdel(board.keys("prompts"), entry.entry_id)
    assert a.begin(entry) == 0, "it is gone"


def test_a_hand_over_and_a_retirement_acknowledge_their_entries(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    a = worker("a")
    entry, _ = a.lease(2, block_s=0)
    assert a.hand_over(entry, "rollouts", result_of(entry))
    board.learner.retire(["1"])
    assert leased(board) == []
    a.renew()
    assert board.ids("prompts") == []


def test_a_lost_consumer_group_is_made_anew_at_the_beginning(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    a = worker("a")
    (first,) = a.lease(1, block_s=0)
    board.client.xgroup_destroy(board.keys("prompts"), GROUP)
    a.renew()  # nothing is anybody's; no error
    assert a.begin(first) == 0
    assert taken(a) == ["0", "1"]
    assert a.begin(first) == 1


def test_a_stream_that_vanishes_under_a_waiting_worker_comes_back(board: Board, worker: Worker) -> None:
    a = worker("a")
    vandal = threading.Timer(0.1, lambda: board.client.delete(board.keys("prompts")))
    vandal.start()
    assert a.lease(1, block_s=0.4) == []
    vandal.join()
    board.issue(0)
    assert taken(a) == ["0"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [({"payload": b"\xc1"}, "payload: "), ({"v": "0"}, "schema version 0, this program reads 1, 2, 3")],
)
def test_what_cant_be_decoded_is_dead(
    board: Board, worker: Worker, damage: dict[str, Any], reason: str
) -> None:
    group_id, fields, _ = board.group("0")
    board.learner.issue(0, 1, 10, 0, [NewGroup(group_id, {**fields, **damage})])
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    assert a.decode(entry, codec.decode_prompt) is None
    dead_letter = codec.decode_dead(board.entry("0").raw)
    assert (dead_letter.group_id, dead_letter.stage) == ("0", "prompts")
    assert dead_letter.reason.startswith(reason)
    assert board.slots() == {"0": 0}  # until the learner has recorded its end
    assert leased(board) == []


def test_an_entry_of_a_newer_schema_stays_for_a_newer_role_and_no_attempt_is_counted(
    board: Board, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """The older role says so, at each lease: the entry moves on to another role when that has run out."""
    group_id, fields, _ = board.group("0")
    board.learner.issue(0, 1, 10, 0, [NewGroup(group_id, {**fields, "v": "4"})])
    a = worker("a")
    for lease in (1, 2):
        (entry,) = a.lease(1, block_s=0)
        if lease == 2:  # scorers begin before they read
            assert a.begin(entry) == 1
        assert a.decode(entry, codec.decode_prompt) is None
        assert (a.holds(entry), a.tries(entry)) == (False, 0)
        assert "left_for_a_newer_role stream=prompts group=0: schema version 4" in caplog.messages[-1]
        assert taken(worker("newer")) == []
        go_silent(board)
    assert (taken(worker("newer")), board.client.xlen(board.keys("dead"))) == (["0"], 0)
    board.audit()


def test_a_foreign_entry_goes_to_dead_as_nobodys_and_the_stage_goes_on(board: Board, worker: Worker) -> None:
    board.client.xadd(board.keys("prompts"), {"x": "y"})
    board.client.xadd(board.keys("prompts"), {"v": "4"})
    board.issue(0)
    a = worker("a")
    messages = [a.decode(entry, codec.decode_prompt) for entry in a.lease(9, block_s=0)]
    assert [message.group_id if message else None for message in messages] == [None, None, "0"]
    dead_letters = [codec.decode_dead(raw) for _, raw in board.client.xrange(board.keys("dead"))]
    assert [dead_letter.group_id for dead_letter in dead_letters] == ["?", "?"]
    newer = "foreign entry: schema version 4, this program reads 1, 2, 3"
    assert [dead_letter.reason for dead_letter in dead_letters] == [
        "foreign entry: field 'v' is missing",
        newer,
    ]


def test_a_copy_that_where_does_not_name_dies_when_its_result_comes(board: Board, worker: Worker) -> None:
    """Otherwise it would be leased and sampled again and again."""
    board.issue(0)
    board.client.xadd(board.keys("prompts"), dict(board.entry("0").raw))  # made by hand
    a = worker("a")
    counted = [a.hand_over(entry, "rollouts", result_of(entry)) for entry in a.lease(9, block_s=0)]
    assert counted == [True, False]
    assert (board.ids("prompts"), board.ids("rollouts"), board.ids("dead")) == ([], ["0"], ["?"])
    assert leased(board) == []
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
    reason = "401 for hf_planted at redis://user:planted-word@far:6379/0"
    # Cut to its last 4000 bytes, the traceback would begin inside a secret that is masked too late.
    traceback = "planted-word" + "x" * (TRACEBACK_BYTES - 4)
    assert dead_letter_entry(board.link, board.keys, entry, reason=reason, traceback=traceback)
    ((_, fields),) = board.client.xrange(board.keys("dead"))
    assert b"401 for ****" in fields[b"reason"]
    assert not [name for name, value in fields.items() if b"planted" in value or b"word" in value]


def test_dead_lettering_frees_the_entry_for_good(board: Board, worker: Worker) -> None:
    board.issue(0)
    a = worker("a")
    (entry,) = a.lease(1, block_s=0)
    a.dead_letter_entry(entry, reason="5 attempts", attempts=5)
    assert codec.decode_dead(board.entry("0").raw).attempts == 5
    go_silent(board)
    assert taken(a) == []


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


@pytest.mark.parametrize("protocol", [None, 2, 3])
@pytest.mark.parametrize("legacy", [{}, {"legacy_responses": False}])
def test_every_protocol_reads_streams_alike(
    protocol: int | None, legacy: dict[str, Any], redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url, **({"protocol": protocol} if protocol else {}), **legacy) as client:
        for stream, entry_id in (("a", "1-0"), ("a", "2-0"), ("b", "1-0")):
            client.xadd(stream, {"group": entry_id}, id=entry_id)
        one, two = ((name, {b"group": name}) for name in (b"1-0", b"2-0"))
        assert dict(entries_by_stream(client.xread({"a": "0", "b": "0"}))) == {b"a": [one, two], b"b": [one]}
        assert not list(entries_by_stream(client.xread({"a": "9", "b": "9"}))), "nothing has come"


# Leases that are given up before they run out, and names of consumers that go away.


def test_what_is_handed_back_is_taken_over_at_once_and_was_no_attempt(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    ending, other = worker("h-1-aa"), worker("h-2-bb")
    begun, _ = ending.lease(2, block_s=0)
    assert ending.begin(begun) == 1
    assert taken(other) == [], "its leases stand"
    assert ending.hand_back() == 2
    assert (other.is_handed_back(), board.hash("tries")) == (True, {})
    entries = other.lease(2, block_s=0)
    assert (ids(entries), other.is_handed_back()) == (["0", "1"], False)
    assert [other.begin(entry) for entry in entries] == [1, 1]


def test_only_what_this_worker_began_is_taken_off_the_count(board: Board, worker: Worker) -> None:
    board.issue(0)
    for attempts, name in enumerate(("h-1-aa", "h-2-bb"), start=1):
        one = worker(name)
        (entry,) = one.lease(1, block_s=0)
        assert one.begin(entry) == attempts
        go_silent(board)
    assert one.hand_back() == 1
    assert board.hash("tries") == {"0": "h-1-aa"}
    third = worker("h-3-cc")
    (entry,) = third.lease(1, block_s=0)
    assert third.begin(entry) == 2, "the first one's stands"


def test_what_is_put_off_stays_leased_and_was_no_attempt(board: Board, worker: Worker) -> None:
    board.issue(0)
    first, second = worker("h-1-aa"), worker("h-2-bb")
    (entry,) = first.lease(1, block_s=0)
    assert first.begin(entry) == 1
    go_silent(board)
    assert first.uncount(entry)
    assert board.hash("tries") == {}
    assert taken(second) == [], "its lease begins anew"
    assert first.begin(entry) == 1
    assert first.hand_back() == 1
    assert not first.uncount(entry), "nobody's"
    (entry,) = second.lease(1, block_s=0)
    assert second.begin(entry) == 1
    board.client.delete(board.keys("prompts"))
    assert not second.uncount(entry), "Redis has lost it"


def test_what_is_another_workers_by_now_is_not_handed_back(board: Board, worker: Worker) -> None:
    board.issue(0)
    slow, quick = worker("slow"), worker("quick")
    (entry,) = slow.lease(1, block_s=0)
    board.client.xclaim(board.keys("prompts"), GROUP, "quick", 0, [entry.entry_id], justid=True)
    assert slow.hand_back() == 0
    assert (names(board)["quick"], quick.is_handed_back()) == (1, False)


def test_a_result_after_the_hand_back_counts_if_it_is_the_first(board: Board, worker: Worker) -> None:
    board.issue(0)
    ending, other = worker("ending"), worker("other")
    (entry,) = ending.lease(1, block_s=0)
    ending.hand_back()
    (again,) = other.lease(1, block_s=0)
    assert ending.hand_over(entry, "rollouts", result_of(entry))
    assert not other.hand_over(again, "rollouts", result_of(again))
    assert (board.ids("prompts"), board.ids("rollouts"), board.ids("dead")) == ([], ["0"], [])


def test_a_job_carries_nothing_that_was_handed_back(board: Board, worker: Worker) -> None:
    board.issue(0, 1)
    for group_id in ("0", "1"):
        assert board.move(board.entry(group_id), "rollouts")
    scorers = worker("scorers", "rollouts")
    held, waiting = scorers.read_new(2, block_s=0)
    scorers.hold(held)
    board.client.hset(board.keys("jobs"), mapping={held.entry_id: "j1", waiting.entry_id: "j1"})
    assert scorers.hand_back([waiting.entry_id]) == 2
    assert board.hash("jobs") == {}
    assert ids(scorers.take_over(2)) == ["0", "1"]


def test_a_name_goes_only_with_nothing_leased_to_it(board: Board, worker: Worker) -> None:
    """Removing it together with a lease would hide the entry from everybody for ever."""
    board.issue(0)
    one = worker("h-1-aa")
    (entry,) = one.lease(1, block_s=0)
    one.leave()
    assert names(board) == {"h-1-aa": 1}
    assert one.hand_over(entry, "rollouts", result_of(entry))
    one.leave()
    assert names(board) == {}


def test_long_silent_names_go(board: Board, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    board.issue(0, 1)
    worker("holds").lease(1, block_s=0)
    gone = worker("gone")
    (entry,) = gone.lease(1, block_s=0)
    assert gone.hand_over(entry, "rollouts", result_of(entry))
    worker("early")
    assert names(board) == {"holds": 1, "gone": 0}, "not before an hour"
    monkeypatch.setattr("broker.protocol.leases.SILENT_S", 0.05)
    time.sleep(0.1)
    worker("late")
    assert names(board) == {"holds": 1}


def test_an_ending_process_waits_for_redis_briefly(
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


def test_full_memory_keeps_nobody_from_beginning_failing_or_leaving(board: Board, worker: Worker) -> None:
    board.issue(0, 1, 2)
    first, second, leaving = workers = [worker(f"h-{number}-aa") for number in range(3)]
    held, failed, done = (one.lease(1, block_s=0)[0] for one in workers)
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
