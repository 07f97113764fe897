"""That the audit can fail, and on what: each kind of loss and damage is made by hand, and must be found and named."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.group_ids import retried
from broker.protocol.run_owner import NewGroup
from config.loading import to_yaml
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome, Ledger, read_ledger
from learner.journal.records import FRAME, Whole, scan
from learner.journal.writer import Journal
from learner.training.checkpoint import MANIFEST
from tests.support.chain import Chain, make_prompt
from tests.support.journals import flip
from tests.support.laid_out import lay_out, look, train
from tests.support.told import Patch
from tools.audit import command as audit_module
from tools.audit.command import as_text
from tools.audit.notes import NAME, read_notes, write_note
from tools.audit.payloads import CHUNK_BYTES, Payloads, check_payloads, covered_by_checkpoints
from tools.audit.sums import Audit, Evaluation


def ledger_of(chain: Chain) -> Path:
    return chain.journal.folder / f"ledger-{chain.journal.fence:06d}.log"


def record_of(path: Path, kind: str, **values: object) -> Whole:
    wanted = {"kind": kind, **values}.items()
    return next(one for one in scan(path) if isinstance(one, Whole) and wanted <= one.record.items())


def cut(path: Path, start: int, end: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:start] + data[end:])


def train_7(chain: Chain) -> Any:
    """Lay groups out and train on one more; return that step's record."""
    lay_out(chain)
    train(chain.journal, 1, "7")
    return record_of(ledger_of(chain), "step", step=1)


def payloads_of(chain: Chain) -> Payloads:
    found = look(chain).payloads
    assert found is not None
    return found


def begin_anew(chain: Chain, group_id: str, issued: int) -> None:
    """The learner's part of a first retry, but for the ledger's record."""
    group = NewGroup(retried(group_id, 1), codec.encode_prompt(make_prompt(f"{group_id}-r1")))
    chain.run_owner.issue(issued, issued, 1000, 0, [group])


def test_a_record_taken_out_of_the_middle_is_named_and_its_group_is_lost(chain: Chain) -> None:
    lay_out(chain)
    found = record_of(ledger_of(chain), "end", id="2")
    cut(ledger_of(chain), found.start, found.end)
    result = look(chain)
    assert (result.lost, result.lost_ids, result.twice, result.is_clean) == (1, ("2",), 0, False)
    (problem,) = result.problems
    assert str(ledger_of(chain)) in problem
    assert f"record {found.record['n']} is missing" in problem
    assert as_text("test", result).endswith("NOT CLEAN: groups are lost, the ledger is damaged\n")


def test_the_last_record_taken_away_leaves_no_gap_and_its_group_is_lost_all_the_same(chain: Chain) -> None:
    found = train_7(chain)
    chain.run_owner.retire(["7"])
    os.truncate(ledger_of(chain), found.start)
    result = look(chain)
    assert (result.lost, result.lost_ids, result.problems) == (1, ("7",), ())


def test_the_last_record_taken_away_is_found_where_it_was_that_of_a_retry(chain: Chain) -> None:
    lay_out(chain)
    chain.journal.retry("3", 1)
    begin_anew(chain, "3", issued=9)
    assert look(chain).problems == ()
    os.truncate(ledger_of(chain), record_of(ledger_of(chain), "retry", id="3").start)
    result = look(chain)
    assert (result.lost, result.is_clean, len(result.problems)) == (0, False, 1)
    assert result.problems[0].startswith("retry 1 of group 3 was issued, and the ledger knows of 0")


