"""Harbor's task directories in containers, by the engine that is here: the image is built of the task's environment/."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.environments.child.workplaces.engine import ENGINES, PREFIX, _machine
from agents.environments.seam import EnvironmentFailed, FailureStage
from tests.support.paths import ROOT
from tests.support.played import Played, played
from tests.support.scripted_calls import judged
from tests.support.task_folders import row_of, task_folder

pytestmark = [pytest.mark.process, pytest.mark.prove, pytest.mark.together("containers")]

BASE = "python:3.11-slim-bookworm"
DOCKERFILE = f"FROM {BASE}\nWORKDIR /work\nCOPY number.txt .\nRUN useradd agent && chown agent /work\n"
SETTINGS = "agent.user = 'agent'\n[verifier]\ntimeout_sec = 5\nenv = {TOLD = 'told'}\n[environment]\nmemory_mb = 256\n"
COMMAND = ROOT / "tests" / "support" / "placed_command.py"


@pytest.fixture(scope="module")
def engine() -> str:
    """The engine of this machine, which has the base image: none is pulled for a test."""
    found = next((name for name in ENGINES if shutil.which(name)), None)
    if found is None:
        pytest.skip(f"neither of {', '.join(ENGINES)} is here")
    if subprocess.run([found, "image", "inspect", BASE], check=False, capture_output=True).returncode:
        pytest.skip(f"{found} has no image {BASE} here")
    return found


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


@pytest.fixture(scope="module")
def play(engine: str) -> Iterator[Played]:
    section = {"type": "harbor", "engine": engine, "build_words": ["--network=host"]}
    function = {**section, "import_path": "tests.support.placed_agents:obey"}
    command = {**section, "command": ["python3", str(COMMAND)], "readable": [str(COMMAND)]}
    with played({"function": function, "command": command}) as made:
        yield made


def containers(engine: str) -> str:
    words = [engine, "ps", "--all", "--filter", f"name={PREFIX}", "--format", "{{.Names}}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def task(folder: Path, **more: str) -> Path:
    return task_folder(folder, settings=SETTINGS, files={"environment/Dockerfile": DOCKERFILE, **more})


def test_a_function_works_in_the_container_and_can_not_pay_itself(
    play: Played, folder: Path, engine: str
) -> None:
    looks = "$ pwd; id -un; ls -A /tests; touch /tests/x; (sleep 2; cp number.txt answer.txt) & echo $TOLD"
    plants = "$ echo 1 | tee /logs/verifier/reward.json; ln -s /logs/verifier /tmp/logs; exit 3"
    row = row_of(task(folder / "plants"))
    finish, heard = play.wait(judged(play, "function", row, looks, plants, "done"))
    assert finish.reward == 0.0
    assert heard[1].splitlines()[:2] == ["/work", "agent"]
    assert "Read-only file system" in heard[1]
    assert "told" not in heard[1]
    assert heard[2].endswith("[3]")
    assert containers(engine) == ""


def test_a_command_reaches_the_policy_and_what_a_killed_worker_left_is_removed(
    play: Played, folder: Path, engine: str
) -> None:
    left = f"{PREFIX}-{_machine()}-{2**22}-1-1"  # of a process id that no process can have
    subprocess.run([engine, "run", "--detach", "--name", left, BASE, "sleep", "600"], check=True)
    # Two lines of a heading, and loopback; no limit of addresses that is meant for a process of ours.
    said = "test $(wc -l < /proc/net/dev) = 3 && test $(ulimit -v) = unlimited && cp number.txt answer.txt"
    row = row_of(task(folder / "command"))
    assert play.wait(judged(play, "command", row, said, within_s=60))[0].reward == 1.0
    assert containers(engine) == ""


@pytest.mark.parametrize(
    ("files", "stage", "says"),
    [
        (
            {"tests/test.sh": "echo $TOLD; sleep 60"},
            FailureStage.JUDGE,
            r"the tests were ended: 5 s of time; .*\ntold",
        ),
        ({"tests/test.sh": "echo $TOLD; exit 3"}, FailureStage.JUDGE, r"exit code 3 and no reward: .*\ntold"),
        (
            {"environment/Dockerfile": f"FROM {BASE}\nRUN false"},
            FailureStage.RESET,
            "build ended with exit code 1",
        ),
    ],
)
def test_what_breaks_in_a_container_is_nobodys_zero(
    play: Played, folder: Path, files: dict[str, str], stage: FailureStage, says: str
) -> None:
    with pytest.raises(EnvironmentFailed, match=says) as failed:
        play.wait(judged(play, "function", row_of(task(folder / "breaks", **files)), "done"))
    assert (failed.value.stage, failed.value.is_policys) == (stage, False)
