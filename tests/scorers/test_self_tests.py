"""Self-tests on a machine so busy that the little time of their hanging answers is too short for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from config.scorer_kinds import CodeConfig, MathConfig
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from sandbox.limits import Limits
from sandbox.program import Ending, Program, ProgramOutcome, ReadyProgram, Sandbox
from scorers.child.process import Clock, KillableChild, LimitExceeded, Reply, Request
from scorers.code.scorer import CodeTests
from scorers.math.scorer import MathAnswer

pytestmark = pytest.mark.process


def test_the_math_self_test_gives_right_answers_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = KillableChild.ask

    def busy(child: KillableChild, request: Request, timeout_s: float, **how: Clock) -> Reply:
        if timeout_s < 1.0:
            raise LimitExceeded(f"deadline of {timeout_s:g} s")
        return ask(child, request, timeout_s, **how)

    monkeypatch.setattr(KillableChild, "ask", busy)
    scorer = MathAnswer(MathConfig())
    try:
        scorer.self_test()
    finally:
        scorer.close()


class Busy:
    """A sandbox in which nothing ends within six seconds, the walls' own self-test aside."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    @contextmanager
    def prepare(self, program: Program) -> Iterator[ReadyProgram]:
        with self._sandbox.prepare(program) as prepared:
            yield BusyRun(prepared)


class BusyRun:
    def __init__(self, prepared: ReadyProgram) -> None:
        self._prepared = prepared
        self.failure, self.compiler_s = prepared.failure, prepared.compiler_s

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> ProgramOutcome:
        if limits is not None and limits.wall_s < 6.0:
            return ProgramOutcome(
                ending=Ending.TIME,
                exit_code=None,
                stdout=b"",
                stderr=b"",
                seconds=limits.wall_s,
                detail=f"{limits.wall_s:g} s of time",
            )
        return self._prepared.run(stdin, limits)


@pytest.mark.prove
def test_the_code_self_test_gives_right_answers_their_time() -> None:
    config = ScorersConfig()
    scorer = CodeTests(CodeConfig(), config, Busy(build_sandbox(config)))
    try:
        scorer.self_test()
    finally:
        scorer.close()
