"""`make prove-bottleneck`: is `millrace top` right?

In: four made situations: slow scorers, slow generators, a slow learner, too small a budget. Out: for each what `top`
named and what it said that one more would give, beside what one more gave: a scorer or a generator is added in the
middle of the run, the learner's and the budget's key is turned in a run of its own. `--write` puts the table at the end
of benchmarks/RESULTS.md. Exit code 0 if it named the right one each time, the right key for learner and budget, and for
scorers and generators estimated what came within a third, and the checkout is still the same.

The roles are the real ones; the engine is scripted and the scorers sleep, so that what is slow is known. The learner
trains the demo's model, and two ranks of it share this machine with everything else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks import results
from benchmarks.rigs.groups import RECIPE, demo_run
from broker import processes
from broker.monitoring.snapshot import Snapshot, snapshot
from broker.private_redis import addresses, server
from tools.run_view.finding import BottleneckFinding, finding_of

START_S = 240.0  # for the first steps of a run
JOIN_S = 60.0  # for one more process to be at work
SETTLE_S = 6.0  # for queues to become what they will be
WITHIN = 1 / 3  # of what came, an estimate may be off by
POLL_S = 0.1
COLUMNS = (
    "situation",
    "top names",
    "busy",
    "one more",
    "groups/s before",
    "estimated",
    "groups/s after",
    "off by",
    "verdict",
)

QUICK = (
    "learner.groups_per_step=4",
    "learner.max_lag=4",
    "learner.steps=100000",
    "learner.samples_every=0",
    "learner.checkpoint.every=0",
    "learner.filters.zero_variance=keep",
    "data.held_out=",
    "evaluation.every=0",
    "sampling.group_size=2",
    "scorers.workers=1",
    "generators.groups_in_flight=4",
)


def _engine(seconds: float, answer: str = "\\\\boxed{1}") -> str:
    return f"generators.engine={{type: fake, seconds_per_group: {seconds}, answers: ['{answer}']}}"


def _scorer(seconds: float) -> str:
    """Configure a scorer that sleeps: equal texts are judged once, so a group costs one nap."""
    return (
        "scorers.tasks={math: {scorer: {type: custom, queue: light, import_path: 'benchmarks.rigs.sleeper:SlowBox', "
        f"options: {{seconds: {seconds}}}}}}}}}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One way for a run to be slow."""

    name: str
    bottleneck: str  # that `top` is to name
    settings: tuple[str, ...]  # over the recipe's and QUICK
    joins: tuple[str, ...] = ()  # the command of one more process
    knob: tuple[str, ...] = ()  # or the settings of the run with the key turned


