"""A full disk under `millrace up`: said at once, in the terminal and in status.json, and nothing is started again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from learner.journal.disk import replace_in_place
from tests.support.forked_program import fork_program
from tests.support.full_volume import Volume, mounted
from tests.support.paths import ROOT
from tests.support.small_up import play
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

PROGRAM = "import sys; from tests.support.small_up import play; sys.exit(play(*sys.argv[1:]))"
EARLIER = {"name": "demo", "status": "failed", "reason": "the data are not those it began with", "at": 1.0}
EARLIER |= {"version": 2, "begun": "yes", "steps": 3}
FULL = "No space left on device"


@pytest.fixture
def volume(runs_dir: Path) -> Iterator[Volume]:
    with mounted(runs_dir) as made:
        yield made


def start(volume: Volume, runs_dir: Path, learner: str) -> subprocess.Popen[str]:
    python = [*volume.inside, f"--wd={ROOT}", sys.executable, "-c", PROGRAM]
    command = [*python, str(runs_dir), learner, "sleep 300 & wait"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(runs_dir: Path, learner: str, generator: str = "sleep 300 & wait") -> tuple[int, str]:
    """Return the exit code and the words of a run on a disk with room."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    up = fork_program(partial(play, runs_dir, learner, generator), **pipes)
    output, _ = up.communicate(timeout=60)
    return up.returncode, output


def leave_earlier(runs_dir: Path) -> Path:
    """A run that has begun, with an earlier incarnation's reason, as the learner writes it."""
    folder = runs_dir / "demo"
    folder.mkdir()
    replace_in_place(folder / "status.json", json.dumps(EARLIER, indent=1))
    return folder


def told(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "status.json").read_text()))


def test_a_disk_full_at_the_start_is_the_reason_and_no_earlier_one(volume: Volume, runs_dir: Path) -> None:
    folder = leave_earlier(volume.seen)
    volume.fill()
    output, _ = (up := start(volume, runs_dir, "echo begun; sleep 300")).communicate(timeout=60)
    assert up.returncode == 1, output
    assert FULL in output
    assert str(EARLIER["reason"]) not in output
    found = told(folder)
    assert (found["status"], FULL in str(found["reason"])) == ("failed", True)
    assert (found["version"], found["begun"]) == (2, "yes")
    assert "begun" not in output.replace("has begun", ""), "no role was started"


@pytest.mark.prove
@pytest.mark.parametrize("earlier", [True, False])
def test_a_disk_that_fills_is_said_at_once_and_ends_the_run(
    volume: Volume, runs_dir: Path, *, earlier: bool
) -> None:
    folder = leave_earlier(volume.seen) if earlier else volume.seen / "demo"
    up = start(volume, runs_dir, "echo training; sleep 300")
    wait_until((folder / "logs" / "learner.log").exists, within_s=30)
    ballast = volume.fill()
    output, _ = up.communicate(timeout=60)
    assert up.returncode == 1, output
    assert re.search(rf"disk_full folder=\S+: {FULL}", output), output
    assert re.search(rf"reason .*{FULL}", output), output
    assert str(EARLIER["reason"]) not in output
    if earlier:
        found = told(folder)
        assert (found["status"], FULL in str(found["reason"])) == ("failed", True)
    ballast.unlink()


def test_a_role_that_dies_of_a_full_disk_is_not_started_again(runs_dir: Path) -> None:
    code, output = ended(
        runs_dir, "sleep 300", f"echo dying; echo \"OSError: [Errno 28] {FULL}: 'x'\"; exit 1"
    )
    assert code == 1
    assert output.count("started role=generator-0 ") == 1, output
    assert re.search(rf"reason +generator-0 ended with code 1: .*{FULL}", output), output


@pytest.mark.prove
def test_a_learner_that_dies_without_a_word_leaves_no_earlier_reason(runs_dir: Path) -> None:
    folder = leave_earlier(runs_dir)
    code, output = ended(runs_dir, "echo no such module; exit 1")
    reason = "learner ended with code 1; its last lines: no such module"
    assert (code, told(folder)["reason"]) == (1, reason)
    assert f"reason     {reason}" in output
    assert str(EARLIER["reason"]) not in output


@pytest.mark.prove
def test_a_name_that_is_taken_is_no_reason_to_touch_the_status(runs_dir: Path) -> None:
    folder = leave_earlier(runs_dir)
    assert ended(runs_dir, "echo another learner has it; exit 2")[0] == 2
    assert told(folder) == EARLIER
