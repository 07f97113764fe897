"""Run a whole run on this machine: what `millrace up`, `chaos` and runs without training do.

In: a configuration. Out: the run's folder, and the learner's exit code. Starts a private Redis where REDIS_URL names
none, then the same commands that any other launcher would, one process each. Restarts what fails, and ends everything
when the learner ends. The first Ctrl-C or SIGTERM lets the learner finish its step and commit. The second signal ends
everything at once. A kill -9 takes every process along.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from broker import processes
from broker.connection import RedisLink
from broker.errors import PipelineError, RunFailed
from broker.fork_server.client import ForkServer
from broker.joining import announce_coming, reset_run_state, state_of
from broker.keys import Keys
from broker.monitoring.crash_reports import LAST_LINES, record_death
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import explain
from config.generators import VllmEngineConfig
from config.loading import load_run
from config.logs import mask
from config.run import Run
from learner.journal.ledger import read_ledger
from learner.reporting.latency import lag_outlook
from learner.status import Status, read_status, write_failed
from tools.run_view.follower import RunFollower, client_of
from tools.run_view.log_tail import last_lines
from tools.runs.folder import free_name, held, read_run
from tools.up.console import LiveConsole, PlainConsole, RunConsole, restore_terminal
from tools.up.disk_watch import DiskFull, DiskWatch, check_room
from tools.up.redis_keeper import RedisKeeper, redis_of
from tools.up.role_commands import Command, commands, imports_of
from tools.up.supervisor import BAD_CONFIG, START_S, RunEnd, Supervisor

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
WINDOW_S = 10.0  # between the first and the last snapshot of a rate and the finding
LOG_LINES = 15
REASON_LINES = 3  # the last lines of a role that keeps failing, included in the run's reason
REASON_CHARS = 200  # of each of these lines
BESIDE_START_S = 60.0  # of a role's start: imports, and joining the run
OUTAGE_S = 5.0  # longest wait for Redis at the run's end

Company = Callable[[Supervisor, RedisKeeper, threading.Event], AbstractContextManager[Callable[[], None]]]


@contextlib.contextmanager
def _no_company(
    _supervisor: Supervisor, _keeper: RedisKeeper, _stop: threading.Event
) -> Iterator[Callable[[], None]]:
    yield lambda: None


def up(
    run: Run, words: Sequence[str], *, dry_run: bool, plain: bool, fork_server: ForkServer | None = None
) -> int:
    """Run `run`, which was loaded from `words` (`--config FILE key=value ...`).

    Args:
        fork_server: of the run's roles, begun early.
    Raises:
        ConfigError: the configuration can't be used.
        PipelineError: the run can't be started, or its Redis keeps failing.
    """
    if (name := free_name(run)) != run.name:
        sys.stdout.write(f"run {run.name} is finished; this one is called {name}\n")
        words = [*words, f"name={name}"]
        run = load_run(words)
    if (found := read_run(run.folder)).status and found.has_begun:
        sys.stdout.write(
            f"run {run.name} goes on: it was {found.status} after {max(found.version, 0)} of "
            f"{found.steps} steps\n"
        )
    plan = commands(run, words)
    if dry_run:
        _show(run, plan)
        return 0
    console = LiveConsole() if sys.stdout.isatty() and not plain else PlainConsole()
    return start(run, plan, console, fork_server=fork_server).code


def start(
    run: Run,
    plan: Sequence[Command],
    console: RunConsole,
    *,
    tell: Callable[[Run, RunEnd, float], None] | None = None,
    fork_server: ForkServer | None = None,
) -> RunEnd:
    """Take the run's folder, run `plan` and report how the run ended.

    Args:
        tell: reports it, given the duration in seconds; None: `report`.
        fork_server: of the run's roles, where the caller has begun it.
    Raises:
        PipelineError: the run can't be started.
    """
    with held(run.folder):
        started = time.monotonic()
        try:
            check_room(run)
            outcome = perform(run, plan, console, fork_server=fork_server)
        except RunFailed as error:  # of a role that could not start, or a Redis that kept failing
            write_failed(run, str(error))
            raise
    (tell or report)(run, outcome, time.monotonic() - started)
    return outcome


def perform(
    run: Run,
    plan: Sequence[Command],
    console: RunConsole,
    *,
    company: Company = _no_company,
    fork_server: ForkServer | None = None,
) -> RunEnd:
    """Run `plan` on the run's Redis until the run ends. From the main thread, once: it handles signals.

    Args:
        company: observes in addition to the console, and may act. It is entered before the first process starts, and
            exited after the last has ended and before Redis does. The function that it yields is called at every tick.
        fork_server: starts the roles that name imports, and is ended here. None: begin one.
    """
    supervisors: list[Supervisor] = []
    stop = processes.stop_on_signals(lambda: _kill_at_once(supervisors))
    fork_server = fork_server or ForkServer(imports_of(plan))
    with _logging_to(console), contextlib.closing(fork_server), redis_of(run) as keeper:
        follower = RunFollower(keeper.url, run.name, run.folder, window_s=WINDOW_S, reads_metrics=True)
        watching: list[Callable[[], None]] = [keeper.restart_if_dead, DiskWatch(run).tick]

        def tick() -> None:
            for watch in watching:
                watch()

        reason = _FailureReason(run, keeper.url)
        supervisor = Supervisor(
            plan,
            environment={"REDIS_URL": keeper.url},
            logs=run.folder / "logs",
            on_line=console.line,
            on_tick=tick,
            on_death=_DeathRecorder(run, keeper.url),
            on_giving_up=reason.give,
            fork_server=fork_server,
            start_s=_start_s(run),
        )
        supervisors.append(supervisor)
        _discard_last_words(run, keeper.url, stop)
        with company(supervisor, keeper, stop) as act:
            watching += [act, lambda: console.tick(follower.view, supervisor.running)]
            with contextlib.closing(follower), follower.keep_looking(LOOK_EVERY_S), console:
                outcome = _run_until_the_disk_is_full(supervisor, stop, reason)
                reason.make_sure(outcome)
                return outcome


def _run_until_the_disk_is_full(
    supervisor: Supervisor, stop: threading.Event, reason: _FailureReason
) -> RunEnd:
    """Run all roles; a full disk is an outcome like any other, with its reason."""
    try:
        return supervisor.run(stop)
    except DiskFull as error:
        reason.keep(str(error))
        return RunEnd(code=1, reason=str(error), failed_role="learner")


def _start_s(run: Run) -> float:
    """Return the longest start of a role of `run`, in seconds."""
    engine = run.generators.engine
    asked = engine.start_timeout_s if isinstance(engine, VllmEngineConfig) else 0.0
    served = 0.0 if run.judge.serve is None else run.judge.serve.start_timeout_s
    return max(START_S, asked, served) + BESIDE_START_S


def _discard_last_words(run: Run, url: str, stop: threading.Event) -> None:
    """Discard the run's last status, which the new learner's roles must not read, and tell them what comes."""
    with contextlib.closing(RedisLink(url, outage_s=run.broker.outage_s, stop=stop)) as link:
        reset_run_state(link, Keys(run.name))
        announce_coming(link, Keys(run.name), run)
        explain(link, Keys(run.name), "")


class _DeathRecorder:
    """Record in Redis how a role's process died, for the dead letter of a group that killed it."""

    def __init__(self, run: Run, url: str) -> None:
        self._keys = Keys(run.name)
        self._logs = run.folder / "logs"
        self._client = client_of(url)

    def __call__(self, role: str, pid: int, how: str) -> None:
        record_death(
            self._client,
            self._keys,
            host=socket.gethostname(),
            pid=pid,
            how=how,
            last_lines=last_lines(self._logs / f"{role}.log", LAST_LINES),
        )


