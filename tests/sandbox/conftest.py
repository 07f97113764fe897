"""One local sandbox for each kind of walls that this machine has, and servers with SandboxFusion's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.choice import tried
from sandbox.limits import Limits
from sandbox.local import processes
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Language, Program, ProgramOutcome, SandboxMissing
from sandbox.walls.seccomp import Walls
from tests.support.sandbox.fusion_fakes import FakeServer, fake_servers

LIMITS = Limits(
    wall_s=15.0,
    memory_bytes=256 << 20,
    processes=16,
    file_bytes=4 << 20,
    scratch_bytes=8 << 20,
    output_bytes=6 << 20,
)
Run = Callable[..., ProgramOutcome]


@pytest.fixture
def servers() -> Iterator[list[FakeServer]]:
    """Three that answer as they are told to."""
    with fake_servers(3) as three:
        yield three


@pytest.fixture(
    scope="session", params=[Walls.BUBBLEWRAP, pytest.param(Walls.LANDLOCK, marks=pytest.mark.prove)]
)
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """Behind these walls; skipped where this machine does not have them."""
    try:
        sandbox = tried(request.param)
    except SandboxMissing as error:
        pytest.skip(str(error))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def run(sandbox: LocalSandbox) -> Run:
    """Run a Python program with small limits."""

    def run(source: str, stdin: str | bytes = b"", limits: Limits = LIMITS, **files: str) -> ProgramOutcome:
        beside = {f"{name}.py": text.encode() for name, text in files.items()}
        program = Program(language=Language.PYTHON, source=source.encode(), files=beside)
        with sandbox.prepare(program) as prepared:
            return prepared.run(stdin.encode() if isinstance(stdin, str) else stdin, limits)

    return run


def pids_below(pid: int) -> list[int]:
    """Return those of all descendants of a process, zombies included, from the top."""
    found = [
        int(other)
        for other in processes.all_pids()
        if len(fields := processes.stat_fields(other)) > 1 and fields[1] == str(pid).encode()
    ]
    return found + [below for child in found for below in pids_below(child)]


def processes_below(pid: int) -> list[str]:
    """Return their command lines."""
    pids = map(str, pids_below(pid))
    return [processes.read(below, "cmdline").decode(errors="replace") or below for below in pids]


def programs_left(sandbox: LocalSandbox) -> list[str]:
    """Processes of programs that are still there. Orphans are given to the supervisor, so none can hide."""
    supervisors = [supervisor._process.pid for supervisor in sandbox._supervisors._idle]
    assert supervisors, "the supervisor survived the run"
    assert all(Path(f"/proc/{pid}").exists() for pid in supervisors)
    return [left for pid in supervisors for left in processes_below(pid)]
