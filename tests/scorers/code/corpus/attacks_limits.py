"""Attacks on the machine and on the deadline: bombs, floods, and processes that do not want to end."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import ASSERTS, CALLS, EVERY, PYTEST, STDIO, Case, exhausts

FORKS = [
    *exhausts(
        "a fork bomb", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", (STDIO, CALLS)
    ),
    *exhausts(
        "a bomb of processes that sleep",
        """
        import os, time
        try:
            while True:
                if os.fork() == 0: time.sleep(3600)
        except OSError: pass
        """,
        (STDIO, PYTEST),
    ),
    *exhausts(
        "a bomb of threads",
        """
        import threading, time
        try:
            while True: threading.Thread(target=time.sleep, args=(3600,)).start()
        except RuntimeError: pass
        """,
        (STDIO, ASSERTS),
    ),
    *exhausts(
        "a detached child that holds standard output",
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
        """,
        EVERY,
    ),
    *exhausts(
        "a detached child that closes everything",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                time.sleep(3600)
            os._exit(0)
        """,
        (STDIO, CALLS),
    ),
    *exhausts(
        "children that fork each other",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            until = time.monotonic() + 30
            while time.monotonic() < until:
                if os.fork(): os._exit(0)
        """,
        (STDIO, CALLS),
    ),
    *exhausts(
        "nohup in a shell",
        "import os\nos.system('nohup setsid sleep 3600 >/dev/null 2>&1 &')",
        (STDIO, ASSERTS),
    ),
    *exhausts(
        "a child that prints later",
        """
        import os, time
        if os.fork() == 0:
            time.sleep(0.1)
            os.write(1, b'8')
            os._exit(0)
        os._exit(0)
        """,
        (STDIO,),
    ),
]

STUBBORN = [
    *exhausts(
        "ignores every signal",
        """
        import signal, time
        for number in signal.valid_signals():
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(3600)
        """,
        (STDIO, CALLS),
    ),
    *exhausts("hangs inside one C call", "sum(range(10 ** 12))", (STDIO, PYTEST)),
    *exhausts("an integer of 370 million digits", "str(9 ** 9 ** 9)", (CALLS,)),
    *exhausts("stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", (STDIO, ASSERTS)),
    *exhausts(
        "a busy thread",
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()",
        (STDIO, CALLS),
    ),
    *exhausts("alarms", "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)", (STDIO, CALLS)),
    *exhausts(
        "hangs at its end", "import atexit, time\natexit.register(time.sleep, 3600)", (STDIO, CALLS, ASSERTS)
    ),
    *exhausts(
        "hangs in a finaliser",
        "class F:\n    def __del__(self):\n        while True: pass\nf = F()",
        (CALLS,),
    ),
    *exhausts("waits for its input", "import sys\nwhile True: sys.stdin.read()", (ASSERTS,)),
    *exhausts(
        "reads a pipe that nobody writes", "import os\nos.mkfifo('pipe')\nopen('pipe').read()", (STDIO,)
    ),
]