@pytest.mark.parametrize(
    ("status", "version", "is_clean"), [("finished", 0, False), ("finished", 1, False), ("stopped", 0, True)]
)
def test_the_last_record_taken_away_is_named_where_it_was_that_of_an_evaluation(
    status: str, version: int, is_clean: bool, chain: Chain
) -> None:
    run = chain.run.model_copy(update={"evaluation": chain.run.evaluation.model_copy(update={"every": 10})})
    fence, config = chain.run_owner.fence, {"config": to_yaml(run)}
    journal = Journal(chain.run.folder / "other" / "journal", fence, run=run.name, facts=config)

    def found() -> Audit:
        return audit_module.audit(chain.link, chain.keys, journal.folder)

    chain.issue(1)
    train(journal, 0, "0")
    chain.run_owner.retire(["0"])
    for other in {0, 1} - {version}:
        journal.evaluation(other, {"ids": [f"eval-{other}-0"]})
    path = journal.folder / f"ledger-{fence:06d}.log"
    end = path.stat().st_size
    journal.evaluation(version, {"ids": [f"eval-{version}-0"]})
    (journal.folder.parent / "status.json").write_text(json.dumps({"status": status}))
    assert found().is_clean
    os.truncate(path, end)
    result = found()
    assert result.is_clean is is_clean
    said = result.remarks if is_clean else result.problems
    assert [f"evaluation of version {version}" in line for line in said] == [True]
    cut(path, 0, record_of(path, "step").start)  # the life's first record, and how it was configured
    assert not found().is_clean


def test_a_copied_record_makes_its_group_twice(chain: Chain) -> None:
    lay_out(chain)
    path = ledger_of(chain)
    found = record_of(path, "end", id="3")
    with path.open("ab") as stream:
        stream.write(path.read_bytes()[found.start : found.end])
    result = look(chain)
    assert (result.twice, result.twice_ids, result.lost, result.is_clean) == (1, ("3",), 0, False)


def test_a_flipped_byte_of_a_record_is_named_with_its_file(chain: Chain) -> None:
    lay_out(chain)
    path = ledger_of(chain)
    found = record_of(path, "end", id="2")
    flip(path, found.start + FRAME.size + 3)
    result = look(chain)
    assert (result.lost_ids, result.is_clean) == (("2",), False)
    assert f"{path}: record {found.record['n']}" in result.problems[0]


def test_a_flipped_byte_of_a_payload_is_named_by_its_step_unless_asked_not_to_look(chain: Chain) -> None:
    record = train_7(chain).record
    path = chain.journal.folder / record["file"]
    flip(path, record["offset"] + record["length"] // 2)
    result, payloads = look(chain), payloads_of(chain)
    damaged = f"step 2: its payload in {path.name} is damaged"
    assert (payloads.whole, payloads.damaged) == (1, (damaged,))
    assert (result.lost, result.twice, result.is_clean) == (0, 0, False)
    assert as_text("test", result).endswith("NOT CLEAN: payloads are damaged\n")
    assert look(chain, is_quick=True).is_clean


def save_checkpoint(checkpoints: Path, version: int) -> Path:
    folder = checkpoints / f"step-{version:06d}"
    folder.mkdir(parents=True)
    (folder / "part").write_bytes(b"weights")
    (folder / MANIFEST).write_text(json.dumps({"files": {"part": {"size": 7, "sha256": "?"}}}))
    return folder


def test_a_payload_that_the_kept_checkpoints_cover_may_be_gone_and_another_one_may_not(chain: Chain) -> None:
    train_7(chain)
    (chain.journal.folder / chain.journal.ledger.steps[0]["file"]).unlink()
    checkpoints = chain.run.folder / "checkpoints"
    gone = f"{chain.journal.ledger.steps[1]['file']} is gone, and no checkpoint covers that step"

    def needed() -> tuple[int, list[str]]:
        payloads = payloads_of(chain)
        assert (payloads.whole, [line for line in payloads.damaged if gone not in line]) == (0, [])
        return payloads.removed, [line.split(":")[0] for line in payloads.damaged]

    assert needed() == (0, ["step 1", "step 2"])
    save_checkpoint(checkpoints, 1)
    assert needed() == (0, ["step 1", "step 2"]), "where it is broken, recovery begins with the run"
    newer = save_checkpoint(checkpoints, 2)
    assert needed() == (1, ["step 2"])
    (newer / "part").write_bytes(b"cut")
    assert needed() == (0, ["step 1", "step 2"]), "one that is cut counts for none"


def test_a_lone_checkpoint_covers_where_a_life_kept_but_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 4)
    one, two = (f"learner: {{checkpoint: {{keep: {keep}}}}}" for keep in (1, 2))
    for lives, covered in (([one], 4), ([one, two], 4), ([two, one], 4), ([two], 0), ([None], 0), ([], 0)):
        begun: list[Any] = [{"fence": fence, "config": config} for fence, config in enumerate(lives, 1)]
        ledger = Ledger(incarnations=begun)
        assert covered_by_checkpoints(tmp_path, ledger) == covered, lives


