"""The runners of the sandbox service, and the short queue of calls that wait for one of them.

In: a `RunRequest` as JSON. Out: a `RunReply` as JSON. Used by `sandbox.server.service`, in its event loop. A
call that is cancelled because its client went away, or that takes too long, ends its runner together with the program;
the next call starts another process.
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
from sandbox.harness.pipe import LENGTH_BYTES, framed, length_of
from sandbox.server.runner_process import END

log = logging.getLogger(__name__)

WAITING_PER_RUNNER: Final = 4  # calls that may wait for each runner ...
LONGEST_WAIT_S: Final = 5.0  # ... and how long; less than a client's margin
GRACE_S: Final = 2.0  # for a runner to end its program before it is killed


class Full(Exception):
    """No further call may wait, or the call has waited as long as it may."""


class RunnerLost(Retryable):
    """A runner ended, or did not answer in time; the message says which."""


class RunnerQueue:
    """Gives each call to an idle runner. There is a fixed number of runners; each starts at its first call."""

    def __init__(self, kind: str, size: int) -> None:
        """Start nothing yet.

        Args:
            kind: the walls, as `scorers.sandbox` of the config spells them.
            size: number of runners, and so of programs that may run at once.
        """
        self.size = size
        self.waiting = 0
        self._idle: asyncio.LifoQueue[_Runner] = asyncio.LifoQueue()  # the runner used last is the warm one
        command = [sys.executable, "-m", "sandbox.server.runner_process", kind]
        self._runners = [_Runner(command) for _ in range(size)]
        for runner in self._runners:
            self._idle.put_nowait(runner)

    @property
    def running(self) -> int:
        """Return the number of calls that are being answered now."""
        return self.size - self._idle.qsize()

    async def run(self, request: bytes, timeout_s: float) -> bytes:
        """Have one request answered.

        Args:
            request: a `RunRequest` as JSON, checked.
            timeout_s: seconds for the work itself, from when a runner has taken it.
        Raises:
            Full: there is no room; try again later, or at another server.
            RunnerLost: the runner failed, not the program.
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
            else:  # a late reply must not answer another call
                ending = asyncio.create_task(self._replace(runner))
                runner.ending = ending
                await asyncio.shield(ending)

    async def close(self) -> None:
        """End every runner with its program."""
        await asyncio.gather(*(runner.end() for runner in self._runners))

    async def _replace(self, runner: _Runner) -> None:
        try:
            await runner.end()
        finally:
            self._idle.put_nowait(runner)


class _Runner:
    """The service's end of one runner. The process exists from the first request until `end`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self.ending: asyncio.Task[None] | None = (
            None  # a task that nobody holds could be collected before it is done
        )

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