MEMORY = [
    *exhausts(
        "a memory bomb", "hoard = []\nwhile True: hoard.append(bytearray(16 << 20))", (STDIO, CALLS, PYTEST)
    ),
    *exhausts("a memory bomb at once", "hoard = bytearray(64 << 30)", (STDIO, ASSERTS)),
    *exhausts(
        "memory of many processes",
        """
        import os, time
        for _ in range(16):
            if os.fork() == 0:
                hoard = bytearray(b'x') * (200 << 20)
                time.sleep(3600)
        time.sleep(3600)
        """,
        (STDIO, CALLS),
    ),
    *exhausts(
        "a mapping that is never touched",
        "import mmap\nhoard = [mmap.mmap(-1, 1 << 34) for _ in range(64)]",
        (STDIO,),
    ),
    *exhausts(
        "a recursion that overruns the stack",
        """
        import sys
        sys.setrecursionlimit(10 ** 9)
        class R:
            def __repr__(self): return repr(self)
        def down(n): return [down(n + 1)]
        down(0)
        """,
        (STDIO, CALLS, ASSERTS),
    ),
    *exhausts("a segmentation fault", "import ctypes\nctypes.string_at(0)", EVERY),
    *exhausts(
        "a value nested a million deep",
        "",
        (CALLS, ASSERTS),
        after="def add(a, b):\n    x = []\n    for _ in range(10 ** 6): x = [x]\n    return x",
    ),
    *exhausts(
        "a value that holds itself",
        "",
        (CALLS, ASSERTS),
        after="def add(a, b):\n    x = []\n    x.append(x)\n    return x",
    ),
    *exhausts(
        "a value of 100 MB", "", (CALLS, ASSERTS), after="def add(a, b):\n    return 'x' * (100 << 20)"
    ),
    *exhausts(
        "a value of a million numbers", "", (CALLS,), after="def add(a, b):\n    return list(range(10 ** 6))"
    ),
    *exhausts(
        "a name of a type of 10 MB",
        "",
        (CALLS, PYTEST),
        after="def add(a, b):\n    return type('x' * 10 ** 7, (), {})()",
    ),
    *exhausts(
        "an exception with 50 MB of text",
        "",
        (CALLS, PYTEST),
        after="def add(a, b):\n    raise ValueError('x' * (50 << 20))",
    ),
    *exhausts(
        "an integer that takes long to print",
        "",
        (CALLS, ASSERTS),
        after="def add(a, b):\n    return 10 ** (10 ** 7)",
    ),
    *exhausts("shared memory", "open('/dev/shm/millrace-attack', 'wb').write(b'x' * (1 << 30))", (STDIO,)),
]

FLOODS = [
    *exhausts("endless output", "while True: print('x' * 65536)", (STDIO, CALLS, PYTEST)),
    *exhausts(
        "endless output on standard error",
        "import sys\nwhile True: print('x' * 65536, file=sys.stderr)",
        (STDIO, ASSERTS),
    ),
    *exhausts("5 MB of output", "print('8' * (5 << 20))", EVERY),
    *exhausts("output a byte at a time", "import os\nwhile True: os.write(1, b'x')", (STDIO,)),
    *exhausts(
        "fills the disk with one file",
        """
        try:
            with open("big", "wb") as file:
                while True: file.write(b"x" * (1 << 20))
        except OSError: pass
        """,
        (STDIO, CALLS),
    ),
    *exhausts(
        "fills the disk with many files",
        """
        try:
            for number in range(10 ** 5):
                with open(f"big-{number}", "wb") as file: file.write(b"x" * (8 << 20))
        except OSError: pass
        """,
        (STDIO, PYTEST),
    ),
    *exhausts(
        "fills the disk with empty files",
        """
        import os
        try:
            for number in range(10 ** 7): os.close(os.open(f"file-{number}", os.O_CREAT))
        except OSError: pass
        """,
        (STDIO,),
    ),
    *exhausts(
        "a sparse file of a terabyte",
        "try: open('big', 'wb').truncate(1 << 40)\nexcept OSError: pass",
        (STDIO,),
    ),
    *exhausts(
        "folders too deep to remove by their path",
        """
        import os
        try:
            for _ in range(3000):
                os.mkdir("d" * 200); os.chdir("d" * 200)
        except OSError: pass
        """,
        (STDIO, CALLS),
    ),
    *exhausts(
        "a folder that nobody may enter",
        "import os\nos.mkdir('locked'); open('locked/file', 'w').close(); os.chmod('locked', 0); os.chmod('.', 0)",
        (STDIO,),
    ),
    *exhausts(
        "names that are no text",
        "import os\nos.mkdir(b'\\xff\\n'); os.symlink('/', b'\\xff\\n/root'); os.mkfifo('pipe')",
        (STDIO,),
    ),
    *exhausts(
        "a symbolic link to what should be removed",
        "import os\nos.symlink('@FOLDER@', 'folder'); os.rename('folder', 'scratch'); os.symlink('..', 'up')",
        (STDIO, CALLS),
    ),
    *exhausts(
        "every descriptor", "import os\ntry:\n    while True: os.dup(1)\nexcept OSError: pass", (STDIO, CALLS)
    ),
    *exhausts("locks and leases", "import fcntl\nfcntl.flock(open(__file__), fcntl.LOCK_EX)", (STDIO, CALLS)),
]

LIMIT_ATTACKS: list[Case] = [*FORKS, *STUBBORN, *MEMORY, *FLOODS]
