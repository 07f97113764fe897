"""Programs that attack the sandbox: none gets anything, none outlives its run, none changes anything outside."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

import pytest

from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending
from tests.sandbox.conftest import LIMITS, Run, programs_left
from tests.support.sandbox.attacks import ATTACKS, HARD_TO_END, PRELUDE, SECRET, Outside, outside

__all__ = ["outside"]
pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

GRACE_S = 10.0  # on a machine that is busy; what would hide lives for a minute


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_gets_nothing_and_changes_nothing(
    attack: str, run: Run, sandbox: LocalSandbox, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_TEST_SECRET", SECRET)
    before = outside.state()
    outcome = run(PRELUDE + attack, outside.words)
    assert b"GOT" not in outcome.stdout
    assert SECRET.encode() not in outcome.stdout + outcome.stderr
    assert outcome.ending in (Ending.EXITED, Ending.SIGNALLED), outcome  # never as if killed from outside
    assert not any(error in outcome.stderr for error in (b"SyntaxError", b"NameError"))
    assert outside.state() == before
    with pytest.raises(BlockingIOError):
        outside.server.accept()
    assert programs_left(sandbox) == []


def test_an_attack_would_get_what_the_walls_hide(outside: Outside) -> None:
    assert (outside.folder / "secret").read_text() == SECRET
    with socket.create_connection(outside.server.getsockname()[:2], timeout=1):
        outside.server.settimeout(1)
        outside.server.accept()[0].close()
        outside.server.settimeout(0)


@pytest.mark.parametrize(("source", "ending"), HARD_TO_END.values(), ids=HARD_TO_END)
def test_a_run_ends_at_its_deadline_with_all_that_it_started(
    source: str, ending: Ending, run: Run, sandbox: LocalSandbox
) -> None:
    limits = replace(LIMITS, wall_s=0.5 if ending is Ending.TIME else 20.0)
    started = time.monotonic()
    outcome = run(source, limits=limits)
    assert time.monotonic() - started < limits.wall_s + GRACE_S
    assert outcome.ending is ending, outcome.stderr[-500:]
    assert programs_left(sandbox) == []


def test_memory_that_forks_share_counts_once(run: Run) -> None:
    outcome = run(
        "import os, time\nheld = bytearray(100 << 20)\nchildren = [os.fork(), os.fork()]\n"
        "time.sleep(.3)\nif all(children):\n  [os.waitpid(child, 0) for child in children]\n  print('held')"
    )
    assert outcome.stdout == b"held\n", outcome  # 400 MiB as its four processes count, 256 allowed


def test_one_process_can_t_hold_more_than_its_memory(run: Run) -> None:
    outcome = run("x = bytearray(4 << 30)\nprint('held')")
    assert outcome.stdout == b""
    assert outcome.ending is not Ending.EXITED or b"MemoryError" in outcome.stderr


def test_files_can_t_fill_the_disk(run: Run) -> None:
    outcome = run(
        "import time\nfor i in range(64):\n  with open(str(i), 'wb') as f: f.write(b'x' * (1 << 20))\n"
        "time.sleep(.2); print('written')"
    )
    assert b"written" not in outcome.stdout
    assert outcome.ending is Ending.OUTPUT or b"No space left" in outcome.stderr


def test_what_a_program_left_is_removed_even_where_it_closed_its_folders(
    run: Run, sandbox: LocalSandbox
) -> None:
    run(
        "import os; os.makedirs('a/b'); open('a/b/c', 'w').close(); os.symlink('/', 'a/root'); os.mkdir('d', 0)"
    )
    base = sandbox._supervisors.base()
    assert {path.name.partition("-")[0] for path in base.iterdir()} <= {"packages", "python"}
