"""The step `demo` of `make prove-gpu`: the demo in bfloat16 with vLLM, learner and generator on one card, and a kill.

In: the demo's recipe. Out: a run in the step's folder, whose generator was killed with -9 in the middle; that the
supervisor started another, that its groups were trained, that nothing is lost or twice, and on a GPU that the model has
learned. The CPU form is as many steps as show the kill and the return.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from benchmarks.proofs.gpu.outcomes import Device, Missed, StepFigures, StepPlace
from benchmarks.rigs.groups import demo_run
from broker.connection import RedisLink
from broker.keys import Keys
from config.loading import to_yaml
from config.run import Run
from learner.journal.ledger import read_ledger, read_step
from tools.audit.command import audit
from tools.audit.sums import Audit
from tools.runs.folder import NoJournal, held, read_run
from tools.up.console import PlainConsole
from tools.up.local_run import perform
from tools.up.redis_keeper import RedisKeeper
from tools.up.role_commands import commands
from tools.up.supervisor import Supervisor

GENERATOR = "generator-0"
REDIS_S = 30.0  # for the audit's connection
LEAST_RATE = 0.85  # held-out, with the final weights: the demo's own bar
STEPS: dict[Device, int] = {"cuda": 30, "cpu": 16}  # more than can be under way when the generator dies
KILL_AT: dict[Device, int] = {"cuda": 8, "cpu": 3}  # versions of the policy


class HasProcesses(Protocol):
    """The part of a supervisor that a killer needs."""

    def pids(self) -> Mapping[str, int]:
        """Return the ids of the running processes, by role."""
        ...


class Killer:
    """The company of a run that kills its generator once, and audits the run before its Redis ends.

    Args:
        run: the resolved run.
        at_version: of the policy, from which on the generator is killed.
    """

    def __init__(self, run: Run, *, at_version: int) -> None:
        self.audit: Audit | None = None
        self.killed_at: int | None = None  # the policy's version
        self._run = run
        self._at_version = at_version

    @contextlib.contextmanager
    def company(
        self, supervisor: Supervisor, keeper: RedisKeeper, _stop: threading.Event
    ) -> Iterator[Callable[[], None]]:
        """Watch the run while this lasts; what `tools.up.local_run.perform` takes."""
        yield lambda: self.tick(supervisor)
        # A run whose learner never came has no journal; how that role ended is the reason then.
        with (
            contextlib.closing(RedisLink(keeper.url, outage_s=REDIS_S)) as link,
            contextlib.suppress(NoJournal),
        ):
            self.audit = audit(link, Keys(self._run.name), self._run.folder / "journal")

    def tick(self, supervisor: HasProcesses) -> None:
        """Kill the generator where the policy has come so far, once."""
        if self.killed_at is not None:
            return
        # By the metrics, which have a line for every step: status.json is written now and then.
        version = len(read_run(self._run.folder).metrics)
        if version < self._at_version:
            return
        if (pid := supervisor.pids().get(GENERATOR)) is not None:
            os.kill(pid, signal.SIGKILL)
            self.killed_at = version


def survives_a_kill(place: StepPlace) -> StepFigures:
    """Run the demo, kill its generator, and look at what became of it. Raises Missed where something is wrong."""
    run = _run(place)
    config = place.folder / "run.yaml"
    config.write_text(to_yaml(run), encoding="utf-8")
    killer = Killer(run, at_version=KILL_AT[place.device])
    began = time.monotonic()
    with held(run.folder):
        outcome = perform(
            run, commands(run, ["--config", str(config)]), PlainConsole(sys.stderr), company=killer.company
        )
    seconds = time.monotonic() - began
    found, by_generator = read_run(run.folder), trained_groups(run.folder / "journal")
    rates = found.pass_rates
    if outcome.code:
        raise Missed(f"the run ended with code {outcome.code}: {found.reason or outcome.reason}")
    if killer.killed_at is None:
        raise Missed(f"the run had ended before version {KILL_AT[place.device]}: no generator was killed")
    if killer.audit is None or not killer.audit.is_clean:
        raise Missed(f"the audit is not clean: {killer.audit}")
    if len(by_generator) < 2:
        raise Missed(
            f"only {', '.join(by_generator)} has groups that were trained: no other came after the kill"
        )
    if place.device == "cuda" and not (rates and rates[-1][1] >= LEAST_RATE):
        raise Missed(f"held-out pass rates {rates}, at least {LEAST_RATE} in the end")
    learned = " to ".join(f"{rate:.2f}" for _, rate in ([rates[0], rates[-1]] if rates else []))
    return StepFigures(
        text=f"{found.version} steps in {seconds:.0f} s, generator killed at version {killer.killed_at}, trained "
        f"groups of each generator: {', '.join(map(str, by_generator.values()))}; nothing lost, nothing twice; "
        f"held-out {learned or 'not measured'}",
        facts={"steps": found.version, "seconds": seconds, "rates": rates},
    )


def trained_groups(journal: Path) -> dict[str, int]:
    """Count the trained groups of each generator, in the order in which generators came."""
    counts: dict[str, int] = {}
    for record in read_ledger(journal).steps:
        for group in read_step(journal, record)[0]:
            counts[group.rollout.generator] = counts.get(group.rollout.generator, 0) + 1
    return counts


def _run(place: StepPlace) -> Run:
    on_gpu = place.device == "cuda"
    engine: dict[str, Any] = {"type": "vllm", "max_num_seqs": 128, "start_timeout_s": 180}
    engine |= (
        {
            "gpu_memory_utilization": 0.3,
            "kv_cache_mb": 1024,
        }  # the cache does not hang on what the learner has taken
        if on_gpu
        else {"kv_cache_mb": 256, "enforce_eager": True}
    )
    sections: dict[str, Any] = {
        "name": "shared-card",
        "model": {"dtype": "bfloat16"},
        "generators": {"engine": engine, "gpus": [0] if on_gpu else []},
        "learner": {
            "device": place.device,
            "gpus": [0] if on_gpu else [],
            "steps": STEPS[place.device],
            "checkpoint": {"every": 0},
            "samples_every": 0,
        },
    }
    if not on_gpu:
        sections["evaluation"] = {"every": STEPS["cpu"], "prompts": 16, "samples": 1}
    return demo_run(place.folder, **sections)