SITUATIONS = (
    Situation(
        name="slow scorers",
        bottleneck="scorers",
        settings=(_engine(0.1), _scorer(0.5)),
        joins=("-m", "scorers", "--workers", "1", "--run"),
    ),
    Situation(
        name="slow generators",
        bottleneck="generators",
        settings=(_engine(2.0), _scorer(0.01)),
        joins=("-m", "generators", "--run"),
    ),
    Situation(
        name="slow learner",
        bottleneck="learner",
        knob=("learner.ranks=2",),
        settings=(
            _engine(0.1, "word " * 35),
            _scorer(0.01),
            "learner.groups_per_step=16",
            "learner.max_lag=2",
            "generators.groups_in_flight=16",
            "sampling.group_size=8",
            "sampling.max_tokens=190",
        ),
    ),
    Situation(
        name="budget too small",
        bottleneck="budget",
        knob=("learner.max_lag=1",),
        settings=(_engine(2.0), _scorer(0.01), "learner.max_lag=0", "generators.groups_in_flight=16"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SituationRow:
    """One situation with its measured rates."""

    situation: Situation
    said: BottleneckFinding
    before: float  # groups a second
    after: float

    @property
    def estimated(self) -> float:
        """The groups a second that `top` expected."""
        return self.before * (1 + self.said.gain)

    @property
    def off_by(self) -> float:
        """The estimate's error, as a share of the measured rate."""
        return self.estimated / self.after - 1

    @property
    def verdict(self) -> str:
        """`held`, or what did not hold."""
        if self.said.bottleneck != self.situation.bottleneck:
            return f"NOT held: top named {self.said.bottleneck or 'nothing'}"
        if self.situation.knob:
            turned = {setting.partition("=")[0] for setting in self.situation.knob}
            return (
                "held"
                if turned <= set(self.said.knob)
                else f"NOT held: top named {', '.join(self.said.knob)}"
            )
        return "held" if abs(self.off_by) <= WITHIN else "NOT held: the estimate"


class LiveRun:
    """A learner, a generator and a pool of one scorer on a private Redis."""

    def __init__(self, folder: Path, name: str, settings: Sequence[str]) -> None:
        self.name = name
        self._log = (folder / f"{name}.log").open("wb")
        run = demo_run(folder, learner={}).model_copy(update={"name": name})
        self._folder = run.folder
        self._server = server.start(run)
        self._environment = {**os.environ, "REDIS_URL": self._server.url, "OMP_NUM_THREADS": "1"}
        self._client = redis.Redis.from_url(self._server.url)
        self._processes = [
            self.start(
                "-m",
                "learner",
                "--config",
                str(RECIPE),
                f"name={name}",
                f"runs_dir={folder}",
                *QUICK,
                *settings,
            ),
            self.start("-m", "generators", "--run", name),
            self.start("-m", "scorers", "--run", name),
        ]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start one process of the run."""
        return processes.spawn(
            [sys.executable, *words],
            stdout=self._log,
            stderr=self._log,
            cwd=results.ROOT,
            env=self._environment,
        )

    def join(self, words: Sequence[str], role: str) -> None:
        """Add a process, and wait until it is at work."""
        before = _at_work(self.look(), role)
        self._processes.append(self.start(*words, self.name))
        self.wait("one more at work", JOIN_S, lambda: _at_work(self.look(), role) > before)

    def look(self) -> Snapshot:
        """Take a snapshot of the run."""
        return snapshot(self._client, self.name)

    def wait(self, what: str, seconds: float, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds. Raises RuntimeError."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or any(map(processes.has_ended, self._processes)):
                raise RuntimeError(f"{what} did not come; see {self._log.name}")
            time.sleep(POLL_S)

    def measure(self, seconds: float) -> tuple[float, BottleneckFinding]:
        """Measure groups a second over whole steps, for at least `seconds`; return them with what `top` says."""
        first = self._next_step(0.0)
        last = self._next_step(first.at + seconds)
        groups = (last.version - first.version) * (last.run.learner.groups_per_step if last.run else 0)
        return groups / (last.at - first.at), finding_of(first, last)[0]

    def _next_step(self, not_before: float) -> Snapshot:
        """Wait for a new version, and return the snapshot that shows it."""
        found = [self.look()]

        def has_come() -> bool:
            before, now = found[-1], self.look()
            found.append(now)
            return now.version > before.version and now.at >= not_before

        self.wait("a step", START_S, has_come)
        return found[-1]

    def end(self) -> None:
        """End all processes of the run, and its Redis."""
        for process in self._processes:
            processes.stop(process, 0)
        self._client.close()
        self._server.stop()
        addresses.discard(self._folder)
        self._log.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Make every situation, show the table, and write it down if asked."""
    args = _parser().parse_args(argv)
    chosen = [situation for situation in SITUATIONS if not args.only or situation.bottleneck in args.only]
    commit = results.commit()
    heading = results.heading("What `millrace top` says of a bottleneck, and what one more of it gives")
    rows = []
    for situation in chosen:
        rows.append(prove(situation, args.seconds))
        sys.stdout.write(f"{situation.name}: {rows[-1].said.text}: {rows[-1].verdict}\n")
        sys.stdout.flush()
    lines = [*heading, *as_table(rows, args.seconds), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(row.verdict == "held" for row in rows) and results.commit() == commit else 1


def prove(situation: Situation, seconds: float) -> SituationRow:
    """Measure a situation, do what `top` says, and measure again."""
    with tempfile.TemporaryDirectory() as folder, _live(Path(folder), "before", situation.settings) as run:
        before, said = run.measure(seconds)
        if situation.joins:
            run.join(situation.joins, situation.bottleneck.removesuffix("s"))
            time.sleep(SETTLE_S)
            after, _ = run.measure(seconds)
            return SituationRow(situation=situation, said=said, before=before, after=after)
    with (
        tempfile.TemporaryDirectory() as folder,
        _live(Path(folder), "after", (*situation.settings, *situation.knob)) as run,
    ):
        after, _ = run.measure(seconds)
    return SituationRow(situation=situation, said=said, before=before, after=after)


@contextlib.contextmanager
def _live(folder: Path, name: str, settings: Sequence[str]) -> Iterator[LiveRun]:
    """Start a run and let it settle."""
    run = LiveRun(folder, name, settings)
    try:
        run.wait("the second step", START_S, lambda: run.look().version >= 2)
        time.sleep(SETTLE_S)
        yield run
    except RuntimeError:
        sys.stderr.write((folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-4000:])
        raise
    finally:
        run.end()


def _at_work(now: Snapshot, role: str) -> int:
    return sum(process.role == role and bool(process.sums) for process in now.processes)


def as_table(rows: Sequence[SituationRow], seconds: float) -> list[str]:
    """Write the rows as lines of a Markdown table."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---|--:|---|{'--:|' * 4}---|"]
    for row in rows:
        one_more = ", ".join(row.situation.knob) or f"one more {row.situation.bottleneck.removesuffix('s')}"
        cells = [
            row.situation.name,
            row.said.bottleneck or "nothing",
            f"{row.said.utilisation:.0%}",
            one_more,
            f"{row.before:.2f}",
            f"{row.estimated:.2f}",
            f"{row.after:.2f}",
            f"{row.off_by:+.0%}",
            row.verdict,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    held = sum(row.verdict == "held" for row in rows)
    return [
        *lines,
        "",
        (
            f"**{held} of {len(rows)} held**: the right bottleneck, and the right key for learner and "
            f"budget; for scorers and generators an estimate within a third. Each rate is over at least "
            f"{seconds:g} s, from the end of a step to that of another. The engine is scripted and the "
            "scorers sleep; the learner is the demo's."
        ),
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.bottleneck",
        description="Is what `millrace top` says of a bottleneck right?",
    )
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each measurement (20)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[situation.bottleneck for situation in SITUATIONS],
        metavar="STAGE",
        help="these situations alone: scorers, generators, learner, budget",
    )
    results.add_write(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