class _FailureReason:
    """Record why a run ends although its learner works: another role keeps failing. For the run's status."""

    def __init__(self, run: Run, url: str) -> None:
        self._run = run
        self._url = url
        self._keys = Keys(run.name)
        self._text = ""
        self._before = read_status(run.folder)  # of an earlier incarnation, until now

    def keep(self, reason: str) -> None:
        """Store a reason that no role can receive any more."""
        self._text = mask(reason)

    def give(self, role: str, reason: str) -> None:
        """Give the learner the reason, before it is sent a signal, for its last status."""
        self._text = self._with_last_lines(role, reason)
        with contextlib.closing(RedisLink(self._url, outage_s=OUTAGE_S, key="")) as link:
            try:
                explain(link, self._keys, self._text)
            except PipelineError as error:
                log.warning("reason_not_told reason=%r error=%s", self._text, error)

    def make_sure(self, outcome: RunEnd) -> None:
        """Write the reason for a learner that was missing, or ended before it could."""
        if not self._text and outcome.failed_role and outcome.code != BAD_CONFIG and not self._is_told():
            self._text = self._with_last_lines(outcome.failed_role, outcome.reason)
        if not self._text:
            return
        if not self._is_told():  # first on disk: Redis may be away for the same reason
            write_failed(self._run, self._text)
        try:
            self._tell_redis()
        except PipelineError as error:
            log.warning("status_not_told reason=%r error=%s", self._text, error)

    def _tell_redis(self) -> None:
        with contextlib.closing(RedisLink(self._url, outage_s=OUTAGE_S, key="")) as link:
            explain(link, self._keys, "")
            if state_of(link, self._keys).has_ended:
                return
            ledger = read_ledger(self._run.folder / "journal", strict=False)
            # With this fence, so that a newer learner's run, in another folder, is not marked as failed.
            gone = RunOwner(link, self._keys, fence=ledger.fence)
            status = Status(self._run, link, self._keys, gone)
            if ledger.incarnations:
                status.refuse(self._text)
            else:
                status.end("failed", self._text, 0)

    def _is_told(self) -> bool:
        """Return whether this incarnation has ended with a reason in status.json."""
        now = read_status(self._run.folder)
        return now != self._before and now.get("status") not in {"", "running"}

    def _with_last_lines(self, role: str, reason: str) -> str:
        lines = [
            line.strip()[:REASON_CHARS]
            for line in last_lines(self._run.folder / "logs" / f"{role}.log", REASON_LINES)
        ]
        return mask(f"{reason}; its last lines: {' | '.join(lines)}" if lines else reason)


