"""Start of the harness: make two processes of one, and let the tests into only one of them.

In, on standard input and never in a file: the nonce, the answer, the tests with what they expect. Out, on standard
output, as the last thing: one line with the nonce and the verdict on every case. Run as one program in the sandbox.

The process makes itself unreadable for others of its user (no ptrace, no /proc/PID/mem, no /proc/PID/fd), and forks C.
Only then it reads its input, whole, before C is sent a line of the answer. So C never held the nonce or a test, can't
read them from T, and finds nothing left in the pipe. C's standard input, output and error are /dev/null. T writes its
line after C has been killed. Without it nothing has passed, whatever the exit code says.

Where the sandbox keeps an interpreter ready (`kept`), the process is a fork of that one, which has made its modules.

An exit code of BROKEN is the machinery's, or says that the tests need a package that is not here. C can't bring it
about where nothing is missing.
"""

# ruff: noqa: PTH100, PTH109, PTH116, PTH120, S102, SIM105 -- pathlib and contextlib cost 8 ms of every run; executing is what this is for

from __future__ import annotations

import os
import sys

if False:
    from typing import Any

BROKEN = 70
PACKAGE = "sandbox.harness"
THREADS = {
    "OPENBLAS_NUM_THREADS": "1"
}  # numpy's: a machine may have more processors than a run may have threads
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SAMPLE = bytes(range(8))  # of T's memory, at the same address in C, its fork: can C read T's?


class UnfitForSecrets(Exception):
    """This machine can't keep T's secrets; the message says why."""


def load(sources: dict[str, str], name: str) -> Any:
    """Make one of the harness's modules from its text, under the name that the others import it by; once a process."""
    full = f"{PACKAGE}.{name}"
    if full in sys.modules:  # W has made it, before the fork
        return sys.modules[full]
    parent = ""
    for part in PACKAGE.split("."):
        parent = f"{parent}.{part}" if parent else part
        sys.modules.setdefault(parent, type(sys)(parent))
    module: Any = type(sys)(full)
    sys.modules[full] = module
    exec(compile(sources[name], f"{name}.py", "exec", dont_inherit=True), module.__dict__)
    return module


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library, without ctypes' Python module, which costs 3 ms. Raises UnfitForSecrets."""
    try:
        import _ctypes

        library: Any = _ctypes.dlopen
        result: int = _ctypes.call_function(_ctypes.dlsym(library(None, 0), name), arguments)
    except (ImportError, OSError, AttributeError) as error:
        raise UnfitForSecrets(f"{name} can't be called: {error}") from None
    return result


def _control(option: int, value: int) -> None:
    """Call prctl(2). Raises UnfitForSecrets."""
    if _call("prctl", option, value, 0, 0, 0) != 0:
        raise UnfitForSecrets(f"prctl({option}, {value}) was refused")


def hide() -> None:
    """Ask that no other process of this user may look into this one. Whether it holds is found out by `_can_look_into`.

    Where the walls already forbid all ways to look, the kernel may refuse this, and need not grant it.
    """
    try:
        _control(_PR_SET_DUMPABLE, 0)
    except UnfitForSecrets:
        pass


def _drop_capabilities() -> None:
    """Drop all capabilities, so that not even root looks into T; `no_new_privs` keeps them dropped in all it starts."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    header = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)  # capabilities of version 3, of this process
    if _call("capset", header, bytes(24)) != 0:
        raise UnfitForSecrets("capset was refused")


def _can_look_into(pid: int) -> bool:
    """Return, in C, whether C could read T's memory."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        return True
    except OSError:
        pass
    size = len(_SAMPLE)
    mine = bytes(size)
    first = bytes.__basicsize__ - 1  # where a bytes object has its bytes
    local, remote = [
        (id(value) + first).to_bytes(8, sys.byteorder) + size.to_bytes(8, sys.byteorder)
        for value in (mine, _SAMPLE)
    ]
    return _call("process_vm_readv", pid, local, 1, remote, 1, 0) > 0


