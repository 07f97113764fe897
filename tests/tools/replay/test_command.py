"""`millrace replay`: which steps it trains from where, what it says of each, and that it leaves the run as it was."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learner.journal.ledger import read_ledger
from learner.training.checkpoint import MANIFEST
from tests.support.chain import make_run
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tests.support.journals import flip
from tests.support.told import Capsys, Millrace
from tools.arguments import parse_steps
from tools.replay.command import Replay

pytestmark = pytest.mark.process

# One step fills a payload file of its own: retention removes whole files.
SETTINGS: dict[str, Any] = {"tokens_per_micro_batch": 48, "checkpoint": {"keep": 9}}


def make(folder: Path, *lives: int, checkpoints: tuple[int, ...] = (3,)) -> JournaledRun:
    """Return a run of lives of so many steps each."""
    made = JournaledRun(make_run(folder, learner=SETTINGS), HashPolicy())
    for steps in lives:
        made.live(steps, checkpoints=checkpoints)
    return made


Again = Callable[..., tuple[list[str], dict[str, int], HashPolicy]]


@pytest.fixture
def replay(capsys: Capsys) -> Again:
    """Train steps, with both ends, again: what is said, how many of each verdict, and the policy."""

    def again(
        made: JournaledRun, first: int, last: int, seed: str = "model"
    ) -> tuple[list[str], dict[str, int], HashPolicy]:
        policy: Any = HashPolicy(seed)
        scratch = made.run.runs_dir / "scratch"
        scratch.mkdir(exist_ok=True)
        done = Replay(made.run, policy, read_ledger(made.journal), scratch)
        done.run_steps(range(first, last + 1))
        return capsys.readouterr().out.splitlines(), done.counts, policy

    return again


def verdicts(lines: list[str]) -> list[str]:
    return [
        f"{found[1]} {found[2]}" for line in lines if (found := re.match(r"step (\d+): ([a-z ]+),", line))
    ]


def remove_payload(made: JournaledRun, step: int) -> None:
    (made.journal / read_ledger(made.journal).steps[step - 1]["file"]).unlink()


def test_every_step_is_trained_again_and_compared_with_the_record(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, 2, 2)
    lines, counts, policy = replay(made, 1, 6)
    assert re.match(r"version 0, from the beginning: ok, [0-9a-f]{12}$", lines[0])
    assert verdicts(lines[1:]) == [f"{step} ok" for step in range(1, 7)]  # the last one by the published file
    assert counts == {"ok": 6, "differs": 0, "not compared": 0, "missing": 0}
    assert policy.weights == made.policy.weights


def test_it_begins_with_the_newest_checkpoint_that_is_not_too_new(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, 2, 2, checkpoints=(1, 3, 5))
    lines, _, policy = replay(made, 5, 5)
    assert lines[0].startswith(f"version 4, from {made.run.folder / 'checkpoints/step-000003'}: ok")
    assert [version for version, _ in policy.steps] == [3, 4]
    assert verdicts(lines) == ["5 ok"]


def test_a_broken_checkpoint_is_passed_over(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, 2, 2)
    (made.run.folder / "checkpoints/step-000003" / MANIFEST).unlink()
    lines, counts, _ = replay(made, 4, 5)
    assert lines[0].startswith("version 3, from the beginning: ok")
    assert counts["ok"] == 2


def test_other_weights_differ_at_every_step(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, 2, 2, checkpoints=())
    lines, counts, _ = replay(made, 1, 3, seed="another machine")
    differs = r"version 0, from the beginning: differs, [0-9a-f]{12}, and the run had [0-9a-f]{12}$"
    assert re.match(differs, lines[0])
    assert verdicts(lines) == ["1 differs", "2 differs", "3 differs"]
    assert counts["differs"] == 3


def test_removed_payloads_are_named_and_it_goes_on_behind_them(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, *[1] * 6, checkpoints=(4,))
    remove_payload(made, 3)
    lines, counts, policy = replay(made, 2, 6)
    assert verdicts(lines) == ["2 ok", "3 missing", "4 missing", "5 ok", "6 ok"]
    assert "payload of step 3 is gone with its file" in lines[2]
    assert "step 3 can't be trained, and no checkpoint of a version from 3 to 3 is here" in lines[3]
    assert counts == {"ok": 3, "differs": 0, "not compared": 0, "missing": 2}
    assert policy.weights == made.policy.weights


def test_a_damaged_payload_is_named(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 3, checkpoints=())
    record = read_ledger(made.journal).steps[1]
    flip(made.journal / record["file"], record["offset"] + 50)
    lines, counts, _ = replay(made, 1, 3)
    assert verdicts(lines) == ["1 ok", "2 missing", "3 missing"]
    assert "the payload of step 2 is damaged" in lines[2]
    assert "step 2 can't be trained, and no checkpoint of a version from 2 to 2 is here" in lines[3]
    assert counts["missing"] == 2


def test_a_version_whose_checksum_nobody_kept_is_not_compared(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, checkpoints=())
    (made.run.folder / "weights/v000002/model.safetensors").unlink()
    lines, counts, _ = replay(made, 1, 2)
    assert verdicts(lines) == ["1 ok", "2 not compared"]
    assert counts["missing"] == 0


def test_steps_of_lives_with_other_numbers_of_ranks_are_named(tmp_path: Path, replay: Again) -> None:
    """Among them those between the checkpoint and the first step that was asked for; those before it do not matter."""
    made = make(tmp_path, checkpoints=())
    for steps, ranks in ((2, 3), (2, 2), (1, 4), (2, 1)):
        made.live(steps, checkpoints=(2,), ranks=ranks)
    lines, _, _ = replay(made, 4, 7)
    assert lines[-1] == (
        "the run trained steps 3-4 with 2 ranks, steps 5 with 4 ranks, this replay with 1 rank: the "
        "same bits are promised for the same number of ranks only (--ranks N)"
    )
    lines, _, _ = replay(made, 7, 7)
    assert any("steps 3-4 with 2 ranks" in line for line in lines)


def test_steps_of_the_same_number_of_ranks_need_no_word(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, checkpoints=())
    made.live(2, checkpoints=(2,), ranks=2)
    made.live(2, ranks=1)
    lines, _, _ = replay(made, 3, 4)
    assert verdicts(lines) == ["3 ok", "4 ok"]
    assert not any("ranks" in line for line in lines)


def test_a_run_that_began_from_a_checkpoint_begins_there_again(tmp_path: Path, replay: Again) -> None:
    first = make(tmp_path / "first", 3)
    run = make_run(tmp_path, learner=SETTINGS)
    policy = HashPolicy()
    policy.load_checkpoint(first.run.folder / "checkpoints/step-000003")
    made = JournaledRun(run, policy, version=3, start=first.run.folder / "checkpoints/step-000003")
    made.live(2)
    lines, counts, again = replay(made, 4, 5)
    assert lines[0].startswith(f"version 3, from {first.run.folder / 'checkpoints/step-000003'}: ok")
    assert counts["ok"] == 2
    assert again.weights == policy.weights


def test_the_runs_folder_stays_as_it_was(tmp_path: Path, replay: Again) -> None:
    made = make(tmp_path, 2, 2, 2)

    def seen() -> dict[Path, tuple[int, int]]:
        paths = made.run.folder.rglob("*")
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = seen()
    replay(made, 1, 6)
    assert seen() == before


@pytest.mark.parametrize(
    ("text", "expected"), [("3", range(3, 4)), ("1-1", range(1, 2)), ("3-17", range(3, 18))]
)
def test_steps_are_a_range_with_both_ends(text: str, expected: range) -> None:
    assert parse_steps(text) == expected


NO_RANGE, FROM_1 = "is no range of steps", "steps are counted from 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, NO_RANGE) for text in ("", "5-3", "-3", "a", "1-2-3", "1-")),
        *((text, FROM_1) for text in ("0", "0-0", "0-17")),
    ],
)
def test_what_is_no_range_is_refused(text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        parse_steps(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no journal in "),
        (["test", "--steps", "7-9"], "--steps 7-9: the journal has steps 1 to 6"),
        (["test", "--steps", "1-2", "--ranks", "2"], "config.yaml: No such file"),
    ],
)
def test_what_cannot_be_replayed_is_said_before_anything_is_loaded(
    tmp_path: Path, millrace: Millrace, words: list[str], message: str
) -> None:
    made = make(tmp_path, 2, 2, 2)
    (made.run.folder / "config.yaml").unlink()
    told = millrace("replay", *words, "--runs-dir", tmp_path)
    assert (told.code, message in told.err) == (1, True)
