"""Which processes a run has on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.fork_server.client import ForkServer
from config.explanations import ConfigError
from tests.support.played import TASKS
from tests.tools.conftest import MakeRun
from tools.main import parse
from tools.up import command, role_commands
from tools.up.first_imports import TORCH
from tools.up.role_commands import commands, complete_fork_server


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


class ToldServer(ForkServer):
    """A server without a process, which remembers what it is told."""

    def __init__(self) -> None:
        super().__init__((), is_complete=False)
        self.told: Sequence[str] | None = None

    def complete(self, imports: Sequence[str]) -> None:
        self.told = list(imports)


HF, FAKE = {"generators": {"engine": {"type": "hf"}}}, {"generators": {"engine": {"type": "fake"}}}
RANKS = {"learner": {"ranks": 2}}  # which start themselves


@pytest.mark.parametrize(
    ("sections", "has_gpu", "roles"),
    [
        (HF, False, {"learner", "generators"}),
        (HF | RANKS, False, {"generators"}),
        (FAKE, False, {"learner"}),
        (FAKE | RANKS, False, set()),
        (HF, True, set()),
    ],
)
def test_the_fork_server_is_told_the_modules_of_the_roles_that_it_will_fork(
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, Any],
    has_gpu: bool,
    roles: set[str],
) -> None:
    monkeypatch.setattr(role_commands, "sees_gpu", lambda: has_gpu)
    server = ToldServer()
    complete_fork_server(server, make_run(**sections))
    assert server.told is not None
    assert {name.partition(".")[0] for name in server.told if name not in TORCH} == roles
    assert tuple(server.told[: len(TORCH)]) == (TORCH if roles else ()), (
        "those that it has begun with come first"
    )


@pytest.mark.process
def test_a_configuration_that_cannot_be_used_ends_what_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ForkServer(["json"], is_complete=False)
    process = server._process
    assert process is not None
    monkeypatch.setattr(command, "begin_fork_server", lambda: server)
    with pytest.raises(ConfigError, match="no_such"):
        command.run(parse("up", ["no_such.yaml"])[1])
    assert process.returncode == -9


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