def _confine(keep: tuple[int, int]) -> None:
    """Confine C: nothing of T's stays open, and where the walls allow it, no signal to C's group reaches T."""
    parent = os.getppid()
    try:
        os.setsid()
    except OSError:
        pass
    _drop_capabilities()
    if _can_look_into(parent):
        raise UnfitForSecrets("the program could read the memory of the process that checks it")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    low, high = sorted(keep)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 4096)
    try:
        _control(_PR_SET_DUMPABLE, 1)  # its own /proc/self is its own again
    except UnfitForSecrets:
        pass


def _read_all() -> bytes:
    """Return standard input up to its end; afterwards nobody can read it again. Raises UnfitForSecrets."""
    parts = []
    while True:
        part = os.read(0, 1 << 20)
        if not part:
            break
        parts.append(part)
    if _is_file_with_content(0) or _is_file_with_content("/dev/stdin"):
        try:
            os.ftruncate(0, 0)  # a file could be read again
        except OSError as error:
            raise UnfitForSecrets(f"standard input is a file that can't be emptied: {error}") from None
        if _is_file_with_content("/dev/stdin"):
            raise UnfitForSecrets("standard input can be read again at /dev/stdin")
    return b"".join(parts)


def _is_file_with_content(place: int | str) -> bool:
    try:
        status = os.stat(place)
    except OSError:
        return False
    return status.st_mode & 0o170000 == 0o100000 and status.st_size > 0


def _run_answer(sources: dict[str, str], pipe: tuple[int, int]) -> None:
    """Be C. Never returns."""
    try:
        _confine(pipe)
        os.write(pipe[1], b"x")
        end = load(sources, "pipe").Pipe(*pipe)
        for name in ("codec", "link"):
            load(sources, name)
        load(sources, "candidate").serve(end)
    except UnfitForSecrets as error:
        os.write(2, f"harness: {error}\n".encode())
    finally:
        os._exit(1)


def _run_tests(sources: dict[str, str], pipe: tuple[int, int], child: int) -> bytes:
    """Be T, from the moment that C lies in its own memory, and return the proof."""
    if os.read(pipe[0], 1) != b"x":
        raise UnfitForSecrets("the program's process could not be set up: it says why above")
    payload = _read_all()
    os.environ.clear()
    os.environ.update(THREADS)
    end = load(sources, "pipe")
    for name in ("codec", "link", "arguments", "views", "remote", "checks"):
        load(sources, name)
    cases = load(sources, "cases")
    task = end.json_value(payload.decode("ascii"), is_row=True)
    more = (load(sources, "pytest_file").run_file,) if "pytest" in task else ()
    run = load(sources, "stubs").run if "stubs" in task else cases.run
    proof: bytes = run(task, end.Pipe(*pipe), child, *more)
    return proof


def main(sources: dict[str, str]) -> None:
    """Be T, and make C. Never returns."""
    try:
        here = {"", os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0]))}
        sys.path[:] = [
            folder for folder in sys.path if folder not in here
        ]  # C may write there what T would import
        hide()
        getattr(sys, "set_int_max_str_digits", int)(0)  # an integer may have more than 4,300 digits
        os.environ.update(THREADS)
        down, up = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            _run_answer(sources, (down[0], up[1]))
        os.close(down[0])
        os.close(up[1])
        output = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what tests print does not belong to the proof
        left = memoryview(_run_tests(sources, (up[0], down[1]), child))
        while left:
            left = left[os.write(output, left) :]
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is not the answer's verdict
        os.write(2, f"harness: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(BROKEN)


def keep(sources: dict[str, str], imports: list[str]) -> dict[str, str]:
    """Be W (`kept`): make the modules, and return them in each run's T alone.

    So the caller goes on in T as deep in the stack as it would without W: `main(keep(...))`.

    `imports` are of the standard library, and asked for by what runs before an answer. None of them may hold what is to
    be another's in each run, such as random numbers.
    """
    try:
        channel = int(sys.argv.pop())
        for name in sources:
            load(sources, name)
        for name in imports:
            __import__(name)
        load(sources, "kept").serve(channel, _call, _drop_capabilities)
        return sources
    except BaseException as error:  # noqa: BLE001 - it is told, and every program starts an interpreter of its own
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(BROKEN)
