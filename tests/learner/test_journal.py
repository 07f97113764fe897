"""The ledger of the whole run."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.codec import encode_scored_payload
from broker.errors import Fenced, RunFailed
from broker.messages import ScoredGroup
from learner.journal import Journal
from learner.ledger import DEAD, DROPPED, JournalError, Outcome, read_ledger, read_step
from tests.conftest import ROOT
from tests.learner.chain import make_prompt, make_scored

GROUP_A, GROUP_B = (make_scored(make_prompt(group_id), [1.0, None]) for group_id in "01")


OPEN: list[Journal] = []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "journal"
    while OPEN:
        OPEN.pop().close()


def open_life(folder: Path, fence: int = 1) -> Journal:
    OPEN.append(Journal(folder, fence, run="test"))
    return OPEN[-1]


def write_life(folder: Path, fence: int = 1, *, step: int = 0, ids: tuple[str, str] = ("0", "1")) -> Journal:
    """One life with a step of two groups, one dropped, one dead, and an evaluation round."""
    journal = open_life(folder, fence)
    groups = [make_scored(make_prompt(group_id), [1.0, 0.0]) for group_id in ids]
    journal.append(step, groups, [[0.5, -0.5], [0.5, -0.5]], weights="checksum")
    journal.end({f"{step}-dropped": Outcome(DROPPED, "zero_variance"), f"{step}-dead": Outcome(DEAD, "deadline")})
    journal.evaluation(step, {"pass_rate": 0.25})
    return journal


def silent(group: ScoredGroup) -> ScoredGroup:
    """The group without its completions' text."""
    completions = tuple(replace(completion, text="") for completion in group.rollout.completions)
    return replace(group, rollout=replace(group.rollout, completions=completions))


def test_every_record_is_there_when_the_journal_is_opened_again(folder: Path) -> None:
    write_life(folder).close()
    ledger = read_ledger(folder)
    assert ledger.outcomes == {"0": Outcome("trained", "0"), "1": Outcome("trained", "0"),
                               "0-dropped": Outcome(DROPPED, "zero_variance"), "0-dead": Outcome(DEAD, "deadline")}
    assert [(step["step"], step["ids"], step["weights"]) for step in ledger.steps] == [(0, ["0", "1"], "checksum")]
    assert ledger.evaluations[0]["pass_rate"] == 0.25
    assert (ledger.fence, ledger.twice) == (1, [])


def test_a_journal_that_was_never_written_is_empty(folder: Path) -> None:
    assert read_ledger(folder).fence == 0


def test_a_step_reads_back_as_it_was_given(folder: Path) -> None:
    journal = open_life(folder)
    advantages: list[list[float | None]] = [[0.5, None], [-0.25, None]]
    journal.append(0, [GROUP_B], [[0.0, None]], weights="w")            # so that the second payload begins further on
    journal.append(1, [GROUP_A, GROUP_B], advantages, weights="w")
    groups, read_advantages = read_step(folder, read_ledger(folder).steps[1])
    assert [encode_scored_payload(group) for group in groups] == [encode_scored_payload(silent(GROUP_A)),
                                                                  encode_scored_payload(silent(GROUP_B))]
    assert read_advantages == advantages


def test_a_torn_tail_is_ignored_at_whichever_byte_it_tears(folder: Path) -> None:
    journal = open_life(folder)
    path = folder / "ledger-000001.log"
    ends = [path.stat().st_size]                # bytes of the file after each record
    for i in range(3):
        journal.end({str(i): Outcome(DROPPED, "r")})
        ends.append(path.stat().st_size)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        ledger = read_ledger(folder)
        stand = [end for end in ends if end <= cut]
        assert len(ledger.outcomes) == max(0, len(stand) - 1), cut
        assert ledger.end == max(stand, default=0), cut


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\xff" * 64, b"\x05\0\0\0\0\0\0\0hello"])
def test_a_tail_of_rubbish_is_no_record(folder: Path, tail: bytes) -> None:
    write_life(folder).close()
    before = read_ledger(folder)
    with (folder / "ledger-000001.log").open("ab") as stream:
        stream.write(tail)
    assert read_ledger(folder) == before


def test_a_second_life_goes_on_from_the_end_of_the_first_and_later_records_of_the_first_are_void(folder: Path) -> None:
    first = write_life(folder)
    second = write_life(folder, 2, step=1, ids=("2", "3"))
    assert second.has("0")                                       # what the first life wrote is known
    first._write([{"kind": "end", "id": "4", "outcome": DEAD, "reason": "too late", "tokens": 0}])   # slept meanwhile
    ledger = read_ledger(folder)
    assert [step["step"] for step in ledger.steps] == [0, 1]
    assert set(ledger.outcomes) == {"0", "1", "2", "3", "0-dropped", "0-dead", "1-dropped", "1-dead"}
    assert ledger.fence == 2


def test_the_record_that_the_first_life_was_writing_is_void_even_when_it_is_finished_later(folder: Path) -> None:
    write_life(folder).close()
    path = folder / "ledger-000001.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    open_life(folder, 2).close()
    path.write_bytes(whole)
    assert read_ledger(folder).evaluations == {}


