"""This module reads from the kernel which processes one run has, and how much memory they hold together.

In: /proc, seen from outside the sandbox. Used by `sandbox.local.execution` between two looks at its pipes. A
process that ends while it is looked at is no longer counted.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
import time
from contextlib import suppress

from sandbox.local.folders import TOO_MANY_BYTES

HELD = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)  # not files: interpreters are shared
SHARE = re.compile(rb"^Pss_(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
UNNAMED = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+) +(/.*) \(deleted\)$")  # of /proc/PID/maps
ZOMBIE = b"Z"
STOPPED = b"T"  # by a signal; one that is traced has a small letter
MOST_TASKS = 1 << 22  # of a machine
TASKS = re.compile(rb"^Uid:\s+(\d+).*^Threads:\s+(\d+)", re.MULTILINE | re.DOTALL)


def read(pid: int | str, name: str) -> bytes:
    """Read a file of a process; empty where the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 -- fifty times a second
            return file.read(4096)
    except OSError:
        return b""


def stat_fields(pid: int | str) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on: [0] state, [1] parent, [2] group, [3] session."""
    return read(pid, "stat").rpartition(b")")[2].split()


def all_pids() -> set[str]:
    """Return the pid of every process of the machine."""
    return {name for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 -- as above


def threads_of_user(uid: int) -> int:
    """Count a user's tasks, as far as they are shown here."""
    found = (TASKS.search(read(pid, "status")) for pid in all_pids())
    return sum(int(match[2]) for match in found if match and int(match[1]) == uid)