def test_a_payload_longer_than_a_read_is_checked_whole_and_a_short_file_is_damage(tmp_path: Path) -> None:
    data = os.urandom(CHUNK_BYTES + 5)
    (tmp_path / "p").write_bytes(b"before" + data)
    record = {"step": 3, "file": "p", "offset": 6, "length": len(data), "crc32": zlib.crc32(data)}
    assert check_payloads(tmp_path, [record], covered=lambda: 0).whole == 1
    os.truncate(tmp_path / "p", len(data))
    (damage,) = check_payloads(tmp_path, [record], covered=lambda: 0).damaged
    assert damage == "step 4: its payload in p is damaged"


NOT_PROVED = "\nnot proved: this Redis knows nothing of run test\n"


def test_an_emptied_redis_is_told_from_a_loss(chain: Chain) -> None:
    lay_out(chain)
    chain.client.flushall()
    result = look(chain)
    assert (result.issued, result.ahead, result.trained, result.lost, result.is_empty) == (0, 4, 2, 0, True)
    said = "rebuilds cursor and slots from the ledger, and issues again what had none: what came after 3"
    assert said in result.remarks[0]
    assert not result.is_clean
    assert as_text("test", result).endswith(NOT_PROVED)


def test_a_redis_that_never_knew_the_run_proves_nothing_and_a_run_that_just_began_does(chain: Chain) -> None:
    result = look(chain)
    assert (result.issued, result.is_empty, result.is_clean) == (0, False, True)
    chain.client.flushall()
    result = look(chain)
    assert (result.issued, result.lost, result.is_empty, result.is_clean) == (0, 0, True, False)
    assert as_text("test", result).endswith(NOT_PROVED)


def test_outcomes_that_the_cursor_does_not_name_are_no_loss_and_are_said(chain: Chain) -> None:
    chain.issue(2)
    train(chain.journal, 0, "1")
    chain.run_owner.retire(["1"])
    chain.client.hset(chain.keys("cursor"), mapping={"position": 1, "issued": 1})  # as after a rewind
    result = look(chain)
    assert (result.issued, result.ahead, result.trained, result.in_flight, result.lost) == (1, 1, 1, 1, 0)
    assert result.remarks[0].startswith("the cursor does not name 1: Redis forgot its last writes")


def test_a_dead_group_that_was_begun_anew_is_one_more_issued(chain: Chain) -> None:
    chain.issue(2)
    dead, dropped = (
        GroupOutcome(DEAD, "deadline: 900 s", tokens=12),
        GroupOutcome(DROPPED, "config", tokens=5),
    )
    chain.journal.end({"0": dead, "1": dropped})
    chain.run_owner.retire(["0", "1"])
    chain.client.hset(chain.keys("retries"), "0", "1-0")
    chain.journal.retry("0", 1)
    assert (look(chain).asked_again, look(chain).retried) == (1, 0)
    chain.client.delete(chain.keys("retries"))
    assert look(chain).asked_again == 1
    begin_anew(chain, "0", issued=2)
    result = look(chain)
    assert (result.issued, result.dead, result.dropped, result.in_flight, result.lost) == (3, 1, 1, 1, 0)
    assert (result.retried, result.asked_again) == (1, 0)
    assert result.tokens_by_reason == {"deadline": 12, "config": 5}
    entry = chain.entry("0-r1")
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)
    assert look(chain).lost_ids == ("0-r1",)
    chain.client.zrem(chain.keys("slots"), "0-r1")
    assert look(chain).lost_ids == ("0-r1",)


