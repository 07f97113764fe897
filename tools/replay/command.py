"""`millrace replay RUN --steps A-B`: train the journal's steps again, offline, and compare the weights.

In: a run's folder: its journal and checkpoints; no Redis. Out: a line per step. Exit code 0 if every step gave the
recorded weights, bit for bit; 1 if a step differs, or its payload is missing or damaged. Nothing in the run's folder is
changed, so it works while the run continues. `python -m tools.main replay` is one of the ranks, where the run had
several.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.checksums import weights_checksum
from broker.errors import Permanent
from broker.private_redis import server
from broker.weight_files import weight_files
from config.loading import from_yaml
from config.run import Run
from learner.journal.ledger import JournalError, Ledger, read_ledger
from learner.journal.records import step_number
from learner.resume.replay import IncarnationSettings, checksum_now, read_batch
from learner.training.checkpoint import Checkpoints, load, version_of
from learner.weight_sync.version_folder import folder_of, published
from tools.arguments import add_run, add_runs_dir, add_steps, number_of
from tools.journal.rows import ranges
from tools.runs.folder import NoJournal

if TYPE_CHECKING:
    from learner.launch.ranks import RanksEnded
    from learner.training.engines.deepspeed import DeepSpeedBackend

MODULE = "tools.main"  # what each rank runs; the first argument is `replay`


class NothingToReplay(Permanent):
    """None of the steps can be replayed; the message says why."""


class Replay:
    """Replay steps of a ledger with one policy."""

    def __init__(self, run: Run, policy: DeepSpeedBackend, ledger: Ledger, scratch: Path) -> None:
        """Prepare a policy for `run_steps`. `scratch`: a folder for weights, removed by the caller."""
        self._run = run
        self._policy = policy
        self._journal = run.folder / "journal"
        self._ledger = ledger
        self._records = {step_number(record): record for record in ledger.steps}
        self._checksums = ledger.checksums  # by version
        self._lives = IncarnationSettings(run, ledger)
        self._start: str | None = next(
            (incarnation.get("start") for incarnation in ledger.incarnations[:1]), None
        )
        self._checkpoints = Checkpoints(run)
        self._scratch = scratch
        self._at: int | None = None  # version of the policy; None: unusable for continuing
        self._is_fresh = True  # the policy is as loaded
        self._damaged: set[int] = set()  # numbers of steps whose existing payload can't be read
        # Step -> ranks that trained it first, if different now.
        self._ranks_then: dict[int, int] = {}
        self.counts = {"ok": 0, "differs": 0, "not compared": 0, "missing": 0}

    def run_steps(self, steps: range) -> None:
        """Train each of `steps` that can be trained, and report whether its weights are the run's.

        Args:
            steps: their numbers: step n goes from version n - 1 to version n.
        """
        for step in steps:
            try:
                if self._at is None:
                    self.seek(step - 1)
                self._train(step)
            except (NothingToReplay, JournalError) as error:
                self._at = None
                verdict, detail = "missing", str(error)
            else:
                verdict, detail = self._verdict(step)
            self.counts[verdict] += 1
            _write(f"step {step}: {verdict}, {detail}")
        self._print_other_ranks()

    def seek(self, version: int) -> None:
        """Bring the policy to a version, from the newest checkpoint up to it or from the beginning.

        Raises:
            NothingToReplay, JournalError: a step on the way can't be trained.
        """
        folder = self._checkpoints.newest_good(at_most=version, ledger=self._ledger)
        begins = min(self._records, default=1) - 1 if folder is None else version_of(folder)
        way = range(begins + 1, version + 1)  # the steps in between
        gone = [step for step in way if not self._has_payload(step)]
        if gone:
            raise NothingToReplay(
                f"step {gone[-1]} can't be trained, and no checkpoint of a version from "
                f"{gone[-1]} to {version} is here to go on from"
            )
        if folder is not None:
            load(self._policy, folder, is_checked=True)
        elif not self._is_fresh:
            raise NothingToReplay("the checkpoint to begin with was removed meanwhile")
        elif self._start is not None:
            load(self._policy, Path(self._start))
        self._at = begins
        for step in way:
            self._train(step)
        verdict, detail = self._verdict(version)
        _write(f"version {version}, from {folder or self._start or 'the beginning'}: {verdict}, {detail}")

    def _has_payload(self, step: int) -> bool:
        return (
            step in self._records
            and step not in self._damaged
            and (self._journal / self._records[step]["file"]).exists()
        )

    def _train(self, step: int) -> None:
        record = self._records.get(step)
        if record is None:
            raise NothingToReplay("the journal has no record of it")
        settings = self._lives.of(record)
        try:
            batch = read_batch(self._journal, record, settings, by_length=self._policy.pads)
        except JournalError:
            self._damaged.add(step)
            raise
        self._is_fresh = False
        if settings.ranks != self._run.learner.ranks:
            self._ranks_then[step] = settings.ranks
        self._policy.step(batch, settings)
        self._at = step

    def _print_other_ranks(self) -> None:
        """Explain why weights may differ from an incarnation with other ranks: sums are rounded in another order."""
        if not self._ranks_then:
            return
        then = ", ".join(
            f"steps {ranges([step for step, had in self._ranks_then.items() if had == ranks])} with "
            f"{counted(ranks)}"
            for ranks in sorted(set(self._ranks_then.values()))
        )
        _write(
            f"the run trained {then}, this replay with {counted(self._run.learner.ranks)}: the same bits are "
            "promised for the same number of ranks only (--ranks N)"
        )

    def _verdict(self, version: int) -> tuple[str, str]:
        """Return whether the policy's weights are the run's at `version`, and their checksum."""
        expected = self._recorded(version)
        now = checksum_now(self._policy, self._scratch, like=expected or "")
        if expected is None:
            return "not compared", f"no checksum of version {version} is kept; it is {now[:12]}"
        return (
            ("ok", now[:12])
            if now == expected
            else ("differs", f"{now[:12]}, and the run had {expected[:12]}")
        )

    def _recorded(self, version: int) -> str | None:
        """Return the recorded checksum of a version: from the journal, or from its files if they exist."""
        if version in self._checksums:
            return self._checksums[version]
        try:
            return weights_checksum(weight_files(folder_of(published(self._run), version)))
        except FileNotFoundError:
            return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace replay`."""
    add_run(parser)
    add_steps(parser)
    add_runs_dir(parser)
    parser.add_argument(
        "--ranks",
        type=number_of("processes"),
        metavar="N",
        help="processes that train (as many as the first of these steps had)",
    )


