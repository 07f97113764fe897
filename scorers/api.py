"""Any program scores single rows by this module: `from scorers import score`, and `millrace score`.

In: a response and a row of any known shape. Out: its score. A process of its own does the work
(`scorers.child.row_worker`). So the caller's process is never forked, needs no sympy, and may have threads, signals and
a GPU. A worker that is killed is started again and gets its row again; a row that kills the worker at every try is
unscorable. The worker ends with its caller, however the caller ends, also in the middle of a row.

This module loads nothing heavy at its top, and its caller little else: the worker finds the row's task, and puts the
scorers together, unless the row holds what is no JSON or the caller names a judge.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import BadMessage, Permanent
from scorers.child.frames import (
    EPISODE_KEY,
    OWN,
    PREFETCH,
    READY,
    REFUSED,
    ROWS_FAULTS,
    SCORE,
    TEXT_KEY,
    TRY,
    Result,
    failure,
    receive_frame,
    send_frame,
)

if TYPE_CHECKING:
    from broker.scores import Score
    from config.scorers import ScorersConfig

TRIES: Final = 3  # of a row whose worker died
# Of rows that are passed on as they are: `tasks.values` has the limits of a row.
MOST_DEPTH, MOST_BITS = 50, 64
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
GRACE_S: Final = 5.0  # for a worker to end its children
# The worker finds modules where its caller does, and then in the working folder: a user's own scorers may lie there.
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from scorers.child.row_worker import main; main()"
)


class ScoringFailed(Permanent):
    """This is raised where this machine can't score such a row, or its scorer has a bug; the message says which."""


def all_tasks(judge_url: str | None = None) -> ScorersConfig:
    """Configure every scorer of this version, at the environment's services: rows without a run are scored so.

    Args:
        judge_url: the address of a judge to ask instead of the environment's.
    """
    from config.other_names.services import judge_endpoint, sandbox_urls
    from config.scorers import ScorersConfig, TaskConfig
    from tasks.kinds import KINDS

    tasks = {}
    for kind in KINDS:
        if kind.given != "endpoint" and kind.rows:
            tasks[kind.name] = TaskConfig.model_validate({"scorer": {"type": kind.name}})
        elif kind.given == "endpoint":
            variants = {kind.name: "default" if kind.own_tasks else kind.name, **(kind.own_tasks or {})}
            for task, variant in variants.items():
                endpoint = judge_endpoint(variant, judge_url)
                tasks[task] = TaskConfig.model_validate(
                    {"scorer": {"type": kind.name, "endpoint": endpoint.model_dump()}}
                )
    return ScorersConfig(sandbox_urls=sandbox_urls(), tasks=tasks)


class RowWorkerClient:
    """This client starts a `scorers.child.row_worker` with the first row. It serves one caller at a time."""

    def __init__(self, config: ScorersConfig | None = None) -> None:
        """Start nothing yet.

        Args:
            config: the scorers; None: those of `all_tasks`, which the worker puts together.
        """
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._is_ready = False  # the worker has the scorers
        self._is_stopped = False

    @property
    def config(self) -> ScorersConfig:
        """The scorers. Raises ConfigError where the environment names an impossible service."""
        if self._config is None:
            self._config = all_tasks()
        return self._config

    @property
    def pid(self) -> int | None:
        """The worker's process id; None where no worker runs."""
        return None if self._process is None else self._process.pid

    def begin(self) -> None:
        """Start a worker where none runs, to import beside its caller. `result` raises where that fails."""
        if self._process is None and not self._is_stopped:
            with contextlib.suppress(OSError):
                self._spawn()

    def result(self, line: bytes) -> Result:
        """Have the worker score a line of JSON, see `scorers.child.row_worker`.

        Raises:
            ScoringFailed: no worker can be started, or `stop` was called.
        """
        return self._asked(SCORE, line)

    def trial(self, line: bytes) -> Result:
        """Have the worker say which answer without work passes the row of a line. Raises as `result`."""
        return self._asked(TRY, line)

    def _asked(self, kind: bytes, line: bytes) -> Result:
        for _ in range(TRIES):
            answer = self._exchange(kind, line)
            if answer is not None:
                result: Result = json.loads(answer)
                return result
            ending = _said(self.close())
        return failure(
            f"not scored in {TRIES} tries: its process ended each time, the last time {ending}",
            status="unscorable",
            fault="machine",
        )

    def prefetch(self, line: bytes) -> None:
        """Have the worker start what `result` of this line will wait for, the calls to a judge say. Returns at once.

        A worker that dies forgets the line: `result` then takes as long as without a prefetch. Raises ScoringFailed.
        """
        self._exchange(PREFETCH, line)

    def close(self, grace_s: float = GRACE_S) -> int:
        """End the worker with all its children. Returns the exit code, negative for a signal."""
        from broker import processes

        process = self._process
        self.release()
        if process is None:
            return 0
        processes.wait(process, grace_s)
        return processes.stop(process, 0)

    def stop(self) -> None:
        """Kill the worker, from any thread. A call of `result` that waits for the worker ends with ScoringFailed."""
        self._is_stopped = True
        if (process := self._process) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def release(self) -> None:
        """Let go of the worker, which then ends by itself unless another process holds it too."""
        if self._link is not None:
            self._link.close()
        self._process = self._link = None
        self._is_ready = False

    def _exchange(self, kind: bytes, line: bytes) -> bytes | None:
        """Send a frame, and give the worker's answer; None where the worker has ended, or the frame gets no answer."""
        link = self._link if self._is_ready else None if self._is_stopped else self._start()
        if link is None or self._is_stopped:  # `stop` may have come while there was nothing to kill
            raise ScoringFailed("stopped")
        try:
            send_frame(link, kind + line)
            return None if kind == PREFETCH else receive_frame(link)
        except OSError:
            return None
        except BaseException:  # interrupted: the answer must never be taken for that of another row
            self.close(grace_s=0.0)
            raise

    def _start(self) -> socket.socket:
        """Start a worker, unless `begin` has, give it the scorers, and wait until it is ready.

        One that `begin` started may have ended since, killed from outside: then another is started.
        """
        config = OWN if self._config is None else self._config.model_dump_json().encode()
        may_start_again = self._link is not None
        while True:
            try:
                ours = self._link or self._spawn()
            except OSError as error:  # no descriptor, process or memory left, or the working folder is gone
                raise ScoringFailed(f"no process that scores rows can be started: {error}") from error
            try:
                send_frame(ours, config)
                answer = receive_frame(ours)
                self._is_ready = answer == READY
            except OSError:
                answer = None
            except BaseException:
                self.close(grace_s=0.0)
                raise
            if self._is_ready:
                return ours
            ending = _said(self.close())
            if answer == REFUSED:
                self._config = all_tasks()  # raises what the worker has met
            if not may_start_again or self._is_stopped:
                raise ScoringFailed(
                    f"the process that scores rows did not start, it ended {ending}; standard error says why"
                )
            may_start_again = False

    def _spawn(self) -> socket.socket:
        """Start a worker in its own process group: the terminal's Ctrl-C is the caller's alone. Raises OSError."""
        with contextlib.ExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                command = [
                    sys.executable,
                    "-P",
                    "-c",
                    _START,
                    str(theirs.fileno()),
                    json.dumps([*sys.path, str(Path.cwd())]),
                ]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], process_group=0
                )
            undo.pop_all()
        self._link = ours
        return ours


