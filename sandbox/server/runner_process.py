"""A runner is a process of the sandbox service that has programs run, one at a time.

In: a `RunRequest` as length-prefixed JSON on standard input. Out: a `RunReply`, likewise, on standard output. Started
as `python -m sandbox.server.runner_process WALLS` by `sandbox.server.runner_queue`, which ends it with
its program when a client goes away: a process can be ended while it waits, a thread can't. SIGUSR1 unwinds the run that
is under way, so that nothing of it stays. SIGTERM, which a service manager sends to all processes of a service, is
ignored: the service decides. A runner dies with its parent.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import BinaryIO, Final

from config.logs import set_up_logging
from config.scorers import ScorersConfig
from sandbox.choice import build_sandbox
from sandbox.harness.pipe import framed, read_frame
from sandbox.limits import Limits
from sandbox.program import (
    CROWDED,
    Ending,
    Program,
    ProgramOutcome,
    Sandbox,
    SandboxMissing,
    SandboxUnavailable,
)
from sandbox.wire import LANGUAGES, CommandResult, RunReply, RunRequest, to_result

END: Final = signal.SIGUSR1  # tells a runner to give up its run and to end


def run_request(sandbox: Sandbox, request: RunRequest) -> RunReply:
    """Run one program. A failure of the machinery comes back as SandboxError, never as a result."""
    files = {
        path: base64.b64decode(content) for path, content in request.files.items() if content is not None
    }
    program = Program(language=LANGUAGES[request.language], source=request.code.encode(), files=files)
    default = Limits()
    memory_bytes = request.memory_limit_MB << 20 if request.memory_limit_MB > 0 else default.memory_bytes
    limits = Limits(wall_s=request.run_timeout, memory_bytes=memory_bytes)
    try:
        with ExitStack() as stack:
            with _deadline(request.compile_timeout if request.language == "cpp" else None):
                prepared = stack.enter_context(sandbox.prepare(program))
                failure = prepared.failure
            if failure is not None:
                return RunReply(status="Failed", compile_result=to_result(failure))
            outcome = prepared.run((request.stdin or "").encode(), limits)
    except _TooLong:
        sandbox.close()  # the alarm interrupted it anywhere: what the sandbox holds is not to be trusted
        late = CommandResult(
            status="TimeLimitExceeded",
            execution_time=request.compile_timeout,
            stdout="",
            stderr="",
            ending=Ending.TIME,
            detail=f"{request.compile_timeout:g} s of the compiler's time",
        )
        return RunReply(status="Failed", compile_result=late)
    except (
        SandboxUnavailable,
        SandboxMissing,
        OSError,
        ValueError,
    ) as error:  # one request, not this process
        return RunReply(status="SandboxError", message=f"{type(error).__name__}: {error}")
    if outcome.is_crowded:  # whether that changed the result is unknown here: a harness ends well
        return RunReply(status="SandboxError", message=CROWDED)
    return RunReply(status="Success" if _succeeded(outcome) else "Failed", run_result=to_result(outcome))


class _TooLong(Exception):
    """Says that the compiler's time is over."""


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Raise _TooLong here, in the main thread, when the time is over; None: never."""
    if seconds is None:
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _succeeded(outcome: ProgramOutcome) -> bool:
    return outcome.ending is Ending.EXITED and outcome.exit_code == 0


def main() -> int:
    """Answer requests until standard input ends."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # the two pipes belong to the service, whatever a library prints
    os.dup2(2, 1)
    set_up_logging("sandbox-runner", level=logging.ERROR)  # the service itself logs the rest
    signal.signal(END, _leave)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sandbox = build_sandbox(ScorersConfig.model_validate({"sandbox": sys.argv[1]}))
    try:
        while (request := _read(source)) is not None:
            reply = run_request(sandbox, request).model_dump_json().encode()
            sink.write(framed(reply))
            sink.flush()
    finally:
        sandbox.close()
    return 0


def _read(source: BinaryIO) -> RunRequest | None:
    """Read the next request; None where standard input has ended."""
    try:
        body = read_frame(source.read)
    except EOFError:
        return None
    return RunRequest.model_validate(json.loads(body))


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(END, signal.SIG_IGN)  # a second signal does not interrupt the clean-up
    sys.exit(128 + END)


if __name__ == "__main__":
    sys.exit(main())
