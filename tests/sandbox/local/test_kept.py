"""A program that is forked from what is kept ready finds what a fresh interpreter does, and leaves nothing for the next.

A small program of ours is kept ready in the harness's place: each fork runs the text that it is given. So any text has
both ways, and what differs between them can be seen.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import tried
from sandbox.limits import Limits
from sandbox.local import processes, supervisors
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending, Language, Program, ProgramOutcome, SandboxMissing
from sandbox.walls import landlock
from sandbox.walls.seccomp import Walls
from scorers.code.scorer import CodeTests
from tests.sandbox.conftest import LIMITS, pids_below
from tests.support.sandbox.attacks import ATTACKS, HARD_TO_END, PRELUDE, SECRET, Outside, outside
from tests.support.waiting import wait_until
from verdicts.code.harness import harness_text

__all__ = ["outside"]
EVERYTHING = os.environ.get("CORPUS") == "all"  # make prove-attacks


def left(**which: object) -> pytest.MarkDecorator:
    """Return the mark that leaves cases to `make prove-suite`, and to `make prove-attacks`."""
    return pytest.mark.prove(keep=True) if EVERYTHING else pytest.mark.prove(**which)


pytestmark = [pytest.mark.process, left(after=6)]

RUN = "exec(compile(open(0, 'rb', closefd=False).read(), 'main.py', 'exec'), {'__name__': '__main__', '__file__': __file__})"
PROGRAM = Program(
    language=Language.PYTHON,
    source=RUN.encode(),
    kept="\n".join(
        [
            harness_text("start"),
            f"keep({ {name: harness_text(name) for name in ('pipe', 'kept')}!r}, [])",
            RUN,
            "sys.stdout.flush()\nos._exit(0)",
        ]
    ).encode(),
)


def kept_below(pid: int) -> list[int]:
    """Return the pids of what is kept ready: one, and none before the first run and after an end."""
    return [
        below
        for below in pids_below(pid)
        if b"kept.py\0" in (words := processes.read(below, "cmdline")) and b"bwrap\0" not in words
    ]


class Side:
    """A sandbox with what is kept ready, and one that starts every program."""

    def __init__(self, walls: Walls, resources: ExitStack) -> None:
        self.warm, self.cold = tried(walls), LocalSandbox(walls, keeps=False)
        for sandbox in (self.warm, self.cold):
            resources.callback(sandbox.close)

    def run(self, text: str, limits: Limits = LIMITS, *, is_warm: bool = True) -> ProgramOutcome:
        with (self.warm if is_warm else self.cold).prepare(PROGRAM) as prepared:
            return prepared.run(text.encode(), limits)

    @property
    def supervisor(self) -> int:
        (supervisor,) = (one._process.pid for one in self.warm._supervisors._idle)
        return supervisor

    @property
    def kept(self) -> int:
        """Return the process that is kept ready, which has no other process below it between two runs."""
        (kept,) = kept_below(self.supervisor)
        assert pids_below(kept) == []
        return kept


@pytest.fixture(scope="module", params=[Walls.BUBBLEWRAP, pytest.param(Walls.LANDLOCK, marks=left())])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with ExitStack() as resources:
        try:
            built = Side(request.param, resources)
        except SandboxMissing as error:
            pytest.skip(str(error))
        if request.param is Walls.LANDLOCK and landlock.abi_version() < landlock.SCOPED_SIGNALS:
            pytest.skip("nothing is kept ready where Landlock does not keep signals inside")
        yield built


# Prints all that one program could leave for the next, and that a fresh interpreter finds the same each time.
STATE = """
import builtins, errno, gc, locale, os, resource, signal, socket, stat, sys, threading, time
import ctypes
def descriptors():
    found = []
    for number in range(256):
        try: found.append((number, stat.S_IFMT(os.fstat(number).st_mode)))
        except OSError: pass
    return found
def children():
    try: return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError: return None
def listed(folder):
    try: return sorted(os.listdir(folder))
    except OSError as error: return error.errno