def test_evaluation_is_counted_apart(chain: Chain) -> None:
    ids = chain.issue_eval(0, 3)
    chain.journal.evaluation(0, {"ids": ids, "dead": 1, "missing": 1})
    chain.run_owner.retire(ids)
    later = chain.issue_eval(1, 2)
    done = Evaluation(issued=5, recorded=3, dead=1, given_up=1, in_flight=2, missing=0)
    assert look(chain).evaluation == done
    entry = chain.entry(later[0])
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)
    result = look(chain)
    assert result.evaluation == replace(done, in_flight=1, missing=1)
    assert (result.issued, result.lost, result.foreign, result.is_clean) == (0, 0, 0, True)
    assert "3 recorded, 1 of them dead, 1 given up, 1 in flight, 1 in no stream" in as_text("test", result)


def test_groups_issued_and_trained_during_a_look_spoil_no_sum(chain: Chain, monkeypatch: Patch) -> None:
    lay_out(chain)

    def meanwhile(folder: Path, *, strict: bool) -> Ledger:
        chain.issue(1)  # "9", which the look has not seen
        train(chain.journal, 1, "7", "9")
        chain.run_owner.retire(["7", "9"])
        return read_ledger(folder, strict=strict)

    monkeypatch.setattr(audit_module, "read_ledger", meanwhile)
    result = look(chain)
    there = result.trained + result.dropped + result.dead + result.in_flight + result.lost
    assert result.issued + result.ahead == there == 9
    assert (result.trained, result.in_flight, result.is_clean, result.looks) == (3, 4, True, ())


def test_what_moved_back_during_a_look_is_found_by_the_next_one(chain: Chain, monkeypatch: Patch) -> None:
    lay_out(chain)
    entry = chain.entry("6")
    chain.client.xdel(chain.keys(entry.stream), entry.entry_id)

    def meanwhile(folder: Path, *, strict: bool) -> Ledger:
        chain.client.xadd(chain.keys("prompts"), {"group": "6"}, id="*")  # as a re-issue does
        monkeypatch.setattr(audit_module, "read_ledger", read_ledger)
        return read_ledger(folder, strict=strict)

    monkeypatch.setattr(audit_module, "read_ledger", meanwhile)
    result = look(chain)
    assert (result.lost, result.in_flight, result.is_clean) == (0, 5, True)
    assert [one.lost for one in result.looks] == [1, 0]
    assert "looks: lost 1, twice 0; lost 0, twice 0" in as_text("test", result)


def test_a_note_is_shown_and_counts_nothing(chain: Chain) -> None:
    lay_out(chain)
    folder = chain.journal.folder
    (folder / NAME).write_text('{"note": "torn')
    write_note(folder, "purge", count=2)
    assert [note["count"] for note in read_notes(folder)] == [2]
    result = look(chain)
    assert (result.dead, result.is_clean) == (1, True)
    assert f"purge by {result.notes[0]['by']}" in as_text("test", result)


def test_turns_that_no_group_plays_are_named_and_the_run_is_not_clean(chain: Chain) -> None:
    train_7(chain)
    assert look(chain).is_clean
    chain.client.hset(chain.keys.turns("7"), "attempt", "a")
    found = look(chain)
    assert (found.leftovers, found.is_clean) == (("turns of group 7, which is not in episodes",), False)
    assert as_text("test", found).endswith("NOT CLEAN: turns or calls of episodes are left over\n")
