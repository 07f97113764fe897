"""Programs run by servers that speak SandboxFusion's HTTP API: SandboxFusion itself, or `python -m scorers sandbox`.

In: a `Program`. Out: a `ProgramOutcome`, as every `sandbox.program.Sandbox`. Used by the scorers' processes, from any
thread. A refused connection, a time-out, a 5xx, `SandboxError`, a reply that is not to be understood: the server is in
doubt (see `sandbox.remote.probed_servers`) and the call goes to another one; with none left it raises
`SandboxUnavailable`. None of these is ever an outcome.

What SandboxFusion's fields blur is settled like this (our own server says exactly how a run ended):
- A return code of SIGKILL or SIGTERM may be the program's own doing (out of memory, too) or come from outside. The
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
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from sandbox.limits import Limits
from sandbox.local.disk_space import compiler_without_disk_space
from sandbox.program import (
    Ending,
    Language,
    Program,
    ProgramOutcome,
    ProgramTooLarge,
    SandboxMissing,
    SandboxUnavailable,
)
from sandbox.remote.exchange import RunRefused, compile_failed, post_run, rest_s
from sandbox.remote.outcome import WHOLE_OUTPUT_BYTES, for_fusion, outcome_of, seconds_of
from sandbox.remote.probe import PROBE_S, Probe, versions_of
from sandbox.remote.probed_servers import ProbedServers, SandboxServer
from sandbox.wire import LANGUAGE_NAMES, MAX_TIMEOUT_S, RunRequest
from web.client import CLOSED, BlockingClient, Busy, ServerTrouble

MARGIN_S: Final = 10.0  # beyond a program's own limits: the way, the queue, the walls
PATIENCE_S: Final = 20.0  # for a server, when none is ready or all are busy
REPLY_BYTES: Final = 80 << 20  # of JSON: both outputs of the largest run, escaped, and once more in base64
KILLS: Final = frozenset({-9, -15, 137, 143})  # SIGKILL and SIGTERM, as Python and as a shell report them
NO_THREADS: Final = (b"can't start new thread", b"Resource temporarily unavailable")


class FusionSandbox:
    """Several servers as one sandbox."""

    name = "fusion"
    languages = frozenset(Language)
    max_wall_s = MAX_TIMEOUT_S

    def __init__(
        self, urls: Sequence[str], *, patience_s: float = PATIENCE_S, margin_s: float = MARGIN_S
    ) -> None:
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
        self._urls = tuple(urls)
        self._servers = ProbedServers(urls, self._probe, patience_s=patience_s)
        self._http: BlockingClient | None = None
        self._owner = os.getpid()  # whose connections, locks and threads all of this is
        self._is_open = True
        self._version: str | None = None  # asked once, so that it is the same in every score
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """Return the servers' Python and packages: `python=3.11.2 numpy=2.3.5`; unknown until one answers.

        Where they differ all versions are named: `numpy=1.26.4,none`.
        """
        if self._version is None:
            self._open().meet()
            versions: dict[str, set[str]] = {}
            for word in " ".join(server.version for server in self._servers.all).split():
                name, _, version = word.partition("=")
                versions.setdefault(name, set()).add(version)
            if not versions:
                return "python=unknown"
            self._version = " ".join(f"{name}={','.join(sorted(these))}" for name, these in versions.items())
        return self._version

    @property
    def max_output_bytes(self) -> int:
        """Return the most bytes of one stream; SandboxFusion carries less. Raises SandboxUnavailable: none answered."""
        servers = self._open()
        if not any(server.version for server in servers.all):
            servers.probe_all()
        are_ours = all(server.is_ours for server in servers.all if server.version)
        return Limits().output_bytes if are_ours else WHOLE_OUTPUT_BYTES

    @contextmanager
    def prepare(self, program: Program) -> Iterator[FusionProgram]:
        """Make a program ready. A server keeps nothing between two calls: it compiles at each run."""
        yield FusionProgram(self, program)

    def self_test(self) -> None:
        """Probe every server; one that fails is left out. Raises SandboxUnavailable where all do.

        Whether a program can get out of them is not asked: their walls are their operator's.
        """
        self._open().probe_all()

    def close(self) -> None:
        """Close the connections; none is opened until it is used again."""
        if self._owner != os.getpid():
            return
        with self._lock:
            http, self._http, self._is_open = self._http, None, False
        if http is not None:
            http.close()

    def call(
        self, request: RunRequest, limits: Limits, *, rather_not: Sequence[SandboxServer] = ()
    ) -> FusionAnswer:
        """Have one of the servers run a program, and another server where that one fails.

        Raises:
            SandboxUnavailable: none did.
            SandboxMissing: none takes such a program; ProgramTooLarge where only its size is why.
        """
        servers = self._open()
        failed: list[SandboxServer] = []
        reasons: list[str] = []
        refusals: list[RunRefused] = []
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                with servers.lend(without=failed, rather_not=rather_not) as server:
                    try:
                        answer = self._ask(server, request, limits)
                        servers.trust(server)
                        return answer
                    except Busy as busy:
                        servers.rest(server, rest_s(busy.seconds))
                        if time.monotonic() < deadline:
                            continue
                        reason = f"busy for {self._patience_s:g} s"
                    except RunRefused as refused:
                        refusals.append(refused)
                        reason = str(refused)
                    except ServerTrouble as trouble:
                        reason = str(trouble)
                        servers.doubt(server, reason)
                    failed.append(server)
                    reasons.append(f"{server.url}: {reason}")
            except SandboxUnavailable as error:
                if len(refusals) == len(servers.all):
                    kind = ProgramTooLarge if all(refused.is_size for refused in refusals) else SandboxMissing
                    raise kind(f"no sandbox server takes this program: {'; '.join(reasons)}") from None
                raise SandboxUnavailable("; ".join([*reasons, str(error)])) from None

    def _ask(self, server: SandboxServer, request: RunRequest, limits: Limits) -> FusionAnswer:
        sent = request if server.is_ours else for_fusion(request)
        compile_s = request.compile_timeout if request.language == "cpp" else 0.0
        began = time.monotonic()
        reply = post_run(
            self._client(),
            server.url,
            sent,
            timeout_s=request.run_timeout + compile_s + self._margin_s,
            max_bytes=REPLY_BYTES,
        )
        took_s = time.monotonic() - began
        is_compiler = compile_failed(reply)
        result = reply.compile_result if is_compiler else reply.run_result
        if result is None:
            raise ServerTrouble("a reply without a result")
        try:
            outcome = outcome_of(result, limits, is_ours=server.is_ours)
        except ValueError as error:
            raise ServerTrouble(f"no reply of this API: {error}") from None
        if is_compiler and compiler_without_disk_space(outcome.stderr):
            raise ServerTrouble("no room for a compiler on its disk")
        outcome = replace(outcome, seconds=seconds_of(reply, took_s))
        if is_compiler:
            outcome = replace(outcome, detail=f"it does not compile: {outcome.detail}")
        return FusionAnswer(server, outcome, is_compiler)

    def _probe(self, server: SandboxServer) -> None:
        """Ask for what only a run can know. Raises ServerTrouble where the answer is another one."""
        probe = Probe()
        try:
            reply = post_run(
                self._client(),
                server.url,
                probe.request,
                max_bytes=1 << 20,
                timeout_s=PROBE_S + self._margin_s,
            )
        except (RunRefused, Busy) as error:
            raise ServerTrouble(f"it does not take its probe: {error}") from None
        if trouble := probe.trouble(reply):
            raise ServerTrouble(trouble)
        server.is_ours = reply.run_result is not None and reply.run_result.ending is not None
        server.version = versions_of(reply)

    def _open(self) -> ProbedServers:
        """Open for a new use, closed or not.

        In a fork all is made anew: the connections are the parent's, as the replies on them are, and its threads, one
        of which may hold a lock, are not there.
        """
        if self._owner != os.getpid():
            self._servers = ProbedServers(self._urls, self._probe, patience_s=self._patience_s)
            self._http, self._lock, self._owner = None, threading.Lock(), os.getpid()
        with self._lock:
            self._is_open = True
        return self._servers

    def _client(self) -> BlockingClient:
        with self._lock:
            if not self._is_open:  # a probe that was begun before, or another thread's call
                raise ServerTrouble(CLOSED)
            if self._http is None:
                self._http = BlockingClient()
            return self._http


@dataclass(frozen=True, slots=True)
class FusionAnswer:
    """The answer of a server about one run."""

    server: SandboxServer
    outcome: ProgramOutcome
    is_compiler: bool  # the program did not run: the compiler's outcome

    @property
    def is_doubtful(self) -> bool:
        """Return whether the program may have been ended from outside."""
        return not self.server.is_ours and (
            self.outcome.exit_code in KILLS or (self.is_compiler and b"Killed signal" in self.outcome.stderr)
        )


class FusionProgram:
    """A program that is sent anew with every run."""

    def __init__(self, sandbox: FusionSandbox, program: Program) -> None:
        self._sandbox = sandbox
        self._program = program
        self.failure: ProgramOutcome | None = None  # the compiler's refusal, once a run has met it
        self.compiler_s = 0.0

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> ProgramOutcome:
        """Run the program once on one of the servers. Raises as `sandbox.program.ReadyProgram.run`."""
        if self.failure is None:
            answer = self._settle(stdin, limits or Limits())
            if (
                not answer.is_compiler or answer.outcome.ending is not Ending.EXITED
            ):  # over a limit: again next time
                return answer.outcome
            self.failure = answer.outcome
        return self.failure

    def _settle(self, stdin: bytes, limits: Limits) -> FusionAnswer:
        """Run the program, and once more where the first run does not settle whose doing its end was."""
        limits = replace(limits, wall_s=min(limits.wall_s, MAX_TIMEOUT_S))
        request = self._request(stdin, limits)
        answer = self._sandbox.call(request, limits)
        if answer.is_doubtful:
            return self._sandbox.call(request, limits, rather_not=[answer.server])
        if not answer.server.is_ours and any(
            said in stream for said in NO_THREADS for stream in (answer.outcome.stdout, answer.outcome.stderr)
        ):
            return self._sandbox.call(request.model_copy(update={"memory_limit_MB": -1}), limits)
        return answer

    def _request(self, stdin: bytes, limits: Limits) -> RunRequest:
        program = self._program
        try:
            text = stdin.decode()
        except UnicodeDecodeError as error:
            raise SandboxMissing(f"SandboxFusion's API carries inputs as UTF-8 only: {error}") from None
        return RunRequest(
            code=program.source.decode(errors="replace"),  # an answer's: whatever it holds, it is run
            stdin=text,
            language=LANGUAGE_NAMES[program.language],
            compile_timeout=min(program.compile_s, MAX_TIMEOUT_S),
            run_timeout=limits.wall_s,
            memory_limit_MB=-(-limits.memory_bytes >> 20),
            files={path: base64.b64encode(content).decode() for path, content in program.files.items()},
        )
