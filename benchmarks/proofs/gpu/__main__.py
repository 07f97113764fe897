"""`make prove-gpu`, or `python3 -m benchmarks.proofs.gpu`: the steps that want a GPU, in at most nine minutes.

In: the names of steps, all without any, and a budget. Out: a line for each, PASS, FAIL with the reason, SKIP with it,
or LEFT OUT where the budget has no room for it; a table in `--out`, written anew after each step, so that a run that is
cut off still counts, and which `--write` puts at the end of benchmarks/RESULTS.md too. Steps have deadlines. Two lanes
go side by side on one card, and what measures a speed comes after them, alone. What has passed is not run again by the
next start of the same commit on the same card with the same torch. Without a GPU, or with `--cpu`, each step runs its
CPU form, and the table says so. Exit code 0 if nothing failed.

It runs on any Python from 3.11 on, with whatever is installed: a package that is missing fails the steps that want it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.proofs.gpu.outcomes import Device, StepOutcome, StepVerdict, read_outcome
from benchmarks.proofs.gpu.plan import (
    ALONE,
    BUDGET_S,
    BY_NAME,
    ENDS_S,
    ENGINE,
    LIBRARIES_MOST_S,
    LIBRARIES_S,
    MACHINE,
    SAMPLES,
    SESSIONS,
    STEPS,
    TRAINS,
    GpuStep,
    chosen,
    takes,
)
from benchmarks.proofs.gpu.workers import Worker, fresh, with_libraries
from broker.processes import stop_on_signals

LEAST_S = 5.0  # with less time than this no step is begun
LOOK_S = 0.05
CPU_TITLE = "The GPU's proofs in their CPU form"
CPU_REMARK = (
    "**No figure of a GPU**: every step ran its CPU form, on small models, gloo, reference kernels and vLLM's CPU "
    "build. It shows that the steps run, and what does not depend on the device."
)
LIMITED = "no time was left for it: --budget"
STOPPED = "it was told to end"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps, show the table, and write it down if asked."""
    args = _parser().parse_args(argv)
    if args.list:
        say("\n".join(listed(args)))
        return 0
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = _search_path()
    began, commit, stop = time.monotonic(), results.commit(), stop_on_signals()
    machine = look(out, "cpu" if args.cpu else "cuda", stop)
    device: Device = "cuda" if machine.facts.get("cuda") and not args.cpu else "cpu"
    budget_s = args.budget if args.budget is not None else BUDGET_S if device == "cuda" else math.inf
    proof = Proof(
        out=out, device=device, machine=machine, commit=commit, stop=stop, deadline=began + budget_s - ENDS_S
    )
    say(proof.above[0].removeprefix("## "))
    if device == "cpu":
        say(CPU_REMARK.replace("**", ""))
    proof.note(machine)
    wanted = [step for step in STEPS if step.name in args.steps and step is not MACHINE]
    left = proof.without_known(wanted)
    kept, left_out = chosen(left, device, budget_s)
    for name, why in left_out.items():
        proof.note(StepOutcome(step=name, verdict=StepVerdict.LEFT, text=f"--budget {budget_s:.0f}: {why}"))
    proof.run(kept)
    lines = proof.write()
    say("\n" + "\n".join(lines) + f"\n\nLogs, outcomes and this table lie in {out}")
    if args.write:
        results.append(lines)
    return 1 if any(outcome.verdict is StepVerdict.FAIL for outcome in proof.outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.gpu", description="What only a GPU can show."
    )
    parser.add_argument(
        "--steps",
        type=parse_steps,
        default=[step.name for step in STEPS],
        metavar="NAME,...",
        help=f"of {', '.join(BY_NAME)} (all)",
    )
    parser.add_argument("--cpu", action="store_true", help="the CPU form, though there may be a GPU")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help=f"for all steps together: what does not fit is left out ({BUDGET_S:.0f} on a GPU, else none)",
    )
    parser.add_argument(
        "--list", action="store_true", help="show the order and what it costs, and run nothing"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs") / "prove-gpu", metavar="DIR", help="of logs and outcomes"
    )
    results.add_write(parser)
    return parser


