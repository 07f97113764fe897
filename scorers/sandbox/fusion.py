"""Programs run by servers that speak SandboxFusion's HTTP API: SandboxFusion itself, or `python -m scorers sandbox`.

In: a `Program`. Out: an `Outcome`, as every `scorers.sandbox.program.Sandbox`. Used by the scorers' processes, from any
thread. A refused connection, a time-out, a 5xx, `SandboxError`, a reply that is not to be understood: the server is in
doubt (see `scorers.sandbox.server_pool`) and the call goes to another one; with none left it raises
`SandboxUnavailable`. None of these is ever an outcome.

What SandboxFusion's fields blur is settled like this (our own server says exactly how a run ended):
- A return code of SIGKILL or SIGTERM may be the program's own doing (out of memory, too) or somebody else's. The
  program is run again, elsewhere if there is another server, and the second run counts.
- SandboxFusion sets RLIMIT_STACK to `memory_limit_MB` too, a thread's stack is as large by default, and so no thread
  starts; node maps more than any sensible limit at once. There, a program that could not start a thread is run again
  without the limit, and JavaScript is always run without it: the server's own container is what holds then.
- SandboxFusion reads an output while the program runs only as far as its buffers go: over 128 KiB it may come back cut,
  or the program hangs until its time is up. That is `max_output_bytes` there, and more on standard output ends a run.
- A call compiles and runs. So nobody knows whether a program compiles before its first run, which says so.
- Its walls are its operator's: nothing here proves that a program can't get out.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import httpx

from scorers.sandbox.exchange import Busy, Refused, compile_failed, post_run
from scorers.sandbox.probe import PROBE_S, Probe, python_version
from scorers.sandbox.program import Ending, Language, Limits, Outcome, Program, SandboxMissing, SandboxUnavailable
from scorers.sandbox.server_pool import Server, ServerPool, ServerTrouble
from scorers.sandbox.wire import LANGUAGE_NAMES, MAX_TIMEOUT_S, CommandResult, RunRequest, output_of

MARGIN_S: Final = 10.0                      # beyond a program's own limits: the way, the queue, the walls
PATIENCE_S: Final = 20.0                    # for a server, when none is ready or all are busy
REPLY_BYTES: Final = 80 << 20               # of JSON: both outputs of the largest run, escaped, and once more in base64
IDLE_S: Final = 2.0                         # that a connection is kept; uvicorn closes its side after 5
WHOLE_OUTPUT_BYTES: Final = 128 << 10       # what SandboxFusion surely carries of one stream
KILLS: Final = frozenset({-9, -15, 137, 143})       # SIGKILL and SIGTERM, as Python and as a shell report them
NO_THREADS: Final = (b"can't start new thread", b"Resource temporarily unavailable")


class FusionSandbox:
    """Several servers as one sandbox."""

    name = "fusion"
    languages = frozenset(Language)
    max_wall_s = MAX_TIMEOUT_S

    def __init__(self, urls: Sequence[str], *, patience_s: float = PATIENCE_S, margin_s: float = MARGIN_S) -> None:
        """Contact nobody yet.

        Args:
            urls: the servers: a URL, `host:port` or a host each; the port of a bare host is 8080.
            patience_s: how long a call waits for a server when none is ready, or all are busy.
            margin_s: how long a server may take beyond the program's own limits before it is in doubt.
        Raises:
            SandboxMissing: no address, or one that can't be used.
        """
        self._patience_s = patience_s
        self._margin_s = margin_s
        self._pool = ServerPool(urls, self._probe, patience_s=patience_s)
        self._http: httpx.Client | None = None
        self._version: str | None = None        # asked once, so that it is the same in every score
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """What the servers run Python with: `python=3.11.2`; several where they differ, unknown until one answers."""
        if self._version is None:
            self._pool.meet()
            versions = sorted({server.version for server in self._pool.servers if server.version})
            if not versions:
                return "python=unknown"
            self._version = "python=" + ",".join(versions)
        return self._version

    @property
    def max_output_bytes(self) -> int:
        """Of one stream: SandboxFusion carries less than our server. Raises SandboxUnavailable: none ever answered."""
        if not any(server.version for server in self._pool.servers):
            self._pool.probe_all()
        are_ours = all(server.is_ours for server in self._pool.servers if server.version)
        return Limits().output_bytes if are_ours else WHOLE_OUTPUT_BYTES

    @contextmanager
    def prepare(self, program: Program) -> Iterator[FusionProgram]:
        """Make a program ready. A server keeps nothing between two calls: it compiles at each run."""
        yield FusionProgram(self, program)

    def self_test(self) -> None:
        """Probe every server; one that fails is left out. Raises SandboxUnavailable where all do.

        Whether a program can get out of them is not asked: their walls are their operator's.
        """
        self._pool.probe_all()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def call(self, request: RunRequest, limits: Limits, *, rather_not: Sequence[Server] = ()) -> Answer:
        """Have one of the servers run a program; another one where that fails.

        Raises:
            SandboxUnavailable: none did.
            SandboxMissing: none takes such a program.
        """
        failed: list[Server] = []
        reasons: list[str] = []
        refusals = 0
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                with self._pool.lend(without=failed, rather_not=rather_not) as server:
                    try:
                        return self._ask(server, request, limits)
                    except Busy as busy:
                        self._pool.rest(server, busy.seconds)
                        if time.monotonic() < deadline:
                            continue
                        reason = f"busy for {self._patience_s:g} s"
                    except Refused as refused:
                        refusals += 1
                        reason = str(refused)
                    except ServerTrouble as trouble:
                        reason = str(trouble)
                        self._pool.doubt(server, reason)
                    failed.append(server)
                    reasons.append(f"{server.url}: {reason}")
            except SandboxUnavailable as error:
                if refusals == len(self._pool.servers):
                    raise SandboxMissing(f"no sandbox server takes this program: {'; '.join(reasons)}") from None
                raise SandboxUnavailable("; ".join([*reasons, str(error)])) from None

    def _ask(self, server: Server, request: RunRequest, limits: Limits) -> Answer:
        sent = request if server.is_ours else _for_fusion(request)
        compile_s = request.compile_timeout if request.language == "cpp" else 0.0
        reply = post_run(self._client(), server.url, sent, timeout_s=request.run_timeout + compile_s + self._margin_s,
                         max_bytes=REPLY_BYTES)
        is_compiler = compile_failed(reply)
        result = reply.compile_result if is_compiler else reply.run_result
        if result is None:
            raise ServerTrouble("a reply without a result")
        try:
            outcome = _outcome(result, limits, is_ours=server.is_ours)
        except ValueError as error:
            raise ServerTrouble(f"no reply of this API: {error}") from None
        if is_compiler:
            outcome = replace(outcome, detail=f"it does not compile: {outcome.detail}")
        return Answer(server, outcome, is_compiler)

    def _probe(self, server: Server) -> None:
        """Ask for what only a run can know. Raises ServerTrouble where the answer is another one."""
        probe = Probe()
        try:
            reply = post_run(self._client(), server.url, probe.request, max_bytes=1 << 20,
                             timeout_s=PROBE_S + self._margin_s)
        except (Refused, Busy) as error:
            raise ServerTrouble(f"it does not take its probe: {error}") from None
        if trouble := probe.trouble(reply):
            raise ServerTrouble(trouble)
        server.is_ours = reply.run_result is not None and reply.run_result.ending is not None
        server.version = python_version(reply)

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._http is None:
                limits = httpx.Limits(max_connections=None, keepalive_expiry=IDLE_S)
                self._http = httpx.Client(limits=limits)
            return self._http


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of one run."""

    server: Server
    outcome: Outcome
    is_compiler: bool           # the program did not run: the compiler's outcome

    @property
    def is_doubtful(self) -> bool:
        """Whether somebody else may have ended it."""
        return not self.server.is_ours and (self.outcome.exit_code in KILLS or (
            self.is_compiler and b"Killed signal" in self.outcome.stderr))


