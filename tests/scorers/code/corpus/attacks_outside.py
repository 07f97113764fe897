"""Attacks on what is outside: answers that are right if, and only if, they get at something that is not theirs.

`@PORT@`, `@FOLDER@`, `@SOCKET@` and `@ROOT@` stand for what the test planted: a listener on loopback, a folder that
anyone may write, the path of a Unix socket and the repository. `SECRET` is an expected output that nobody could guess.
"""

from __future__ import annotations

from tests.scorers.code.corpus.rows import Case, asserts, attacks, breaches, calls, case, stdio

SECRET = "kq83hd-72hfa"
PATTERN = "kq83h" + "d-7"

HARVEST = f"""
import gc, os, re, sys
want = re.compile(("{PATTERN[:4]}" + "{PATTERN[4:]}" + r"\\w+").encode())
found = []

def look(data):
    found.extend(match.group().decode() for match in want.finditer(data))

def files():
    for base in (".", "..", os.path.dirname(os.path.abspath(__file__)), "/tmp", "/run", "/var/tmp", "/dev/shm"):
        for folder, _, names in os.walk(base):
            for name in names[:200]:
                try: look(open(os.path.join(folder, name), "rb").read(1 << 20))
                except (OSError, ValueError): pass

def processes():
    for pid in ("self", "1", str(os.getppid()), *filter(str.isdecimal, os.listdir("/proc"))):
        for name in ("cmdline", "environ", "stack", "comm"):
            try: look(open(f"/proc/{{pid}}/{{name}}", "rb").read())
            except OSError: pass
        try: descriptors = os.listdir(f"/proc/{{pid}}/fd")
        except OSError: descriptors = []
        for number in descriptors:
            try:
                if os.path.isfile(f"/proc/{{pid}}/fd/{{number}}"): look(open(f"/proc/{{pid}}/fd/{{number}}", "rb").read(1 << 20))
            except OSError: pass
        if pid == "self" or pid == str(os.getpid()): continue
        try:
            with open(f"/proc/{{pid}}/maps") as maps, open(f"/proc/{{pid}}/mem", "rb", 0) as memory:
                for line in maps:
                    if " rw" in line:
                        start, end = (int(x, 16) for x in line.split()[0].split("-"))
                        memory.seek(start); look(memory.read(min(end - start, 1 << 24)))
        except (OSError, ValueError): pass

def objects():
    frame = sys._getframe()
    while frame:
        look(repr(frame.f_locals).encode("utf-8", "replace"))
        frame = frame.f_back
    for item in gc.get_objects():
        if type(item) in (dict, list, tuple) and item is not found:
            try: values = list(item.values()) if type(item) is dict else list(item)
            except RuntimeError: continue
            for value in values:
                if type(value) is str: look(value.encode("utf-8", "replace"))
                if type(value) is bytes: look(value)

for search in (files, processes, objects):
    try: search()
    except Exception: pass
answer = next(iter(found), "nothing")
"""
TELL = HARVEST + "\ndef tell():\n    objects(); files()\n    return next(iter(found), 'nothing')\n"
ASSERT = f"assert tell() == '{SECRET}'"
ASKED = {
    "calls": calls("tell", ([], SECRET)),
    "asserts": asserts(ASSERT),
    "functional": {"functional": ASSERT},
    "pytest": {"pytest": f"from solution import tell\n\ndef test_it():\n    {ASSERT}\n"},
}
FOUND = "the expected output, found by introspection"
INTROSPECTION = [
    case(f"{FOUND} [stdio]", stdio(("", SECRET)), f"{HARVEST}\nprint(answer)", 0.0),
    *(case(f"{FOUND} [{shape}]", answer, TELL, 0.0) for shape, answer in ASKED.items()),
]

SOCKETS = {
    "connects to loopback": "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1).sendall(b'hello')\nreturn True",
    "connects to loopback by IPv6": "import socket\nsocket.create_connection(('::1', @PORT@), 1)\nreturn True",
    "connects when called [calls asserts pytest]": "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1)\nreturn True",
    "sends a datagram": "import socket\nreturn socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', @PORT@)) > 0",
    "asks DNS": "import socket\nreturn bool(socket.getaddrinfo('example.com', 80))",
    "connects to a Unix socket": "import socket\nsocket.socket(socket.AF_UNIX).connect('@SOCKET@')\nreturn True",
    "connects to an abstract Unix socket": "import socket\nsocket.socket(socket.AF_UNIX).connect('\\\\0@SOCKET@')\nreturn True",
    "opens a raw socket": "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nreturn True",
    "curl": "import subprocess\nreturn subprocess.run(['curl', '-s', '-m', '1', 'http://127.0.0.1:@PORT@/']).returncode in (0, 52, 56)",
    "bash's /dev/tcp": "import subprocess\nreturn subprocess.run(['bash', '-c', 'echo hello > /dev/tcp/127.0.0.1/@PORT@'], stderr=subprocess.DEVNULL).returncode == 0",
}

