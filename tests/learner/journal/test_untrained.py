"""Dropped and held-out groups are kept for people, in files that nothing depends on."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from broker.messages import Completion, FinishReason, ScoredGroup, Span
from config.learner.journal import JournalConfig
from learner.journal.ledger import DROPPED, GroupOutcome, JournalError, read_ledger
from learner.journal.untrained import EVALUATED, Untrained, UntrainedWriter, read_untrained, untrained_files
from learner.journal.writer import Journal
from tests.support.chain import make_prompt, make_scored
from tests.support.journals import Lives, flip, lives
from tests.support.tiny import group

__all__ = ["lives"]  # a fixture

ROOMY = JournalConfig(untrained_mb=64)


def drop(journal: Journal, *ids: str, reason: str = "zero_variance") -> None:
    flat = {group_id: make_scored(make_prompt(group_id), [1.0, 1.0]) for group_id in ids}
    journal.end({group_id: GroupOutcome(DROPPED, reason, group=made) for group_id, made in flat.items()})


def kept(folder: Path) -> list[tuple[str, int, str, str]]:
    """Return kind, step, reason and id of all that is kept and whole."""
    found = read_untrained(folder, read_ledger(folder, strict=False))
    whole = [one for one in found if isinstance(one, Untrained)]
    return [(one.kind, one.step, one.reason, one.group.group_id) for one in whole]


def test_what_ended_is_read_back_with_its_kind_step_and_reason(lives: Lives) -> None:
    journal = lives.open(1, config=ROOMY)
    drop(journal, "1", "2")
    trained = [make_scored(make_prompt("3"), [1.0, 0.0])]
    journal.append(0, trained, [[0.5, -0.5]])
    drop(journal, "4", reason="late")
    held_out = [make_scored(make_prompt(f"eval-1-{index}"), [1.0, None]) for index in (0, 1)]
    journal.evaluation(1, {"ids": ["eval-1-0", "eval-1-1"]}, held_out)
    journal.close()
    assert kept(lives.folder) == [
        ("dropped", 1, "zero_variance", "1"),
        ("dropped", 1, "zero_variance", "2"),
        ("dropped", 2, "late", "4"),
        ("evaluated", 1, "", "eval-1-0"),
        ("evaluated", 1, "", "eval-1-1"),
    ]
    *_, last = read_untrained(lives.folder, read_ledger(lives.folder))
    assert isinstance(last, Untrained)
    first, _ = last.group.rollout.completions
    assert (first.text, first.segments[0].token_ids.tolist(), last.group.rewards) == ("", [7, 9], (1.0, None))


def test_what_the_ledger_does_not_know_as_dropped_is_passed_over_and_nothing_is_twice(lives: Lives) -> None:
    journal = lives.open(1, config=ROOMY)
    writer = UntrainedWriter(lives.folder, 2, keep_mb=64)  # an incarnation that was killed before its records
    later = [make_scored(make_prompt(group_id), [1.0, 0.0]) for group_id in ("1", "2", "3")]
    writer.write(DROPPED, 0, later, ["late"] * 3)
    writer.write(EVALUATED, 5, [make_scored(make_prompt("eval-5-0"), [1.0, 1.0])], [""])
    writer.close()
    journal.append(0, [later[0]], [[0.5, -0.5]])  # "1" trained, and "2" was dropped again
    drop(journal, "2")
    journal.close()
    assert kept(lives.folder) == [("dropped", 2, "zero_variance", "2")]  # "3" and the round have no outcome


def test_a_disk_that_refuses_costs_what_is_kept_and_not_the_outcome(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = lives.open(1, config=JournalConfig(untrained_mb=0))
    drop(journal, "0")
    journal.close()
    assert untrained_files(lives.folder) == [], "where nothing is to be kept"
    journal = lives.open(2, config=ROOMY)

    def refuse(stream: object, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("learner.journal.untrained.write_all", refuse)
    with caplog.at_level(logging.WARNING):
        drop(journal, "1")
        drop(journal, "2")
    told = f"untrained_not_kept folder={lives.folder} reason=No space left on device"
    assert caplog.messages == [told]
    assert {"0", "1", "2"} <= set(read_ledger(lives.folder).outcomes)


def big(group_id: str, tokens: int = 15_000) -> ScoredGroup:
    completion = Completion.of_one_segment(
        token_ids=np.zeros(tokens, np.int32),
        logprobs=np.zeros(tokens, np.float32),
        text="",
        policy_spans=(Span(version=0, first=0, count=tokens),),
        finish_reason=FinishReason.STOP,
    )
    made = group([9], [completion], [1.0])
    return replace(made, rollout=replace(made.rollout, prompt=make_prompt(group_id, n=1)))


def test_the_oldest_files_go_and_so_many_bytes_stay(lives: Lives) -> None:
    ids = [str(number) for number in range(30)]
    for fence in (1, 2):  # the second incarnation removes files of the first
        journal = lives.open(fence, config=JournalConfig(untrained_mb=1))
        for group_id in ids[15 * (fence - 1) : 15 * fence]:  # of 120 kB each
            journal.end({group_id: GroupOutcome(DROPPED, "late", group=big(group_id))})
        journal.close()
    sizes = [path.stat().st_size for path in untrained_files(lives.folder)]
    assert 0.6 * 2**20 < sum(sizes) <= 2**20
    found = [group_id for _, _, _, group_id in kept(lives.folder)]
    assert found == ids[-len(found) :]
    assert len(found) >= 5


def test_damage_costs_a_record_and_a_torn_end_nothing(lives: Lives) -> None:
    journal = lives.open(1, config=ROOMY)
    drop(journal, "1")
    first = untrained_files(lives.folder)[0].stat().st_size
    drop(journal, "2")
    drop(journal, "3")
    journal.close()
    [path] = untrained_files(lives.folder)
    path.write_bytes(path.read_bytes()[:-5])  # as a kill leaves it
    assert [group_id for _, _, _, group_id in kept(lives.folder)] == ["1", "2"]
    flip(path, first // 2)
    [error, *rest] = read_untrained(lives.folder, read_ledger(lives.folder))
    assert isinstance(error, JournalError)
    assert f"{path}: bytes 0 to {first} are damaged" in str(error)
    assert len(rest) == 1