def parse_steps(text: str) -> list[str]:
    """Read `varlen,demo`. Raises ArgumentTypeError for a name that no step has."""
    names = text.split(",")
    if unknown := [name for name in names if name not in BY_NAME]:
        raise argparse.ArgumentTypeError(f"no step {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    return names


def listed(args: argparse.Namespace) -> list[str]:
    """Write the steps in their order as a Markdown table, with what the budget leaves out."""
    device: Device = "cpu" if args.cpu else "cuda"
    budget_s = args.budget if args.budget is not None else math.inf if args.cpu else BUDGET_S
    wanted = [step for step in STEPS if step.name in args.steps]
    kept, left_out = chosen(wanted, device, budget_s)
    rows = [
        f"| {step.name} | {step.lane} | {step.cost_on(device):.0f} | {step.limit_on(device):.0f} | "
        f"{left_out.get(step.name) or (device == 'cpu' and step.no_cpu_form) or step.what} |"
        for step in wanted
    ]
    return [
        "| step | lane | s | limit | shows, or why it is left out |",
        "|---|---|--:|--:|---|",
        *rows,
        "",
        (
            f"Together about {takes(kept, device):.0f} s, {TRAINS} beside {SAMPLES}, then {ALONE}; packages are "
            f"read for the first time: {LIBRARIES_S[device]:.0f} s until a worker can be forked with them, "
            f"{SESSIONS[ENGINE][device]:.0f} until vLLM answers."
        ),
    ]


def look(out: Path, device: Device, stop: threading.Event) -> StepOutcome:
    """Return the outcome of the step `machine`, which a fresh interpreter runs: it decides what the others run on."""
    worker = Worker(fresh(), device, out)
    worker.begin(MACHINE, MACHINE.limit_on(device))
    try:
        while (outcome := worker.outcome()) is None:
            if stop.wait(LOOK_S):
                return StepOutcome(step=MACHINE.name, verdict=StepVerdict.FAIL, text=STOPPED)
    finally:
        worker.end()
    return outcome


@dataclass(kw_only=True)
class Proof:
    """What has been found so far, and how steps are run.

    Args:
        out: of logs, outcomes and the table.
        device: of all steps.
        machine: the outcome that says what machine this is.
        commit: the checkout's.
        stop: set by a signal: what runs is cut off, and the table written.
        deadline: of all steps, as `time.monotonic` counts.
    """

    out: Path
    device: Device
    machine: StepOutcome
    commit: str
    stop: threading.Event
    deadline: float
    above: list[str] = field(init=False)
    outcomes: list[StepOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.above = heading(self.machine, self.device)

    def note(self, outcome: StepOutcome) -> None:
        """Show an outcome, and write the table with it."""
        self.outcomes.append(outcome)
        say(outcome.line)
        self.write()

    def write(self) -> list[str]:
        """Write the table of what there is. Returns its lines."""
        order = list(BY_NAME)
        found = sorted(self.outcomes, key=lambda outcome: order.index(outcome.step))
        lines = [*self.above, *as_table(found, self.device), *results.remarks(self.commit)]
        new = self.out / "table.new"
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self.out / "table.md")
        return lines

    def without_known(self, steps: Sequence[GpuStep]) -> list[GpuStep]:
        """Note what needs no run: a step that passed at an earlier start, and one that has no form for this device."""
        left = []
        for step in steps:
            known = read_outcome(self.out / f"{step.name}.json")
            if self.device == "cpu" and step.no_cpu_form:
                self.note(StepOutcome(step=step.name, verdict=StepVerdict.SKIP, text=step.no_cpu_form))
            elif known is not None and known.verdict is not StepVerdict.FAIL and self._is_done(step):
                self.note(known)
            else:
                left.append(step)
        return left

    def run(self, steps: Sequence[GpuStep]) -> None:
        """Run steps: two lanes side by side, then one after the other what has the card to itself."""
        if not steps:
            return
        left_s = max(0.0, self.deadline - time.monotonic())
        context = with_libraries(self.device, self.out, min(LIBRARIES_MOST_S, left_s))
        sessions: dict[str, Worker] = {}
        try:
            for names in ((TRAINS, SAMPLES), (ALONE,)):
                lanes = [Lane([step for step in steps if step.lane == name]) for name in names]
                self._side_by_side(lanes, lambda: Worker(context, self.device, self.out), sessions)
        finally:
            for worker in sessions.values():
                worker.end()

    def _side_by_side(
        self, lanes: Sequence[Lane], make: Callable[[], Worker], sessions: dict[str, Worker]
    ) -> None:
        """Run lanes to their ends, or until all has to end."""
        while any(not lane.is_done for lane in lanes):
            for lane in lanes:
                if lane.running is None:
                    self._begin_next(lane, make, sessions)
                elif self.stop.is_set():
                    self._found(lane, lane.running[1].cut_off())
                else:
                    self._found(lane, lane.running[1].outcome())
            self.stop.wait(LOOK_S)

    def _begin_next(self, lane: Lane, make: Callable[[], Worker], sessions: dict[str, Worker]) -> None:
        """Begin a lane's next step, if it has one and there is time."""
        if not lane.waiting:
            return
        step = lane.waiting.popleft()
        left_s = self.deadline - time.monotonic()
        if self.stop.is_set() or left_s < LEAST_S:
            why = STOPPED if self.stop.is_set() else LIMITED
            self.note(StepOutcome(step=step.name, verdict=StepVerdict.LEFT, text=why))
            return
        worker = sessions.pop(step.session, None) if step.session else None
        if worker is None or not worker.is_alive:
            worker = make()
        (self.out / f"{step.name}.done").unlink(missing_ok=True)
        worker.begin(step, min(step.limit_on(self.device), left_s))
        lane.running = step, worker
        if step.session:
            sessions[step.session] = worker

    def _found(self, lane: Lane, outcome: StepOutcome | None) -> None:
        """Note a lane's outcome, if there is one, and end its worker unless a session goes on."""
        if outcome is None or lane.running is None:
            return
        step, worker = lane.running
        lane.running = None
        if not step.session:
            worker.end()
        if outcome.verdict is not StepVerdict.FAIL:
            (self.out / f"{step.name}.done").write_text(self._mark(), encoding="utf-8")
        self.note(outcome)

    def _is_done(self, step: GpuStep) -> bool:
        return _text_of(self.out / f"{step.name}.done") == self._mark()

    def _mark(self) -> str:
        """Say what an outcome belongs to: another commit, card or torch may have another one."""
        facts: dict[str, Any] = {name: self.machine.facts.get(name) for name in ("torch", "card", "python")}
        return f"{self.commit} {self.device} {facts}"


class Lane:
    """Steps that go one after the other."""

    def __init__(self, steps: Sequence[GpuStep]) -> None:
        self.waiting = deque(steps)
        self.running: tuple[GpuStep, Worker] | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.waiting and self.running is None


def _search_path() -> str:
    """Return a search path with the product, which `PYTHON=` may not have installed: roles are started elsewhere."""
    return os.pathsep.join(filter(None, [str(results.ROOT), os.environ.get("PYTHONPATH", "")]))


def as_table(outcomes: Sequence[StepOutcome], device: Device) -> list[str]:
    """Write the outcomes as lines of a Markdown table."""
    count = {verdict: sum(outcome.verdict is verdict for outcome in outcomes) for verdict in StepVerdict}
    whole = {outcome.step for outcome in outcomes} == set(BY_NAME) and not count[StepVerdict.LEFT]
    verdict = "NOT proven" if count[StepVerdict.FAIL] else "Proven" if whole else "No step of these failed"
    lines = [
        "| step | | s | measured, or why not |",
        "|---|---|--:|---|",
        *(outcome.row for outcome in outcomes),
        "",
        (
            f"**{verdict}**: {count[StepVerdict.PASS]} passed, {count[StepVerdict.FAIL]} failed, "
            f"{count[StepVerdict.SKIP]} skipped, {count[StepVerdict.LEFT]} left out, of {len(BY_NAME)} steps."
        ),
    ]
    return [*lines, "", CPU_REMARK] if device == "cpu" else lines


def heading(machine: StepOutcome, device: Device) -> list[str]:
    """Write the heading of the table: a GPU's name is in it where a GPU was measured, and nowhere else."""
    title = CPU_TITLE if device == "cpu" else f"On a GPU, {machine.facts.get('card', 'of unknown name')}"
    return results.heading(title, redis=str(machine.facts.get("redis") or "of unknown version"))


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
