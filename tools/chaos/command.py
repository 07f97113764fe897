"""`millrace chaos CONFIG --minutes N`: kill, stop and disconnect parts of a run continually, and audit it.

In: a configuration, and `Orders`. Out: the run's folder, as from `millrace up`. At the end come its audit, its learning
curve, how often each role was killed and how long it took to return. The run continues until the minutes are over; then
disturbances stop and the run is drained. Exit code 0 if the run ended well and the audit is clean.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import Keys
from broker.protocol.run_state import DRAIN
from config.loading import load_run
from config.run import Run
from learner.journal.ledger import read_ledger
from tools.arguments import UsageError, add_config, add_json, given_config
from tools.audit import command as auditing
from tools.audit.sums import Audit
from tools.chaos.monkey import Monkey, Orders
from tools.chaos.targets import ROLES, Targets
from tools.doctor.light import check_light
from tools.run_view.follower import client_of
from tools.runs.folder import NoJournal, free_name, held, read_run
from tools.up.console import PlainConsole
from tools.up.local_run import perform, report
from tools.up.redis_keeper import RedisKeeper
from tools.up.role_commands import commands
from tools.up.supervisor import RunEnd, Supervisor

log = logging.getLogger(__name__)

# Enough that the minutes end the run, and not its steps, unless the command line sets the steps.
ENOUGH_STEPS = 1_000_000
ASK_EVERY_S = 1.0
DRAIN_S = 120.0  # for a drained run to end, in addition to a group's deadline
REDIS_S = 60.0  # for Redis to return when all others have ended


class Chaos:
    """Run one configuration under chaos: a company for `tools.up.local_run.perform`, and its results.

    Args:
        on_back: called with (role, seconds) when a killed role has returned; may call `audit_now`.
    """

    def __init__(
        self, run: Run, orders: Orders, on_back: Callable[[str, float], None] = lambda _role, _seconds: None
    ) -> None:
        self.audit: Audit | None = None  # the final audit; None where the run never began
        self.seconds = 0.0
        self.monkey: Monkey
        self._run = run
        self._keys = Keys(run.name)
        self._orders = orders
        self._on_back = on_back
        self._began = 0.0
        self._url = ""
        self._client: redis.Redis
        self._asked_at = 0.0
        self._drain_until: float | None = None

    @contextlib.contextmanager
    def company(
        self, supervisor: Supervisor, keeper: RedisKeeper, stop: threading.Event
    ) -> Iterator[Callable[[], None]]:
        """Disturb the run of `supervisor` within the block; audit it after its last process has ended."""
        self._url = keeper.url
        self._client = client_of(keeper.url)
        targets = Targets(supervisor.pids, self._client, self._run.name)
        self.monkey = Monkey(
            self._orders,
            look=targets.look,
            forgive=supervisor.forgive,
            keeper=keeper,
            client=self._client,
            lease_s=self._run.broker.lease_s,
            on_back=self._on_back,
        )
        if not keeper.is_private:
            log.warning(
                "chaos redis=external: REDIS_URL names one that may be others' too, so it is left alone"
            )
        self._began = time.monotonic()
        try:
            yield lambda: self._tick(supervisor, stop)
        finally:
            self.monkey.let_go()
            self.seconds = time.monotonic() - self._began
        self._wait_for_redis(keeper)
        with contextlib.suppress(NoJournal):
            self.audit = self.audit_now()

    def audit_now(self) -> Audit:
        """Audit the run in its current state. Raises the errors of `tools.audit.command.audit`."""
        with contextlib.closing(RedisLink(self._url, outage_s=REDIS_S)) as link:
            return auditing.audit(link, self._keys, self._run.folder / "journal")

    def _tick(self, supervisor: Supervisor, stop: threading.Event) -> None:
        is_over = time.monotonic() - self._began >= self._orders.seconds or self.monkey.is_done
        is_ending = supervisor.is_ending or stop.is_set()
        self.monkey.tick(may_disturb=not (is_over or is_ending or self._drain_until))
        if (is_over or self._drain_until) and not is_ending:
            self._drain(stop)

    def _drain(self, stop: threading.Event) -> None:
        """Request a drain repeatedly, since a Redis may have lost the request."""
        now = time.monotonic()
        if self._drain_until is None:
            self._drain_until = now + self._run.deadlines[1] + DRAIN_S
            log.warning("chaos over after_s=%.0f: draining", now - self._began)
        elif now > self._drain_until:
            log.error(
                "chaos the run was not drained within %.0f s: stopping it", self._run.deadlines[1] + DRAIN_S
            )
            stop.set()
        if now - self._asked_at < ASK_EVERY_S:
            return
        self._asked_at = now
        with contextlib.suppress(redis.RedisError):
            status: Any = self._client.hget(self._keys.run, "status")
            if status == b"running":  # after the run's end the request would go to the next learner
                self._client.hset(self._keys.run, "wanted", DRAIN)

    def _wait_for_redis(self, keeper: RedisKeeper) -> None:
        """Wait until Redis answers: it may have been killed just before the end."""
        deadline = time.monotonic() + REDIS_S
        while time.monotonic() < deadline:
            keeper.restart_if_dead()
            try:
                self._client.ping()
            except redis.RedisError:
                time.sleep(0.1)
            else:
                return


EPILOG = (
    "Kills, stops and restarts the run's own processes and its private Redis, starts them again, and drains the run in "
    "the end. learner.steps is set high enough unless it is among the settings. Exit code: 0 the run ended well and "
    "nothing is lost or doubled; 1 otherwise."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace chaos`."""
    add_config(parser)
    parser.add_argument("--minutes", type=float, required=True, metavar="N", help="how long it is disturbed")
    parser.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="between two disturbances (10)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="of the dice (0)")
    add_json(parser, "one JSON object; everything else goes to standard error")


