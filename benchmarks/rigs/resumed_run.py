"""One run whose learner is killed again and again, and the proof that its weights are those of a run that was not.

In: ranks, a ZeRO stage, and the places and moments to die at. Out: what happened, the audit, and the verdict of
`millrace replay`, which trains the whole journal once more in fresh processes without any interruption. Used by
`benchmarks.proofs.exact_resume` and by a test. The learner, the generators, the scorers and Redis are the real ones; a
run that does not get on in time, or whose learner ends by itself, is a result that says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT
from benchmarks.rigs.groups import demo_run
from benchmarks.rigs.killed_learner import MODULE, text_of
from broker import processes
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from config.loading import to_yaml
from config.run import Run
from learner.journal.ledger import read_ledger
from tools.up.process_tree import below

PATIENCE_S = 180.0  # for what an incarnation is to do
TRAINING_S = 1.0  # a random moment of training lies this long after an incarnation's first step, at most
AFTERMATH_S = 1.0  # for a launcher to see that a rank has died; then it dies too, and takes the others along
GRACE_S = 20.0
POLL_S = 0.05
WHILE_STARTING = "a random moment of a start"  # loading, recovering, and a little of what comes then
WHILE_TRAINING = "a random moment of training"
ONCE_AN_INCARNATION = "resume/recovery.py:"  # lines that come by at a start alone
NEW_FILE = "_begin_file("  # and the one with which an incarnation's first payload begins its file


@dataclass(slots=True)
class ResumedRunResult:
    """The outcome of one run."""

    ranks: int
    zero_stage: int
    steps: int
    wanted: int  # deaths that it was to die
    deaths: list[str] = field(default_factory=list)  # where, one for each kill
    again: int = 0  # steps that recoveries trained again
    lost: int = -1  # groups, by the audit
    twice: int = -1
    identical: int = 0  # steps whose weights the uninterrupted run has too
    unpublished: int = 0  # steps whose weights no file and no record has: killed before they were published
    problem: str = ""  # why it came to no end

    @property
    def verdict(self) -> str:
        """`pass`, or what is wrong."""
        if self.problem:
            return self.problem
        wrong = [f"{self.lost} lost"] if self.lost else []
        wrong += [f"{self.twice} twice"] if self.twice else []
        differ = self.steps - self.identical - self.unpublished
        wrong += [f"{differ} steps differ"] if differ else []
        # A kill leaves at most the version that is being published, and the one that waits for it.
        if self.unpublished > 2 * len(self.deaths):
            wrong.append(f"{self.unpublished} versions were never published")
        wrong += [f"{len(self.deaths)} of {self.wanted} deaths"] if len(self.deaths) < self.wanted else []
        wrong += [] if self.again else ["nothing was trained again"]
        return ", ".join(wrong) or "pass"


class ResumedRun:
    """The processes of one run.

    Args:
        deaths: each a `FILE:LINE` of the learner, WHILE_STARTING or WHILE_TRAINING.
    """

    def __init__(self, run: Run, redis_url: str, seed: int, deaths: Sequence[str]) -> None:
        self.run = run
        self.result = ResumedRunResult(
            ranks=run.learner.ranks,
            zero_stage=run.learner.zero.stage,
            steps=run.learner.steps,
            wanted=len(deaths),
        )
        self._deaths = deaths
        self._random = random.Random(seed)  # noqa: S311 - when to kill
        self._logs = run.folder.parent / f"{run.name}-logs"
        self._logs.mkdir()
        self._config = self._logs / "config.yaml"
        self._config.write_text(to_yaml(run), encoding="utf-8")
        self._environment = {**os.environ, "REDIS_URL": redis_url, "OMP_NUM_THREADS": "1"}
        self._others: dict[str, subprocess.Popen[bytes]] = {}
        self._start_s = 6.0  # from an incarnation's command to its first step, as last measured

    def prove(self) -> ResumedRunResult:
        """Run the learner to its end through all deaths, and judge the run."""
        try:
            with self._roles():
                for number, place in enumerate(self._deaths, 1):
                    self._die(number, place)
                self._finish()
            self._judge()
        except RunFellShort as error:
            self.result.problem = str(error)
        return self.result

    @contextlib.contextmanager
    def _roles(self) -> Iterator[None]:
        """Keep a generator and a scorer at work within the block."""
        try:
            self._keep_roles()
            yield
        finally:
            for process in self._others.values():
                processes.stop(process, GRACE_S)

    def _keep_roles(self) -> None:
        """Start the roles, again when they have ended: a rank that loses another may say that the run has failed."""
        for role, words in (("generators", ()), ("scorers", ("--workers", "1"))):
            process = self._others.get(role)
            if process is None or processes.has_ended(process):
                if process is not None:
                    processes.stop(process, 0.0)
                self._others[role] = self._spawn(
                    role, [sys.executable, "-m", role, "--run", self.run.name, *words]
                )

    def _die(self, number: int, place: str) -> None:
        """Start one incarnation of the learner, and kill it."""
        note = self._logs / f"death-{number}"
        is_line = place not in (WHILE_STARTING, WHILE_TRAINING)
        times = 1 if is_line and comes_once(place) else self._random.randint(1, 2)
        environment = {"DIE_BEFORE": f"{place}:{times}", "DIE_NOTE": str(note)} if is_line else {}
        before = self._steps()
        learner = self._learner(number, environment)
        try:
            if is_line:  # every line on the way of a step comes by within two checkpoints' steps
                self._wait(learner, lambda: note.exists() or self._steps() > before + 2 * self._every)
            else:
                self._wait_for_moment(learner, place, before)
            if note.exists():
                self.result.deaths.append(f"before `{text_of(place)}`")
                processes.wait(learner, AFTERMATH_S)
            elif processes.has_ended(learner):
                raise RunFellShort(
                    f"incarnation {number} of the learner ended by itself: {self._log_of(f'learner-{number}')}"
                )
            else:
                where = (
                    f"not before `{text_of(place)}`, which did not come, but at once" if is_line else place
                )
                self.result.deaths.append(f"{where}: {self._kill(learner)}")
        finally:
            processes.stop(learner, 0.0)

    def _wait_for_moment(self, learner: subprocess.Popen[bytes], place: str, before: int) -> None:
        began = time.monotonic()
        if place == WHILE_STARTING:
            moment = began + self._random.uniform(0.0, 1.2 * self._start_s)
        else:
            self._wait(learner, lambda: self._steps() > before)
            self._start_s = time.monotonic() - began
            moment = time.monotonic() + self._random.uniform(0.0, TRAINING_S)
        self._wait(learner, lambda: time.monotonic() > moment)

    @property
    def _every(self) -> int:
        return self.run.learner.checkpoint.every or self.run.learner.steps

    def _kill(self, learner: subprocess.Popen[bytes]) -> str:
        """Kill the launcher (which takes its ranks along) or one rank with SIGKILL; return which."""
        ranks = [process for process in below(learner.pid) if process.has_words("-m", MODULE)]
        victim = self._random.choice([None, *ranks])
        if victim is None or not victim.kill(signal.SIGKILL):
            os.kill(learner.pid, signal.SIGKILL)
            victim = None
        if not processes.wait(learner, GRACE_S * 2):
            raise RunFellShort(f"the launcher did not end when a rank had: {self._log_of('learner')}")
        return "the whole learner" if victim is None else f"rank {ranks.index(victim)}"

    def _finish(self) -> None:
        """Run a last incarnation that is not disturbed."""
        learner = self._learner(0, {})
        try:
            deadline = time.monotonic() + PATIENCE_S + 2 * self.run.learner.steps
            while not processes.has_ended(learner):
                if time.monotonic() > deadline:
                    raise RunFellShort(
                        f"the last incarnation did not come to its end: {self._log_of('learner-0')}"
                    )
                if self._steps() < self.run.learner.steps:
                    self._keep_roles()
                time.sleep(POLL_S)
        finally:
            code = processes.stop(learner, GRACE_S)
        if code != 0:
            raise RunFellShort(f"the last incarnation ended with {code}: {self._log_of('learner-0')}")

    def _judge(self) -> None:
        """Audit the run, and train the same journal without an interruption."""
        self.result.again = sum(
            int(count)
            for log in self._logs.glob("learner-*.log")
            for count in re.findall(r"replayed steps=(\d+)", log.read_text(encoding="utf-8"))
        )
        audit = self._millrace("audit", self.run.name, "--json")
        try:
            sums = json.loads(audit.stdout)
        except ValueError:
            raise RunFellShort(f"no audit: {audit.stderr}") from None
        self.result.lost, self.result.twice = sums["lost"], sums["twice"]
        replay = self._millrace("replay", self.run.name, "--steps", f"1-{self.run.learner.steps}")
        (self._logs / "replay.txt").write_text(replay.stdout + replay.stderr, encoding="utf-8")
        self.result.identical = len(re.findall(r"^step \d+: ok,", replay.stdout, re.MULTILINE))
        self.result.unpublished = len(re.findall(r"^step \d+: not compared,", replay.stdout, re.MULTILINE))

    def _millrace(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.main", verb, *words, "--runs-dir", str(self.run.runs_dir)],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S + 2 * self.run.learner.steps,
        )

    def _learner(self, number: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return self._spawn(
            f"learner-{number}", [sys.executable, "-m", MODULE, "--config", str(self._config)], environment
        )

    def _spawn(
        self, name: str, command: Sequence[str], environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self._logs / f"{name}.log").open("ab") as log:
            return processes.spawn(
                command, stdout=log, stderr=log, cwd=ROOT, env={**self._environment, **(environment or {})}
            )

    def _wait(self, learner: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, or the learner has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition() and not processes.has_ended(learner):
            if time.monotonic() > deadline:
                raise RunFellShort(
                    f"an incarnation did not get on within {PATIENCE_S:.0f} s: {self._log_of('learner')}"
                )
            self._keep_roles()
            time.sleep(POLL_S)

    def _steps(self) -> int:
        """Count the steps in the journal."""
        return len(read_ledger(self.run.folder / "journal", strict=False).steps)

    def _log_of(self, name: str) -> str:
        log = max(self._logs.glob(f"{name}*.log"), key=lambda path: path.stat().st_mtime)
        return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def comes_once(place: str) -> bool:
    """Return whether an incarnation passes this line once alone, so that nobody waits for a second time."""
    return place.startswith(ONCE_AN_INCARNATION) or NEW_FILE in text_of(place)


class RunFellShort(Exception):
    """The run did not get where it should; the message says how far."""


def resumed_run(
    out: Path, *, ranks: int, zero_stage: int, steps: int, deaths: Sequence[str], seed: int
) -> ResumedRunResult:
    """Run one case in the folder `out`; see `ResumedRun`."""
    name = f"ranks-{ranks}-zero-{zero_stage}"
    sections: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "data": {"held_out": None},
        "evaluation": {"every": 0},
        "sampling": {"group_size": 4, "max_tokens": 16},
        "generators": {"engine": {"type": "hf", "batch_groups": 4}},
        "learner": {
            "steps": steps,
            "groups_per_step": 4,
            "max_lag": 2,
            "ranks": ranks,
            "tokens_per_micro_batch": 64,
            "zero": {"stage": zero_stage},
            "objective": {"kl": {"coef": 0.01, "target": 0.05, "horizon": 500}},  # a coefficient that moves
            "checkpoint": {"every": 5},
        },
    }
    run = demo_run(out, **sections)
    server = embedded.start(run)
    try:
        return ResumedRun(run, server.url, seed, deaths).prove()
    finally:
        server.stop()
        addresses.discard(run.folder)
