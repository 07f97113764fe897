"""What the sandbox adds to a Python run, beside the bare interpreter that runs the same text.

`pass` through the sandbox's own seam, and a program with one assert through the code scorer, which wraps it into the
harness that proves what was checked. The limit is the sandbox's own interpreter, started by `subprocess` without any
walls, on the program and its assert as they stand. What it adds may be at most 30 ms and 60 ms: medians of 100.

Behind each kind of walls that this machine has, the same assert with an interpreter that is kept ready and forked,
beside one that is started for each: at least 2.5 times as many asserts a second.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox, tried
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending, Language, Program, SandboxMissing
from sandbox.walls.seccomp import Walls
from scorers.build import build_scorer
from scorers.code.scorer import CodeTests
from scorers.scorer import Scorer

BUBBLEWRAP, LANDLOCK = Walls.BUBBLEWRAP, Walls.LANDLOCK
LIMIT = "limit: the bare interpreter, no walls"
WHICH = b"import os, sys; print(os.path.realpath(sys.executable))"
PROGRAM, TEST = "def add(a, b):\n    return a + b\n", "assert add(3, 5) == 8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    runs: int = 100


FULL, SMOKE = Size(), Size(runs=2)


def measure(size: Size) -> list[Comparison]:
    """Make one comparison for a bare run and one for a checked run."""
    config = ScorersConfig()
    with closing(build_sandbox(config)) as sandbox, closing(build_scorer(CodeConfig(), config)) as scorer:
        with sandbox.prepare(Program(language=Language.PYTHON, source=WHICH)) as asked:
            python = asked.run().stdout.decode().strip()
        with sandbox.prepare(Program(language=Language.PYTHON, source=b"pass")) as prepared:

            def run() -> float:
                outcome = prepared.run()
                return float(
                    _known(outcome.ending is Ending.EXITED and outcome.exit_code == 0, outcome.detail)
                )

            plain = _compare(f"`pass` in {sandbox.name}", run, (python, "pass"), size)

        checked = _compare(
            f"one assert in {sandbox.name}", lambda: scored(scorer), (python, f"{PROGRAM}{TEST}\n"), size
        )
    return [plain, checked, *filter(None, (_forked(walls, config, size) for walls in (BUBBLEWRAP, LANDLOCK)))]


def _forked(walls: Walls, config: ScorersConfig, size: Size) -> Comparison | None:
    """Compare forks of what is kept ready with interpreters that are started; None where there are no such walls."""
    try:
        tried(walls).close()
    except SandboxMissing:
        return None
    with ExitStack() as stack:
        scorers = []
        for keeps in (True, False):
            sandbox = stack.enter_context(closing(LocalSandbox(walls, keeps=keeps)))
            scorers.append(CodeTests(CodeConfig(), config, sandbox))
            scored(scorers[-1])  # what is made once is made now

        def turn(scorer: Scorer) -> Callable[[int], TimedWork]:
            return lambda _: timed(lambda: scored(scorer))

        mine, others = take_turns(*map(turn, scorers), rounds=size.runs)
    return Comparison(
        what=f"one assert in {walls.value}, forked",
        unit="asserts/s",
        ours=[turn.rate for turn in mine],
        beside="an interpreter started for each",
        other=[turn.rate for turn in others],
    )


def scored(scorer: Scorer) -> float:
    """Score the program with one assert; 1.0, or an error."""
    found = scorer.score(f"```python\n{PROGRAM}```", {"type": "code", "answer": {"tests": [TEST]}})
    return float(_known(found.value == 1.0, found.reason))


def _compare(what: str, ours: Callable[[], float], bare_run: tuple[str, str], size: Size) -> Comparison:
    """Compare a run in the sandbox with `bare_run`, which is an interpreter and a text."""
    python, text = bare_run

    def bare() -> float:
        ended = subprocess.run(
            [python, "-s", "-B", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
        )
        return float(_known(ended.returncode == 0, "the bare interpreter failed"))

    def turn(work: Callable[[], float]) -> Callable[[int], TimedWork]:
        return lambda _: timed(work)

    mine, others = take_turns(turn(ours), turn(bare), rounds=size.runs)
    return Comparison(
        what=what,
        unit="ms",
        less_is_better=True,
        ours=[turn.seconds * 1000 for turn in mine],
        beside=LIMIT,
        other=[turn.seconds * 1000 for turn in others],
    )


def _known(is_right: bool, reason: str) -> bool:
    """Return True, or raise where the run did not do its work: a fast wrong run is no result."""
    if not is_right:
        raise RuntimeError(reason)
    return True