class FusionProgram:
    """A program that is sent anew with every run."""

    def __init__(self, sandbox: FusionSandbox, program: Program) -> None:
        self._sandbox = sandbox
        self._program = program
        self.failure: Outcome | None = None     # the compiler's refusal, once a run has met it

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> Outcome:
        """Run it once on one of the servers. Raises as `scorers.sandbox.program.Prepared.run`."""
        if self.failure is None:
            answer = self._settle(stdin, limits or Limits())
            if not answer.is_compiler or answer.outcome.ending is not Ending.EXITED:    # over a limit: again next time
                return answer.outcome
            self.failure = answer.outcome
        return self.failure

    def _settle(self, stdin: bytes, limits: Limits) -> Answer:
        """Run it, and once more where the first run does not settle whose doing its end was."""
        limits = replace(limits, wall_s=min(limits.wall_s, MAX_TIMEOUT_S))
        request = self._request(stdin, limits)
        answer = self._sandbox.call(request, limits)
        if answer.is_doubtful:
            return self._sandbox.call(request, limits, rather_not=[answer.server])
        if not answer.server.is_ours and any(
                said in stream for said in NO_THREADS for stream in (answer.outcome.stdout, answer.outcome.stderr)):
            return self._sandbox.call(request.model_copy(update={"memory_limit_MB": -1}), limits)
        return answer

    def _request(self, stdin: bytes, limits: Limits) -> RunRequest:
        program = self._program
        try:
            text = stdin.decode()
        except UnicodeDecodeError as error:
            raise SandboxMissing(f"SandboxFusion's API carries inputs as UTF-8 only: {error}") from None
        return RunRequest(
            code=program.source.decode(errors="replace"),       # an answer's: whatever it holds, it is run
            stdin=text, language=LANGUAGE_NAMES[program.language],
            compile_timeout=min(program.compile_s, MAX_TIMEOUT_S), run_timeout=limits.wall_s,
            memory_limit_MB=-(-limits.memory_bytes >> 20),
            files={path: base64.b64encode(content).decode() for path, content in program.files.items()})


