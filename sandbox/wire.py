"""SandboxFusion's `POST /run_code` as data: what a client asks, what a server answers.

In and out: JSON objects. Used by both sides, `sandbox.remote.fusion` (client) and
`sandbox.server.service`. The fields and their meaning are SandboxFusion's own; unknown ones are ignored on both
sides, so that an older or newer partner is no error. What our server adds (`ending`, `detail`, `stdout_base64`,
`stderr_base64`) tells our client exactly what SandboxFusion's few fields blur; other clients ignore it.

Source: github.com/bytedance/SandboxFusion, sandbox/server/sandbox_api.py and sandbox/runners/types.py at 469de08.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sandbox.local.toolchain import MAIN_FILE
from sandbox.program import Ending, Language, ProgramOutcome

DEFAULT_PORT = 8080
# Ours -> theirs.
LANGUAGE_NAMES = {Language.PYTHON: "python", Language.CPP: "cpp", Language.JAVASCRIPT: "nodejs"}
LANGUAGES = {name: language for language, name in LANGUAGE_NAMES.items()}
MAX_TIMEOUT_S = 120.0
PATH_BYTES, NAME_BYTES = 1024, 255  # of the path of a file beside the program, and of each part of that path
KILLED = -9  # the return code of a run that was ended over its memory or output

CommandStatus = Literal["Finished", "Error", "TimeLimitExceeded"]
RunStatus = Literal["Success", "Failed", "SandboxError"]


def _relative(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"{path!r} is no relative path beside the program")
    if len(path.encode()) > PATH_BYTES or any(len(part.encode()) > NAME_BYTES for part in parts):
        raise ValueError(f"{path[:NAME_BYTES]!r} is too long for a path beside the program")
    return path


def _side_by_side(files: Files) -> Files:
    """Refuse what no folder can hold: a file that is a folder at the same time, the program's own among them."""
    paths = [PurePosixPath(path) for path in files]
    taken = {*paths, *map(PurePosixPath, MAIN_FILE.values())}
    if PurePosixPath() in paths or len(set(paths)) < len(paths):
        raise ValueError("two of the files are the same, or one is the folder itself")
    for path in paths:
        if inside := next((parent for parent in path.parents if parent in taken), None):
            raise ValueError(f"{str(path)!r}: {str(inside)!r} is a file")
    return files


def _base64(text: str | None) -> str | None:
    try:
        base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base64: {error}") from None
    return text


Files = dict[Annotated[str, AfterValidator(_relative)], Annotated[str | None, AfterValidator(_base64)]]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False)]


class RunRequest(BaseModel):
    """One program and one run of it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str
    language: Literal["python", "cpp", "nodejs"]
    stdin: str | None = None
    compile_timeout: Seconds = 10.0
    run_timeout: Seconds = 10.0
    memory_limit_MB: int = Field(-1, ge=-1, le=1 << 20)
    files: Annotated[Files, AfterValidator(_side_by_side)] = {}
    fetch_files: list[str] = Field([], max_length=0)  # nothing comes back from a run's scratch folder


class CommandResult(BaseModel):
    """What one command did: the compiler or the program."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: CommandStatus
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    ending: Ending | None = None  # these four are our server's own
    detail: str | None = None
    stdout_base64: str | None = None  # where `stdout` could not hold the bytes
    stderr_base64: str | None = None


class RunReply(BaseModel):
    """The answer to a `RunRequest`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: RunStatus
    message: str | None = ""
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, str] = {}


def to_result(outcome: ProgramOutcome) -> CommandResult:
    """Return what a run did, in SandboxFusion's words and in our own.

    A program over its memory or its output is said to be killed; one over its time has a status of its own.
    """
    return_code = outcome.exit_code
    if outcome.ending in (Ending.MEMORY, Ending.OUTPUT):
        return_code = KILLED
    stdout, stdout_base64 = _as_text(outcome.stdout)
    stderr, stderr_base64 = _as_text(outcome.stderr)
    return CommandResult(
        status="TimeLimitExceeded" if outcome.ending is Ending.TIME else "Finished",
        execution_time=outcome.seconds,
        return_code=None if outcome.ending is Ending.TIME else return_code,
        stdout=stdout,
        stderr=stderr,
        ending=outcome.ending,
        detail=outcome.detail,
        stdout_base64=stdout_base64,
        stderr_base64=stderr_base64,
    )


def output_of(text: str | None, exact: str | None) -> bytes:
    """Return the bytes of one stream. Raises ValueError where a server sends what is not base64."""
    return (
        base64.b64decode(exact, validate=True) if exact is not None else (text or "").encode(errors="replace")
    )


def _as_text(output: bytes) -> tuple[str, str | None]:
    try:
        return output.decode(), None
    except UnicodeDecodeError:
        return output.decode(errors="replace"), base64.b64encode(output).decode()