def score_row(
    llm_output: str, verification_info: str | Mapping[str, Any], judge_url: str | None = None
) -> Score:
    """Score one response, see `scorers.score`."""
    if not isinstance(llm_output, str):
        raise TypeError(f"llm_output must be text, got {type(llm_output).__name__}")
    global _process  # noqa: PLW0603 - one for this process, started when it is first wanted
    with _lock:
        _process = _process or RowWorkerClient()
        process = _process
        if judge_url is None:  # else it may be another that scores the row
            process.begin()
        try:
            record = record_of(verification_info)
            if judge_url is not None or EPISODE_KEY in record or not is_json(record):
                process, record = _routed(process, record, judge_url)
            import broker.scores  # noqa: F401 - for the score, while the worker imports its own

            result = process.result(json.dumps({**record, TEXT_KEY: llm_output}).encode("ascii"))
            if result["task"] is None and result["status"] != "error":  # of a row that ends its workers
                result["task"] = _routed(process, record, judge_url)[1]["task"]
        except BadMessage as error:
            raise ValueError(str(error)) from None
    return score_of(result, result["task"])


def _routed(
    process: RowWorkerClient, record: Mapping[str, Any], judge_url: str | None
) -> tuple[RowWorkerClient, dict[str, Any]]:
    """Find a row's task here. Returns the process that scores it, and the row in JSON's types. Raises BadMessage."""
    from tasks.route import route

    task, info = route(record, process.config.tasks)
    if judge_url is not None and hasattr(process.config.tasks[task].scorer, "endpoint"):
        if judge_url not in _judging:
            _judging[judge_url] = RowWorkerClient(all_tasks(judge_url))
        process = _judging[judge_url]
    return process, {"task": task, "verification_info": info}


def is_json(value: Any, depth: int = MOST_DEPTH) -> bool:
    """Say whether a value is of JSON's types alone, so that its text says the same; what is doubtful is none."""
    if isinstance(value, str):
        return type(value) is str and (value.isascii() or not _HALF_PAIR.search(value))
    if type(value) is int:
        return value.bit_length() <= MOST_BITS
    if type(value) is dict:
        return depth > 0 and all(
            type(key) is str and is_json(key) and is_json(item, depth - 1) for key, item in value.items()
        )
    if type(value) is list:
        return depth > 0 and all(is_json(item, depth - 1) for item in value)
    return value is None or type(value) in (bool, float)


def score_of(result: Result, task: str) -> Score:
    """Return a result's score. Raises ValueError for an error that the row is to blame for, else ScoringFailed."""
    if result["status"] == "error":
        raise (
            ValueError(result["reason"])
            if result["fault"] in ROWS_FAULTS
            else ScoringFailed(result["reason"])
        )
    from broker.scores import Score, ScoreStatus

    return Score(
        status=ScoreStatus(result["status"]),
        value=result["value"],
        reason=result["reason"],
        scorer=result["scorer"] or task,
        version=result["version"] or "",
        seconds=result["seconds"],
        components=result["components"],
    )


def record_of(verification_info: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a row around a bare verification_info; a row stays as it is. Raises BadMessage."""
    info: Any = verification_info
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except (ValueError, RecursionError) as error:
            raise BadMessage(f"verification_info is not JSON: {error}") from None
    if isinstance(info, Mapping) and (
        "type" not in info
        or info.keys() & {"verification_info", "reward_model"}
        or info.keys() >= {"data_source", "ground_truth"}
    ):
        return info
    return {"verification_info": info}


def _said(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


@atexit.register
def _close() -> None:
    for process in _all():
        process.close()


def _after_fork() -> None:
    """Give a forked child its own lock and workers: it has the parent's socket, and the parent's lock may be held."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for process in _all():
        process.release()


def _all() -> list[RowWorkerClient]:
    return [*_judging.values(), *([] if _process is None else [_process])]


_lock = threading.Lock()
_process: RowWorkerClient | None = None
_judging: dict[str, RowWorkerClient] = {}  # by the address of a judge that a caller has named
os.register_at_fork(after_in_child=_after_fork)
