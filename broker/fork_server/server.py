"""Import modules, then fork for each request: `python -m broker.fork_server.server DESCRIPTOR BLANKS MODULE ...`.

In: a socket with the names of further modules, then requests, one at a time. Out: READY, or why this process is not
safe to fork; then the id of the process of each request. It calls `main(words)` of `MODULE.__main__`, with the
environment and the descriptors of the request, so that it is what `python -m MODULE words` would be. A fork finds no
thread, no lock and no open connection of this process. The blanks are room for the commands that forks show.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from broker.processes import die_with_parent

READY = b"ready"
LONGEST = 4096  # bytes of an answer, or of the modules' names
MOST_DESCRIPTORS = 16
ADOPTED_S = 5.0  # until a fork is the requester's child
POLL_S = 0.001


class ForkRequest(TypedDict):
    """What is to be run. Its descriptors come with the message: this request's file, stdout, stderr, those held."""

    args: list[str]  # PYTHON -m MODULE ...
    env: dict[str, str]
    held: list[str]  # variables that get the numbers of the held descriptors
    owner: int  # the process that asks, which becomes the parent


def main(words: Sequence[str]) -> int:
    """Import, then serve until the requester ends. A fork returns from here with its own exit code."""
    channel = socket.socket(fileno=int(words[0]))
    gc.disable()  # nothing that is imported becomes garbage, and looking for it takes a fifth of the time
    _import(words[2:])
    if not (message := channel.recv(LONGEST)):
        return 0
    _import(json.loads(message))
    if (threads := sum(1 for _ in Path("/proc/self/task").iterdir())) > 1:
        channel.send(f"an import has started {threads - 1} threads".encode())
        return 1
    gc.enable()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page of what was imported
    channel.send(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 16, MOST_DESCRIPTORS)
        if not message:
            return 0
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            request: ForkRequest = json.load(file)
        if (first := os.fork()) == 0:
            _fork_again(request, descriptors[1:], channel)
            _, _, module, *words = request["args"]
            code: int = importlib.import_module(f"{module}.__main__").main(words)
            gc.freeze()  # else the interpreter's last collections take a second
            return code
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        if os.waitpid(first, 0)[1] != 0:
            channel.send(b"it can't fork")


def _import(names: Sequence[str]) -> None:
    for name in names:
        module, _, function = name.partition(":")
        with contextlib.suppress(Exception):  # the role does it again, and reports the error
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def _fork_again(request: ForkRequest, descriptors: Sequence[int], channel: socket.socket) -> None:
    """Return in a second fork, as the process that was asked for. The first one ends here."""
    try:
        if os.fork() != 0:
            os._exit(0)
    except OSError:
        os._exit(1)
    try:
        _become(request, descriptors)
        channel.send(str(os.getpid()).encode())
    except BaseException as error:  # noqa: BLE001 - whatever it is, nobody else waits for this fork
        with contextlib.suppress(OSError):
            channel.send(f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    channel.close()


def _become(request: ForkRequest, descriptors: Sequence[int]) -> None:
    """Make this fork the process that was asked for, a child of the requester. Raises OSError, TimeoutError."""
    os.setpgid(0, 0)
    deadline = time.monotonic() + ADOPTED_S
    while os.getppid() != request["owner"]:
        if time.monotonic() > deadline:
            raise TimeoutError("its parent has not adopted it")
        time.sleep(POLL_S)
    die_with_parent(request["owner"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, descriptor in enumerate(descriptors[:2], start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    show_as(request["args"])
    os.environ.clear()
    os.environ.update(request["env"])
    for name, descriptor in zip(request["held"], descriptors[2:], strict=True):
        os.set_inheritable(descriptor, True)
        os.environ[name] = str(descriptor)
    sys.argv = ["", *request["args"][3:]]
    _reseed()


def _reseed() -> None:
    """Give numpy's global generator a state of this process's own; `random` does so after each fork."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def show_as(args: Sequence[str]) -> None:
    """Let ps, pgrep and psutil show the command, as far as this process's own was long.

    They read the words where the kernel has put them, in this process's memory. Fields 48 and 49 of proc(5)'s `stat`
    say where; they follow the name in brackets, which may hold anything.
    """
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if end - start < 2:  # a kernel that does not say, such as gVisor's
        return
    words = b"".join(word.encode() + b"\0" for word in args)[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, words, len(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