def read(path):
    try: return open(path).read(64)
    except OSError as error: return error.errno
def rights():
    header, found = (0x20080522).to_bytes(4, "little") + bytes(4), ctypes.create_string_buffer(24)
    return libc.capget(header, found), found.raw.hex()
def depth(frames):
    try: return depth(frames + 1)
    except RecursionError: return frames
libc = ctypes.CDLL(None, use_errno=True)
libc.getenv.restype = ctypes.c_char_p
handlers = {}
for number in range(1, 65):
    try: handlers[number] = repr(signal.getsignal(number)).partition(" at ")[0]
    except ValueError: pass
scratch = os.environ["HOME"]
print({
    "environment": {name: value.replace(scratch, "HOME") for name, value in os.environ.items()},
    "real environment": libc.getenv(b"HOME").decode() == scratch,
    "folder": os.getcwd() == scratch, "files": {place: listed(place) for place in (".", "/tmp", "/dev/shm", "/dev", "/", "/proc", "/program")},
    "mask": os.umask(0o77), "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT") and name != "RLIMIT_NPROC"},
    "signals": handlers, "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []), "pending": signal.sigpending(), "timers": [signal.getitimer(which) for which in range(3)],
    "descriptors": descriptors(), "children": children(), "threads": threading.active_count(), "nice": os.nice(0), "processors": len(os.sched_getaffinity(0)),
    "flags": sys.flags, "path": len(sys.path), "executable": os.path.basename(sys.executable),
    "builtins": sorted(vars(builtins)), "len": repr(len), "hooks": (sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(), len(sys.meta_path), len(sys.path_hooks)),
    "recursion": (sys.getrecursionlimit(), depth(0)), "switch": sys.getswitchinterval(), "digits": sys.get_int_max_str_digits(), "gc": (gc.isenabled(), gc.get_threshold()),
    "locale": locale.setlocale(locale.LC_ALL), "zone": time.tzname, "hash": hash("millrace"), "encodings": (sys.stdout.encoding, sys.getfilesystemencoding()),
    "user": (os.getresuid() == (os.getuid(),) * 3, os.getgroups() == [] or len(os.getgroups())), "no new rights": libc.prctl(39, 0, 0, 0, 0), "filter": libc.prctl(21, 0, 0, 0, 0), "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "rights": rights(), "leads": os.getsid(0) == os.getpgid(0), "host": socket.gethostname() != "",
    "mounts": [(place, os.statvfs(place).f_blocks, os.statvfs(place).f_flag) for place in ("/tmp", "/dev/shm", "/") if os.path.exists("/program")],
    "spent": time.process_time() < 5, "loaded": [name for name in ("random", "json", "re", "numpy", "left") if name in sys.modules],
})
"""


def state(side: Side, *, is_warm: bool = True) -> str:
    outcome = side.run(STATE, is_warm=is_warm)
    assert outcome.exit_code == 0, outcome.stderr[-600:]
    return outcome.stdout.decode()


@pytest.fixture(scope="module")
def fresh(side: Side) -> str:
    """Return what a fresh interpreter finds behind these walls."""
    return state(side, is_warm=False)


def test_a_fork_finds_what_a_fresh_interpreter_does(side: Side, fresh: str) -> None:
    assert state(side) == fresh
    assert state(side) == fresh


ALL_PIDS = "{-1, 0, 1, os.getppid(), os.getpgrp(), *range(2, 400), *(os.getppid() + n for n in range(-3, 4))} - {os.getpid()}"
TRY = """
import array, builtins, ctypes, fcntl, gc, locale, mmap, os, resource, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(do, *arguments):
    try: do(*arguments)
    except Exception: pass
"""
LEAVES = {
    "files": """
for folder in (".", "/tmp", "/dev/shm", "/var/tmp", "/program", "/python", "/", os.path.dirname(os.getcwd()), "/dev", os.path.dirname(sys.executable)):
    attempt(lambda: open(folder + "/left", "w").write("left"))
    attempt(os.mkdir, folder + "/left-folder"); attempt(os.chmod, folder, 0); attempt(os.link, __file__, folder + "/link")
