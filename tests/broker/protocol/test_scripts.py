"""Every script of the protocol, on a real Redis: its effect, once, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import ResponseError

from broker import codec
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, Fenced, NoRoom, RunFailed, WentBack
from broker.keys import Keys
from broker.protocol.run_owner import Issued, RunOwner
from broker.protocol.streams import Entry, dead_letter_entry, hand_over, reject
from tests.broker.conftest import Board, LosesReplies, result_of
from tests.support.groups import a_prompt, an_announcement


@contextmanager
def unchanged(board: Board) -> Iterator[None]:
    """What is done in the block changes nothing in Redis."""
    before = board.state()
    yield
    assert board.state() == before


@contextmanager
def refused(board: Board, said: str, error: type[Exception] = ResponseError) -> Iterator[None]:
    with unchanged(board), pytest.raises(error, match=said):
        yield


def dead_lettered(board: Board, entry: Entry, reason: str = "x") -> bool:
    return dead_letter_entry(board.link, board.keys, entry, reason=reason)


def rejected(board: Board, entry: Entry) -> bool:
    return reject(board.link, board.keys, entry, reason="x")


def with_floor(fields: Any, floor: str | None) -> dict[Any, Any]:
    kept = {name: value for name, value in fields.items() if name not in ("floor", b"floor")}
    return kept if floor is None else kept | {"floor": floor}


def test_issue_lets_groups_in_at_the_newest_announced_version(board: Board) -> None:
    assert board.issue(0, 1) == Issued(2, 0)
    board.announce(3)
    assert board.issue(2) == Issued(3, 3)
    assert board.issue(3, newest=5) == Issued(4, 5)  # Redis forgot two announcements; the learner did not
    assert board.slots() == {"0": 0, "1": 0, "2": 3, "3": 5}
    assert board.ids("prompts") == ["0", "1", "2", "3"]
    assert {group: board.entry(group).floor for group in board.ids("prompts")} == board.slots()
    assert codec.text(board.entry("2").raw, "policy") == "3"
    cursor = board.hash("cursor")
    assert (cursor["position"], cursor["issued"]) == ("4", "4")
    assert codec.decode_prompt(board.entry("3").raw).floor == 5, "the script's, whatever its writer said"
    board.audit()


def test_issue_is_refused_where_the_cursor_stands_elsewhere(board: Board) -> None:
    board.issue(0, 1)
    with unchanged(board):
        assert board.issue(0, 1) == Issued(2, None)  # the same call twice
        assert board.issue(5) == Issued(2, None)


def test_issue_never_exceeds_the_budget_and_lets_all_in_or_none(board: Board) -> None:
    board.issue(0, 1, budget=3)
    with unchanged(board):
        assert board.issue(2, 3, budget=3) == Issued(2, None, full=True)
    assert board.issue(2, budget=3) == Issued(3, 0)
    assert board.issue(3, budget=3).full
    board.learner.retire(["0"])
    assert board.issue(3, budget=3) == Issued(4, 0)


@pytest.mark.parametrize(("groups", "has_slot"), [(["0"], True), (["7", "7"], True), (["0"], False)], ids=str)
def test_issue_of_an_id_twice_changes_nothing(board: Board, groups: list[str], *, has_slot: bool) -> None:
    board.issue(0)
    if not has_slot:  # `where` alone has it
        board.client.zrem(board.keys("slots"), "0")
    with refused(board, f"group {groups[0]} is in Redis already, though the cursor stands at 1", RunFailed):
        board.learner.issue(1, 3, 100, 0, [board.group(group) for group in groups])


def test_numbers_that_the_ledger_has_are_skipped_and_counted(board: Board) -> None:
    """The position moves by three, and one group comes in."""
    assert board.learner.issue(0, 3, 100, 0, [board.group("2")]) == Issued(3, 0)
    assert board.learner.issue(3, 5, 100, 0, []).position == 5
    assert (board.hash("cursor")["issued"], board.ids("prompts")) == ("5", ["2"])


def test_evaluation_holds_no_slot_and_is_sent_again_only_where_its_entry_is_gone(board: Board) -> None:
    groups = [board.group(f"eval-4-{number}") for number in range(3)]
    assert board.learner.issue_eval(4, groups) == 3
    with unchanged(board):
        assert board.learner.issue_eval(4, groups) == 0
    assert (board.slots(), "position" in board.hash("cursor")) == ({}, False)
    first, second = board.entry("eval-4-0"), board.entry("eval-4-1")
    assert first.floor == 4
    assert board.move(first, "rollouts")
    board.client.xdel(board.keys("prompts"), second.entry_id)
    assert board.learner.issue_eval(4, groups) == 1
    assert board.ids("prompts") == ["eval-4-2", "eval-4-1"]
    assert not board.move(second, "rollouts")  # the older life's result is late
    assert board.move(board.entry("eval-4-1"), "rollouts")


def test_a_group_goes_its_way_and_where_follows(board: Board) -> None:
    board.issue(0)
    for source, to in (("prompts", "rollouts"), ("rollouts", "scored"), ("scored", "dead")):
        entry = board.entry("0")
        assert entry.stream == source
        assert board.move(entry, to)
        assert (board.ids(source), board.ids(to), board.slots()) == ([], ["0"], {"0": 0})
        board.audit()


ENDS: dict[str, Callable[[Board], object]] = {
    "a result counted": lambda board: board.move(board.entry("0"), "rollouts"),
    "its group has ended": lambda board: board.learner.retire(["0"]),
    "its group has no slot": lambda board: board.client.zrem(board.keys("slots"), "0"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_result_counts_once_and_of_a_group_under_way_alone(board: Board, end: str) -> None:
    board.issue(0)
    entry = board.entry("0")
    ENDS[end](board)
    with unchanged(board):
        assert not board.move(entry, "rollouts")
        assert not board.move(entry, "dead")


def test_a_late_result_of_an_older_life_does_not_count(board: Board) -> None:
    """After a rewind: the id was issued again at a higher floor, and Redis used the same entry id again."""
    board.issue(0)
    old = board.entry("0")
    client, keys = board.client, board.keys
    client.delete(keys("prompts"), keys("where"), keys("slots"), keys("cursor"))
    fields: Any = {**codec.encode_prompt(a_prompt("0")), "floor": "4"}
    client.xadd(keys("prompts"), fields, id=old.entry_id)
    client.zadd(keys("slots"), {"0": 4})
    client.hset(keys("where"), "0", f"prompts {old.entry_id}")
    with unchanged(board):
        assert not board.move(old, "rollouts")
        assert not rejected(board, old)
        assert not dead_lettered(board, old)
    assert board.move(board.entry("0"), "rollouts")


@pytest.mark.parametrize("floor", ["7", "", "x", "9" * 5000, None])
@pytest.mark.parametrize("stream", ["prompts", "scored"])
def test_a_group_whose_entry_has_a_spoilt_floor_can_end(board: Board, stream: str, floor: str | None) -> None:
    board.announce(2)
    board.issue(0)
    entry = board.entry("0")
    board.client.xdel(board.keys("prompts"), entry.entry_id)
    added = board.client.xadd(board.keys(stream), with_floor(entry.raw, floor))
    board.client.hset(board.keys("where"), "0", f"{stream} {added.decode()}")
    spoilt = board.entry("0")
    assert not board.move(spoilt, "rollouts")  # no result of it counts
    assert dead_lettered(board, spoilt)
    dead_letter = board.entry("0")
    assert (dead_letter.stream, dead_letter.floor) == ("dead", 2)
    board.audit()


@pytest.mark.parametrize("floor", ["1", "x", None])
def test_a_result_with_another_floor_than_its_slot_is_refused(board: Board, floor: str | None) -> None:
    board.issue(0)
    entry = board.entry("0")
    with refused(board, f"the result of group 0 has floor {floor or '[?]'}, and its slot has 0"):
        hand_over(board.link, board.keys, entry, "rollouts", with_floor(result_of(entry), floor))


@pytest.mark.parametrize("to", ["rollouts", "dead"])
def test_a_destination_of_a_wrong_type_changes_nothing(board: Board, to: str) -> None:
    board.issue(0)
    foreign = Entry("prompts", board.client.xadd(board.keys("prompts"), {"x": "y"}).decode(), {b"x": b"y"})
    board.client.set(board.keys(to), "planted")
    with refused(board, f"{to} is no stream but string"):
        board.move(board.entry("0"), "rollouts")
    if to == "dead":
        with refused(board, "dead is no stream but string"):
            rejected(board, foreign)
    board.client.delete(board.keys(to))
    assert board.move(board.entry("0"), "rollouts")


@pytest.mark.parametrize(
    ("to", "fields", "said"),
    [
        ("elsewhere", ("v", "1"), "elsewhere is no stream but nil"),
        ("rollouts", ("v",), "fields must be pairs"),
        ("rollouts", (), "fields must be pairs"),
        ("rollouts", ("f", "x") * 101, "fields must be pairs"),
    ],
)
def test_a_malformed_hand_over_is_refused(board: Board, to: str, fields: tuple[str, ...], said: str) -> None:
    board.issue(0)
    entry_id = board.entry("0").entry_id
    with refused(board, said):
        board.link.script("hand_over", board.keys.scripts(), "prompts", entry_id, "0", to, 0, "", "", *fields)


def test_a_result_that_its_stream_refuses_goes_to_dead_with_the_reason(board: Board) -> None:
    """A stream whose last id is the highest there is takes no entry more."""
    board.issue(0)
    highest = f"{2**64 - 1}-{2**64 - 1}"
    board.client.xadd(board.keys("rollouts"), {"v": "1"}, id=highest)
    board.client.xdel(board.keys("rollouts"), highest)
    assert board.move(board.entry("0"), "rollouts")
    dead_letter = codec.decode_dead(board.entry("0").raw)
    assert (dead_letter.group_id, dead_letter.stage) == ("0", "prompts")
    assert dead_letter.reason.startswith("rollouts refused the result: ")
    board.audit()


def test_the_job_of_an_entry_goes_with_it(board: Board) -> None:
    board.issue(0, 1, 2)
    for group in "012":
        board.move(board.entry(group), "rollouts")
        board.client.hset(board.keys("jobs"), board.entry(group).entry_id, f"test_{group}_1")
    board.move(board.entry("0"), "scored")
    board.learner.retire(["1"])
    assert list(board.hash("jobs").values()) == ["test_2_1"]


def test_a_dead_letter_keeps_what_is_known_of_a_group(board: Board) -> None:
    board.issue(0)
    entry = board.entry("0")
    long = "x" * 9000 + "the end"
    assert dead_letter_entry(board.link, board.keys, entry, reason="too hard", attempts=5, traceback=long)
    dead_letter = codec.decode_dead(board.entry("0").raw)
    assert (dead_letter.group_id, dead_letter.stage, dead_letter.reason, dead_letter.attempts) == (
        "0",
        "prompts",
        "too hard",
        5,
    )
    assert (dead_letter.traceback, dead_letter.original) == (long[-4000:], entry.raw[b"payload"])
    assert not dead_lettered(board, entry)
    assert board.ids("dead") == ["0"]


FOREIGN: dict[str, dict[bytes, bytes]] = {
    "no header": {b"x": b"y"},
    "a copied id": {b"group": b"0", b"floor": b"0", b"payload": b"an entry that where does not name"},
    "numbers that are none": {b"group": b"99", b"floor": b"--5", b"at": b"nan"},
    "no text": {b"group": b"\xff\xfe", b"v": b"2", b"floor": "²".encode()},
}


@pytest.mark.parametrize("stream", ["prompts", "rollouts", "scored"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_entry_goes_to_dead_as_nobodys_and_once(board: Board, stream: str, name: str) -> None:
    board.issue(0)
    fields: Any = FOREIGN[name]
    entry = Entry(stream, board.client.xadd(board.keys(stream), fields).decode(), fields)
    before = board.slots(), board.where("0")
    assert [dead_lettered(board, entry), dead_lettered(board, entry)] == [True, False]
    assert board.ids("dead") == ["?"]
    assert (board.slots(), board.where("0")) == before
    board.audit()


def test_reject_leaves_alone_what_where_names(board: Board) -> None:
    board.issue(0)
    with unchanged(board):
        assert not rejected(board, board.entry("0"))


@pytest.mark.parametrize("way", [(), ("rollouts",), ("rollouts", "scored")], ids=str)
def test_retire_frees_a_group_wherever_it_is_and_may_be_repeated(board: Board, way: tuple[str, ...]) -> None:
    board.issue(0, 1)
    for to in way:
        board.move(board.entry("0"), to)
    board.learner.retire(["0"])
    once = board.state() | {board.keys("cursor"): None}
    assert (board.slots(), board.where("0")) == ({"1": 0}, None)
    assert board.ids(way[-1] if way else "prompts") == ([] if way else ["1"])
    board.learner.retire(["0", "never issued"])
    assert board.state() | {board.keys("cursor"): None} == once
    board.audit()


def test_retire_leaves_a_dead_letter_to_its_operator(board: Board) -> None:
    board.issue(0)
    dead_lettered(board, board.entry("0"))
    board.learner.retire(["0"])
    assert (board.slots(), board.where("0"), board.ids("dead")) == ({}, None, ["0"])


def test_announced_versions_never_fall_and_the_last_16_stay(board: Board) -> None:
    for version in range(20):
        board.announce(version)
    assert board.hash("run")["version"] == "19"
    said = "Redis knows version 19 of run test, and the journal ends at version 18: .*`millrace audit test`"
    with refused(board, said, RunFailed):
        board.announce(18)
    board.announce(19)  # a recovery says it again
    entries = board.client.xrange(board.keys("weights"))
    assert [codec.decode_announcement(fields).version for _, fields in entries] == [*range(5, 20), 19]


def test_a_claim_is_above_every_fence_that_redis_or_the_journal_knows(board: Board) -> None:
    assert board.learner.fence == 1
    claims = [RunOwner(board.link, board.keys).claim(known) for known in (0, 7, 3)]
    assert claims == [2, 8, 9]  # at 7 Redis forgot, the journal did not


SCRIPTS: dict[str, Callable[[RunOwner, Board], Any]] = {
    "issue": lambda learner, board: learner.issue(1, 2, 100, 0, [board.group("1")]),
    "issue_eval": lambda learner, board: learner.issue_eval(0, [board.group("eval-0-0")]),
    "reissue": lambda learner, board: learner.reissue([board.group("0")]),
    "restore_cursor": lambda learner, _: learner.restore_cursor(1, {}),
    "retire": lambda learner, _: learner.retire(["0"]),
    "announce": lambda learner, _: learner.announce(an_announcement(9)),
    "check": lambda learner, _: learner.check(),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_an_older_learner_or_in_an_older_redis_does_nothing(board: Board, name: str) -> None:
    board.issue(0)
    newer = RunOwner(board.link, board.keys)
    newer.claim(0)
    with refused(
        board, r"a newer learner \(fence 2\) has taken run test over from this one \(fence 1\)", Fenced
    ):
        SCRIPTS[name](board.learner, board)
    seq = newer.seq
    board.client.hset(board.keys("cursor"), "seq", seq - 1)
    with refused(board, f"it stands at seq {seq - 1}, and {seq} was acknowledged", WentBack):
        SCRIPTS[name](newer, board)
    board.client.hset(board.keys("cursor"), "seq", seq)
    SCRIPTS[name](newer, board)
    assert newer.seq == int(board.hash("cursor")["seq"]) == seq + (name != "check")


def lost(board: Board, call: Callable[[], Any]) -> Any:
    """`call`, whose first reply is lost: the link sends it again."""
    real = board.link.client
    lossy: Any = LosesReplies(real)
    board.link.client = lossy
    try:
        return call()
    finally:
        board.link.client = real
        assert lossy.left == 0


def test_a_lost_reply_of_issue_lets_the_group_in_once_and_says_where_redis_stands(board: Board) -> None:
    assert lost(board, lambda: board.issue(0, 1)) == Issued(2, None)
    assert (board.ids("prompts"), board.hash("cursor")["issued"]) == (["0", "1"], "2")
    assert board.issue(2) == Issued(3, 0)
    board.audit()


def test_a_lost_reply_of_any_other_script_leaves_one_effect(board: Board) -> None:
    board.issue(0, 1, 2)
    assert lost(board, lambda: board.learner.issue_eval(0, [board.group("eval-0-0")])) == 0
    assert board.ids("prompts") == ["0", "1", "2", "eval-0-0"]
    entry = board.entry("0")
    assert not lost(board, lambda: board.move(entry, "rollouts"))  # it counted, and nobody knows
    assert board.ids("rollouts") == ["0"]
    assert not lost(board, lambda: dead_lettered(board, board.entry("1")))
    assert board.ids("dead") == ["1"]
    lost(board, lambda: board.learner.retire(["0", "1"]))
    assert board.slots() == {"2": 0}
    lost(board, lambda: board.announce(1))
    assert board.hash("run")["version"] == "1"
    assert lost(board, lambda: board.learner.claim(0)) == 3  # two claims of one learner
    board.issue(3)
    board.audit()


def test_the_reconcile_view_tells_where_every_group_is_and_what_is_missing(board: Board) -> None:
    board.issue(0, 1, 2, 3)
    board.move(board.entry("1"), "rollouts")
    dead_lettered(board, board.entry("2"))
    board.client.xdel(board.keys("prompts"), board.entry("3").entry_id)
    places = [board.where(group) for group in "0123"]
    board.client.hdel(board.keys("where"), "0")

    def view(*ids: str) -> dict[str, tuple[str, str]]:
        reply = [word.decode() for word in board.link.script("reconcile_view", board.keys.scripts(), *ids)]
        return {reply[i]: (f"{reply[i + 1]} {reply[i + 2]}", reply[i + 3]) for i in range(0, len(reply), 4)}

    with unchanged(board):
        for looked_at, times in (("0123", ("1.000", "0", "")), ("2", ("?", "0", "?"))):
            there = zip(places[1:], times, strict=True)
            assert view(*looked_at, "gone") == dict(zip("0123", [(" ", ""), *there], strict=True))


@pytest.fixture
def fill(board: Board) -> Iterator[Callable[[], None]]:
    """Fills Redis up, for the rest of the test."""
    board.link.outage_s = 0.1
    yield lambda: board.client.config_set("maxmemory", "1")
    board.client.config_set("maxmemory", "0")


def test_full_memory_lets_nothing_in_and_everything_out(board: Board, fill: Callable[[], None]) -> None:
    board.issue(0, 1, 2)
    board.move(board.entry("1"), "rollouts")
    foreign = board.client.xadd(board.keys("prompts"), {"x": "y"}).decode()
    fill()
    with unchanged(board):
        assert board.issue(3, 4) == Issued(3, None, full=True)
    with refused(board, r"redis at .* is full: .*command not allowed when used", NoRoom):
        board.learner.issue_eval(0, [board.group("eval-0-0")])
    with refused(board, "is full: command not allowed", BrokerUnavailable):  # a plain command waits, too
        board.link(lambda client: client.set("rl:{test}:x", "1"))
    assert board.move(board.entry("0"), "rollouts")
    assert board.move(board.entry("1"), "scored")
    assert dead_lettered(board, board.entry("2"))
    assert rejected(board, Entry("prompts", foreign, {b"x": b"y"}))
    board.announce(1)
    board.learner.retire(["1"])
    assert RunOwner(board.link, board.keys).claim(0) == 2
    assert (board.slots(), board.ids("rollouts")) == ({"0": 0, "2": 0}, ["0"])
    board.audit()


def test_two_runs_in_one_redis_do_not_meet(board: Board, link: RedisLink) -> None:
    other = Board(link, Keys("test-2"))
    board.issue(0)
    other.issue(0)
    assert hand_over(link, other.keys, other.entry("0"), "rollouts", result_of(other.entry("0")))
    other.learner.retire(["0"])
    assert board.ids("prompts") == ["0"]
    board.audit()
