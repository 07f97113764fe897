"""Generators and scorers come and go during a run, with nothing more than their commands."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Roles

pytestmark = pytest.mark.e2e


@pytest.mark.prove
def test_two_generators_and_four_scorers_start_and_stop_during_a_run(roles: Roles) -> None:
    words = ("learner.steps=5000", "learner.groups_per_step=8", "evaluation.every=0", "data.held_out=")
    keep = ("learner.filters.zero_variance=keep", "learner.checkpoint.every=0")
    learner = roles.learner(*words, *keep, "scorers.workers=2")
    first = roles.generator(), roles.scorers()
    roles.until(lambda: roles.version() >= 2, "the second step")
    second = roles.generator(), roles.scorers()
    roles.until(lambda: _alive(roles, "generator") == 2 and _alive(roles, "scorer") == 4, "all of them")
    for process in first:
        process.terminate()
    for process in first:
        assert roles.wait(process, 40) == 0, roles.log_of(process)
    before = roles.version()
    roles.until(lambda: roles.version() >= before + 10, "steps with those that came later")
    learner.terminate()
    assert roles.wait(learner) == 0, roles.all_logs()
    assert roles.status()["status"] == "stopped", "the step at hand was finished and committed"
    for process in second:
        assert roles.wait(process, 40) == 0, roles.log_of(process)
    found = roles.audit()
    assert found.is_clean
    assert found.trained == 8 * roles.status()["version"]


def _alive(roles: Roles, role: str) -> int:
    return sum(1 for _ in roles.redis.scan_iter(match=f"rl:{{{roles.name}}}:alive:{role}:*"))
