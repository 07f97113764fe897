"""Which processes a run has on one machine."""

from __future__ import annotations

import pytest

from tests.support.played import TASKS
from tests.tools.conftest import MakeRun
from tools.up import role_commands
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


@pytest.mark.parametrize("engine", [{"type": "hf"}, {"type": "vllm", "kv_cache_mb": 64}, {"type": "fake"}])
def test_generators_are_forks_that_have_torch_but_where_a_gpu_is_seen(
    engine: dict[str, object], make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(generators={"engine": engine})
    for sees_gpu in (False, True):
        monkeypatch.setattr(role_commands, "sees_gpu", lambda sees_gpu=sees_gpu: sees_gpu)
        learner, generator = commands(run, [])[:2]
        assert ("torch" in learner.imports) == (not sees_gpu)
        assert ("torch" in generator.imports) == (not sees_gpu and engine["type"] != "fake")
        assert not any(name.partition(".")[0] == "vllm" for name in learner.imports + generator.imports)