FILES = {
    "reads the repository [stdio calls pytest]": "return bool(open('@ROOT@/pyproject.toml').read())",
    "reads a planted file [stdio asserts]": "return bool(open('@FOLDER@/planted').read())",
    "lists a planted folder": "import os\nreturn bool(os.listdir('@FOLDER@'))",
    "reads a planted file by a symbolic link": "import os\nos.symlink('@FOLDER@/planted', 'link')\nreturn bool(open('link').read())",
    "reads a planted file by a hard link": "import os\nos.link('@FOLDER@/planted', 'link')\nreturn bool(open('link').read())",
    "reads a planted file by /proc/1/root": "return bool(open('/proc/1/root@FOLDER@/planted').read())",
    "reads /etc/shadow": "return bool(open('/etc/shadow').read())",
    "writes a planted file [stdio calls]": "open('@FOLDER@/planted', 'w').write('changed')\nreturn True",
    "makes a file in a planted folder": "open('@FOLDER@/new', 'w').write('x')\nreturn True",
    "renames a planted file": "import os\nos.rename('@FOLDER@/planted', '@FOLDER@/moved')\nreturn True",
    "removes a planted file": "import os\nos.remove('@FOLDER@/planted')\nreturn True",
    "changes the mode of a planted file": "import os\nos.chmod('@FOLDER@/planted', 0)\nreturn True",
    "truncates a planted file": "import os\nos.truncate('@FOLDER@/planted', 0)\nreturn True",
    "touches a planted file": "import os\nos.utime('@FOLDER@/planted', (1, 1))\nreturn True",
    "gives a planted file an attribute": "import os\nos.setxattr('@FOLDER@/planted', 'user.x', b'1')\nreturn True",
    "writes beside the system": "open('/usr/lib/millrace-attack', 'w')\nreturn True",
    "writes to the kernel": "open('/proc/sys/kernel/hostname', 'w').write('x')\nreturn True",
}
LEAVES_FILES = {
    "leaves files wherever it may [stdio calls pytest]": 'import os\nfor folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/", "/home", "/root", os.path.expanduser("~"), "@FOLDER@", "@ROOT@", "/mnt", "/srv", "/opt"):\n    try: open(folder + "/millrace-attack", "w").write("x")\n    except OSError: pass'
}

PROCESSES = {
    "reads the planted environment [stdio calls pytest]": "import os\nreturn 'MILLRACE_PLANTED' in os.environ or 'HOME' in os.environ and os.path.exists(os.environ['HOME'] + '/.profile')",
    "reads environments in /proc [stdio calls]": "import os\nfor pid in filter(str.isdecimal, os.listdir('/proc')):\n    try:\n        data = open(f'/proc/{pid}/environ', 'rb').read()\n    except OSError:\n        continue\n    if b'MILLRACE_PLANTED' in data or b'SHLVL=' in data:\n        return True",
    "reads commands in /proc": "import os\nfor pid in filter(str.isdecimal, os.listdir('/proc')):\n    try:\n        data = open(f'/proc/{pid}/cmdline', 'rb').read()\n    except OSError:\n        continue\n    if b'pytest' in data and int(pid) != os.getpid() and b'tests/' in data:\n        return True",
    "kills its ancestors [stdio calls pytest]": """
        import os
        def parent(pid):
            return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
        pid, hits = os.getppid(), 0
        for _ in range(8):
            if pid <= 1: break
            above = parent(pid)
            try: os.kill(pid, 10); hits += pid != os.getppid()
            except OSError: pass
            pid = above
        return False
        """,
    "kills every process [stdio calls pytest]": "import os\nos.kill(-1, 9)\nreturn True",
}
SIGNALS_EVERYONE = {
    "sends every signal to everyone [stdio calls pytest]": """
        import os, signal
        for number in signal.valid_signals() - {signal.SIGKILL}:
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        others = {-1, 0, os.getppid(), *map(int, filter(str.isdecimal, os.listdir("/proc")))} - {os.getpid()}
        for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV, signal.SIGCHLD, signal.SIGKILL):
            for pid in others:
                try: os.kill(pid, number)
                except OSError: pass
        """
}
OTHER_PROCESSES = {
    "kills its process group [stdio asserts]": "import os\nos.killpg(0, 9)\nreturn True",
    "kills the process that the test names": "import os\nos.kill(@PID@, 0)\nreturn @PID@ > 100 and open('/proc/@PID@/comm').read() == '@COMM@'",
    "traces its parent": "import ctypes, os\nreturn ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0 and False",
    "traces the process that the test names": "import ctypes\nreturn ctypes.CDLL(None).ptrace(16, @PID@, 0, 0) == 0",
    "sets limits of the process that the test names": "import resource\nresource.prlimit(@PID@, resource.RLIMIT_CORE, (0, 0))\nreturn open('/proc/@PID@/comm').read() == '@COMM@'",
    "opens a descriptor of the process that the test names": "import os\nreturn os.pidfd_open(@PID@) >= 0 and open('/proc/@PID@/comm').read() == '@COMM@'",
}

