"""Which processes belong to a run, and what they hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from scorers.sandbox.local import processes

pytestmark = pytest.mark.process

ALLOWED = 1 << 40


@contextmanager
def forked(do: Callable[[], None]) -> Iterator[int]:
    """Start a child that does it and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
            signal.pause()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_process_that_is_slow_to_lead_its_session_is_counted() -> None:
    told, tell = os.pipe()
    reply, answer = os.pipe()

    def lead() -> None:
        os.read(told, 1)
        os.setsid()
        os.write(answer, b"x")

    with forked(lead) as pid:
        tree = processes.Tree(pid)
        assert tree.memory_bytes(ALLOWED) > 0  # it may still be in the session of its parent
        os.write(tell, b"x")
        os.read(reply, 1)
        assert tree.memory_bytes(ALLOWED) > 0
    for descriptor in (told, tell, reply, answer):
        os.close(descriptor)
