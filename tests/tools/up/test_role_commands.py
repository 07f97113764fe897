"""Which processes a run has on one machine."""

from __future__ import annotations

from tests.support.played import TASKS
from tests.tools.conftest import MakeRun
from tools.up.role_commands import commands


def test_a_run_whose_tasks_have_environments_has_agents_and_no_other_run_has(make_run: MakeRun) -> None:
    plain = {"agents": {"count": 2}, "generators": {"count": 1}}
    roles = [command.role for command in commands(make_run(**plain), [])]
    assert roles == ["learner", "generator-0", "scorers-0"]
    played = commands(make_run(**plain, scorers={"tasks": TASKS}), [])
    assert [command.role for command in played] == [
        "learner",
        "generator-0",
        "agent-0",
        "agent-1",
        "scorers-0",
    ]
    assert played[2].args[1:] == ("-m", "agents", "--run", "demo")
