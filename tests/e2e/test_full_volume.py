"""A volume filled to the last byte while a run is going on, and emptied again: a real one, of its own kind and size."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.connection import RedisLink
from tests.e2e.conftest import PLAIN, Roles
from tests.support.full_volume import Volume
from tests.support.paths import ROOT
from tools.audit.command import audit

pytestmark = pytest.mark.e2e

STEPS = 12
SETTINGS = (
    *PLAIN, "broker.lease_s=2", f"learner.steps={STEPS}", "learner.groups_per_step=4",
    "generators.engine={type: fake, seconds_per_group: 0.5}", "generators.groups_in_flight=4",
)  # fmt: skip


@pytest.fixture
def volume(roles: Roles) -> Iterator[Volume]:
    """Yield where the run's folder lies."""
    made = Volume(roles.runs_dir)
    yield made
    roles.end()
    made.close()


def start_learner(roles: Roles, volume: Volume, tmp_path: Path) -> subprocess.Popen[bytes]:
    weights = tmp_path / "weights"  # for the generator, which lives outside
    return roles.learner(
        *SETTINGS,
        f"learner.weights.directory={weights}",
        command=(*volume.inside, f"--wd={ROOT}", sys.executable, "-m", "learner"),
    )


@pytest.mark.prove
def test_a_volume_filled_to_the_last_byte_stops_the_learner_and_costs_nothing(
    roles: Roles, volume: Volume, tmp_path: Path
) -> None:
    learner = start_learner(roles, volume, tmp_path)
    roles.generator()
    roles.scorers()
    roles.until(lambda: roles.version() >= 2, "the second step")
    ballast = volume.fill()
    assert roles.wait(learner) == 1, roles.all_logs()
    assert "can't be written" in roles.log_of(learner)
    assert "No space left on device" in roles.log_of(learner)
    reason = roles.redis.hget(roles.keys("run"), "reason")
    assert reason is not None
    # status.json is on the full volume; the other roles hear of it all the same.
    assert b"can't be written" in reason
    journal = volume.seen / roles.name / "journal"
    with contextlib.closing(RedisLink(roles._url, outage_s=10)) as link:
        found = audit(link, roles.keys, journal)
        assert found.is_clean, found
        assert found.trained < 4 * STEPS
        assert found.in_flight > 0, "what could not be written down was not acknowledged"

    ballast.unlink()
    learner = start_learner(roles, volume, tmp_path)
    roles.generator()
    roles.scorers()
    assert roles.wait(learner) == 0, roles.all_logs()
    with contextlib.closing(RedisLink(roles._url, outage_s=10)) as link:
        found = audit(link, roles.keys, journal)
    assert (found.is_clean, found.trained, found.in_flight) == (True, 4 * STEPS, 0)