def run(options: argparse.Namespace) -> int:
    """Run a configuration under chaos. Raises ConfigError, PipelineError."""
    if not (options.minutes > 0 and options.every > 0):
        raise UsageError("--minutes and --every must be positive")
    given = given_config(options)
    wanted = load_run(given)
    check_light(wanted, given)
    orders = Orders(seconds=60 * options.minutes, every_s=options.every, seed=options.seed)
    return chaos(wanted, given, orders, as_json=options.json)


def chaos(run: Run, words: Sequence[str], orders: Orders, *, as_json: bool) -> int:
    """Run `run`, which was loaded from `words` (`--config FILE key=value ...`), disturb it, and print the results.

    Raises:
        ConfigError: the configuration can't be used.
        PipelineError: the run can't be started, or its Redis keeps failing.
    """
    if not any(word.startswith("learner.steps=") for word in words):
        words = [*words, f"learner.steps={ENOUGH_STEPS}"]
    if not any(word.startswith("name=") for word in words):  # a user's own run must not be disturbed
        words = [*words, f"name={run.name}-chaos"]
        run = load_run(words)
    if (name := free_name(run)) != run.name:
        words = [*words, f"name={name}"]
    run = load_run(words)
    storm = Chaos(run, orders)
    with held(run.folder):
        console = PlainConsole(sys.stderr if as_json else sys.stdout)
        outcome = perform(run, commands(run, words), console, company=storm.company)
    if as_json:
        sys.stdout.write(json.dumps(as_object(run, storm, orders, outcome)) + "\n")
    else:
        report(run, outcome, storm.seconds)
        sys.stdout.write("\n".join(["", *as_lines(run, storm)]) + "\n")
    return 0 if outcome.code == 0 and storm.audit is not None and storm.audit.is_clean else 1


def as_object(run: Run, storm: Chaos, orders: Orders, outcome: RunEnd) -> dict[str, Any]:
    """Make the object of --json: the counts of audit and chaos. `kills` has every role, `back_s` returned ones."""
    rates, record = pass_rates(run), storm.monkey.record
    return {
        **(asdict(storm.audit) if storm.audit else {}),
        "run": run.name,
        "seed": orders.seed,
        "exit_code": outcome.code,
        "reason": outcome.reason,
        "steps": max(read_run(run.folder).version, 0),
        "seconds": round(storm.seconds, 1),
        "kills": {role: record.kills[role] for role in ROLES},
        "disturbances": dict(record.disturbances),
        "back_s": storm.monkey.returns.summary(),
        "eval_pass_rate": rates[-1][1] if rates else None,
        "learning_curve": rates,
    }


def as_lines(run: Run, storm: Chaos) -> list[str]:
    """Format the results for people."""
    back = storm.monkey.returns.summary()
    lines = [
        f"chaos: {sum(storm.monkey.record.disturbances.values())} disturbances in {storm.seconds:.0f} s",
        *(f"  {what:<22} {count:4}" for what, count in sorted(storm.monkey.record.disturbances.items())),
    ]
    lines += [
        "back after, s (median, largest)",
        *(
            f"  {role:<22} {seconds['median']:6.1f} {seconds['largest']:6.1f}"
            for role, seconds in back.items()
        ),
    ]
    if rates := pass_rates(run):
        lines.append(
            "held-out pass rate by version: " + ", ".join(f"{version}: {rate:.2f}" for version, rate in rates)
        )
    lines.append(
        auditing.as_text(run.name, storm.audit).rstrip() if storm.audit else "no journal: the run never began"
    )
    return lines


def pass_rates(run: Run) -> list[tuple[int, float]]:
    """Read (policy version, held-out pass rate) of every round in the journal: after a kill metrics may lack some."""
    folder = run.folder / "journal"
    rounds = read_ledger(folder, strict=False).evaluations if folder.is_dir() else {}
    return sorted(
        (version, found["pass_rate"]) for version, found in rounds.items() if found["pass_rate"] is not None
    )
