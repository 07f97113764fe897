"""A session: a Python and a bash behind the walls of this machine that keep their state from call to call.

In: pieces of Python, or bash commands, that a model wrote. Out: what they printed and whether they failed. Held by one
owner, one call at a time. A call over its deadline, and one that uses up a limit, ends the session: that is the call's
doing, and said in its reply; the next call begins a new one. What the machinery did raises `SandboxUnavailable`. All
that runs in it ends with its owner.
"""

from __future__ import annotations

import json
import os
import select
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sandbox.limits import Limits
from sandbox.local.folders import remove_folder
from sandbox.local.sandbox import LocalSandbox
from sandbox.local.supervisors import Supervisor, unavailable
from sandbox.program import Language, Program, SandboxUnavailable

DRIVER: Final = Path(__file__).parents[1] / "harness" / "interpreter.py"
LENGTH_BYTES: Final = 8
NO_REPLY: Final = "what it says is no reply"
MAX_REPLY_BYTES: Final = 8 << 20
START_S: Final = 30.0  # for the walls to stand
LONGEST_S: Final = 86_400.0  # of a session; its calls have deadlines of their own
LOOK_S: Final = 0.2  # between two looks at its memory and its files
LIMITS: Final = Limits(wall_s=LONGEST_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a call."""

    text: str  # printed, in order; a remark on how it ended is the last line
    failed: bool
    is_over: bool = False  # the session has ended: its state is lost


class SandboxSession:
    """One session at a time; begun by the first call."""

    def __init__(self, sandbox: LocalSandbox, *, limits: Limits = LIMITS) -> None:
        self._sandbox, self._limits = sandbox, replace(limits, wall_s=LONGEST_S)
        self._supervisor: Supervisor | None = None
        self._number = 0  # of the call

    def call(self, tool: str, text: str, *, deadline_s: float, most_bytes: int) -> Reply:
        """Run a piece of Python or a bash command.

        Args:
            tool: python or bash.
            text: what a model wrote.
            deadline_s: seconds to its end, beside the start of the session.
            most_bytes: of what it prints that are returned.
        Raises:
            SandboxUnavailable: the machinery failed.
        """
        if self._supervisor is None:
            self._begin()
            self._ask("python", "", 0)
            if (lost := self._answer(START_S, "no start")) is not None and lost.is_over:
                raise SandboxUnavailable(f"a session did not begin: {lost.text}")
        self._ask(tool, text, most_bytes)
        return self._answer(deadline_s, "no end")

    def close(self) -> None:
        """End all that runs in the session."""
        if self._supervisor is None:
            return
        supervisor, self._supervisor = self._supervisor, None
        supervisor.end()
        for descriptor in (self._requests, self._replies):
            os.close(descriptor)
        self._prepared.__exit__(None, None, None)
        remove_folder(self._folder)

    def _begin(self) -> None:
        """Start the interpreter. The pipes are opened before it can put something else in their places."""
        source = DRIVER.read_bytes()
        self._prepared = self._sandbox.prepare(Program(language=Language.PYTHON, source=source))
        program = self._prepared.__enter__()
        with unavailable("no folder for a session"):
            self._folder = Path(tempfile.mkdtemp(prefix="session-", dir=self._sandbox.base))
            self._folder.chmod(0o755)
            descriptors = []
            for name in ("requests", "replies"):
                os.mkfifo(self._folder / name)
                (self._folder / name).chmod(0o666)
                descriptors.append(os.open(self._folder / name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
            self._requests, self._replies = descriptors
        self._received = b""
        inside = self._sandbox.inside("build", self._folder)
        self._supervisor = self._sandbox.start(
            program,
            arguments=(f"{inside}/requests", f"{inside}/replies"),
            writable=(self._folder, inside),
            limits=self._limits,
            look_s=LOOK_S,
        )

    def _ask(self, tool: str, text: str, most_bytes: int) -> None:
        self._number += 1
        request = {"number": self._number, "tool": tool, "text": text, "bytes": most_bytes}
        body = json.dumps(request).encode("ascii")
        self._unsent = memoryview(len(body).to_bytes(LENGTH_BYTES, "big") + body)

    def _answer(self, deadline_s: float, what: str) -> Reply:
        """Wait for the reply, the session's end, or the deadline."""
        supervisor, deadline = self._supervisor, time.monotonic() + deadline_s
        if supervisor is None:
            raise SandboxUnavailable("the session was closed")
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        poll.register(supervisor, select.POLLIN)
        while (left_s := deadline - time.monotonic()) > 0:
            poll.register(self._requests, select.POLLOUT if self._unsent else 0)
            ready = {descriptor for descriptor, _ in poll.poll(left_s * 1000 + 1)}
            if self._requests in ready and self._unsent:
                self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
            if self._replies in ready:
                self._received += os.read(self._replies, 1 << 16)
                if (reply := self._heard()) is not None:
                    return reply
            if supervisor.fileno() in ready:
                return self._lost(supervisor.ended().detail)
        return self._lost(f"{what} within {deadline_s:g} s")

    def _heard(self) -> Reply | None:
        """Return the reply to this call, if it is there whole. Anything in the session may have written it."""
        size = int.from_bytes(self._received[:LENGTH_BYTES], "big")
        if len(self._received) < LENGTH_BYTES or LENGTH_BYTES + size > len(self._received):
            return self._lost(NO_REPLY) if size > MAX_REPLY_BYTES else None
        body, self._received = (
            self._received[LENGTH_BYTES : LENGTH_BYTES + size],
            self._received[LENGTH_BYTES + size :],
        )
        try:
            found = json.loads(body)
            if found["number"] != self._number:  # late, or forged
                return self._heard()
            printed, remark, cut = str(found["printed"]), str(found["remark"]), int(found["cut"])
            failed = bool(found["failed"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return self._lost(NO_REPLY)
        lines = [printed.rstrip("\n"), f"[cut: {cut} bytes more]" if cut > 0 else "", remark]
        return Reply(text="\n".join(filter(None, lines)), failed=failed)

    def _lost(self, why: str) -> Reply:
        self.close()
        return Reply(
            text=f"{why}: the session was ended, and what it held is lost", failed=True, is_over=True
        )
