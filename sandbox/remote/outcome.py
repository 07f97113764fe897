"""What a SandboxFusion server is asked and what it says, where that differs from our own server's words.

In: a request, or a checked reply. Out: the request as SandboxFusion can be asked, a `ProgramOutcome`, the time that a
run took. Used by `sandbox.remote.fusion`, whose text says why. ValueError where a server says what can't be.
"""

from __future__ import annotations

from typing import Final

from sandbox.limits import Limits
from sandbox.program import Ending, ProgramOutcome
from sandbox.wire import CommandResult, RunReply, RunRequest, output_of

WHOLE_OUTPUT_BYTES: Final = 128 << 10  # what SandboxFusion surely carries of one stream


def for_fusion(request: RunRequest) -> RunRequest:
    """Return what SandboxFusion itself can be asked: node does not start under its memory limit."""
    return request.model_copy(update={"memory_limit_MB": -1}) if request.language == "nodejs" else request


def seconds_of(reply: RunReply, took_s: float) -> float:
    """Return the seconds of compiler and program; those of the whole exchange where the server does not say."""
    times = [
        result.execution_time for result in (reply.compile_result, reply.run_result) if result is not None
    ]
    return sum(seconds for seconds in times if seconds is not None) if None not in times else took_s


def outcome_of(result: CommandResult, limits: Limits, *, is_ours: bool) -> ProgramOutcome:
    """Return the outcome of a run by a server's words. Raises ValueError where the server says what can't be."""
    most = limits.output_bytes if is_ours else min(limits.output_bytes, WHOLE_OUTPUT_BYTES)
    stdout = output_of(result.stdout, result.stdout_base64)
    stderr = output_of(result.stderr, result.stderr_base64)
    exit_code = result.return_code
    is_over = len(stdout) > most or len(stderr) > limits.output_bytes
    if result.ending is not None:  # our server's own limit of output may be larger than ours
        ending = Ending.OUTPUT if is_over and result.ending is Ending.EXITED else result.ending
    elif is_over:
        ending = Ending.OUTPUT
    elif result.status == "TimeLimitExceeded":
        ending = Ending.TIME
    else:
        ending = Ending.SIGNALLED if exit_code is not None and exit_code < 0 else Ending.EXITED
    has_code = ending in (Ending.EXITED, Ending.SIGNALLED)
    details = {
        Ending.EXITED: f"exit code {exit_code}",
        Ending.SIGNALLED: f"signal {-(exit_code or 0)}",
        Ending.TIME: f"{limits.wall_s:g} s of time",
        Ending.MEMORY: f"{limits.memory_bytes >> 20} MiB of memory",
        Ending.OUTPUT: f"more than {most if len(stdout) > most else limits.output_bytes} bytes of output",
    }
    return ProgramOutcome(
        ending=ending,
        exit_code=exit_code if has_code else None,
        stdout=stdout[:most],
        stderr=stderr[: limits.output_bytes],
        seconds=result.execution_time or 0.0,
        detail=result.detail if result.detail and result.ending is ending else details[ending],
    )
