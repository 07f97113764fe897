"""Writing the ledger of the whole run: what stands, what does not, how long payloads stay, and what a power cut can't take."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgpack
import numpy as np
import pytest
from msgspec.structs import replace

from broker.codec import pack
from broker.errors import Fenced, RunFailed
from broker.messages import ScoredGroup
from config.learner.journal import JournalConfig
from learner.journal.disk import write_all
from learner.journal.ledger import (
    DEAD,
    DROPPED,
    GroupOutcome,
    JournalError,
    PayloadGone,
    read_ledger,
    read_step,
)
from learner.journal.payloads import MIB, payload_files
from learner.journal.retention import removable
from learner.journal.writer import Journal
from learner.training.checkpoint import Checkpoints, Progress
from tests.support.chain import FilePolicy, make_prompt, make_run, make_scored
from tests.support.journals import Lives, flip, groups, lives, records, silent

__all__ = ["lives"]

ADVANTAGES: list[list[float | None]] = [[0.5, -0.5]]


def append(journal: Journal, step: int, *trained: ScoredGroup) -> None:
    """A step of one group, or of these."""
    chosen = trained or groups(str(step))
    journal.append(step, chosen, ADVANTAGES * len(chosen))


def name_of(descriptor: int) -> str:
    """Return the file that is open there."""
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_step_reads_back_as_it_was_given_without_its_text(lives: Lives) -> None:
    journal = lives.open()
    given = [make_scored(make_prompt(group_id), [1.0, None]) for group_id in "12"]
    advantages: list[list[float | None]] = [[0.5, None], [-0.25, None]]
    append(journal, 0)  # so that the second payload begins further on
    journal.append(1, given, advantages)
    read, read_advantages = read_step(lives.folder, read_ledger(lives.folder).steps[1])
    assert list(map(pack, read)) == [pack(silent(group)) for group in given]
    assert read_advantages == advantages
    assert {said.text for group in read for said in group.rollout.completions} == {""}


def test_a_payload_is_a_map_and_two_arrays(lives: Lives) -> None:
    """Its bytes, read by hand: what another program would have to do."""
    lives.write()
    payload = lives.payload_file().read_bytes()
    end = 4 + int.from_bytes(payload[:4], "little")
    tree = msgpack.unpackb(payload[4:end])
    assert (tree["schema"], tree["step"], tree["advantages"]) == (4, 0, [[0.5, -0.5], [0.5, -0.5]])
    lengths = {"prompt_ids": 0, "token_ids": 2, "logprobs": 2}  # of arrays
    completion = {
        "segments": [{**lengths, "spans": [[0, 0, 2]], "loss_mask": [2]}],
        "finish_reason": "stop",
        "text": "",
    }
    rollouts = [msgpack.unpackb(group)["rollout"] for group in tree["groups"]]
    assert [rollout["completions"] for rollout in rollouts] == [[completion, completion]] * 2
    assert tree["ids_bytes"] == 4 * 2 * (2 + 2 + 2)  # of two groups, two completions and a prompt
    assert np.frombuffer(payload[end : end + tree["ids_bytes"]], "<i4").tolist() == [1, 2, 7, 9, 7, 9] * 2
    assert np.frombuffer(payload[end + tree["ids_bytes"] :], "<f4").tolist() == [-0.5, -0.25] * 4


def test_the_ledger_in_memory_is_the_one_on_disk_and_sees_a_second_outcome(lives: Lives) -> None:
    journal = lives.write()
    journal.retry("0-dead", 1)
    on_disk = read_ledger(lives.folder)
    for name in ("outcomes", "twice", "steps", "evaluations", "retries", "incarnations"):
        assert getattr(journal.ledger, name) == getattr(on_disk, name), name
    journal.end({"0": GroupOutcome(DEAD, "once more")})
    append(journal, 1, *groups("0", "0"))
    assert journal.ledger.twice == read_ledger(lives.folder, strict=False).twice == ["0", "0", "0"]


def test_what_an_older_life_writes_behind_the_beginning_of_a_newer_one_is_void(lives: Lives) -> None:
    first = lives.write()
    assert lives.write(2, step=1, ids=("2", "3")).has("0")  # what the first life wrote is known
    first._write([{"kind": "end", "id": "4", "outcome": DEAD, "reason": "too late", "tokens": 0}])  # it slept
    ledger = read_ledger(lives.folder)
    assert ([step["step"] for step in ledger.steps], ledger.fence) == ([0, 1], 2)
    assert set(ledger.outcomes) == {"0", "1", "2", "3", "0-dropped", "0-dead", "1-dropped", "1-dead"}


def test_nothing_of_an_older_life_is_ever_changed_and_two_of_one_fence_are_refused(lives: Lives) -> None:
    lives.write().close()
    with lives.ledger_file().open("ab") as stream:
        stream.write(b"torn")
    before = contents(lives.folder)
    lives.write(2, step=1, ids=("2", "3"))
    assert contents(lives.folder).items() >= before.items()
    with pytest.raises(RunFailed, match=r"ledger-000001\.log is another incarnation's"):
        lives.open()
    flip(lives.ledger_file(), 10)
    with pytest.raises(JournalError, match=r"ledger-000001\.log: record 0"):
        lives.open(3)  # which a damaged ledger stops


Write = Callable[[Journal], None]
WRITES: dict[str, Write] = {
    "append": lambda journal: append(journal, 1),
    "end": lambda journal: journal.end({"9": GroupOutcome(DROPPED, "r")}),
    "evaluation": lambda journal: journal.evaluation(1, {}),
    "retry": lambda journal: journal.retry("0-dead", 1),
    "retain": lambda journal: journal.retain(1),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_newer_life_is_noticed_before_anything_is_written(lives: Lives, write: Write) -> None:
    older = lives.write()
    lives.open(2)
    before = contents(lives.folder)
    with pytest.raises(Fenced, match=r"fence 2.*from fence 1"):
        write(older)
    assert contents(lives.folder) == before


@pytest.mark.parametrize("what", ["end", "evaluation"])
def test_a_write_beside_a_new_life_is_void(lives: Lives, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands behind the end that the newer one has read, and is void: to retire its groups would lose them."""
    older = lives.write()
    real = os.fsync

    def begin_a_life(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        lives.open(2)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", begin_a_life)
    with pytest.raises(Fenced, match=r"fence 2.*from fence 1"):
        WRITES[what](older)


@pytest.mark.parametrize("step", [0, 2])
def test_a_step_out_of_order_is_refused(lives: Lives, step: int) -> None:
    journal = lives.write()
    before = contents(lives.folder)
    with pytest.raises(ValueError, match=f"a step from version {step} can't follow step 1"):
        append(journal, step)
    assert contents(lives.folder) == before


def test_a_payload_is_on_the_disk_before_its_record(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = lives.open()
    said: list[str] = []
    fsync = os.fsync

    def write(stream: BinaryIO, data: bytes) -> None:
        said.append(f"write {Path(stream.name).name}")
        write_all(stream, data)

    def sync(descriptor: int) -> None:
        said.append(f"sync {name_of(descriptor)}")
        fsync(descriptor)

    for module in ("learner.journal.payloads", "learner.journal.writer"):
        monkeypatch.setattr(f"{module}.write_all", write)
    monkeypatch.setattr(os, "fsync", sync)
    append(journal, 0)
    journal.end({str(number): GroupOutcome(DROPPED, "r") for number in range(1, 4)})
    segment, ledger = lives.payload_file().name, lives.ledger_file().name
    one_write_each = [f"write {ledger}", f"sync {ledger}"]  # of the step, and of three ends
    assert said == ["sync journal", f"write {segment}", f"sync {segment}", *one_write_each * 2]
    said.clear()
    newer = lives.open(2).folder / "ledger-000002.log"
    before = [
        "sync journal",
        f"sync {ledger}",
        f"sync {segment}",
    ]  # what the life before wrote counts from here on
    assert said == [*before, f"write {newer.name}", f"sync {newer.name}"]


# ---------------------------------------------------------------------------------------------------------- segments


def big(step: int) -> ScoredGroup:
    """Return a group whose payload is 600 kB: two do not fit into one segment of 1 MiB."""
    group = groups(str(step))[0]
    return replace(group, scores=(replace(group.scores[0], reason="x" * 600_000), group.scores[1]))


def test_a_payload_file_ends_before_the_step_that_would_not_fit(lives: Lives) -> None:
    journal = lives.open(config=JournalConfig(segment_mb=1))
    append(journal, 0, *groups("0"))
    for step in (1, 2):
        append(journal, step, big(step))
    append(journal, 3, *[big(3)] * 3)  # larger than a segment: one of its own
    append(journal, 4)
    ledger = read_ledger(lives.folder)
    assert [record["file"][-7:-4] for record in ledger.steps] == ["000", "000", "001", "002", "003"]
    assert [record["offset"] for record in ledger.steps] == [0, ledger.steps[0]["length"], 0, 0, 0]
    assert [len(read_step(lives.folder, record)[0]) for record in ledger.steps] == [1, 1, 1, 3, 1]
    sizes = [payload_file.path.stat().st_size for payload_file in payload_files(lives.folder)]
    assert [size > MIB for size in sizes] == [False, False, True, False]


DAY = 86_400.0
SINCE = {"keep": "since_checkpoint"}


@pytest.mark.parametrize(
    ("config", "covered", "stay"),
    [
        ({}, 4, [0, 1, 2, 3, 4]),
        (SINCE, 0, [0, 1, 2, 3, 4]),
        (SINCE, 2, [2, 3, 4]),
        (SINCE, 9, [4]),  # what is being written stays
        ({**SINCE, "keep_days": 1.5}, 9, [3, 4]),  # step k is 4 - k days old
        ({**SINCE, "keep_mb": 2}, 9, [2, 3, 4]),  # of 0.6 MB each
        ({**SINCE, "keep_mb": 2, "keep_days": 3.5}, 9, [1, 2, 3, 4]),  # each holds what it holds
        ({"keep_days": 1.5}, 9, [3, 4]),
        ({"keep_days": 1.5}, 1, [1, 2, 3, 4]),  # recovery needs the others, however old
        ({"keep_mb": 2}, 9, [2, 3, 4]),
        ({"keep_mb": 2, "keep_days": 1.5}, 9, [3, 4]),  # each lets go of what it lets go of
        ({"keep_mb": 1}, 2, [2, 3, 4]),
    ],
)
def test_retention_removes_what_the_settings_let_go_of_and_recovery_does_not_need(
    lives: Lives, caplog: pytest.LogCaptureFixture, config: dict[str, Any], covered: int, stay: list[int]
) -> None:
    caplog.set_level(logging.INFO)
    journal = lives.open(config=JournalConfig(segment_mb=1, **config))
    for step in range(5):
        append(journal, step, big(step))
        at = time.time() - (4 - step) * DAY
        os.utime(lives.payload_file(number=step), (at, at))
    journal.retain(covered)
    ledger = read_ledger(lives.folder)
    assert [record["step"] for record in ledger.steps] == list(range(5))  # no record is ever removed
    there = []
    for record in ledger.steps:
        with contextlib.suppress(PayloadGone):
            read_step(lives.folder, record)
            there.append(record["step"])
    assert there == stay
    assert caplog.text.count("payload_removed") == 5 - len(stay)
    assert ("payload-000001-000.bin steps=1-1 mb=0.6" in caplog.text) == (0 not in stay)


def test_retention_keeps_a_file_for_the_one_step_in_it_that_recovery_needs(lives: Lives) -> None:
    first = lives.open()
    for step in (0, 1):
        append(first, step)
    unnamed = lives.payload_file(1, 7)  # an older life's, killed between payload and record
    unnamed.write_bytes(b"a payload without a record")
    second = lives.open(2, config=JournalConfig(keep="since_checkpoint"))
    append(second, 2)
    second.retain(1)
    assert (lives.payload_file(1).exists(), unnamed.exists()) == (True, False)
    second.retain(2)
    assert not lives.payload_file(1).exists()
    assert lives.payload_file(2).exists()
    assert lives.open(3).has("0")


def test_a_payload_that_cant_be_removed_stays_and_is_named(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append(lives.open(), 0)
    second = lives.open(2, config=JournalConfig(keep="since_checkpoint"))

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    second.retain(1)
    assert f"payload_not_removed file={lives.payload_file(1)} reason=Operation not permitted" in caplog.text


def test_an_hour_that_the_clock_jumps_is_no_age(lives: Lives) -> None:
    append(lives.open(), 0)
    there, ledger = payload_files(lives.folder), read_ledger(lives.folder)
    written, config = there[0].path.stat().st_mtime, JournalConfig(keep_days=1)
    for hours, found in ((-1, []), (1, []), (25, there)):
        now = written + 3600 * hours
        assert removable(there, ledger, config, covered=1, now=now, writing=None) == found


# ------------------------------------------------------------------------------------------------------- a full disk


@contextlib.contextmanager
def file_size_limit() -> Iterator[None]:
    """No file of this process may grow beyond 4 KiB: the kernel then takes a part and refuses the rest, as a disk that
    fills up does. For no longer than the writing takes: pytest's own output may be such a file."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def fill_the_disk(write: Callable[[int], None], *, match: str) -> int:
    """Write until the disk refuses; returns which time that was, counted from 0."""
    written = 0
    with file_size_limit(), pytest.raises(RunFailed, match=match):  # noqa: PT012
        while True:
            write(written)
            written += 1
    return written


def test_a_step_that_the_disk_has_no_room_for_does_not_stand(lives: Lives) -> None:
    journal = lives.open()
    told = r"can't be written .*Nothing of this step was acknowledged"
    steps = fill_the_disk(lambda step: append(journal, step), match=told)
    ledger = read_ledger(lives.folder)
    assert [record["step"] for record in ledger.steps] == list(range(steps))
    assert steps > 2
    assert ledger.steps == journal.ledger.steps
    for record in ledger.steps:
        read_step(lives.folder, record)  # each is whole


def test_after_a_write_that_failed_nothing_is_written_though_there_is_room_again(lives: Lives) -> None:
    journal = lives.open()
    why = GroupOutcome(DROPPED, "a reason of some length, as a scorer gives it")
    ends = fill_the_disk(lambda number: journal.end({str(number): why}), match="can't be written")
    assert not journal.has(str(ends))
    torn = contents(lives.folder)
    for what in ("append", "end", "evaluation", "retry"):
        with pytest.raises(RunFailed, match=r"File too large.*nothing is written after it"):
            WRITES[what](journal)
    assert contents(lives.folder) == torn
    assert records(lives.ledger_file())[-1].end < lives.ledger_file().stat().st_size == 4096  # a torn record
    assert len(read_ledger(lives.folder).outcomes) == ends > 2  # and no damage in the middle
    assert not lives.open(2).has(str(ends))


@pytest.mark.parametrize("stream", ["_payloads._stream", "_log"])
def test_a_full_disk_is_the_reason(lives: Lives, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = lives.write()
    *where, name = stream.split(".")
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(getattr(journal, where[0]) if where else journal, name, full)
        with pytest.raises(RunFailed, match="No space left on device"):
            append(journal, 1, *groups("2"))
    assert not journal.has("2")
    assert "2" not in read_ledger(lives.folder).outcomes


@pytest.mark.parametrize("failing", ["payload-000001-000.bin", "ledger-000001.log"])
def test_a_broken_disk_ends_the_life(lives: Lives, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, fsync = lives.open(), os.fsync

    def broken(descriptor: int) -> None:
        if name_of(descriptor) == failing:
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    for told in ("Input/output error", "nothing is written after it"):
        with pytest.raises(RunFailed, match=told):
            append(journal, 0)
        assert not journal.has("0")
        monkeypatch.undo()
    # Its record is whole in the file or was never written: the next incarnation takes it for what it is.
    assert lives.open(2).has("0") == (failing == "ledger-000001.log")


@pytest.mark.parametrize(("made", "refused"), [(True, "open"), (False, "mkdir")])
def test_read_only_is_named(lives: Lives, made: bool, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if made:
        lives.folder.mkdir()
    original = getattr(Path, refused)

    def refuse(path: Path, *args: object, **options: object) -> object:
        if path.is_relative_to(lives.folder):
            raise OSError(30, "Read-only file system", str(path))
        return original(path, *args, **options)

    monkeypatch.setattr(Path, refused, refuse)
    with pytest.raises(RunFailed, match=r"ledger-000001\.log can't be created: Read-only file system"):
        lives.open()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files and folders that were put on the disk, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    return found


@pytest.mark.parametrize(
    "made_before", [False, True], ids=["all are new", "somebody has just made the run's"]
)
def test_the_names_of_a_new_journals_folders_are_on_the_disk_before_its_first_record(
    tmp_path: Path, synced: list[Path], *, made_before: bool
) -> None:
    folder = tmp_path.resolve() / "runs" / "demo" / "journal"
    if made_before:
        folder.parent.mkdir(parents=True)
    Journal(folder, 1, run="demo").close()
    names = [folder.parent, folder.parent.parent, tmp_path.resolve()]  # what holds journal, demo and runs
    assert synced[:3] == names
    assert synced[-2:] == [folder, folder / "ledger-000001.log"]
    synced.clear()
    Journal(folder, 2, run="demo").close()
    assert not set(names) & set(synced), "a later life finds them there"


def test_the_checkpoints_folder_is_on_the_disk_with_the_first(tmp_path: Path, synced: list[Path]) -> None:
    checkpoints = Checkpoints(make_run(tmp_path))
    checkpoints.save(FilePolicy(), Progress(version=2, first_row=4, fingerprint="f"))
    folder = checkpoints.folder.resolve()
    assert {folder, folder.parent, folder.parent.parent} <= set(synced)
    assert synced[-1] == folder, "the checkpoint's own name comes last"


def test_what_may_not_be_listed_is_nobodys_to_put_on_the_disk(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the folder that holds all users' homes often is; root may list any, hence the pretence."""
    home = tmp_path.resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != home)
    Journal(home / "demo" / "journal", 1, run="demo").close()
    assert home / "demo" in synced
    assert not {home, *home.parents} & set(synced)