def _for_fusion(request: RunRequest) -> RunRequest:
    """What SandboxFusion itself can be asked: node does not start under its memory limit."""
    return request.model_copy(update={"memory_limit_MB": -1}) if request.language == "nodejs" else request


def _outcome(result: CommandResult, limits: Limits, *, is_ours: bool) -> Outcome:
    """In our words. ValueError where the server says what can't be."""
    most = limits.output_bytes if is_ours else min(limits.output_bytes, WHOLE_OUTPUT_BYTES)
    stdout = output_of(result.stdout, result.stdout_base64)
    stderr = output_of(result.stderr, result.stderr_base64)
    exit_code = result.return_code
    is_over = len(stdout) > most or len(stderr) > limits.output_bytes
    if result.ending is not None:       # our server's own limit of output may be larger than ours
        ending = Ending.OUTPUT if is_over and result.ending is Ending.EXITED else result.ending
    elif is_over:
        ending = Ending.OUTPUT
    elif result.status == "TimeLimitExceeded":
        ending = Ending.TIME
    else:
        ending = Ending.SIGNALLED if exit_code is not None and exit_code < 0 else Ending.EXITED
    has_code = ending in (Ending.EXITED, Ending.SIGNALLED)
    details = {Ending.EXITED: f"exit code {exit_code}", Ending.SIGNALLED: f"signal {-(exit_code or 0)}",
               Ending.TIME: f"{limits.wall_s:g} s of time", Ending.MEMORY: f"{limits.memory_bytes >> 20} MiB of memory",
               Ending.OUTPUT: f"more than {most if len(stdout) > most else limits.output_bytes} bytes of output"}
    return Outcome(ending=ending, exit_code=exit_code if has_code else None, stdout=stdout[:most],
                   stderr=stderr[:limits.output_bytes], seconds=result.execution_time or 0.0,
                   detail=result.detail if result.detail and result.ending is ending else details[ending])
