"""Programs that attack the sandbox or will not end, and what lies outside of it for them to reach."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.program import Ending
from tests.support.paths import ROOT

SECRET = "the-planted-secret"

# Before each attack. `attempt` prints GOT and what was got, where an attack succeeds.
PRELUDE = """
import ctypes, os, resource, signal, socket, subprocess, sys, threading, time
folder, home, port, scorer, supervisor = sys.stdin.read().split("|")
libc = ctypes.CDLL(None, use_errno=True)
def attempt(do, *args):
    try:
        print("GOT", do(*args), flush=True)
    except (OSError, ValueError, subprocess.SubprocessError, MemoryError):
        pass
def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno())
"""

ATTACKS = {
    # Files
    "reads a file that everybody may read": "attempt(lambda: open(folder + '/secret').read())",
    "reads the home folder": "attempt(os.listdir, home); attempt(lambda: open(home + '/secret').read())",
    "reads the repository": f"attempt(lambda: open({str(ROOT / 'pyproject.toml')!r}).read())",
    "reads accounts": "attempt(lambda: open('/etc/passwd').read()); attempt(os.listdir, '/etc/ssh')",
    "walks through /proc": "attempt(lambda: [open(f'/proc/{p}/environ').read() for p in os.listdir('/proc') if p.isdigit()])",
    "reads the scorer's environment": "attempt(lambda: open(f'/proc/{scorer}/environ').read())",
    "reads the scorer's memory": "attempt(lambda: open(f'/proc/{scorer}/mem', 'rb').seek(4096))",
    "walks through /sys": "attempt(os.listdir, '/sys')",
    "follows a link to a secret": "os.symlink(folder + '/secret', 'link'); attempt(lambda: open('link').read())",
    "makes a hard link to a secret": "attempt(os.link, folder + '/secret', 'hard')",
    "writes beside its scratch": "attempt(lambda: open(folder + '/planted', 'w').write('x'))",
    "writes into its program": "attempt(lambda: open(os.path.dirname(os.path.abspath(__file__)) + '/planted.py', 'w').write('x'))",
    "overwrites its interpreter": "attempt(lambda: open(os.path.realpath(sys.executable), 'ab').close())",
    "removes a file": "attempt(os.unlink, folder + '/secret'); attempt(os.rename, folder + '/secret', folder + '/gone')",
    "empties a file": "attempt(os.truncate, folder + '/secret', 0); attempt(os.open, folder + '/secret', os.O_RDONLY | os.O_TRUNC)",
    "changes a file's rights": "attempt(os.chmod, folder + '/secret', 0); attempt(os.utime, folder + '/secret', (0, 0))",
    "mounts": "attempt(call, 165, b'none', folder.encode(), b'tmpfs', 0, 0)",
    "leaves by chroot": "attempt(os.chroot, '/tmp')",
    # Network
    "connects to the machine": "attempt(lambda: socket.create_connection(('127.0.0.1', int(port)), timeout=1))",
    "sends a datagram": "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', int(port))))",
    "asks for a name": "attempt(socket.getaddrinfo, 'example.com', 80)",
    "opens a raw socket": "attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)",
    "talks to the kernel": "attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)",
    "connects to a named socket": "attempt(lambda: socket.socket(socket.AF_UNIX).connect(folder + '/socket'))",
    "connects a pair to a named socket": "attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect(folder + '/datagrams'))",
    # Processes
    "signals the scorer": "attempt(os.kill, int(scorer), signal.SIGUSR1); attempt(os.kill, int(supervisor), signal.SIGTERM)",
    "traces the scorer": "attempt(call, 101, 16, int(scorer), 0, 0)",
    "reads another's memory": "attempt(call, 310, int(scorer), 0, 0, 0, 0, 0)",
    "stops the scorer by a limit": "attempt(resource.prlimit, int(scorer), resource.RLIMIT_CPU, (1, 1))",
    "stops the scorer by an owner's signal": "import fcntl; r, w = os.pipe(); attempt(fcntl.fcntl, r, fcntl.F_SETOWN, int(scorer))",
    "slows down its user's or its group's processes": "attempt(os.setpriority, os.PRIO_USER, 0, 5); attempt(os.setpriority, os.PRIO_PGRP, 0, 5)",
    "leaves its group": "attempt(os.setsid); attempt(os.setpgid, 0, 0)",
    "makes namespaces": "attempt(call, 272, 0x10000000); attempt(call, 56, 0x10000011, 0, 0, 0, 0)",
    "makes a namespace by clone3": "attempt(call, 435, bytes(88), 88)",
    "becomes root": "attempt(os.setuid, 0) if os.getuid() else print('GOT root')",
    "asks for io_uring": "attempt(call, 425, 8, bytes(120))",
    "loads a filter": "attempt(call, 157, 22, 1, 0, 0, 0)",
    "keeps memory outside of processes": "attempt(os.memfd_create, 'm'); attempt(call, 29, 0, 4096, 0o1600)",
    "uses the calls of another ABI": "attempt(call, 0x40000000 + 39)",
    # Limits
    "raises its limits": "for n in ('AS', 'NPROC', 'FSIZE', 'CORE', 'NOFILE', 'CPU'):\n  attempt(resource.setrlimit, getattr(resource, 'RLIMIT_' + n), (resource.RLIM_INFINITY,) * 2)",
    "lowers its time to look as if it was killed": "attempt(resource.setrlimit, resource.RLIMIT_CPU, (0, 0))",
    "kills itself by SIGKILL": "attempt(os.kill, os.getpid(), 9); attempt(os.kill, 0, 9); attempt(os.killpg, os.getpgrp(), 9)",
    "kills itself by a thread's SIGKILL": "attempt(signal.pthread_kill, threading.get_ident(), 9)",
    "kills itself through a child's end": "attempt(call, 56, 9, 0, 0, 0, 0)",
    "kills itself by a timer": "attempt(call, 222, 0, bytes(8) + (9).to_bytes(4, 'little') + bytes(52), bytes(8))",
    "writes a file too large": "attempt(lambda: open('big', 'wb').write(bytes(5 << 20)) > (4 << 20) or 1/0)",
}


@dataclass(frozen=True)
class Outside:
    """What is there to be attacked."""

    folder: Path
    server: socket.socket
    words: str

    def state(self) -> list[tuple[str, int, int, float, int, bytes]]:
        found = []
        for path in sorted([self.folder, *self.folder.iterdir()]):
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found.append((path.name, status.st_mode, status.st_uid, status.st_mtime, status.st_size, content))
        return found


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    with (
        tempfile.TemporaryDirectory() as name,
        tempfile.TemporaryDirectory(dir=Path.home()) as home,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        folder = Path(name)
        for place in (folder, Path(home)):
            place.chmod(0o777)
            (place / "secret").write_text(SECRET)
            (place / "secret").chmod(0o666)
        named.bind(str(folder / "socket"))
        named.listen()
        datagrams.bind(str(folder / "datagrams"))
        for file in ("socket", "datagrams"):
            (folder / file).chmod(0o777)
        server.settimeout(0)
        words = [folder, home, server.getsockname()[1], os.getpid(), os.getppid()]
        yield Outside(folder, server, "|".join(map(str, words)))


STUBBORN = """
import os, signal, sys, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""
GRANDCHILD = """
if os.fork() == 0:
    try: os.setsid()
    except OSError: pass
    if os.fork() == 0: time.sleep(60)
"""
THREADS = """
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(60,)).start()
    except RuntimeError: time.sleep(.1)
"""
HOARDS = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(200 << 20)\ntime.sleep(60)"
SHARES = "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nm.write(b'x' * (300 << 20))\ntime.sleep(60)"
HARD_TO_END = {
    "sleeps": ("import time; time.sleep(60)", Ending.TIME),
    "computes": ("while True: pass", Ending.TIME),
    "ignores every signal": (STUBBORN + "time.sleep(60)", Ending.TIME),
    "closes its output and goes on": ("import os, time; os.closerange(0, 9); time.sleep(60)", Ending.TIME),
    "leaves a child with its output": ("import os, time\nif os.fork() == 0: time.sleep(60)", Ending.EXITED),
    "leaves a grandchild that ignores signals": (STUBBORN + GRANDCHILD, Ending.EXITED),
    "is a fork bomb": ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", Ending.TIME),
    "is a bomb of threads": (THREADS, Ending.TIME),
    "is a bomb of memory in many processes": (HOARDS, Ending.MEMORY),
    "holds shared memory": (SHARES, Ending.MEMORY),
    "writes without end": ("while True: print('x' * 65536)", Ending.OUTPUT),
    "writes errors without end": ("import sys\nwhile True: sys.stderr.write('x' * 65536)", Ending.OUTPUT),
}
