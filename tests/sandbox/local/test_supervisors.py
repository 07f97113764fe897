"""What is killed from outside is the machinery's failure, and nothing of a run outlives those who wanted it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from broker.errors import Retryable
from broker.messages import Score
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import tried
from sandbox.limits import Limits
from sandbox.local import launch, processes, supervisors
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending, Language, Program, ProgramOutcome, SandboxMissing, SandboxUnavailable
from sandbox.walls.seccomp import Walls
from scorers.code.scorer import CodeTests
from tests.sandbox.conftest import Run, pids_below, processes_below, programs_left
from tests.support.paths import ROOT
from tests.support.waiting import wait_until, wait_until_gone

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

LONG = Limits(wall_s=30.0)
FAMILY = "import os, time\nos.fork()\nos.fork()\ntime.sleep(60)"
NEXT = "print(42)"


def supervisor_of(sandbox: LocalSandbox, run: Run) -> int:
    """Return the one that is there once a program has run."""
    assert run(NEXT).stdout == b"42\n"
    (supervisor,) = (one._process.pid for one in sandbox._supervisors._idle)
    return supervisor


def is_at_work(supervisor: int) -> bool:
    """Return whether a program of this supervisor runs."""
    return any(name.endswith("main.py\0") and "bwrap" not in name for name in processes_below(supervisor))


def killed_at_work(run: Run, supervisor: int, kill: Callable[[list[int]], object]) -> tuple[str, list[int]]:
    """Return what a long run raises when its processes are handed to `kill`, and which these were."""
    below: list[int] = []

    def killing() -> None:
        wait_until(lambda: is_at_work(supervisor))
        below.extend(pids_below(supervisor))
        kill(below)

    killer = threading.Thread(target=killing, daemon=True)
    killer.start()
    with pytest.raises(SandboxUnavailable) as raised:
        run("import time; time.sleep(60)", limits=LONG)
    killer.join()
    return str(raised.value), below


@pytest.mark.parametrize("which", [0, -1], ids=["the first process", "the program"])
def test_a_run_that_is_killed_from_outside_is_unavailable(
    which: int, sandbox: LocalSandbox, run: Run
) -> None:
    supervisor = supervisor_of(sandbox, run)
    said, _ = killed_at_work(run, supervisor, lambda below: os.kill(below[which], signal.SIGKILL))
    assert "killed from outside" in said
    assert programs_left(sandbox) == []
    assert run(NEXT).stdout == b"42\n"


def test_a_supervisor_that_is_killed_is_replaced(sandbox: LocalSandbox, run: Run) -> None:
    supervisor = supervisor_of(sandbox, run)
    base = sandbox._supervisors.base()
    assert str(base) in commands()
    said, below = killed_at_work(run, supervisor, lambda _: os.kill(supervisor, signal.SIGKILL))
    assert "supervisor" in said
    wait_until_gone(*below)
    wait_until(lambda: str(base) not in commands())
    assert run(NEXT).stdout == b"42\n"


def commands() -> str:
    living = [pid for pid in processes.all_pids() if processes.stat_fields(pid)[:1] != [b"Z"]]
    return "\n".join(processes.read(pid, "cmdline").decode(errors="replace") for pid in living)


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["tempfile.mkdtemp", "socket.socketpair", "subprocess.Popen"])
def test_a_machine_without_room_is_unavailable_and_leaves_nothing_behind(
    what: str, sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with closing(LocalSandbox(Walls(sandbox.name))) as crowded:
        with monkeypatch.context() as patch:
            patch.setattr(what, refuse)
            with pytest.raises(SandboxUnavailable, match="No space left"):
                crowded._supervisors.base()
        assert list(tmp_path.iterdir()) == []
        assert crowded._supervisors.base().exists()  # with room again
        assert len(crowded._supervisors._idle) == 1


@pytest.mark.parametrize("what", ["tempfile.mkdtemp", "pathlib.Path.write_bytes"])
def test_no_room_for_a_program_is_unavailable(
    what: str, sandbox: LocalSandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(NEXT)
    with monkeypatch.context() as patch:
        patch.setattr(what, refuse)
        with pytest.raises(SandboxUnavailable, match="No space left"):
            run(NEXT)
    assert run(NEXT).stdout == b"42\n"


@pytest.mark.parametrize("names", [("a.py", "a.py/b"), ("main.py/b",), ("n" * 300,)])
def test_names_that_no_files_can_have_together_are_the_callers_mistake(
    names: tuple[str, ...], sandbox: LocalSandbox
) -> None:
    program = Program(language=Language.PYTHON, source=b"", files=dict.fromkeys(names, b""))
    with pytest.raises(ValueError, match="can't have the file"), sandbox.prepare(program):
        pass


IMPATIENT = """
import sys
from sandbox import program
from sandbox.local import supervisor_process
program.Limits.cpu_s = 1            # less than any machine's cores can use before the deadline
sys.exit(supervisor_process.main(sys.argv[1:]))
"""


@pytest.mark.prove
def test_processor_time_that_is_used_up_is_the_programs_doing(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", IMPATIENT))
    burner = Program(language=Language.PYTHON, source=b"while True: pass")
    with closing(LocalSandbox(Walls(sandbox.name))) as impatient, impatient.prepare(burner) as prepared:
        outcome = prepared.run(limits=LONG)
    assert (outcome.ending, outcome.detail) == (Ending.TIME, "1 s of processor time")


WORKER = """
import sys
from sandbox.local import processes
from sandbox.local.sandbox import LocalSandbox
from sandbox.limits import Limits
from sandbox.program import Language, Program
from sandbox.walls.seccomp import Walls
sandbox = LocalSandbox(Walls(sys.argv[1]))
with sandbox.prepare(Program(language=Language.PYTHON, source=sys.argv[2].encode())) as prepared:
    print(sandbox._supervisors._idle[0]._process.pid, sandbox._supervisors.base(), flush=True)
    prepared.run(limits=Limits(wall_s=30.0))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_scorer_that_is_killed(number: signal.Signals, sandbox: LocalSandbox) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, sandbox.name, FAMILY], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as worker:
        assert worker.stdout is not None
        pid, base = worker.stdout.readline().split()
        wait_until(lambda: len(pids_below(int(pid))) >= 4)
        family = pids_below(int(pid))
        worker.send_signal(number)
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in [int(pid), *family]), within_s=5.0)
    wait_until(lambda: not Path(base).exists(), within_s=5.0)