attempt(os.rename, __file__, "/tmp/gone"); attempt(os.unlink, __file__); attempt(lambda: open(__file__, "a").write("left"))
""",
    "patched built-ins and modules": """
builtins.left = 1; builtins.len = builtins.open = None; sys.modules["left"] = sys.modules["os"] = sys.modules["random"] = sys
sys.path.insert(0, "/tmp"); sys.meta_path.clear(); sys.excepthook = sys.displayhook = None; sys.settrace(lambda *_: None)
import sandbox.harness.kept as kept, sandbox.harness.pipe as pipe
for module in (kept, pipe):
    for name in list(vars(module)): setattr(module, name, None)
for one in gc.get_objects():
    if isinstance(one, dict) and one.get("__name__") == "__main__": one.clear()
""",
    "process attributes": """
os.umask(0); attempt(os.chdir, "/"); os.environ.clear(); libc.clearenv(); sys.setrecursionlimit(90); sys.setswitchinterval(9); gc.disable(); sys.set_int_max_str_digits(700)
for name in ("AS", "FSIZE", "NOFILE", "STACK", "NPROC"): attempt(resource.setrlimit, getattr(resource, "RLIMIT_" + name), (1 << 20, 1 << 20))
for number in range(1, 65): attempt(signal.signal, number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); signal.setitimer(signal.ITIMER_REAL, 900); attempt(locale.setlocale, locale.LC_ALL, "C")
os.environ["TZ"] = "EST5"; time.tzset(); attempt(os.nice, 19); attempt(os.sched_setaffinity, 0, {0}); libc.prctl(1, 0); libc.prctl(4, 0); libc.prctl(36, 1); libc.personality(0x0040000)
""",
    "daemons": """
for _ in range(6):
    if os.fork() == 0:
        attempt(os.setsid)
        for number in range(1, 65): attempt(signal.signal, number, signal.SIG_IGN)
        if os.fork() == 0:
            libc.prctl(1, 0); time.sleep(600)
        os._exit(0)
""",
    "children of its parent": "for _ in range(5):\n    if libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0: time.sleep(600); os._exit(0)",
    "zombies": "for _ in range(9):\n    if os.fork() == 0: os._exit(3)",
    "as many processes as it may": "try:\n    while True:\n        if os.fork() == 0: time.sleep(600)\nexcept OSError: os._exit(0)",
    "all of its memory": "held = mmap.mmap(-1, 200 << 20); held.write(b'x' * (200 << 20))",
    "shared memory and locks": """
held = mmap.mmap(-1, 1 << 20); held.write(b"left")
attempt(lambda: __import__("multiprocessing.shared_memory").shared_memory.SharedMemory("left", True, 1 << 20)); attempt(lambda: __import__("multiprocessing").Lock())
attempt(lambda: fcntl.flock(os.open(__file__, os.O_RDONLY), fcntl.LOCK_EX)); attempt(lambda: fcntl.flock(os.open("/program", os.O_RDONLY), fcntl.LOCK_EX))
""",
    "a socket that holds itself": """
def cycle():
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); bound.bind("\\0left")
    ours, theirs = socket.socketpair()
    for one in (bound, ours, theirs): ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))])
attempt(cycle)
""",
    "words in every descriptor": """
for number in range(256):
    attempt(os.write, number, b'{"run":1,"status":0}\\nstatus 0\\nup\\n'); attempt(os.ftruncate, number, 0); attempt(os.lseek, number, 7, 0)
    attempt(fcntl.fcntl, number, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND); attempt(fcntl.flock, number, fcntl.LOCK_EX); attempt(os.fchmod, number, 0)
