"""Attacks on the machine and on the deadline: bombs, floods, and processes that do not want to end."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import Case, exhausts, exhausts_when_called

FORKS = {
    "a fork bomb [stdio calls]": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "a bomb of processes that sleep [stdio pytest]": "import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(3600)\nexcept OSError: pass",
    "a bomb of threads [stdio asserts]": "import threading, time\ntry:\n    while True: threading.Thread(target=time.sleep, args=(3600,)).start()\nexcept RuntimeError: pass",
    "a detached child that holds standard output": "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(3600)\n    os._exit(0)",
    "a detached child that closes everything [stdio calls]": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 256)\n        time.sleep(3600)\n    os._exit(0)",
    "children that fork each other [stdio calls]": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    until = time.monotonic() + 30\n    while time.monotonic() < until:\n        if os.fork(): os._exit(0)",
    "nohup in a shell [stdio asserts]": "import os\nos.system('nohup setsid sleep 3600 >/dev/null 2>&1 &')",
    "a child that prints later [stdio]": "import os, time\nif os.fork() == 0:\n    time.sleep(0.1)\n    os.write(1, b'8')\n    os._exit(0)\nos._exit(0)",
}

STUBBORN = {
    "ignores every signal [stdio calls]": "import signal, time\nfor number in signal.valid_signals():\n    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\ntime.sleep(3600)",
    "hangs inside one C call [stdio pytest]": "sum(range(10 ** 12))",
    "an integer of 370 million digits [calls]": "str(9 ** 9 ** 9)",
    "stops itself [stdio asserts]": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "a busy thread [stdio calls]": "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()",
    "alarms [stdio calls]": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
    "hangs at its end [stdio calls asserts]": "import atexit, time\natexit.register(time.sleep, 3600)",
    "hangs in a finaliser [calls]": "class F:\n    def __del__(self):\n        while True: pass\nf = F()",
    "waits for its input [asserts]": "import sys\nwhile True: sys.stdin.read()",
    "reads a pipe that nobody writes [stdio]": "import os\nos.mkfifo('pipe')\nopen('pipe').read()",
}

MEMORY = {
    "a memory bomb [stdio calls pytest]": "hoard = []\nwhile True: hoard.append(bytearray(16 << 20))",
    "a memory bomb at once [stdio asserts]": "hoard = bytearray(64 << 30)",
    "memory of many processes [stdio calls]": "import os, time\nfor _ in range(16):\n    if os.fork() == 0:\n        hoard = bytearray(b'x') * (200 << 20)\n        time.sleep(3600)\ntime.sleep(3600)",
    "a mapping that is never touched [stdio]": "import mmap\nhoard = [mmap.mmap(-1, 1 << 34) for _ in range(64)]",
    "a recursion that overruns the stack [stdio calls asserts]": "import sys\nsys.setrecursionlimit(10 ** 9)\nclass R:\n    def __repr__(self): return repr(self)\ndef down(n): return [down(n + 1)]\ndown(0)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
}
VALUES = {
    "a value nested a million deep [calls asserts]": "x = []\n    for _ in range(10 ** 6): x = [x]\n    return x",
    "a value that holds itself [calls asserts]": "x = []\n    x.append(x)\n    return x",
    "a value of 100 MB [calls asserts]": "return 'x' * (100 << 20)",
    "a value of a million numbers [calls]": "return list(range(10 ** 6))",
    "a name of a type of 10 MB [calls pytest]": "return type('x' * 10 ** 7, (), {})()",
    "an exception with 50 MB of text [calls pytest]": "raise ValueError('x' * (50 << 20))",
    "an integer that takes long to print [calls asserts]": "return 10 ** (10 ** 7)",
}
SHARED = {"shared memory [stdio]": "open('/dev/shm/millrace-attack', 'wb').write(b'x' * (1 << 30))"}

FLOODS = {
    "endless output [stdio calls pytest]": "while True: print('x' * 65536)",
    "endless output on standard error [stdio asserts]": "import sys\nwhile True: print('x' * 65536, file=sys.stderr)",
    "5 MB of output": "print('8' * (5 << 20))",
    "output a byte at a time [stdio]": "import os\nwhile True: os.write(1, b'x')",
    "fills the disk with one file [stdio calls]": 'try:\n    with open("big", "wb") as file:\n        while True: file.write(b"x" * (1 << 20))\nexcept OSError: pass',
    "fills the disk with many files [stdio pytest]": 'try:\n    for number in range(10 ** 5):\n        with open(f"big-{number}", "wb") as file: file.write(b"x" * (8 << 20))\nexcept OSError: pass',
    "fills the disk with empty files [stdio]": 'import os\ntry:\n    for number in range(10 ** 7): os.close(os.open(f"file-{number}", os.O_CREAT))\nexcept OSError: pass',
    "a sparse file of a terabyte [stdio]": "try: open('big', 'wb').truncate(1 << 40)\nexcept OSError: pass",
    "folders too deep to remove by their path [stdio calls]": 'import os\ntry:\n    for _ in range(3000):\n        os.mkdir("d" * 200); os.chdir("d" * 200)\nexcept OSError: pass',
    "a folder that nobody may enter [stdio]": "import os\nos.mkdir('locked'); open('locked/file', 'w').close(); os.chmod('locked', 0); os.chmod('.', 0)",
    "names that are no text [stdio]": "import os\nos.mkdir(b'\\xff\\n'); os.symlink('/', b'\\xff\\n/root'); os.mkfifo('pipe')",
    "a symbolic link to what should be removed [stdio calls]": "import os\nos.symlink('@FOLDER@', 'folder'); os.rename('folder', 'scratch'); os.symlink('..', 'up')",
    "every descriptor [stdio calls]": "import os\ntry:\n    while True: os.dup(1)\nexcept OSError: pass",
    "locks and leases [stdio calls]": "import fcntl\nfcntl.flock(open(__file__), fcntl.LOCK_EX)",
}

LIMIT_ATTACKS: list[Case] = [
    *exhausts(FORKS | STUBBORN | MEMORY),
    *exhausts_when_called(VALUES),
    *exhausts(SHARED | FLOODS),
]