def test_a_run_that_its_scorer_gives_up_is_ended(sandbox: LocalSandbox, run: Run) -> None:
    class GivenUp(Exception):
        pass

    def give_up(*_: object) -> None:
        raise GivenUp

    supervisor = supervisor_of(sandbox, run)
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(GivenUp):
            run(FAMILY, limits=LONG)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{supervisor}").exists()
    assert run(NEXT).stdout == b"42\n"
    assert programs_left(sandbox) == []


def test_a_fork_of_the_scorer_has_supervisors_of_its_own(sandbox: LocalSandbox, run: Run) -> None:
    run(NEXT)
    base = sandbox._supervisors.base()
    child = os.fork()
    if child == 0:
        try:
            own = sandbox._supervisors.base() != base and run(NEXT).stdout == b"42\n"
            sandbox.close()
            os._exit(0 if own else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert base.exists()
    assert run(NEXT).stdout == b"42\n"


def test_two_runs_at_a_time_do_not_meet(sandbox: LocalSandbox) -> None:
    source = b"import os, time; print(input(), os.listdir('.')); open('x', 'w').close(); time.sleep(.2)"
    with (
        sandbox.prepare(Program(language=Language.PYTHON, source=source)) as prepared,
        ThreadPoolExecutor(3) as pool,
    ):
        printed = list(pool.map(lambda given: prepared.run(given, LONG).stdout, [b"0", b"1", b"2"]))
    assert printed == [b"0 []\n", b"1 []\n", b"2 []\n"]
    sandbox.close()  # one supervisor again, for the tests that ask which it is


def test_a_closed_sandbox_leaves_nothing_and_can_be_used_again(sandbox: LocalSandbox, run: Run) -> None:
    supervisor = supervisor_of(sandbox, run)
    base = sandbox._supervisors.base()
    sandbox.close()
    assert not base.exists()
    assert not Path(f"/proc/{supervisor}").exists()
    assert run(NEXT).stdout == b"42\n"


ALLOWED = 1 << 40


@contextmanager
def forked(do: Callable[[], None]) -> Iterator[int]:
    """Start a child that does it and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
            signal.pause()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_process_that_is_slow_to_lead_its_session_is_counted() -> None:
    told, tell = os.pipe()
    reply, answer = os.pipe()

    def lead() -> None:
        os.read(told, 1)
        os.setsid()
        os.write(answer, b"x")

    tree = processes.Tree()
    with forked(lead) as pid:
        tree.add_main(pid)
        assert tree.memory_bytes(ALLOWED) > 0  # it may still be in the session of its parent
        os.write(tell, b"x")
        os.read(reply, 1)
        assert tree.memory_bytes(ALLOWED) > 0
    for descriptor in (told, tell, reply, answer):
        os.close(descriptor)


def test_a_child_that_is_there_before_its_parent_is_noted_is_counted() -> None:
    reply, answer = os.pipe()

    def lead() -> None:
        os.setsid()
        if os.fork() == 0:
            os.write(answer, b"x")
        signal.pause()

    tree = processes.Tree()
    with forked(lead) as pid:
        os.read(reply, 1)
        tree.add_main(pid)
        found = tree.tasks()
        os.killpg(pid, signal.SIGKILL)
    assert found == 2
    for descriptor in (reply, answer):
        os.close(descriptor)


# Supervisors that do not take a user of their own for each run, as where the scorer is no root.
UNMAPPED = 1 << 40
SHARED = f"""import sys
from sandbox.local import launch, supervisor_process
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

    outcomes: list[ProgramOutcome] = []
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


@pytest.mark.prove
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
