"""Programs that share a user: one that takes all processes is no other's failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from broker.errors import Retryable
from broker.messages import Score
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests
from scorers.sandbox.choice import tried
from scorers.sandbox.local import launch, supervisors
from scorers.sandbox.local.sandbox import LocalSandbox
from scorers.sandbox.program import Language, Limits, Outcome, Program, SandboxMissing
from scorers.sandbox.walls.seccomp import Walls

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

# Supervisors that do not take a user of their own for each run, as where the scorer is no root.
UNMAPPED = 1 << 40
SHARED = f"""import sys
from scorers.sandbox.local import launch, supervisor_process
launch.FIRST_UID = {UNMAPPED}
sys.exit(supervisor_process.main(sys.argv[1:]))
"""
ALL = b"""import os, time
try:
    for _ in range(200):
        if os.fork() == 0: time.sleep(3)
except OSError: pass
print("full", flush=True)
time.sleep(3)
"""
THREADS = """import threading, time
def f(x):
    until = time.monotonic() + WAIT_S
    while True:             # the neighbour comes in this time, whenever that is
        threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        if time.monotonic() > until: return x
if __name__ == "__main__": print(f(input()))
"""
CALM_S = 20.0
ROWS = [{"inputs": ["1"], "outputs": ["1"]}, {"tests": ["assert f(1) == 1"]}]


def walled() -> LocalSandbox:
    try:
        return tried(Walls.LANDLOCK)
    except SandboxMissing as error:
        pytest.skip(str(error))


def beside(neighbour: LocalSandbox, work: Callable[[], Score]) -> Score:
    """Work while a program next door takes every process that it can have, soon after this one began."""

    def crowd() -> None:
        time.sleep(0.3)
        with neighbour.prepare(Program(language=Language.PYTHON, source=ALL)) as prepared:
            outcomes.append(prepared.run(b"", Limits(wall_s=2.0)))

    outcomes: list[Outcome] = []
    thread = threading.Thread(target=crowd)
    thread.start()
    try:
        return work()
    finally:
        thread.join()
        assert [outcome.stdout for outcome in outcomes] == [b"full\n"]


def undisturbed(work: Callable[[], Score]) -> Score:
    """Work until no other test's program of this user is in the way, which the scorer itself says; at most CALM_S."""
    until = time.monotonic() + CALM_S
    while True:
        try:
            return work()
        except Retryable as error:
            if "took the processes" not in str(error) or time.monotonic() > until:
                raise


@pytest.mark.parametrize("row", ROWS)
def test_a_program_is_not_judged_where_a_neighbour_took_its_processes(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, object]
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", SHARED))
    monkeypatch.setattr(launch, "FIRST_UID", UNMAPPED)
    with closing(walled()) as sandbox, closing(walled()) as neighbour:
        scorer = CodeTests(CodeConfig(case_timeout_s=10.0, deadline_s=30.0), ScorersConfig(), sandbox)

        def work(wait_s: float) -> Score:
            program = THREADS.replace("WAIT_S", str(wait_s))
            return scorer.score(f"```python\n{program}```", {"type": "code", "answer": row})

        assert undisturbed(lambda: work(0.3)).value == 1.0
        with pytest.raises(Retryable, match="took the processes"):
            beside(neighbour, lambda: work(6.0))
