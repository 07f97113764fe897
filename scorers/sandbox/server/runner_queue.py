"""The processes of the sandbox service that have programs run, and the short queue before them.

In: the JSON of a `RunRequest`. Out: that of a `RunReply`. Used by `scorers.sandbox.server.service`, in its event loop.
A call that is cancelled, because its client went away, and one that takes too long end their process with the program
that it runs; the next call starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from broker.errors import Retryable
from broker.processes import die_with_parent
from scorers.sandbox.harness.pipe import LENGTH_BYTES, framed, length_of
from scorers.sandbox.server.runner import END

log = logging.getLogger(__name__)

WAITING_PER_RUNNER: Final = 4  # calls that may wait for each process ...
LONGEST_WAIT_S: Final = 5.0  # ... and how long; less than a client's margin
GRACE_S: Final = 2.0  # for a process to end its program before it is killed


class Full(Exception):
    """As many calls as may wait do wait, or this one has waited as long as it may."""


class RunnerLost(Retryable):
    """The process ended, or did not answer in time; the message says which."""


class Runners:
    """A fixed number of processes, each started when it is first needed."""

    def __init__(self, kind: str, size: int) -> None:
        """Start nothing yet.

        Args:
            kind: of sandbox: `scorers.sandbox` of the config.
            size: programs that may run at once.
        """
        self.size = size
        self.waiting = 0
        self._idle: asyncio.LifoQueue[_Runner] = asyncio.LifoQueue()  # the last one used is the warm one
        command = [sys.executable, "-m", "scorers.sandbox.server.runner", kind]
        self._runners = [_Runner(command) for _ in range(size)]
        for runner in self._runners:
            self._idle.put_nowait(runner)

    @property
    def running(self) -> int:
        """Calls that a process is at."""
        return self.size - self._idle.qsize()

    async def run(self, request: bytes, timeout_s: float) -> bytes:
        """Have one request answered.

        Args:
            request: JSON, checked.
            timeout_s: of the work, from when a process has taken it.
        Raises:
            Full: no room; try again later, or elsewhere.
            RunnerLost: the machinery failed.
        """
        if self.waiting >= WAITING_PER_RUNNER * self.size:
            raise Full
        self.waiting += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                runner = await self._idle.get()
        except TimeoutError:
            raise Full from None
        finally:
            self.waiting -= 1
        is_whole = False
        try:
            async with asyncio.timeout(timeout_s):
                reply = await runner.ask(request)
            is_whole = True
            return reply
        except TimeoutError:
            raise RunnerLost(f"no result in {timeout_s:g} s") from None
        except (EOFError, OSError) as error:
            raise RunnerLost(f"the process that ran the program ended: {error}") from error
        finally:
            if is_whole:
                self._idle.put_nowait(runner)
            else:  # its reply, if there ever is one, must not answer another call
                ending = asyncio.create_task(self._replace(runner))
                runner.ending = ending
                await asyncio.shield(ending)

    async def close(self) -> None:
        """End every process."""
        await asyncio.gather(*(runner.end() for runner in self._runners))

    async def _replace(self, runner: _Runner) -> None:
        try:
            await runner.end()
        finally:
            self._idle.put_nowait(runner)


class _Runner:
    """One process; there is none before the first request and after `end`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self.ending: asyncio.Task[None] | None = None  # held, so that it is not collected on its way

    async def ask(self, request: bytes) -> bytes:
        if self._process is None:
            parent = os.getpid()
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                process_group=0,
                preexec_fn=lambda: die_with_parent(parent),
            )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 - both piped
        self._process.stdin.write(framed(request))
        await self._process.stdin.drain()
        prefix = await self._process.stdout.readexactly(LENGTH_BYTES)
        return await self._process.stdout.readexactly(length_of(prefix))

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(END)
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            log.warning("sandbox_runner_killed pid=%d after_s=%g", process.pid, GRACE_S)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
