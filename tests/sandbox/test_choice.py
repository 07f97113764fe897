"""Which walls are taken, and what is said where there are none."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest

from config.scorers import ScorersConfig
from sandbox import choice
from sandbox.choice import build_sandbox
from sandbox.local import toolchain
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Language, Program, SandboxMissing
from sandbox.walls import bubblewrap, landlock
from sandbox.walls.seccomp import Walls

pytestmark = pytest.mark.process


@pytest.mark.prove(after=1)
def test_auto_takes_the_best_that_holds(sandbox: LocalSandbox) -> None:
    with closing(build_sandbox(ScorersConfig())) as chosen:
        assert chosen.name in ("bubblewrap", "landlock")
        assert "python=" in chosen.version


def test_auto_takes_landlock_where_bubblewrap_is_missing_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if landlock.abi_version() == 0:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: None)
    with caplog.at_level(logging.INFO, logger=choice.__name__):
        chosen = build_sandbox(ScorersConfig())
    assert chosen.name == "landlock"
    assert "bwrap is not installed" in caplog.text
    assert "walls=landlock python=" in caplog.text
    chosen.close()


@pytest.mark.parametrize("asked", ["auto", "bubblewrap", "landlock"])
def test_nothing_runs_where_no_walls_stand(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: None)
    monkeypatch.setattr(landlock, "abi_version", lambda: 0)
    why = r"(bwrap is not installed|the kernel has none).*scorers\.sandbox=unsafe"
    with pytest.raises(SandboxMissing, match=why):
        build_sandbox(ScorersConfig.model_validate({"sandbox": asked}))


@pytest.mark.prove(after=1)
def test_walls_that_do_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch, sandbox: LocalSandbox) -> None:
    monkeypatch.setattr(toolchain, "SYSTEM", (*toolchain.SYSTEM, "/tmp"))
    leaky = LocalSandbox(Walls(sandbox.name))
    with pytest.raises(SandboxMissing, match="read a file of the scorer's"):
        leaky.self_test()
    leaky.close()


def test_unsafe_is_taken_only_when_asked_for_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger=choice.__name__):
        chosen = build_sandbox(ScorersConfig(sandbox="unsafe"))
    assert chosen.name == "unsafe"
    assert "WITHOUT PROTECTION" in caplog.text
    with chosen.prepare(Program(language=Language.PYTHON, source=b"print(42)")) as prepared:
        assert prepared.run().stdout == b"42\n"
    chosen.close()


def test_fusion_without_servers_is_refused() -> None:
    with pytest.raises(SandboxMissing, match="sandbox_urls"):
        build_sandbox(ScorersConfig(sandbox="fusion"))


@pytest.mark.prove
def test_a_python_that_the_programs_user_can_t_run_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, sandbox: LocalSandbox, tmp_path: Path
) -> None:
    system = toolchain.Interpreter("/usr/bin/python3", None)
    if not Path(system.path).exists():
        pytest.skip("this machine has no /usr/bin/python3")
    hidden = toolchain.Interpreter(str(tmp_path / "bin" / "python3"), str(tmp_path))
    monkeypatch.setattr(toolchain, "interpreters", lambda: iter([hidden, system]))
    with closing(LocalSandbox(Walls(sandbox.name))) as other:
        assert other.interpreter == system
    monkeypatch.setattr(toolchain, "interpreters", lambda: iter([hidden]))
    with (
        closing(LocalSandbox(Walls(sandbox.name))) as third,
        pytest.raises(SandboxMissing, match=str(tmp_path)),
    ):
        _ = third.version
