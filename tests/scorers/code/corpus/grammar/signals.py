"""Attacks by signals: to oneself, the parent, the group and everyone; handlers, timers, limits."""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

SIGNALS: Grammar = {
    "signals": (
        "import os, signal\ntry: os.kill(<whom>, signal.<signal>)\nexcept OSError: pass",
        "import os, signal\nfor _ in range(<few>):\n    try: os.kill(<whom>, signal.<signal>)\n    except OSError: pass",
        "import os, signal\nfor number in (signal.<signal>, signal.<signal>, signal.<signal>):\n    try: os.killpg(<group>, number)\n    except OSError: pass",
        "import os, signal\ntry:\n    signal.signal(signal.<catchable>, <handler>)\n    os.kill(os.getpid(), signal.<catchable>)\nexcept (OSError, ValueError): pass",
        "import signal\ntry:\n    signal.signal(signal.SIGALRM, <handler>)\n    signal.setitimer(signal.ITIMER_REAL, <moment>, <again>)\nexcept ValueError: pass",
        "import signal\ntry:\n    signal.signal(signal.<clock signal>, <handler>)\n    signal.setitimer(signal.<clock>, <moment>, <again>)\nexcept ValueError: pass",
        "import signal\nfor number in signal.valid_signals():\n    try: signal.signal(number, <handler>)\n    except (OSError, ValueError): pass",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        "import os, signal, threading\ndef shoot():\n    try: os.kill(<whom>, signal.<signal>)\n    except OSError: pass\nthreading.Timer(<moment>, shoot).start()",
        "import os, signal, time\nif os.fork() == 0:\n    time.sleep(<moment>)\n    try: os.kill(<whom>, signal.<signal>)\n    finally: os._exit(<code>)",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.syscall(<kill call>, <whom>, <number>)",
        "import os, signal\ntry:\n    handle = os.pidfd_open(os.getppid())\n    signal.pidfd_send_signal(handle, signal.<signal>)\nexcept (OSError, AttributeError): pass",
        "import os, signal\nfor pid in range(os.getpid() - <few>, os.getpid() + <few>):\n    if pid != os.getpid():\n        try: os.kill(pid, signal.<signal>)\n        except OSError: pass",
        "import signal\nsignal.set_wakeup_fd(-1)\nsignal.siginterrupt(signal.SIGALRM, True)\nsignal.raise_signal(signal.<catchable>)",
        "import os, signal\nsignal.signal(signal.SIGCHLD, <handler>)\nif os.fork() == 0: os._exit(<code>)",
        "import faulthandler\nfaulthandler.dump_traceback_later(<moment>, exit=<yes or no>)",
        "import resource\nresource.setrlimit(resource.<limit>, (<few>, resource.getrlimit(resource.<limit>)[1]))",
        "import os\ntry: os.<session>\nexcept OSError: pass",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.prctl(1, <number>)\nlibc.ptrace(<ptrace>, os.getppid(), 0, 0)",
        "import fcntl, os, signal\nread, write = os.pipe()\ntry:\n    fcntl.fcntl(read, fcntl.F_SETOWN, os.getppid())\n    fcntl.fcntl(read, 10, <number>)\n    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)\nexcept OSError: pass\nos.write(write, b'x')",
        "import signal\ntry:\n    signal.alarm(1)\n    signal.signal(signal.SIGALRM, <handler>)\nexcept ValueError: pass",
    ),
    "whom": one_of(
        "os.getppid() | 0 | -1 | 1 | 2 | -os.getppid() | -os.getpgrp() | os.getppid() - 1",
        "os.getppid() + 1 | os.getpid() + 1 | -os.getpid() | @PID@",
    ),
    "group": ("0", "os.getpgrp()", "os.getppid()", "os.getpid()", "1"),
    "signal": one_of(
        "SIGTERM | SIGINT | SIGHUP | SIGALRM | SIGUSR1 | SIGUSR2 | SIGCHLD | SIGCONT | SIGPIPE | SIGQUIT",
        "SIGABRT | SIGSEGV | SIGKILL | SIGVTALRM | SIGPROF | SIGIO | SIGWINCH | SIGXCPU | SIGXFSZ",
        "SIGSYS | SIGTRAP | SIGURG | SIGRTMIN | SIGFPE | SIGTTOU",
    ),
    "catchable": one_of(
        "SIGTERM | SIGINT | SIGHUP | SIGALRM | SIGUSR1 | SIGCHLD | SIGPIPE | SIGSEGV | SIGWINCH", "SIGVTALRM"
    ),
    "clock signal": ("SIGVTALRM", "SIGPROF"),
    "clock": ("ITIMER_VIRTUAL", "ITIMER_PROF"),
    "number": ("9", "15", "14", "2", "10", "18", "28"),
    "kill call": ("62", "200", "129", "297"),
    "ptrace": ("0", "16", "16902"),
    "handler": one_of(
        "lambda *_: None | signal.SIG_IGN | signal.SIG_DFL | lambda *_: (_ for _ in ()).throw(<error>())",
        "lambda *_: __import__('os')._exit(<code>) | lambda *_: __import__('os').write(1, b'passed\\n')",
        "lambda number, frame: frame.f_globals.update(seal=<truth>)",
        "lambda number, frame: frame.f_locals.update(result=True, expected=None)",
        "lambda *_: __import__('sys').exit(<code>)",
    ),
    "again": ("0", "<moment>"),
    "limit": ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_NPROC"),
    "session": one_of(
        "setsid() | setpgid(0, 0) | setpgid(0, os.getppid()) | tcsetpgrp(0, os.getpgrp()) | nice(19)",
        "setpriority(os.PRIO_PGRP, 0, 19)",
    ),
}
