"""`make prove-gpu`, or `python3 -m benchmarks.proofs.gpu`: the steps that want a GPU, in at most forty minutes.

In: the names of steps, all without any. Out: a line for each, PASS, FAIL with the reason, or SKIP with it; a table in
`--out`, which `--write` puts at the end of benchmarks/RESULTS.md too. Every step is a process of its own with a
deadline. What has passed is not run again by the next start of the same commit on the same card with the same torch.
Without a GPU, or with `--cpu`, each step runs its CPU form, and the table says so. Exit code 0 if nothing failed.

It runs on any Python from 3.11 on, with whatever is installed: a package that is missing fails the steps that want it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.proofs.gpu.outcomes import Device, Outcome, Verdict, in_one_line, read_outcome
from benchmarks.proofs.gpu.plan import BY_NAME, MACHINE, MINUTES, STEPS, Step
from broker.processes import how_it_ended, spawn, stop, wait

STEP_MODULE = "benchmarks.proofs.gpu.step"
GRACE_S = 5.0  # for a step that is over its time to end what it has started
LEAST_S = 5.0  # with less time than this no step is begun
CPU_TITLE = "The GPU's proofs in their CPU form"
CPU_REMARK = (
    "**No figure of a GPU**: every step ran its CPU form, on small models, gloo, reference kernels and vLLM's CPU "
    "build. It shows that the steps run, and what does not depend on the device."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps, show the table, and write it down if asked."""
    args = _parser().parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    commit = results.commit()
    deadline = time.monotonic() + 60 * args.minutes
    machine = play(MACHINE, "cpu" if args.cpu else "cuda", out, deadline)
    device: Device = "cuda" if machine.facts.get("cuda") and not args.cpu else "cpu"
    above = heading(machine, device)
    say(above[0].removeprefix("## "))
    if device == "cpu":
        say(CPU_REMARK.replace("**", ""))
    say(machine.line)
    outcomes = [machine]
    for name in [step.name for step in STEPS if step.name in args.steps and step is not MACHINE]:
        outcomes.append(fulfil(BY_NAME[name], machine, device, out, deadline, commit=commit))
        say(outcomes[-1].line)
    lines = [*above, *as_table(outcomes, device), *results.remarks(commit)]
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    say("\n" + "\n".join(lines) + f"\n\nLogs, outcomes and this table lie in {out}")
    if args.write:
        results.append(lines)
    return 1 if any(outcome.verdict is Verdict.FAIL for outcome in outcomes) else 0


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
        "--minutes", type=float, default=MINUTES, help=f"for all steps together ({MINUTES:.0f})"
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


def fulfil(
    step: Step, machine: Outcome, device: Device, out: Path, deadline: float, *, commit: str
) -> Outcome:
    """Return a step's outcome: of an earlier start where the step passed then, else of a new process.

    Args:
        step: to run.
        machine: the outcome that says what machine this is.
        device: of the step.
        out: the proof's folder.
        deadline: of all steps, as `time.monotonic` counts.
        commit: the checkout's.
    """
    if device == "cpu" and step.no_cpu_form:
        return Outcome(step=step.name, verdict=Verdict.SKIP, text=step.no_cpu_form)
    done, mark = out / f"{step.name}.done", _mark(machine, device, commit)
    known = read_outcome(out / f"{step.name}.json")
    if known is not None and known.verdict is not Verdict.FAIL and _text_of(done) == mark:
        return known
    done.unlink(missing_ok=True)
    outcome = play(step, device, out, deadline)
    if outcome.verdict is not Verdict.FAIL:
        done.write_text(mark, encoding="utf-8")
    return outcome


def play(step: Step, device: Device, out: Path, deadline: float) -> Outcome:
    """Run a step in a fresh process, and end it where it has not ended in time.

    Returns:
        What the process wrote, or how it died.
    """
    left_s = deadline - time.monotonic()
    limit_s = min(step.cuda_s if device == "cuda" else step.cpu_s, left_s)
    if left_s < LEAST_S:
        return Outcome(step=step.name, verdict=Verdict.FAIL, text="no time was left for it: --minutes")
    file, log = out / f"{step.name}.json", out / f"{step.name}.log"
    file.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("wb") as stream:
        process = spawn(
            [sys.executable, "-m", STEP_MODULE, step.name, device, str(out)],
            cwd=results.ROOT,
            env=os.environ | {"PYTHONPATH": _search_path()},
            stdout=stream,
            stderr=stream,
        )
        is_in_time = wait(process, limit_s)
        code = stop(process, GRACE_S)
    if (outcome := read_outcome(file)) is not None:
        return outcome
    why = how_it_ended(code) if is_in_time else f"it was not at its end within {limit_s:.0f} s"
    text = in_one_line(f"{why}; {log} ends: {_last_line(log)}")
    return Outcome(step=step.name, verdict=Verdict.FAIL, text=text, seconds=time.monotonic() - began)


def _search_path() -> str:
    """Return a search path with the product, which `PYTHON=` may not have installed: roles are started elsewhere."""
    return os.pathsep.join(filter(None, [str(results.ROOT), os.environ.get("PYTHONPATH", "")]))


def as_table(outcomes: Sequence[Outcome], device: Device) -> list[str]:
    """Write the outcomes as lines of a Markdown table."""
    count = {verdict: sum(outcome.verdict is verdict for outcome in outcomes) for verdict in Verdict}
    whole = {outcome.step for outcome in outcomes} == set(BY_NAME)
    verdict = "NOT proven" if count[Verdict.FAIL] else "Proven" if whole else "No step of these failed"
    lines = [
        "| step | | s | measured, or why not |",
        "|---|---|--:|---|",
        *(outcome.row for outcome in outcomes),
        "",
        (
            f"**{verdict}**: {count[Verdict.PASS]} passed, {count[Verdict.FAIL]} failed, "
            f"{count[Verdict.SKIP]} skipped, of {len(BY_NAME)} steps."
        ),
    ]
    return [*lines, "", CPU_REMARK] if device == "cpu" else lines


def heading(machine: Outcome, device: Device) -> list[str]:
    """Write the heading of the table: a GPU's name is in it where a GPU was measured, and nowhere else."""
    title = CPU_TITLE if device == "cpu" else f"On a GPU, {machine.facts.get('card', 'of unknown name')}"
    return results.heading(title, redis=str(machine.facts.get("redis") or "of unknown version"))


def _mark(machine: Outcome, device: Device, commit: str) -> str:
    """Say what an outcome belongs to: another commit, card or torch may have another one."""
    facts: dict[str, Any] = {name: machine.facts.get(name) for name in ("torch", "card", "python")}
    return f"{commit} {device} {facts}"


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing")


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
