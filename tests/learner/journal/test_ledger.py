"""What is read of a ledger that was torn, damaged, cut or copied."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from learner.journal.ledger import (
    DEAD,
    DROPPED,
    GroupOutcome,
    JournalError,
    PayloadGone,
    read_ledger,
    read_step,
)
from learner.journal.records import framed
from tests.support.journals import Lives, flip, lives, records

pytestmark = pytest.mark.process

__all__ = ["lives"]

Harm = Callable[[Path], object]


@pytest.mark.parametrize(
    ("group_id", "kinds"),
    [
        ("0", ["step"]),
        ("17", ["end", "retry"]),
        ("17-r1", ["retry", "end", "retry"]),
        ("17-r2", ["retry"]),
        ("eval-0-1", ["evaluation"]),
        ("9", []),
        ("", []),
    ],
)
def test_all_records_of_a_followed_group_are_kept(lives: Lives, group_id: str, kinds: list[str]) -> None:
    nothing = read_ledger(lives.folder)
    assert (nothing.fence, nothing.outcomes, nothing.incarnations, nothing.problems) == (0, {}, [], [])
    before = time.time()
    journal = lives.write()
    for number, dead in enumerate(("17", "17-r1"), start=1):
        journal.end({dead: GroupOutcome(DEAD, "deadline")})
        journal.retry("17", number)
    journal.evaluation(1, {"ids": ["eval-0-0", "eval-0-1"]})
    followed = read_ledger(lives.folder, follow=group_id).followed
    assert [record["kind"] for record in followed] == kinds
    assert all(before <= record["at"] <= time.time() for record in followed)


def test_everything_that_was_written_is_read(lives: Lives) -> None:
    lives.open(facts={"config": "name: test", "first_row": 7, "start": None}).retry("0-dead", 1)
    lives.write(2)
    ledger = read_ledger(lives.folder)
    assert ledger.outcomes == {
        **dict.fromkeys(("0", "1"), GroupOutcome("trained", "1")),
        "0-dropped": GroupOutcome(DROPPED, "zero_variance", 4),
        "0-dead": GroupOutcome(DEAD, "deadline"),
    }
    of_step = ("step", "ids", "tokens", "published", "fence")
    assert [[step[fact] for fact in of_step] for step in ledger.steps] == [
        [0, ["0", "1"], 8, [[0, "checksum"]], 2]
    ]
    assert (ledger.evaluations[0]["pass_rate"], ledger.retries) == (0.25, {"0-dead": 1})
    of_life = ("fence", "run", "previous", "previous_end")
    assert [[life[fact] for fact in of_life] for life in ledger.incarnations] == [
        [1, "test", None, None],
        [2, "test", "ledger-000001.log", records(lives.ledger_file(1))[-1].end],
    ]
    assert (ledger.incarnations[0]["config"], ledger.incarnations[0]["first_row"]) == ("name: test", 7)
    assert (ledger.fence, ledger.twice, ledger.problems) == (2, [], [])


# ------------------------------------------------------------------------------------------------------- a torn tail


def test_a_torn_tail_is_void_at_any_byte_and_stays(lives: Lives, caplog: pytest.LogCaptureFixture) -> None:
    lives.write()
    path = lives.ledger_file()
    whole, ends = path.read_bytes(), [found.end for found in records(path)]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        caplog.clear()
        ledger = read_ledger(lives.folder)
        assert ledger.end == max((end for end in ends if end <= cut), default=0), cut
        kinds = [outcome.kind for outcome in ledger.outcomes.values() if outcome.kind != "trained"]
        found = [*ledger.incarnations, *ledger.steps, *ledger.evaluations, *kinds]
        assert len(found) == sum(end <= cut for end in ends), cut
        levels = [] if cut in {0, *ends} else [logging.WARNING]
        assert [entry.levelno for entry in caplog.records] == levels, cut
        assert path.read_bytes() == whole[:cut]
    assert "torn_record" not in caplog.text


@pytest.mark.parametrize(
    "tail",
    [b"\0" * 64, b"\xff" * 64, b"\x05\0\0\0\0\0\0\0hello", b"\x90\0\0\0"],
    ids=["zeros", "ones", "wrong checksum", "half a frame"],
)
def test_a_tail_of_rubbish_is_no_record(lives: Lives, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    lives.write()
    before = read_ledger(lives.folder)
    with lives.ledger_file().open("ab") as stream:
        stream.write(tail)
    assert read_ledger(lives.folder) == before
    assert f"torn_record file={lives.ledger_file()} byte={before.end} bytes={len(tail)}" in caplog.text


def test_the_record_that_a_life_was_writing_is_void_even_when_it_is_finished_later(lives: Lives) -> None:
    lives.write().close()
    path = lives.ledger_file()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    lives.open(2)
    path.write_bytes(whole)
    assert read_ledger(lives.folder).evaluations == {}


@pytest.mark.parametrize("left", [0, 5])
def test_a_life_that_was_killed_before_its_first_record_hides_nothing(lives: Lives, left: int) -> None:
    lives.write().close()
    lives.open(2).close()
    path = lives.ledger_file(2)
    path.write_bytes(path.read_bytes()[:left])
    assert read_ledger(lives.folder).fence == 2  # the next fence is 3: that file is there
    assert lives.open(3).has("0")
    assert set(read_ledger(lives.folder).outcomes) == {"0", "1", "0-dropped", "0-dead"}


# ------------------------------------------------------------------------------------------------------------ damage


def test_a_flipped_byte_names_the_file_and_the_record_and_what_stands_beside_it_is_read(lives: Lives) -> None:
    """Whichever byte it is: of the length, of the checksum, of the body."""
    lives.write()
    path = lives.ledger_file()
    whole = path.read_bytes()
    for number, found in enumerate(records(path)[:-1]):
        for position in range(found.start, found.end):
            flip(path, position)
            with pytest.raises(JournalError, match=rf"ledger-000001\.log: record {number} "):
                read_ledger(lives.folder)
            assert len(read_ledger(lives.folder, strict=False).problems) == 1, position
            path.write_bytes(whole)
    flip(path, records(path)[2].start + 20)
    ledger = read_ledger(lives.folder, strict=False)
    assert set(ledger.outcomes) == {"0", "1", "0-dead"}  # all but the dropped one
    assert ledger.evaluations.keys() == {0}


@pytest.mark.parametrize("number", [0, -1], ids=["the only record", "the last of five"])
def test_a_flipped_byte_in_front_of_a_torn_record_is_no_torn_tail(lives: Lives, number: int) -> None:
    """Nothing but the record that was being written may be void: the one before it was acknowledged."""
    lives.write()
    path = lives.ledger_file()
    whole, flipped = path.read_bytes(), records(path)[number]
    behind = (whole[flipped.start :] if number else whole[flipped.end :])[:20]
    told = rf"record {number % 5} .*is damaged, and others follow it: restore"
    for position in range(flipped.start + 4, flipped.end):  # behind the length
        path.write_bytes(whole[: flipped.end] + behind)
        flip(path, position)
        with pytest.raises(JournalError, match=told):
            read_ledger(lives.folder)
        assert len(read_ledger(lives.folder, strict=False).problems) == 1, position


@pytest.mark.parametrize("behind", [0, 4096], ids=["nothing", "zeros"])
def test_a_last_record_with_blocks_that_were_never_written_is_void(lives: Lives, behind: int) -> None:
    """A power cut may leave it at its full length, and zeros behind it."""
    lives.write()
    path = lives.ledger_file()
    whole, last = path.read_bytes(), records(path)[-1]
    path.write_bytes(whole[: last.start + 20] + bytes(last.end - last.start - 20 + behind))
    ledger = read_ledger(lives.folder)
    assert (ledger.end, ledger.evaluations) == (last.start, {})


@pytest.mark.parametrize("position", [-1, 0], ids=["its last record", "its first record"])
def test_damage_to_a_life_that_a_later_one_has_read_is_no_torn_tail(lives: Lives, position: int) -> None:
    lives.write().close()
    lives.write(2, step=1, ids=("2", "3"))
    number = len(records(lives.ledger_file())) - 1 if position else 0
    flip(lives.ledger_file(), position)
    with pytest.raises(JournalError, match=rf"ledger-000001\.log: record {number} .*is damaged"):
        read_ledger(lives.folder)
    assert len(read_ledger(lives.folder, strict=False).problems) == 1


@pytest.mark.parametrize(
    ("left", "missing"),
    [
        ([0, 2, 3, 4], "record 1 is missing"),
        ([0, 1, 4], "records 2 to 3 are missing"),
        ([1, 2, 3, 4], "record 0 is missing"),
    ],
)
@pytest.mark.parametrize("is_older", [False, True], ids=["of the newest life", "of an older one"])
def test_a_missing_record_is_told(*, lives: Lives, left: list[int], missing: str, is_older: bool) -> None:
    lives.write().close()
    if is_older:
        lives.write(2, step=1, ids=("2", "3"))
    path = lives.ledger_file()
    data, found = path.read_bytes(), records(path)
    path.write_bytes(b"".join(data[found[number].start : found[number].end] for number in left))
    with pytest.raises(JournalError, match=rf"ledger-000001\.log: {missing} before byte \d+"):
        read_ledger(lives.folder)
    problems = read_ledger(lives.folder, strict=False).problems
    assert len(problems) == 1 + (is_older and 1 not in left)  # whose step a later life's does not follow


@pytest.mark.parametrize(("number", "twice"), [(1, ["0", "1"]), (2, ["0-dropped"]), (4, [])])
def test_a_copied_record_and_its_groups_are_there_twice(lives: Lives, number: int, twice: list[str]) -> None:
    lives.write()
    path = lives.ledger_file()
    data, found = path.read_bytes(), records(path)[number]
    path.write_bytes(data + data[found.start : found.end])
    with pytest.raises(JournalError, match=rf"record {number} is there twice, again at byte {len(data)}"):
        read_ledger(lives.folder)
    assert read_ledger(lives.folder, strict=False).twice == twice


def write_three_lives(lives: Lives) -> None:
    for number in (1, 2, 3):
        lives.write(number, step=number - 1, ids=(str(2 * number), str(2 * number + 1))).close()


@pytest.mark.parametrize(
    ("fence", "message"),
    [
        (1, r"ledger-000001\.log is gone, and a later incarnation"),
        (2, r"ledger-000002\.log is gone, and a later incarnation"),
        (3, r"payload-000003-000\.bin is there, and the ledger of the incarnation that wrote it is gone"),
    ],
)
def test_a_whole_life_that_is_gone_is_missed(lives: Lives, fence: int, message: str) -> None:
    write_three_lives(lives)
    lives.ledger_file(fence).unlink()
    with pytest.raises(JournalError, match=message):
        read_ledger(lives.folder)
    left = [life["fence"] for life in read_ledger(lives.folder, strict=False).incarnations]
    assert left == sorted({1, 2, 3} - {fence})


@pytest.mark.parametrize(
    ("copy", "twice"),
    [(0, set()), (5, {"6", "7", "2-dropped", "2-dead"})],
    ids=["an older name", "a newer name"],
)
def test_a_copy_of_a_life_under_another_name_is_told(lives: Lives, copy: int, twice: set[str]) -> None:
    write_three_lives(lives)
    lives.ledger_file(copy).write_bytes(lives.ledger_file(3).read_bytes())
    if twice:
        with pytest.raises(JournalError, match=r"000005\.log: record 0 is the beginning of incarnation 3"):
            read_ledger(lives.folder)
    ledger = read_ledger(lives.folder, strict=False)  # below the first life nobody looks for any
    assert [step["step"] for step in ledger.steps][:3] == [0, 1, 2]
    assert set(ledger.twice) == twice


@pytest.mark.parametrize(
    ("start", "steps", "problem"),
    [
        (None, [1], "step 2 stands where step 1 was expected"),
        (None, [0, 2], "step 3 stands where step 2 was expected"),
        (None, [0, 0], "step 1 stands where step 2 was expected"),
        ("checkpoints/step-000040", [40, 42], "step 43 stands where step 42 was expected"),
        ("checkpoints/step-000040", [40, 41], ""),
    ],
)
def test_steps_follow_each_other(lives: Lives, start: str | None, steps: list[int], problem: str) -> None:
    lives.open(facts={"start": start})
    with lives.ledger_file().open("ab") as stream:
        for number, step in enumerate(steps, start=1):
            stream.write(framed({"kind": "step", "n": number, "step": step, "ids": [str(number)]}))
    ledger = read_ledger(lives.folder, strict=False)
    assert len(ledger.steps) == len(steps)
    assert [text.split(": ")[1].split(" (")[0] for text in ledger.problems] == [problem] * bool(problem)
    if problem:
        with pytest.raises(JournalError, match=problem):
            read_ledger(lives.folder)


def test_a_record_of_another_program_is_refused_by_name(lives: Lives) -> None:
    lives.open()
    with lives.ledger_file().open("ab") as stream:
        stream.write(framed({"kind": "prophecy", "n": 1}))
    with pytest.raises(JournalError, match="record 1 is of kind 'prophecy'"):
        read_ledger(lives.folder)
    life = {"kind": "life", "fence": 1, "previous": None, "previous_end": None}
    lives.ledger_file().write_bytes(framed(life))
    with pytest.raises(JournalError, match="the record at byte 0 has no number: an older version"):
        read_ledger(lives.folder, strict=False)


# ---------------------------------------------------------------------------------------------------------- payloads


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), JournalError, "damaged"),
        (lambda path: flip(path, 0), JournalError, "damaged"),
        (lambda path: flip(path, -1), JournalError, "damaged"),
        (lambda path: path.unlink(), PayloadGone, "gone"),
        (lambda path: (path.unlink(), path.mkdir()), JournalError, "can't be read: Is a directory"),
    ],
    ids=["cut", "first byte", "last byte", "gone", "unreadable"],
)
def test_a_payload_that_is_not_what_was_written_is_never_handed_out(
    lives: Lives, harm: Harm, error: type[JournalError], message: str
) -> None:
    lives.write()
    harm(lives.payload_file())
    told = rf"payload-000001-000\.bin: the payload of step 1 (is )?{message}"
    with pytest.raises(JournalError, match=told) as caught:
        read_step(lives.folder, read_ledger(lives.folder).steps[0])
    assert type(caught.value) is error


@pytest.mark.parametrize("schema", [3, 7])  # 3 was in no release
def test_another_payload_schema_is_named(lives: Lives, monkeypatch: pytest.MonkeyPatch, schema: int) -> None:
    monkeypatch.setattr("learner.journal.payloads.PAYLOAD_SCHEMA", schema)
    lives.write()
    monkeypatch.undo()
    with pytest.raises(JournalError, match=f"step 1 has schema version {schema}, this program reads 2 and 4"):
        read_step(lives.folder, read_ledger(lives.folder).steps[0])