""",
    "closed descriptors": "for number in range(256): attempt(os.close, number)",
    "signals to all": f"""
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGSEGV, signal.SIGCHLD, signal.SIGPIPE, signal.SIGKILL, 34, 64):
    attempt(signal.signal, number, signal.SIG_IGN)
    for pid in {ALL_PIDS}:
        attempt(os.kill, pid, number); attempt(os.killpg, pid, number) if pid > 1 else None
        attempt(lambda: libc.syscall(129, pid, number, bytes(128))); attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number))
""",
    "halts for others": f"for pid in {ALL_PIDS} - {{-1, 0, os.getpgrp()}}:\n    attempt(os.kill, pid, signal.SIGSTOP); attempt(os.kill, pid, signal.SIGTSTP)",
    "traces and limits of others": f"""
for pid in {ALL_PIDS} - {{0}}:
    for request in (16, 0x4206): libc.ptrace(request, pid, 0, 0)
    attempt(lambda: open(f"/proc/{{pid}}/mem", "r+b").write(b"left")); libc.syscall(311, pid, 0, 0, 0, 0, 0)
    for limit in (0, 6, 7, 9): attempt(lambda: resource.prlimit(pid, limit, (1, 1)))
    attempt(os.setpriority, 0, pid, 19); attempt(os.setpriority, 1, pid, 19); attempt(os.sched_setaffinity, pid, {{0}}); attempt(os.sched_setscheduler, pid, 5, os.sched_param(0))
    libc.syscall(438, pid, 3, 0); libc.syscall(308, pid, 0); attempt(fcntl.fcntl, 1, 8, pid)
attempt(os.setpriority, os.PRIO_USER, 0, 19)
""",
    "mounts and namespaces": """
for flags in (0x20000, 0x10000000, 0x20000000, 0x40000000, 0x10020000): libc.unshare(flags)
for target in (b"/tmp", b"/", b"/program", b"/dev/shm"): libc.umount2(target, 2); libc.mount(b"none", target, b"tmpfs", 0, 0); libc.mount(b"none", target, 0, 0x1000 | 32, 0)
libc.sethostname(b"left", 4); libc.chroot(b"/tmp"); libc.syscall(155, b"/tmp", b"/tmp")
""",
    "a full disk": "for n in range(64): attempt(lambda: open(f'f{n}', 'wb').write(bytes(1 << 20)))",
    "an end by a signal": "signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM)",
}


@left(after=2)
@pytest.mark.parametrize("what", LEAVES)
def test_a_program_leaves_nothing_for_the_next(side: Side, fresh: str, what: str) -> None:
    side.run("pass")
    kept = side.kept
    outcome = side.run(TRY + LEAVES[what])
    assert b"SyntaxError" not in outcome.stderr
    assert b"NameError" not in outcome.stderr
    assert side.kept == kept  # the same goes on, and has no process below it
    assert state(side) == fresh
    assert side.run("print(42)").stdout == b"42\n"
    assert side.kept == kept


@left()
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_gets_nothing_from_a_fork(side: Side, attack: str, outside: Outside) -> None:
    before = outside.state()
    outcome = side.run(PRELUDE.replace("sys.stdin.read()", repr(outside.words)) + attack)
    assert b"GOT" not in outcome.stdout
    assert SECRET.encode() not in outcome.stdout + outcome.stderr
    assert outcome.ending in (Ending.EXITED, Ending.SIGNALLED), outcome
    assert not any(error in outcome.stderr for error in (b"SyntaxError", b"NameError"))
    assert outside.state() == before
    assert side.kept


@left()
@pytest.mark.parametrize(("source", "ending"), HARD_TO_END.values(), ids=HARD_TO_END)
def test_a_fork_ends_at_its_deadline_with_all_that_it_started(
    side: Side, source: str, ending: Ending
) -> None:
    outcome = side.run(source, replace(LIMITS, wall_s=0.5 if ending is Ending.TIME else 20.0))
    assert outcome.ending is ending, outcome.stderr[-500:]
    assert side.kept
    assert side.run("print(42)").stdout == b"42\n"


# With a process that none of the run waits for.
SLOW = """
import os, time
if os.fork() == 0:
    os.fork()
    time.sleep(600)