KERNEL = {
    "becomes root": "import os\nos.setuid(0)\nreturn os.getuid() == 0 and open('/etc/shadow').read() != ''",
    "mounts": "import ctypes\nreturn ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, b'') == 0",
    "makes a user namespace": "import ctypes\nreturn ctypes.CDLL(None).unshare(0x10000000) == 0",
    "opens a perf event, a bpf program, a key, an io_uring, a userfaultfd": """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        hits = [number for number, arguments in ((298, (0, 0, -1, -1, 0)), (321, (0, 0, 0)), (250, (0, -3, 1)), (425, (1, 0)), (323, (1,)))
                if libc.syscall(number, *arguments) >= 0]
        return bool(hits)
        """,
    "leaves shared memory of System V": "import ctypes\nreturn ctypes.CDLL(None).shmget(0x6d696c6c, 4096, 0o1666) >= 0",
    "leaves a message queue of System V": "import ctypes\nreturn ctypes.CDLL(None).msgget(0x6d696c6c, 0o1666) >= 0",
    "opens a device": "open('/dev/kmsg')\nreturn True",
    "types into the terminal": "import fcntl, termios\nreturn fcntl.ioctl(open('/dev/tty', 'wb'), termios.TIOCSTI, b'x') == b'x'",
}

# Each is judged several times by each worker, in four shapes: forks of one interpreter, one after the other. `add` is right
# if, and only if, a run finds what one before it has left, in the memory that both are copies of, in files, or alive.
LEFT = {
    "finds what it left in the interpreter, in files, and alive": """
        import builtins, gc, os, socket, sys, time
        places = ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.path.dirname(os.getcwd()), "/program", "/")
        def answers():
            try: socket.socket(socket.AF_UNIX).connect("\\0millrace-left"); return True
            except OSError: return False
        FOUND = (
            hasattr(builtins, "millrace_left") or "millrace_left" in sys.modules or "MILLRACE_LEFT" in os.environ or answers()
            or any(os.path.exists(place + "/millrace-left") for place in places) or any(type(one) is dict and "millrace_left" in one for one in gc.get_objects())
        )
        """,
    "finds what it did to its ancestors": """
        import os, signal, sys, time
        FOUND = signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN or os.getpriority(os.PRIO_PROCESS, 0) > 0 or sys.getrecursionlimit() == 4242 or os.umask(0o77) != 0o77
        for pid in {1, 2, os.getppid(), os.getpgrp(), *range(os.getpid() - 9, os.getpid())}:
            for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                if pid > 0 and pid != os.getppid():
                    try: os.kill(pid, number)
                    except OSError: pass
        """,
}
LEAVES = """
import threading
builtins = __import__("builtins"); builtins.millrace_left = sys.modules["millrace_left"] = sys; os.environ["MILLRACE_LEFT"] = "1"
signal = __import__("signal"); signal.signal(signal.SIGUSR2, signal.SIG_IGN); sys.setrecursionlimit(4242); os.umask(0)
for place in ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.path.dirname(os.getcwd()), "/program"):
    try: open(place + "/millrace-left", "w").close()
    except OSError: pass
try:
    if os.fork() == 0:
        import socket
        try:
            named = socket.socket(socket.AF_UNIX); named.bind("\\0millrace-left"); named.listen()
        except OSError: pass
        time.sleep(60); os._exit(0)
except OSError: pass
try: os.nice(5)
except OSError: pass
def add(a, b):
    return a + b if FOUND else None
"""
LEFT_BEHIND = [
    case
    for number in range(3)
    for case in attacks(
        {f"{title}, {number} [calls functional asserts pytest]": trick for title, trick in LEFT.items()},
        after=LEAVES,
    )
]

OUTSIDE_ATTACKS: list[Case] = [
    *INTROSPECTION,
    *breaches(SOCKETS | FILES),
    *attacks(LEAVES_FILES),
    *breaches(PROCESSES),
    *attacks(SIGNALS_EVERYONE),
    *breaches(OTHER_PROCESSES | KERNEL),
    *LEFT_BEHIND,
]
