"""The scorer's end of its supervisors: starting them, handing them orders, letting go of them.

In: a `RunOrder`. Out: a `ProgramOutcome`, or `SandboxUnavailable`. `sandbox.local.sandbox` keeps one `Supervisors` a
sandbox; as many of them live as orders were given at the same time. A fork of the scorer starts its own. The folder of
a scorer that was killed together with its supervisors is removed by the next one: its lock is no longer held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sandbox.local.execution import SETUP_S
from sandbox.local.folders import OPEN_FOLDER, remove_folder
from sandbox.local.kept.process import END_S, START_S
from sandbox.local.launch import Identity
from sandbox.local.orders import RunOrder, receive_report, send_order
from sandbox.program import NoRoom, ProgramOutcome, SandboxUnavailable

PROGRAM = ("-m", "sandbox.local.supervisor_process")
PREFIX: Final = "millrace-sandbox-"
LOCKED: Final = f"{PREFIX}locked-"  # a folder that is locked while its scorer lives
FORGOTTEN_S: Final = 86_400.0  # without a change, after which another folder is nobody's
# What is kept ready may take beside a whole run, before the program is started without it: one that has done its part
# is ended, another loads, its fork begins, tells its end, and it is ended.
KEPT_S: Final = 2 * START_S + 3 * END_S
GRACE_S = 10.0  # beyond the run's own deadline and its walls' setup: then the supervisor itself is stuck


class Supervisor:
    """One supervising process; one order at a time."""

    def __init__(self, base: Path) -> None:
        """Start the process. Raises OSError where the machine has no room for it."""
        self._connection, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *PROGRAM, str(base), str(os.getpid())],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd=source_root(),
                    env=own_environment(),
                )
            except OSError:
                self._connection.close()
                raise

    def run(self, order: RunOrder) -> ProgramOutcome:
        """Have the supervisor run an order. Raises SandboxUnavailable; `is_alive` says whether it can take another."""
        self.start(order)
        run_s = SETUP_S + order.limits.wall_s
        return self.ended(2 * run_s + KEPT_S if order.kept else run_s)

    def start(self, order: RunOrder) -> None:
        """Have the supervisor begin an order. Raises SandboxUnavailable."""
        self._connection.settimeout(GRACE_S)
        with self._gone_is_unavailable():
            send_order(self._connection, order)

    def ended(self, within_s: float = 0.0) -> ProgramOutcome:
        """Return the outcome of the order that was begun. Raises SandboxUnavailable."""
        self._connection.settimeout(within_s + GRACE_S)
        with self._gone_is_unavailable():
            report = receive_report(self._connection)
        if report.outcome is None:
            raise (NoRoom if report.no_room else SandboxUnavailable)(report.broken)
        return report.outcome

    def fileno(self) -> int:
        """Return what can be read from once an order has ended."""
        return self._connection.fileno()

    @contextmanager
    def _gone_is_unavailable(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            self.end()
            raise SandboxUnavailable(
                f"the sandbox's supervisor {self._process.pid} is gone: {error}"
            ) from error
        except BaseException:  # the scorer's own deadline: this report must not be taken for the next one
            self.end()
            raise

    @property
    def user(self) -> Identity:
        """Return the user that its programs run as."""
        return Identity.choose(self._process.pid)

    @property
    def is_alive(self) -> bool:
        """Return whether this supervisor can take an order."""
        return self._connection.fileno() >= 0

    def end(self) -> None:
        """Have the supervisor end its run and itself; kill it where it does not."""
        self._process.terminate()  # only noted: the folder is not its to remove
        self._connection.close()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def release(self) -> None:
        """Let go of a supervisor in a fork of the scorer: the supervisor belongs to the parent."""
        self._connection.close()
        self._process.returncode = 0  # not our child: nobody to wait for


class Supervisors:
    """The supervisors of one sandbox, and the folder in which it prepares programs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Supervisor] = []
        self._base: Path | None = None
        self._lock_fd = -1  # the folder, open and locked
        self._owner = 0

    def base(self) -> Path:
        """Return the folder, reachable by us and by the programs' user; it is removed when we end, however we end.

        Raises:
            SandboxUnavailable: no room for it, or for who watches over it.
        """
        with self._lock:
            if self._owner != os.getpid():
                for supervisor in self._idle:
                    supervisor.release()
                self._let_go()  # the parent's lock goes on
                self._idle, self._base, self._owner = [], None, os.getpid()
            if self._base is None:
                with unavailable("no folder for programs, or nobody to watch over it"):
                    self._base = self._found()
            return self._base

    def _found(self) -> Path:
        base, self._lock_fd = own_folder()
        try:
            gid = Identity.choose().gid
            if gid is not None:
                os.chown(base, -1, gid)
                base.chmod(0o710)
            self._idle.append(Supervisor(base))  # watches over the folder from now on
        except OSError:
            self._let_go()
            remove_folder(base)
            raise
        return base

    def _let_go(self) -> None:
        """Close the lock, which is given up where no other process has it."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def take(self) -> Supervisor:
        """Return an idle supervisor, or a new one, which the caller ends. Raises SandboxUnavailable."""
        base = self.base()
        with self._lock:
            supervisor = self._idle.pop() if self._idle else None
        with unavailable("no process for the sandbox's supervisor"):
            return supervisor or Supervisor(base)

    def run(self, order: RunOrder) -> ProgramOutcome:
        """Have an idle supervisor run an order, or a new one. Raises SandboxUnavailable."""
        supervisor = self.take()
        try:
            return supervisor.run(order)
        finally:
            if supervisor.is_alive:
                with self._lock:
                    self._idle.append(supervisor)

    def close(self) -> None:
        """End the idle supervisors, and remove the folder. The next order starts anew."""
        with self._lock:
            if self._owner != os.getpid():
                return
            for supervisor in self._idle:
                supervisor.end()
            if self._base is not None:
                remove_folder(self._base)
            self._let_go()
            self._idle, self._base = [], None


def own_folder() -> tuple[Path, int]:
    """Make a folder that the next sweep removes once this process has ended, however it ends, and those of others now.

    Returns:
        The folder, and the descriptor of its lock, which whoever removes it closes.
    Raises:
        OSError: no room for it.
    """
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = -1
    try:
        lock = os.open(folder, OPEN_FOLDER)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Locked before it is named so.
        return folder.rename(folder.with_name(LOCKED + folder.name.removeprefix(PREFIX))), lock
    except OSError:
        if lock >= 0:
            os.close(lock)
        remove_folder(folder)
        raise


def sweep(temporary: Path) -> None:
    """Remove this user's folders whose scorers were killed; one that can't be removed stays."""
    for folder in temporary.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                _sweep_folder(folder, age_s=time.time() - status.st_mtime)


def _sweep_folder(folder: Path, *, age_s: float) -> None:
    """Remove a folder that nobody has. Raises OSError where somebody has it."""
    if not folder.name.startswith(LOCKED):  # of an earlier version, or a scorer that is just starting
        if age_s > FORGOTTEN_S:
            remove_folder(folder)
        return
    lock = os.open(folder, OPEN_FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_folder(folder)
    finally:
        os.close(lock)


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Raise the machine's own failures, no room or no more processes, as SandboxUnavailable or its NoRoom."""
    try:
        yield
    except OSError as error:
        kind = NoRoom if error.errno in NoRoom.ERRORS else SandboxUnavailable
        raise kind(f"{what}: {error}") from error


def source_root() -> Path:
    """Return the folder that `sandbox` is imported from: `-m` finds it there from any working folder."""
    return Path(__file__).resolve().parents[2]


def own_environment() -> dict[str, str]:
    """Return the environment of a supervisor, which needs none of the scorer's secrets."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