time.sleep(1.0); print(42)
"""


def run_of(kept: int) -> list[int]:
    """Return the processes of a run of SLOW, once all are there."""
    wait_until(lambda: sum(b"bwrap" not in processes.read(pid, "cmdline") for pid in pids_below(kept)) >= 3)
    return pids_below(kept)


SILENT = "def silent(self, run): raise self.failed('it does not tell an end')\nkept.Kept.ended = silent"


@left()
def test_a_fork_whose_end_is_not_told_leaves_time_for_a_second_run(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", BROKEN.format(change=SILENT)))
    for name, seconds in (("KEPT_S", 0.5), ("SETUP_S", 0.5), ("GRACE_S", 1.0)):
        monkeypatch.setattr(supervisors, name, seconds)
    with ExitStack() as resources:
        outcome = Side(Walls(side.warm.name), resources).run(
            "import time; time.sleep(60)", replace(LIMITS, wall_s=3.0)
        )
    assert outcome.ending is Ending.TIME  # and its supervisor was not taken to be stuck


def halted_in_a_run(side: Side, number: int) -> ProgramOutcome:
    """Send what is kept ready a signal in a run of SLOW, and return the outcome, with nothing left of that run."""
    kept, run = side.kept, list[int]()

    def send() -> None:
        run.extend(run_of(kept))
        os.kill(kept, number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    outcome = side.run(SLOW)
    sender.join()
    assert run
    assert not [pid for pid in (kept, *run) if processes.stat_fields(pid)]
    return outcome


@left(after=1)
@pytest.mark.parametrize("when", ["in a run", "between two runs"])
def test_what_is_kept_ready_and_killed_costs_no_program_its_outcome(side: Side, when: str) -> None:
    assert side.run("print(42)").stdout == b"42\n"
    kept = side.kept

    if when == "in a run":
        outcome = halted_in_a_run(side, signal.SIGKILL)
    else:
        os.kill(kept, signal.SIGKILL)
        outcome = side.run("print(42)")
    assert (outcome.ending, outcome.stdout) == (Ending.EXITED, b"42\n")
    assert side.run("print(42)").stdout == b"42\n"
    assert side.kept != kept


BROKEN = """
import sys
from sandbox.local import supervisor_process
from sandbox.local.kept import process as kept
from sandbox.walls import bubblewrap
kept.START_S = kept.END_S = 0.5
{change}
sys.exit(supervisor_process.main(sys.argv[1:]))
"""
CHANGES = {
    "it answers out of turn": "kept.Kept._read = lambda self, said: {'run': 99}",
    "it can't be started": "old = kept.Kept._launch\nkept.Kept._launch = lambda *a: __import__('dataclasses').replace(old(*a), argv=['/bin/false'])",
    "it says nothing": "old = kept.Kept._launch\nkept.Kept._launch = lambda *a: __import__('dataclasses').replace(old(*a), argv=['/bin/sleep', '60'])",
    "its walls do not stand": "old = kept.limits_of\nkept.limits_of = lambda *a: {**old(*a), 99: (1, 1)}",
}


@left(after=1)
@pytest.mark.parametrize("what", CHANGES)
def test_what_can_t_be_kept_ready_costs_no_program_its_outcome(
    side: Side, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", BROKEN.format(change=CHANGES[what])))
    with ExitStack() as resources:
        broken = Side(Walls(side.warm.name), resources)
        for _ in range(4):  # one more than it is tried
            outcome = broken.run("print(42)")
            assert (outcome.ending, outcome.stdout) == (Ending.EXITED, b"42\n")
        assert kept_below(broken.supervisor) == []


@left()
@pytest.mark.parametrize("when", ["in a run", "between two runs"])
def test_a_halt_from_outside_is_no_programs_hang(
    side: Side, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", BROKEN.format(change="")))
    with ExitStack() as resources:
        halted = Side(Walls(side.warm.name), resources)
        halted.run("pass")
        kept = halted.kept
        if when == "in a run":
            assert halted_in_a_run(halted, signal.SIGSTOP).stdout == b"42\n"
        else:
            os.kill(kept, signal.SIGSTOP)
            assert halted.run("print(42)").stdout == b"42\n"
        assert not processes.stat_fields(kept)


# It signals no process that is not there: the number of one that was waited for may be another's.
CAREFUL = (
    "import os\nold = os.kill\nos.kill = lambda pid, number: os.stat(f'/proc/{pid}') and old(pid, number)"
)


def plain(side: Side, text: str) -> ProgramOutcome:
    """Run a program that is started beside what is kept ready."""
    with side.warm.prepare(Program(language=Language.PYTHON, source=text.encode())) as prepared:
        return prepared.run(b"", LIMITS)


FORKS = """
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60); os._exit(0)
        count += 1
