"""`millrace up CONFIG`: a whole run on this machine.

In: a configuration. Out: the run's folder, and the learner's exit code. Starts a private Redis where REDIS_URL names
none, then the same commands that any other launcher would, one process each; starts what fails again; ends everything
when the learner ends. The first Ctrl-C or SIGTERM lets the learner finish its step and commit, the second one ends all
at once, and a kill -9 takes every process along.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker import embedded, processes
from broker.embedded import Embedded
from broker.errors import RunFailed
from config.loading import load_run
from config.logs import mask
from config.run import Run
from tools.commands import Command, commands
from tools.console import LiveConsole, PlainConsole, RunConsole, restore_terminal
from tools.log_tail import last_lines
from tools.progress import Progress
from tools.run_folder import free_name, held, read_run
from tools.supervisor import Outcome, Restarts, Supervisor

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOG_LINES = 15


def up(run: Run, words: Sequence[str], *, dry_run: bool, plain: bool) -> int:
    """Run `run`, which was loaded from `words` (`--config FILE key=value ...`).

    Raises:
        ConfigError: the configuration can't be used.
        PipelineError: the run can't be started, or its Redis can't be kept.
    """
    if (name := free_name(run)) != run.name:
        sys.stdout.write(f"run {run.name} is finished; this one is called {name}\n")
        words = [*words, f"name={name}"]
        run = load_run(words)
    plan = commands(run, words)
    if dry_run:
        _show(run, plan)
        return 0
    with held(run.folder):
        return _run(run, plan, LiveConsole(run.name) if sys.stdout.isatty() and not plain else PlainConsole())


def _run(run: Run, plan: Sequence[Command], console: RunConsole) -> int:
    started = time.monotonic()
    supervisors: list[Supervisor] = []
    stop = processes.stop_on_signals(lambda: _cut(supervisors))
    with _logging_to(console), _redis(run) as keeper:
        progress = Progress(keeper.url, run.name, run.folder)

        def tick() -> None:
            keeper.tend()
            console.tick(progress.view, supervisor.running)

        supervisor = Supervisor(plan, environment={"REDIS_URL": keeper.url}, logs=run.folder / "logs",
                                on_line=console.line, on_tick=tick)
        supervisors.append(supervisor)
        try:
            with console:
                outcome = supervisor.run(stop)
        finally:
            progress.stop()
    _report(run, outcome, time.monotonic() - started, stop)
    return outcome.code


class RedisKeeper:
    """The Redis of a run: an external one is left alone, a private one that died is started again where it was."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._restarts = Restarts()
        self._restarted_at: list[float] = []
        self._looked = time.monotonic()
        self._server: Embedded | None = None
        if run.broker.url is None:
            self._server = embedded.start(run)
            self.url = self._server.url
        else:
            self.url = run.broker.url.get_secret_value()

    def tend(self) -> None:
        """Look after it.

        Raises:
            RunFailed: it keeps dying, or can't come back to the address that the roles know.
        """
        if self._server is None or time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = now = time.monotonic()
        if not self._server.has_ended:
            return
        self._restarted_at = [at for at in self._restarted_at if now - at < self._restarts.window_s]
        if len(self._restarted_at) >= self._restarts.most:
            raise RunFailed(f"redis died {len(self._restarted_at) + 1} times within {self._restarts.window_s:.0f} s; "
                            f"{self._run.folder}/logs/redis.log says why")
        self._restarted_at.append(now)
        log.warning("redis died; starting it again on its data")
        self._server.stop()
        self._server = embedded.start(self._run)
        if self._server.url != self.url:
            raise RunFailed("redis died, and its port was taken before it could be started again; start the run anew")

    def stop(self) -> None:
        """Flush and end a private one."""
        if self._server is not None:
            self._server.stop()


@contextlib.contextmanager
def _redis(run: Run) -> Iterator[RedisKeeper]:
    keeper = RedisKeeper(run)
    try:
        yield keeper
    finally:
        keeper.stop()


class _ToConsole(logging.Handler):
    def __init__(self, console: RunConsole) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self.setFormatter(logging.Formatter("%(asctime)s up %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self._console.line("up", mask(self.format(record)))


@contextlib.contextmanager
def _logging_to(console: RunConsole) -> Iterator[None]:
    """What the tools themselves log goes where the roles' lines go."""
    root = logging.getLogger()
    handler = _ToConsole(console)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _cut(supervisors: Sequence[Supervisor]) -> None:
    """Before an end at once; the private Redis flushes and ends by itself."""
    for supervisor in supervisors:
        supervisor.kill()
    restore_terminal()


def _show(run: Run, plan: Sequence[Command]) -> None:
    where = "the one that REDIS_URL names" if run.broker.url else f"a private one, its data in {run.folder / 'redis'}"
    sys.stdout.write(f"# Redis: {where}\n")
    for command in plan:
        visible = ",".join(map(str, command.gpus)) or "all"
        sys.stdout.write(f"# {command.role} (GPUs: {visible})\n{command}\n")


def _report(run: Run, outcome: Outcome, seconds: float, stop: threading.Event) -> None:
    """Say how it ended, and where everything is."""
    found = read_run(run.folder)
    how = found.status or ("stopped" if stop.is_set() else "failed")
    write = sys.stdout.write
    write(f"\nrun {run.name}: {how} after {max(found.version, 0)} of {run.learner.steps} steps, "
          f"{int(seconds) // 60} min {int(seconds) % 60} s\n")
    rates = found.pass_rates
    if rates:
        ends = rates if len(rates) == 1 else (rates[0], rates[-1])
        write(f"  held-out   {' -> '.join(f'{rate:.3f} (version {version})' for version, rate in ends)}\n")
    for label, path in (("folder", run.folder), ("curves", run.folder / "curves.png"), ("model", run.folder / "model")):
        if path.exists():
            write(f"  {label:<10} {path}\n")
    if outcome.failed_role:
        write(f"  reason     {found.reason or outcome.reason}\n")
        log_file = Path(run.folder / "logs" / f"{outcome.failed_role}.log")
        write(f"\nThe end of {log_file}:\n" + "".join(f"  {line}\n" for line in last_lines(log_file, LOG_LINES)))
