"""A run of episodes: learner and agent are killed on its way, and its journal trains again to the same weights."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from learner.journal.ledger import read_ledger
from tests.e2e.conftest import Roles

pytestmark = pytest.mark.e2e

STEPS = 4
DOUBT = "tests.support.arena_environments:Doubt"
SETTINGS = (
    f"learner.steps={STEPS}", "learner.groups_per_step=4", "learner.max_lag=0", "learner.checkpoint.every=2",
    "sampling.group_size=4", "sampling.max_tokens=64",
    f"scorers.tasks.math.environment={{type: custom, import_path: '{DOUBT}', max_turns: 4, turn_tokens: 24}}",
    "scorers.tasks.math.scorer={type: environment}", "scorers.workers=1", "evaluation.every=2",
    "evaluation.prompts=4", "evaluation.samples=1", "evaluation.temperature=0", "broker.lease_s=2",
)  # fmt: skip


def said(roles: Roles, verb: str, *words: str) -> str:
    """Return what a verb of `millrace` prints of the run."""
    done = roles.start("tools.main", verb, *words, "--runs-dir", str(roles.runs_dir), log=verb)
    assert roles.wait(done, 240) == 0, roles.log_of(done)
    return roles.log_of(done)


def has_version(roles: Roles, version: int) -> bool:
    return roles.version() >= version


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_a_run_of_episodes_goes_on_where_it_was_killed_and_trains_again_bit_for_bit(roles: Roles) -> None:
    others = [roles.generator(), roles.scorers()]
    learner, agent = roles.learner(*SETTINGS), roles.start("agents", "--run", roles.name)
    for killed in (agent, learner):
        roles.until(partial(has_version, roles, 1), "version 1", 240)
        killed.send_signal(signal.SIGKILL)
        roles.wait(killed)
    learner, agent = roles.learner(*SETTINGS), roles.start("agents", "--run", roles.name)
    assert [roles.wait(one, 240) for one in (learner, agent, *others)] == [0] * 4, roles.all_logs()

    sums = roles.audit()
    assert (sums.lost, sums.twice, sums.dead, sums.trained) == (0, 0, 0, 4 * STEPS)
    ledger = read_ledger(roles.folder / "journal")
    assert sorted(ledger.evaluations) == [0, 2, 4]
    assert all("pass_rate" in found for found in ledger.evaluations.values())
    assert f"steps {STEPS}: ok {STEPS}, differs 0, not compared 0, missing 0" in said(
        roles, "replay", roles.name
    )
    shown = said(roles, "journal", "show", roles.name, "--group", ledger.steps[-1]["ids"][0])
    assert "user: Is it?\n    assistant (version" in shown
    page = roles.folder / "page.html"
    said(roles, "report", roles.name, "-o", str(page))
    assert "Is it?" in page.read_text()
