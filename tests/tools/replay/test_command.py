"""`millrace replay`: which steps it trains from where, what it says of each, and that it leaves the run as it was."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from learner.journal.ledger import read_ledger
from learner.training.checkpoint import MANIFEST
from tests.support.chain import make_run
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tools.arguments import parse_steps
from tools.main import main
from tools.replay.command import Replay

pytestmark = pytest.mark.process

# One step fills a payload file of its own: retention removes whole files.
SETTINGS: dict[str, Any] = {"tokens_per_micro_batch": 48, "checkpoint": {"keep": 9}}


def make(
    tmp_path: Path, *, lives: tuple[int, ...] = (2, 2, 2), checkpoints: tuple[int, ...] = (3,)
) -> JournaledRun:
    made = JournaledRun(make_run(tmp_path, learner=SETTINGS), HashPolicy())
    for steps in lives:
        made.live(steps, checkpoints=checkpoints)
    return made


def replay(
    made: JournaledRun, steps: range, capsys: pytest.CaptureFixture[str], *, seed: str = "model"
) -> tuple[list[str], dict[str, int], HashPolicy]:
    policy: Any = HashPolicy(seed)
    scratch = made.run.runs_dir / "scratch"
    scratch.mkdir(exist_ok=True)
    done = Replay(made.run, policy, read_ledger(made.journal), scratch)
    done.run_steps(steps)
    return capsys.readouterr().out.splitlines(), done.counts, policy


def verdicts(lines: list[str]) -> list[str]:
    return [
        f"{found[1]} {found[2]}" for line in lines if (found := re.match(r"step (\d+): ([a-z ]+),", line))
    ]


def remove_payload(made: JournaledRun, step: int) -> None:
    (made.journal / read_ledger(made.journal).steps[step - 1]["file"]).unlink()


def test_every_step_is_trained_again_and_compared_with_the_next_ones_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path)
    lines, counts, policy = replay(made, range(1, 7), capsys)
    assert re.match(r"version 0, from the beginning: ok, [0-9a-f]{12}$", lines[0])
    assert verdicts(lines[1:]) == [f"{step} ok" for step in range(1, 7)]  # the last one by the published file
    assert counts == {"ok": 6, "differs": 0, "not compared": 0, "missing": 0}
    assert policy.weights == made.policy.weights


def test_it_begins_with_the_newest_checkpoint_that_is_not_too_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path, checkpoints=(1, 3, 5))
    lines, _, policy = replay(made, range(5, 6), capsys)
    assert lines[0].startswith(f"version 4, from {made.run.folder / 'checkpoints/step-000003'}: ok")
    assert [version for version, _ in policy.steps] == [3, 4]
    assert verdicts(lines) == ["5 ok"]


def test_a_broken_checkpoint_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(tmp_path)
    (made.run.folder / "checkpoints/step-000003" / MANIFEST).unlink()
    lines, counts, _ = replay(made, range(4, 6), capsys)
    assert lines[0].startswith("version 3, from the beginning: ok")
    assert counts["ok"] == 2


def test_other_weights_differ_at_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(tmp_path, checkpoints=())
    lines, counts, _ = replay(made, range(1, 4), capsys, seed="another machine")
    assert re.match(
        r"version 0, from the beginning: differs, [0-9a-f]{12}, and the run had [0-9a-f]{12}$", lines[0]
    )
    assert verdicts(lines) == ["1 differs", "2 differs", "3 differs"]
    assert counts["differs"] == 3


def test_removed_payloads_are_named_and_it_goes_on_from_a_checkpoint_behind_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path, lives=(1, 1, 1, 1, 1, 1), checkpoints=(4,))
    remove_payload(made, 3)
    lines, counts, policy = replay(made, range(2, 7), capsys)
    assert verdicts(lines) == ["2 ok", "3 missing", "4 missing", "5 ok", "6 ok"]
    assert "payload of step 3 is gone with its file" in lines[2]
    assert "step 3 can't be trained, and no checkpoint of a version from 3 to 3 is here" in lines[3]
    assert counts == {"ok": 3, "differs": 0, "not compared": 0, "missing": 2}
    assert policy.weights == made.policy.weights


def test_a_damaged_payload_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(tmp_path, lives=(3,), checkpoints=())
    record = read_ledger(made.journal).steps[1]
    data = bytearray((made.journal / record["file"]).read_bytes())
    data[record["offset"] + 50] ^= 1
    (made.journal / record["file"]).write_bytes(data)
    lines, counts, _ = replay(made, range(1, 4), capsys)
    assert verdicts(lines) == ["1 ok", "2 missing", "3 missing"]
    assert "the payload of step 2 is damaged" in lines[2]
    assert "step 2 can't be trained, and no checkpoint of a version from 2 to 2 is here" in lines[3]
    assert counts["missing"] == 2


def test_a_version_whose_checksum_nobody_kept_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path, lives=(2,), checkpoints=())
    (made.run.folder / "weights/v000002/model.safetensors").unlink()
    lines, counts, _ = replay(made, range(1, 3), capsys)
    assert verdicts(lines) == ["1 ok", "2 not compared"]
    assert counts["missing"] == 0


def test_steps_of_lives_with_other_numbers_of_ranks_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among them those between the checkpoint and the first step that was asked for; those before it do not matter."""
    made = make(tmp_path, lives=(), checkpoints=())
    for steps, ranks in ((2, 3), (2, 2), (1, 4), (2, 1)):
        made.live(steps, checkpoints=(2,), ranks=ranks)
    lines, _, _ = replay(made, range(4, 8), capsys)
    assert lines[-1] == (
        "the run trained steps 3-4 with 2 ranks, steps 5 with 4 ranks, this replay with 1 rank: the "
        "same bits are promised for the same number of ranks only (--ranks N)"
    )
    lines, _, _ = replay(made, range(7, 8), capsys)
    assert any("steps 3-4 with 2 ranks" in line for line in lines)