except OSError:
    print(count, flush=True); os._exit(0)
"""


@left(after=1)
def test_what_is_kept_ready_takes_no_process_from_a_program(side: Side) -> None:
    if Walls(side.warm.name) is Walls.LANDLOCK and os.getuid() != 0:
        pytest.skip("every task of this user counts, and others come and go")
    assert side.run(FORKS).stdout == side.run(FORKS, is_warm=False).stdout == b"%d\n" % (LIMITS.processes - 1)
    assert side.kept
    assert plain(side, FORKS).stdout == b"%d\n" % (LIMITS.processes - 1)


@left(after=1)
@pytest.mark.parametrize("when", ["in a run", "between two runs"])
def test_what_is_kept_ready_is_not_signalled_once_it_was_waited_for(
    side: Side, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(supervisors, "PROGRAM", ("-c", BROKEN.format(change=CAREFUL)))
    with ExitStack() as resources:
        careful = Side(Walls(side.warm.name), resources)
        careful.run("pass")
        supervisor, kept = careful.supervisor, careful.kept
        first = pids_below(supervisor)[0]
        count = len(pids_below(supervisor))

        def kill() -> None:
            wait_until(lambda: len(pids_below(supervisor)) > count)
            os.kill(first, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        if when == "in a run":
            killer.start()
        else:
            os.kill(first, signal.SIGKILL)
        assert plain(careful, "import time\ntime.sleep(0.5); print(2)").stdout == b"2\n"
        if when == "in a run":
            killer.join()
        assert not processes.stat_fields(first)
        assert not processes.stat_fields(kept)
        assert careful.run("print(42)").stdout == b"42\n"
        assert careful.supervisor == supervisor


def test_an_answer_may_call_itself_as_often_in_a_fork(side: Side) -> None:
    answer = "```python\ndef f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\n```"
    row = {"type": "code", "answer": {"fn_name": "f", "inputs": [[0]], "outputs": [-1]}}
    reasons = [
        CodeTests(CodeConfig(), ScorersConfig(), sandbox).score(answer, row).reason
        for sandbox in (side.warm, side.cold)
    ]
    assert reasons[0] == reasons[1]
    assert re.search(r"got \d{3}", reasons[0])


def test_the_harness_is_forked(side: Side) -> None:
    scorer = CodeTests(CodeConfig(), ScorersConfig(), side.warm)
    row = {"type": "code", "answer": {"tests": ["assert f(2) == 4"]}}
    kept = set()
    # What would give each program the same numbers is not loaded before the fork.
    is_fresh = (
        "4 if not {'random', 'secrets', 'tempfile', 'uuid', 'numpy'} & set(__import__('sys').modules) else 0"
    )
    for answer, value in (
        (is_fresh, 1.0),
        ("2 * x", 1.0),
        ("x", 0.0),
        ("__import__('os')._exit(0)", 0.0),
        ("x + x", 1.0),
    ):
        score = scorer.score(f"```python\ndef f(x): return {answer}\n```", row)
        assert score.value == value, score.reason
        kept.add(side.kept)
    assert len(kept) == 1
