"""What breaks under a run: the disk is full, the name is taken."""

from __future__ import annotations

import json
import resource
import sys

import pytest

from learner.journal.writer import Journal
from tests.e2e.conftest import PLAIN, Roles

pytestmark = pytest.mark.e2e

# Redis that goes away: test_redis_restart.py.
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
    learner = roles.learner(
        *PLAIN, "learner.steps=500", "learner.groups_per_step=32", "generators.groups_in_flight=32",
        "generators.engine={type: fake, answers: ['" + "x" * 300 + "']}", "sampling.max_tokens=301",
        before=(str(limit),), command=(sys.executable, "-c", FULL_DISK),
    )  # fmt: skip
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


@pytest.mark.parametrize(("status", "words", "code", "said"), [
    ("finished", (), 0, "is finished"),
    ("stopped", ("learner.resume=never",), 2,
        "has begun (stopped), and learner.resume=never does not go on"),
])  # fmt: skip
def test_a_name_that_is_taken_is_said_before_anything_heavy_is_loaded(
    roles: Roles, status: str, words: tuple[str, ...], code: int, said: str
) -> None:
    Journal(roles.folder / "journal", 1, run=roles.name).close()
    (roles.folder / "status.json").write_text(json.dumps({"status": status, "version": 60}))
    learner = roles.learner(*words, forked=True)
    assert roles.wait(learner) == code
    assert said in roles.log_of(learner)
    assert "policy ready" not in roles.log_of(learner)