class _ToConsole(logging.Handler):
    def __init__(self, console: RunConsole) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self.setFormatter(
            logging.Formatter("%(asctime)s up %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
        )

    def emit(self, record: logging.LogRecord) -> None:
        self._console.line("up", mask(self.format(record)))


@contextlib.contextmanager
def _logging_to(console: RunConsole) -> Iterator[None]:
    """Send the tools' own log to the place of the roles' lines."""
    root = logging.getLogger()
    handler = _ToConsole(console)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _kill_at_once(supervisors: Sequence[Supervisor]) -> None:
    """Kill all processes at an immediate end; the private Redis flushes and ends by itself."""
    for supervisor in supervisors:
        supervisor.kill()
    restore_terminal()


def _show(run: Run, plan: Sequence[Command]) -> None:
    where = (
        "the one that REDIS_URL names"
        if run.broker.url
        else f"a private one, its data in {run.folder / 'redis'}"
    )
    sys.stdout.write(f"# Redis: {where}\n# Lag: {lag_outlook(run)}\n")
    for command in plan:
        visible = ",".join(map(str, command.gpus)) or "all"
        sys.stdout.write(f"# {command.role} (GPUs: {visible})\n{command}\n")


def report(run: Run, outcome: RunEnd, seconds: float) -> None:
    """Print how the run ended, and where its files are."""
    found = read_run(run.folder)
    how = found.status or ("stopped" if outcome.reason == "stopped" else "failed")
    write = sys.stdout.write
    write(
        f"\nrun {run.name}: {how} after {max(found.version, 0)} of {found.steps or run.learner.steps} "
        f"steps, {int(seconds) // 60} min {int(seconds) % 60} s\n"
    )
    rates = found.pass_rates
    if rates:
        ends = rates if len(rates) == 1 else (rates[0], rates[-1])
        write(f"  held-out   {' -> '.join(f'{rate:.3f} (version {version})' for version, rate in ends)}\n")
    for label, path in (
        ("folder", run.folder),
        ("curves", run.folder / "curves.png"),
        ("report", run.folder / "report.html"),
        ("model", run.folder / "model"),
    ):
        if path.exists():
            write(f"  {label:<10} {path}\n")
    if how == "stopped":
        write("  go on      by the same command\n")
    if outcome.failed_role:
        write(f"  reason     {found.reason or outcome.reason}\n")
        log_file = Path(run.folder / "logs" / f"{outcome.failed_role}.log")
        write(
            f"\nThe end of {log_file}:\n" + "".join(f"  {line}\n" for line in last_lines(log_file, LOG_LINES))
        )