def run(options: argparse.Namespace) -> int:
    """Replay steps of a run. 0: all as recorded; 1: one differs, or is missing."""
    folder = server.folder_of(options.run, options.runs_dir)
    if not (folder / "journal").is_dir():
        raise NoJournal(folder)
    ledger = read_ledger(folder / "journal")
    steps = _steps(options.steps, ledger, folder)
    replayed = run_of(folder, ledger, steps.start, options.ranks)
    return _replay(replayed, ["replay", *options.words], ledger, steps)


def counted(ranks: int) -> str:
    """Format a number of ranks: `1 rank`, `2 ranks`."""
    return f"{ranks} rank" + "s" * (ranks != 1)


def _steps(asked: range | None, ledger: Ledger, folder: Path) -> range:
    known = list(map(step_number, ledger.steps))
    if not known:
        raise NothingToReplay(f"{folder / 'journal'} has no step yet")
    if asked is None:
        return range(min(known), max(known) + 1)
    if asked[0] > max(known) or asked[-1] < min(known):
        raise NothingToReplay(
            f"--steps {asked[0]}-{asked[-1]}: the journal has steps {min(known)} to {max(known)}"
        )
    return asked


def run_of(folder: Path, ledger: Ledger, step: int, ranks: int | None) -> Run:
    """Return the run's configuration at step `step`: with that incarnation's ranks, threads and partitioning."""
    try:
        run = from_yaml((folder / "config.yaml").read_bytes(), str(folder / "config.yaml"))
    except OSError as error:
        raise NothingToReplay(f"{error.filename}: {error.strerror}") from error
    run = run.model_copy(update={"runs_dir": folder.parent, "name": folder.name})
    record = next((record for record in ledger.steps if step_number(record) == step), ledger.steps[0])
    learner = IncarnationSettings(run, ledger).of(record)
    return run.model_copy(update={"learner": learner.model_copy(update={"ranks": ranks or learner.ranks})})


def _replay(run: Run, given: Sequence[str], ledger: Ledger, steps: range) -> int:
    from learner.launch.ranks import launch_or_join

    ranks = launch_or_join(run, given, module=MODULE, report=_print_death)
    if isinstance(ranks, int):
        return ranks
    from learner.training.engines.deepspeed import DeepSpeedBackend

    policy = DeepSpeedBackend(run, rank=ranks.rank, world_size=ranks.world_size)
    if ranks.rank > 0:
        policy.follow()
        return 0
    with tempfile.TemporaryDirectory(prefix="millrace-replay-") as scratch:
        replay = Replay(run, policy, ledger, Path(scratch))
        try:
            replay.run_steps(steps)
        finally:
            policy.close()
    _write(
        f"steps {len(steps)}: " + ", ".join(f"{verdict} {count}" for verdict, count in replay.counts.items())
    )
    return 1 if replay.counts["differs"] or replay.counts["missing"] else 0


def _print_death(ended: RanksEnded) -> None:
    print_death("replay", ended)


def print_death(verb: str, ended: RanksEnded) -> None:
    """Report why a verb's ranks ended."""
    sys.stderr.write(f"millrace {verb}: {ended.why}\n")


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