def tasks_of_user(uid: int) -> int:
    """Count a user's tasks: the number that RLIMIT_NPROC compares with.

    The kernel counts a user's tasks of all containers, and shows those of one's own alone. For the user of this process
    it is asked: a fork under a limit that is too low is refused. Only for a process of one thread that waits for no
    child meanwhile. Root's forks are never refused, and nobody else has the users that root's programs run as.
    """
    shown = threads_of_user(uid)
    if uid != os.getuid():
        return shown
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    highest = MOST_TASKS if hard == resource.RLIM_INFINITY else hard
    low, step = min(shown + 1, highest), 1  # the fork itself counts
    if _forks(low):
        return shown
    while not _forks(min(low + step, highest)):
        low, step = low + step, 2 * step
        if low >= highest:  # it is no limit of the user's that refuses
            return shown
    high = min(low + step, highest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _forks(middle) else (middle, high)
    return high - 1


def has_more_tasks(uid: int, than: int) -> bool:
    """Tell whether a user has more tasks: by one fork at most, where `tasks_of_user` takes several."""
    if threads_of_user(uid) > than:
        return True
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if uid != os.getuid() or resource.RLIM_INFINITY != hard <= than:
        return False
    return not _forks(than + 1)


def _forks(limit: int) -> bool:
    """Tell whether a fork is allowed under this limit of the user's tasks, which is as it was afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, before[1]))
    try:
        pid = os.fork()
    except BlockingIOError:
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def children() -> set[int]:
    """Return every child of this process, also those that it was given because their own parents have ended.

    Nobody else may wait for one meanwhile: the kernel's own list could leave out another one then.
    """
    own = str(os.getpid())
    try:
        with open(f"/proc/self/task/{own}/children", "rb") as table:  # noqa: PTH123 -- once a run
            return set(map(int, table.read().split()))
    except FileNotFoundError:  # a kernel without the list
        parents = ((pid, stat_fields(pid)) for pid in all_pids())
        return {int(pid) for pid, fields in parents if len(fields) > 1 and fields[1] == own.encode()}


def kill_children(spared: frozenset[int] = frozenset()) -> None:
    """End every child of this process but these."""
    for pid in children() - spared:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def reap_children(within_s: float) -> None:
    """End every child of this process, those that it is given meanwhile too, and wait until none is left.

    Raises:
        TimeoutError: one is left that not even SIGKILL ends.
    """
    deadline = time.monotonic() + within_s
    while True:
        kill_children()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"SIGKILL has not ended {sorted(children())} within {within_s:g} s")
        time.sleep(0.001)


class Tree:
    """The processes of one run, known by their sessions: no program can leave its own."""

    def __init__(self) -> None:
        """Note what else the machine runs, before the run's first process starts: that is looked at once."""
        self._main = ""
        self._inner: bytes | None = (
            None  # bubblewrap's inner process, of which the program is the first child
        )
        self._states: dict[str, tuple[bytes, bytes, int]] = {}  # state, parent and start at the last look
        self._sessions: set[bytes] = set()
        self._others = all_pids()

    def add_main(self, pid: int) -> None:
        """Note the first process, which leads a session."""
        self._main = str(pid)
        self._sessions.add(self._main.encode())
        self._others.discard(self._main)

    def add_session(self, leader: int) -> None:
        """Bubblewrap's inner process leads a session of its own."""
        self._inner = str(leader).encode()
        self._sessions.add(self._inner)
        self._others.discard(str(leader))

    def memory_bytes(self, allowed: int) -> int:
        """Count the bytes that the run's processes hold: own pages and shared memory. Exact where over `allowed`.

        At first each page counts once a process. A fork shares its pages until they are written to, but the kernel
        takes long to say so: it walks through them all.
        """
        members = self._members()
        total = sum(map(held_bytes, members))
        return total if total <= allowed else sum(share_bytes(pid) or held_bytes(pid) for pid in members)

    @property
    def is_stopped(self) -> bool:
        """Return whether the program's first process was halted by a signal when memory was last looked at.

        Nobody continues such a process, and nothing else tells it from one that waits.
        """
        if self._inner is None:
            return self._states.get(self._main, (b"",))[0] == STOPPED
        children = [(start, state) for state, parent, start in self._states.values() if parent == self._inner]
        return bool(children) and min(children)[1] == STOPPED

    def unnamed_bytes(self, folder: str, device: int, *, strict: bool) -> int:
        """Return the bytes of disk that files without a name hold, since a process has them open or mapped.

        Args:
            folder: in which they had names, to know them among what is mapped.
            device: of that folder; files of others, such as a standard input in memory, do not count.
            strict: whether a process that can't be looked into counts as too much. Its user is ours: it saw to that.
        """
        held: dict[int, int] = {}
        for pid, (state, _, _) in list(self._states.items()):
            if state != ZOMBIE and not _note_unnamed(pid, folder, device, held) and strict:
                return TOO_MANY_BYTES
        return sum(held.values())

    def tasks(self) -> int:
        """Count the threads of the run's processes."""
        found = (TASKS.search(read(pid, "status")) for pid in self._members())
        return sum(int(match[2]) for match in found if match)

    def _members(self) -> list[str]:
        now = all_pids()
        self._others &= now
        members = []
        self._states.clear()
        for pid in now - self._others:
            fields = stat_fields(pid)
            # Or leads a session, as soon as it gets to it.
            if len(fields) > 3 and (fields[3] in self._sessions or pid.encode() in self._sessions):
                members.append(pid)
                self._states[pid] = (fields[0], fields[1], int(fields[19]))
            else:
                self._others.add(pid)
        return members


def held_bytes(pid: str) -> int:
    """Pages of a process that are no file's, shared ones too."""
    return sum(int(kilobytes) for kilobytes in HELD.findall(read(pid, "status"))) * 1024


def _note_unnamed(pid: str, folder: str, device: int, held: dict[int, int]) -> bool:
    """Note by inode what a process's unnamed files hold. Return whether the process could be looked into."""
    mapped: dict[int, int] = {}
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 -- fifty times a second
            with suppress(FileNotFoundError, ProcessLookupError):
                status = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116
                if not status.st_nlink and stat.S_ISREG(status.st_mode) and status.st_dev == device:
                    held[status.st_ino] = status.st_blocks * 512
        with open(f"/proc/{pid}/maps", "rb") as table:  # noqa: PTH123
            for line in table:
                match = UNNAMED.match(line)
                if match and match[4].startswith(os.fsencode(folder)):
                    inode = int(match[3])
                    mapped[inode] = mapped.get(inode, 0) + int(match[2], 16) - int(match[1], 16)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return True
    except PermissionError:
        # Nobody but root may look into a process that is ending, which has no memory any more.
        return b"\nVmSize:" not in read(pid, "status")
    for inode, size in mapped.items():  # what is open says exactly what it holds
        held.setdefault(inode, size)
    return True


def share_bytes(pid: str) -> int:
    """Return the bytes as `held_bytes` does, with a page of n processes as 1/n; 0 where the kernel does not say."""
    return sum(int(kilobytes) for kilobytes in SHARE.findall(read(pid, "smaps_rollup"))) * 1024
