"""Whether the walls hold on this machine: a program whose answer is known, and one that tries to get out.

In: a local sandbox. Raises `SandboxMissing` naming what was got at. Run by `sandbox.choice` before a sandbox is
used for the first time, and by scorers' own self tests. With `unsafe` only the first of the two is run.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from sandbox.limits import Limits
from sandbox.local import processes
from sandbox.program import Language, Program, Sandbox, SandboxMissing
from sandbox.walls.seccomp import Walls

LIMITS = Limits(wall_s=10.0, processes=16)
# More than LIMITS allows, beside all that the user has: what ends of that meanwhile makes room for as many.
PROCESSES_TRIED = 40
SUM = Program(language=Language.PYTHON, source=b"print(sum(map(int, input().split())))")
# Prints a line for each thing that it could do and should not.
ESCAPE = b"""
import ctypes, os, signal, socket, sys
secret, folder, port, scorer, tasks = sys.stdin.read().split("\\0")
def attempt(what, do):
    try:
        do()
    except (OSError, ValueError):
        return
    print(what, flush=True)
def connect():
    socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0, 0, None, None) < 0:       # PTRACE_TRACEME
        raise OSError
def many():
    for _ in range(int(tasks)):
        if os.fork() == 0:
            signal.pause()
attempt("read a file of the scorer's", lambda: open(secret).read())
attempt("wrote beside its scratch", lambda: open(folder + "/planted", "w").close())
attempt("opened a connection", connect)
attempt("signalled the scorer", lambda: os.kill(int(scorer), 0))
attempt("left its process group", os.setsid)
attempt("traced a process", trace)
attempt("started more processes than allowed", many)
"""


def self_test(sandbox: Sandbox, walls: Walls) -> None:
    """Raises SandboxMissing: it does not hold; SandboxUnavailable: it could not be tried."""
    with sandbox.prepare(SUM) as prepared:
        outcome = prepared.run(b"19 23\n", LIMITS)
    if outcome.stdout != b"42\n":
        raise SandboxMissing(
            f"{sandbox.name}: a program that adds 19 and 23 ended with {outcome.detail} and printed "
            f"{outcome.stdout[:80]!r}; standard error: {outcome.stderr[-300:]!r}"
        )
    if walls is Walls.UNSAFE:
        return
    with (
        tempfile.TemporaryDirectory(prefix="millrace-secret-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        Path(folder).chmod(0o777)  # nothing but the walls keeps the program out
        secret = Path(folder) / "secret"
        secret.write_text("a secret", encoding="utf-8")
        secret.chmod(0o666)
        tried = PROCESSES_TRIED + processes.threads_of_user(os.geteuid())
        told = [secret, folder, server.getsockname()[1], os.getpid(), tried]
        with sandbox.prepare(Program(language=Language.PYTHON, source=ESCAPE)) as prepared:
            outcome = prepared.run("\0".join(map(str, told)).encode(), LIMITS)
    if outcome.stdout or outcome.exit_code != 0:
        what = ", ".join(outcome.stdout.decode(errors="replace").splitlines()) or outcome.detail
        raise SandboxMissing(
            f"{sandbox.name} does not hold here: a program {what}; standard error: {outcome.stderr[-300:]!r}"
        )
