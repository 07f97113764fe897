"""deploy/slurm: what submit.sh hands over, and how a role is kept, with small programs in the place of Slurm's.

`make prove-slurm` runs the jobs under a real Slurm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.slurm.proof import PLAY, PLAYED_ROLES, SETTINGS, settings_with
from tests.conftest import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

FOLDER = ROOT / "deploy" / "slurm"
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.suffix in {".sh", ".sbatch"})
JOBS = ("redis", "learner", "generators", "agents", "scorers", "judge")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with settings, a sbatch, scontrol and scancel that write down what they were asked, and a short sleep."""
    programs = tmp_path / "bin"
    programs.mkdir()
    asked = 'echo "$(basename "$0") $*" >>"$SITE/asked"; echo 7'
    does = dict.fromkeys(("sbatch", "scontrol", "scancel"), asked)
    does |= {"sleep": "exec /bin/sleep 0.1", "squeue": 'cat "$SITE/queue" 2>/dev/null'}
    for name, script in does.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    given = {"STATE": tmp_path / "state", "ENVIRONMENT": sys.prefix}
    text = settings_with(SETTINGS.read_text(encoding="utf-8"), given)
    (tmp_path / "settings.sh").write_text(text, encoding="utf-8")
    return tmp_path


def variables(site: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{site / 'bin'}:{os.environ['PATH']}", "SITE": str(site), **more}


def submit(site: Path, *roles: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [FOLDER / "submit.sh", site / "settings.sh", *roles]
    return subprocess.run(
        command, env=variables(site), capture_output=True, text=True, check=False, timeout=30
    )


def asked(site: Path) -> list[str]:
    return (site / "asked").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_one_of_bash_and_puts_no_folder_before_python(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True, timeout=10)
    text = script.read_text(encoding="utf-8")
    assert text.startswith(("#!/usr/bin/env bash", "# "))
    assert "/$PYTHON" not in text


@pytest.mark.parametrize("role", JOBS)
def test_every_job_is_queued_again_and_told_of_its_limit(role: str) -> None:
    second = (FOLDER / f"{role}.sbatch").read_text(encoding="utf-8").splitlines()[1]
    assert second.startswith("#SBATCH ")
    assert {"--requeue", "--open-mode=append"} <= set(second.split())
    assert "--signal=B:USR1@" in second


def test_submit_hands_over_a_job_of_each_role(site: Path) -> None:
    said = submit(site)
    assert said.stdout == "redis 7\nlearner 7\ngenerators 7\nscorers 7\n", said.stderr
    names = [line.split("--job-name=")[1].split()[0] for line in asked(site)]
    assert names == ["first-redis", "first-learner", "first-generators", "first-scorers"]
    assert "--array=1-1" in asked(site)[2]
    assert (site / "state").stat().st_mode & 0o077 == 0, "the password lies there"


def test_agents_are_handed_over_where_the_settings_ask_for_some(site: Path) -> None:
    text = (site / "settings.sh").read_text(encoding="utf-8")
    given = text.replace("AGENTS=()", "AGENTS=(--array=1-2 --cpus-per-task=4)")
    (site / "settings.sh").write_text(given, encoding="utf-8")
    assert submit(site).stdout.split()[::2] == ["redis", "learner", "generators", "scorers", "agents"]
    assert "--array=1-2 --cpus-per-task=4 deploy/slurm/agents.sbatch" in asked(site)[-1]


def test_what_the_proof_says_of_the_agents_demo_are_settings(site: Path) -> None:
    text = settings_with((site / "settings.sh").read_text(encoding="utf-8"), dict(PLAY))
    (site / "settings.sh").write_text(text, encoding="utf-8")
    assert tuple(submit(site).stdout.split()[::2]) == PLAYED_ROLES
    assert f"--job-name={PLAY['RUN']}-agents" in asked(site)[-1]


def test_what_is_there_already_is_left_alone_and_more_generators_are_not(site: Path) -> None:
    (site / "queue").write_text("7\n", encoding="utf-8")
    assert submit(site, "learner", "generators").stdout == "generators 7\n"


def test_the_judge_wants_its_node_and_a_role_that_there_is_not_is_refused(site: Path) -> None:
    assert "scorers ask the judge at its node" in submit(site, "judge").stderr
    refused = submit(site, "trainer")
    assert refused.returncode == 2
    assert "no role trainer" in refused.stderr


@pytest.mark.parametrize("given", ["environment", "{site}/environment"])
def test_a_place_begins_at_the_checkout_or_at_the_root(site: Path, given: str) -> None:
    place = given.format(site=site)
    text = settings_with(SETTINGS.read_text(encoding="utf-8"), {"STATE": place, "ENVIRONMENT": place})
    (site / "settings.sh").write_text(text, encoding="utf-8")
    shown: list[str | Path] = [
        "bash", "-c", '. "$0" "$1"; cd /; echo "$STATE $PYTHON"', FOLDER / "common.sh", site / "settings.sh",
    ]  # fmt: skip
    said = subprocess.run(shown, cwd=site, capture_output=True, text=True, check=True, timeout=10).stdout
    assert said == f"{site}/environment {site}/environment/bin/python\n"


def keep(
    site: Path, script: str, *, role: str = "generators", by: Sequence[str] = ()
) -> subprocess.Popen[str]:
    (site / "state").mkdir(exist_ok=True)
    (site / "state" / "redis_url").write_text("redis://one\n", encoding="utf-8")
    command = ["bash", "deploy/slurm/keep.sh", str(site / "settings.sh"), *by, "sh", "-c", script]
    of_job = variables(site, SLURM_JOB_ID="7", SLURM_JOB_NAME=f"first-{role}")
    return subprocess.Popen(command, cwd=ROOT, env=of_job, text=True)


COUNTED = (
    'echo "$REDIS_URL" >>"$SITE/starts"; [ $(wc -l <"$SITE/starts") -ge 2 ] && exit {last}; exit {first}'
)


@pytest.mark.parametrize(
    ("role", "queue", "first", "last", "code", "starts"),
    [
        ("generators", "7", 1, 2, 2, 2),  # a failure is worth another start; bad words are not
        ("generators", "7", 0, 2, 2, 2),  # the run is stopped, and its learner is queued
        ("generators", "", 0, 2, 0, 1),  # there is no learner any more
        ("generators", "", 1, 2, 1, 1),
        ("learner", "7", 0, 2, 0, 1),  # the learner itself has ended
    ],
)
def test_a_role_is_started_again_as_its_end_says(
    site: Path, *, role: str, queue: str, first: int, last: int, code: int, starts: int
) -> None:
    (site / "queue").write_text(queue, encoding="utf-8")
    kept = keep(site, COUNTED.format(first=first, last=last), role=role)
    assert kept.wait(30) == code
    assert (site / "starts").read_text(encoding="utf-8") == "redis://one\n" * starts


def test_a_finished_run_is_not_waited_for(site: Path) -> None:
    (site / "queue").write_text("7", encoding="utf-8")
    folder = site / "state" / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text('{"status": "finished"}', encoding="utf-8")
    assert keep(site, "exit 0").wait(30) == 0


WAITS = 'trap "echo told >>$SITE/told; exit 0" TERM; echo up >>"$SITE/starts"; while :; do sleep 0.1; done'


def test_a_role_whose_redis_has_moved_begins_anew(site: Path) -> None:
    (site / "queue").write_text("7", encoding="utf-8")
    kept = keep(site, WAITS)
    wait_until((site / "starts").exists)
    (site / "state" / "redis_url").write_text("redis://other\n", encoding="utf-8")
    wait_until(lambda: (site / "starts").read_text().count("up") == 2)
    kept.send_signal(signal.SIGUSR1)  # it is told by the one who keeps it
    assert kept.wait(30) == 0
    assert (site / "told").read_text(encoding="utf-8") == "told\n" * 2


ENDS_LATE = (
    'trap "echo told >>$SITE/told" TERM; echo up >"$SITE/starts"; '
    'while [ ! -e "$SITE/over" ]; do sleep 0.1; done; /bin/sleep 0.5'
)


@pytest.mark.parametrize("first", ["the limit", "redis"])
def test_a_role_that_takes_its_time_to_end_is_told_once(site: Path, first: str) -> None:
    kept = keep(site, ENDS_LATE)
    wait_until((site / "starts").exists)
    if first == "redis":
        (site / "state" / "redis_url").write_text("redis://other\n", encoding="utf-8")
    else:
        kept.send_signal(signal.SIGUSR1)
    wait_until((site / "told").exists)
    kept.send_signal(signal.SIGUSR1)
    (site / "over").touch()  # half a second later the role ends
    assert kept.wait(30) == 0
    assert (site / "told").read_text(encoding="utf-8") == "told\n"


def test_a_step_that_slurm_has_yet_to_start_does_not_begin_once_it_is_told(site: Path) -> None:
    step = 'echo up >"$SITE/step"; while [ ! -e "$SITE/over" ]; do sleep 0.1; done; exec "$@"'
    (site / "bin" / "srun").write_text(f"#!/bin/sh\n{step}\n", encoding="utf-8")
    (site / "bin" / "srun").chmod(0o755)
    kept = keep(site, 'echo up >"$SITE/starts"', role="learner", by=("srun", "deploy/slurm/rank.sh"))
    wait_until((site / "step").exists)
    kept.send_signal(signal.SIGUSR1)
    wait_until((site / "asked").exists)
    (site / "over").touch()
    assert kept.wait(30) == 128 + signal.SIGTERM
    assert asked(site) == ["scancel --signal=TERM 7"]
    assert not (site / "starts").exists()
    assert [path.name for path in (site / "state").iterdir()] == ["redis_url"]


def test_slurms_sigterm_is_not_handed_on(site: Path) -> None:
    (site / "queue").write_text("7", encoding="utf-8")
    kept = keep(site, f'echo $$ >"$SITE/pid"; {WAITS}')
    wait_until((site / "starts").exists)
    kept.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        kept.wait(1.0)  # it waits for the role, which Slurm tells itself
    os.kill(int((site / "pid").read_text(encoding="utf-8")), signal.SIGTERM)
    assert kept.wait(30) == 0
    assert (site / "told").read_text(encoding="utf-8") == "told\n"


def test_a_setting_that_there_is_not_is_refused_by_the_proof() -> None:
    with pytest.raises(KeyError, match="STATES"):
        settings_with("STATE=here\n", {"STATES": "there"})
