"""A run is paused, its learner killed and started again with other settings, told to go on, and drained."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import PLAIN, Roles

pytestmark = pytest.mark.e2e

SETTINGS = (
    *PLAIN, "broker.lease_s=2", "learner.steps=5000", "learner.groups_per_step=8",
    "learner.checkpoint.every=3", "generators.groups_in_flight=8",
)  # fmt: skip


def millrace(roles: Roles, redis_url: str, *words: str) -> str:
    """Return what the command says."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.main", *words, "--runs-dir", str(roles.runs_dir)], cwd=ROOT,
        env={**os.environ, "REDIS_URL": redis_url}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + roles.all_logs()
    return done.stdout


def is_paused(roles: Roles, learner: subprocess.Popen[bytes]) -> bool:
    """Return whether this learner's own heartbeat says so."""
    key = roles.keys.alive("learner", f"{socket.gethostname()}-{learner.pid}")
    return b"the operator, who paused the run" in (roles.redis.hget(key, "state") or b"")


@pytest.mark.prove
def test_a_run_is_paused_killed_changed_gone_on_with_and_drained(roles: Roles, redis_url: str) -> None:
    learner = roles.learner(*SETTINGS)
    others = [roles.generator(), roles.scorers()]
    roles.until(lambda: roles.version() >= 2, "the second step")
    assert "asked to pause" in millrace(roles, redis_url, "pause", roles.name)
    roles.until(lambda: is_paused(roles, learner), "the pause")
    version = roles.version()
    learner.send_signal(signal.SIGKILL)
    roles.wait(learner)
    again = roles.learner(*SETTINGS, "learner.max_lag=1", "learner.optimizer.lr=1e-5")
    roles.until(lambda: is_paused(roles, again), "the pause, in the next life")
    assert roles.version() == version
    log = roles.log_of(again)
    assert "config_changed learner.max_lag: 4 -> 1" in log
    assert "going_on checkpoint=" in log or version < 3
    assert "asked to go on" in millrace(roles, redis_url, "resume", roles.name)
    roles.until(lambda: roles.version() >= version + 2, "two more steps")
    said = millrace(roles, redis_url, "drain", roles.name, "--wait", "60")
    assert "stopped drained: an operator asked for it" in said
    assert [roles.wait(process) for process in (again, *others)] == [0, 0, 0], roles.all_logs()
    found = roles.audit()
    assert found.is_clean
    assert found.in_flight == 0
    assert Path(roles.folder / "model").is_dir()


def test_a_learner_that_is_started_twice_on_one_folder_is_refused(roles: Roles) -> None:
    first = roles.learner(*SETTINGS, forked=True)
    roles.until((roles.folder / "learner.lock").exists, "the lock")
    second = roles.learner(*SETTINGS, forked=True)
    assert roles.wait(second) == 2
    assert "has a living learner" in roles.log_of(second)
    assert first.poll() is None