def test_steps_of_the_same_number_of_ranks_need_no_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path, lives=(), checkpoints=())
    made.live(2, checkpoints=(2,), ranks=2)
    made.live(2, ranks=1)
    lines, _, _ = replay(made, range(3, 5), capsys)
    assert verdicts(lines) == ["3 ok", "4 ok"]
    assert not any("ranks" in line for line in lines)


def test_a_run_that_began_from_a_checkpoint_begins_there_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make(tmp_path / "first", lives=(3,))
    run = make_run(tmp_path, learner=SETTINGS)
    policy = HashPolicy()
    policy.load_checkpoint(first.run.folder / "checkpoints/step-000003")
    made = JournaledRun(run, policy, version=3, start=first.run.folder / "checkpoints/step-000003")
    made.live(2)
    lines, counts, again = replay(made, range(4, 6), capsys)
    assert lines[0].startswith(f"version 3, from {first.run.folder / 'checkpoints/step-000003'}: ok")
    assert counts["ok"] == 2
    assert again.weights == policy.weights


def test_the_runs_folder_stays_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in made.run.folder.rglob("*")}
    replay(made, range(1, 7), capsys)
    assert {
        path: (path.stat().st_mtime_ns, path.stat().st_size) for path in made.run.folder.rglob("*")
    } == before


@pytest.mark.parametrize(
    ("text", "expected"), [("3", range(3, 4)), ("1-1", range(1, 2)), ("3-17", range(3, 18))]
)
def test_steps_are_a_range_with_both_ends(text: str, expected: range) -> None:
    assert parse_steps(text) == expected


@pytest.mark.parametrize("text", ["", "5-3", "-3", "a", "1-2-3", "1-"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no range of steps"):
        parse_steps(text)


@pytest.mark.parametrize("text", ["0", "0-0", "0-17"])
def test_a_step_0_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="steps are counted from 1"):
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    made = make(tmp_path)
    (made.run.folder / "config.yaml").unlink()
    assert main(["replay", *words, "--runs-dir", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
