"""What breaks under a run: Redis goes away, the disk is full, the name is taken."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import pytest

from learner.journal.writer import Journal
from tests.conftest import RedisServer
from tests.e2e.conftest import Roles

pytestmark = pytest.mark.e2e

OUTAGE_S = 20.0
QUICK = (  # groups cost no sampling: what breaks is the same
    "generators.engine={type: fake, seconds_per_group: 0.2}",
    "sampling.group_size=2",
    "learner.filters.zero_variance=keep",
    "learner.checkpoint.every=0",
    "evaluation.every=0",
    "data.held_out=",
    "scorers.workers=1",
)


@pytest.mark.prove
def test_redis_gone_for_twenty_seconds_costs_time_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    roles = Roles(tmp_path, server.url, "outage")
    try:
        learner = roles.learner("learner.steps=14", "learner.groups_per_step=8", *QUICK)
        generator, scorers = roles.generator(), roles.scorers()
        roles.until(lambda: roles.version() >= 4, "the fourth step")
        server.stop()
        time.sleep(OUTAGE_S)
        server.start()
        assert roles.wait(learner) == 0, roles.all_logs()
        assert roles.wait(generator) == roles.wait(scorers) == 0, roles.all_logs()
        for process in (learner, generator):
            assert "no answer from redis at 127.0.0.1" in roles.log_of(process), (
                "everybody says whom it waits for"
            )
        assert len(roles.metrics()) == 14
        assert roles.audit().is_clean
    finally:
        roles.end()
        server.kill()


FULL_DISK = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["learner", *sys.argv[2:]]
runpy.run_module("learner", run_name="__main__")
"""


@pytest.mark.prove
def test_a_full_disk_stops_the_learner_with_a_reason_and_nothing_is_acknowledged(roles: Roles) -> None:
    limit = 1_200_000  # the weights fit, the journal's payloads soon do not
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    learner = roles.start(
        "learner",
        str(limit),
        "--config",
        "config/recipes/demo_cpu.yaml",
        f"name={roles.name}",
        f"runs_dir={roles.runs_dir}",
        "learner.steps=500",
        "learner.groups_per_step=32",
        "generators.groups_in_flight=32",
        *QUICK,
        "generators.engine={type: fake, answers: ['" + "x" * 300 + "']}",
        "sampling.max_tokens=301",
        command=(sys.executable, "-c", FULL_DISK),
    )
    roles.generator()
    roles.scorers()
    assert roles.wait(learner) == 1, roles.all_logs()
    status = roles.status()
    assert status["status"] == "failed"
    assert "the journal in" in status["reason"]
    assert "can't be written" in status["reason"]
    found = roles.audit()
    assert found.is_clean
    assert found.trained == 32 * status["version"], "the step that could not be written was not counted"
    assert found.in_flight > 0, "its groups are still in Redis"


@pytest.mark.parametrize(
    ("status", "words", "code", "said"),
    [
        ("finished", (), 0, "is finished"),
        (
            "stopped",
            ("learner.resume=never",),
            2,
            "has begun (stopped), and learner.resume=never does not go on with it",
        ),
    ],
)
def test_a_name_that_is_taken_is_said_before_anything_heavy_is_loaded(
    roles: Roles, status: str, words: tuple[str, ...], code: int, said: str
) -> None:
    Journal(roles.folder / "journal", 1, run=roles.name).close()
    (roles.folder / "status.json").write_text(json.dumps({"status": status, "version": 60}))
    started = time.monotonic()
    learner = roles.learner(*words)
    assert roles.wait(learner) == code
    assert said in roles.log_of(learner)
    assert "policy ready" not in roles.log_of(learner)
    assert time.monotonic() - started < 60