@pytest.mark.parametrize("left", [0, 5])
def test_a_life_that_was_killed_before_its_first_record_hides_nothing(folder: Path, left: int) -> None:
    write_life(folder).close()
    open_life(folder, 2).close()
    path = folder / "ledger-000002.log"
    path.write_bytes(path.read_bytes()[:left])
    assert read_ledger(folder).fence == 2                        # the next fence is 3: that file is there
    assert open_life(folder, 3).has("0")
    assert set(read_ledger(folder).outcomes) == {"0", "1", "0-dropped", "0-dead"}


def test_nothing_of_an_older_life_is_ever_changed(folder: Path) -> None:
    write_life(folder).close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_life(folder, 2, step=1, ids=("2", "3")).close()
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_two_lives_of_one_fence_are_refused(folder: Path) -> None:
    write_life(folder).close()
    with pytest.raises(RunFailed, match=r"ledger-000001\.log can't be created"):
        open_life(folder)


@pytest.mark.parametrize("write", [
    lambda journal: journal.append(1, [GROUP_A], [[0.5, None]], weights="w"),
    lambda journal: journal.end({"9": Outcome(DROPPED, "r")}),
    lambda journal: journal.evaluation(1, {}),
], ids=["append", "end", "evaluation"])
def test_a_newer_life_is_noticed_before_anything_is_written(folder: Path, write: object) -> None:
    assert callable(write)
    older = write_life(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    open_life(folder, 2)
    with pytest.raises(Fenced, match=r"fence 2.*from fence 1"):
        write(older)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_second_outcome_of_one_group_is_seen(folder: Path) -> None:
    journal = write_life(folder)
    journal.end({"0": Outcome(DEAD, "once more")})
    journal.append(1, [GROUP_A, GROUP_A], [[0.5, None]] * 2, weights="w")
    assert journal.ledger.twice == ["0", "0", "0"]
    assert read_ledger(folder).twice == ["0", "0", "0"]


def test_a_damaged_ledger_that_a_later_life_has_read_is_an_error(folder: Path) -> None:
    write_life(folder).close()
    write_life(folder, 2, step=1, ids=("2", "3")).close()
    path = folder / "ledger-000001.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match=r"ledger-000001\.log: record 4 is damaged or gone"):
        read_ledger(folder)
    path.unlink()
    with pytest.raises(JournalError, match="record 0 is damaged or gone"):
        read_ledger(folder)


@pytest.mark.parametrize(("harm", "message"), [
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "payload of step 0 is damaged"),
    (lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]), "payload of step 0 is damaged"),
    (lambda path: path.unlink(), "payload of step 0 is gone"),
], ids=["cut", "changed", "gone"])
def test_a_payload_that_is_not_what_was_written_is_never_handed_out(folder: Path, harm: object, message: str) -> None:
    assert callable(harm)
    write_life(folder).close()
    harm(folder / "payload-000001-000.bin")
    with pytest.raises(JournalError, match=message):
        read_step(folder, read_ledger(folder).steps[0])


# ---------------------------------------------------------------------------------------------------------- a full disk

@contextlib.contextmanager
def file_size_limit() -> Iterator[None]:
    """No file of this process may grow beyond 4 KiB: the kernel then takes a part and refuses the rest, as a disk that
    fills up does. For no longer than the writing takes: pytest's own output may be such a file."""
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_step_that_the_disk_has_no_room_for_does_not_stand(folder: Path) -> None:
    journal = write_life(folder)
    steps = 1

    def fill_the_disk() -> None:
        nonlocal steps
        while True:
            journal.append(steps, [GROUP_A], [[0.5, None]], weights="w")
            steps += 1
    with file_size_limit(), pytest.raises(RunFailed, match=r"can't be written .*Nothing of this step was acknowledged"):
        fill_the_disk()
    ledger = read_ledger(folder)
    assert steps > 2
    assert [record["step"] for record in ledger.steps] == list(range(steps))
    assert ledger.steps == journal.ledger.steps
    for record in ledger.steps:
        read_step(folder, record)                   # each is whole


def test_an_outcome_that_the_disk_has_no_room_for_does_not_stand(folder: Path) -> None:
    journal = open_life(folder)
    ends = 0

    def fill_the_disk() -> None:
        nonlocal ends
        while True:
            journal.end({str(ends): Outcome(DROPPED, "a reason of some length, as a scorer gives it")})
            ends += 1
    with file_size_limit(), pytest.raises(RunFailed, match="can't be written"):
        fill_the_disk()
    assert not journal.has(str(ends))
    assert len(read_ledger(folder).outcomes) == ends > 2


@pytest.mark.parametrize("file", ["_payloads._stream", "_log"])
def test_a_full_disk_is_named_as_the_reason(folder: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write_life(folder)
    holder, name = (journal._payloads, "_stream") if "." in file else (journal, file)
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(holder, name, full)
        with pytest.raises(RunFailed, match="No space left on device"):
            journal.append(1, [make_scored(make_prompt("2"), [1.0, 0.0])], [[0.5, -0.5]], weights="w")
    assert not journal.has("2")


def test_reading_the_journal_needs_no_torch(folder: Path) -> None:
    write_life(folder).close()
    probe = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from learner.ledger import read_ledger, read_step
        folder = Path({str(folder)!r})
        read_step(folder, read_ledger(folder).steps[0])
        assert not {{"torch", "transformers", "deepspeed", "datasets"}} & set(sys.modules)
    """)
    subprocess.run([sys.executable, "-c", probe], cwd=ROOT, check=True)
