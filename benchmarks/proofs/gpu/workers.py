"""The processes that run the steps of `make prove-gpu`: each runs one, or those of a session, one after the other.

In: a step. Out: `NAME.json` in the proof's folder, an outcome whatever becomes of the process. A worker is forked from
a process that has imported torch, transformers and DeepSpeed and has not touched the card: what a machine takes a
minute to read for the first time is read once. Where such a fork can't use the card, workers are fresh interpreters. A
worker that is over a step's time is ended with its children; its parent's end ends it too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path

from benchmarks import results
from benchmarks.proofs.gpu.outcomes import Device, Kept, StepOutcome, StepVerdict, in_one_line, read_outcome
from benchmarks.proofs.gpu.plan import GpuStep
from benchmarks.proofs.gpu.step import outcome_of
from broker.processes import die_with_parent, how_it_ended

LOG = "_MILLRACE_PROOF_LIBRARIES_LOG"  # names the file for what the libraries print
PRELOADED = "benchmarks.proofs.gpu.libraries"
GRACE_S = 5.0  # for a worker that is over its time to end what it has started

Context = ForkServerContext | SpawnContext


def fresh() -> SpawnContext:
    """Return how workers are started as fresh interpreters."""
    return multiprocessing.get_context("spawn")


def with_libraries(device: Device, out: Path, timeout_s: float) -> Context:
    """Have a process read the libraries, and return how workers are forked from it; as `fresh` where none can be.

    Args:
        device: that workers use.
        out: the proof's folder.
        timeout_s: for the libraries to be read and the first fork to try the card.
    """
    os.environ |= {LOG: str(out / "libraries.log"), "DS_ACCELERATOR": device}
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # else the question for cards forbids forks
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    tried = context.Process(target=try_card, args=(device,))
    try:
        tried.start()
    except (OSError, EOFError):  # the process with the libraries has ended
        return fresh()
    tried.join(timeout_s)
    if tried.exitcode == 0:
        return context
    tried.kill()
    return fresh()


def try_card(device: Device) -> None:
    """Use the device; the process ends with another code than 0 where that fails."""
    with contextlib.suppress(ImportError):
        import_module("torch").ones(1, device=device).sum().item()


class Worker:
    """One process for steps, as its parent sees it."""

    def __init__(self, context: Context, device: Device, out: Path) -> None:
        """Start the process."""
        self._device, self._out = device, out
        self._link, theirs = context.Pipe()
        is_fork = isinstance(context, ForkServerContext)
        self._process = context.Process(target=serve, args=(theirs, device, str(out), is_fork))
        self._process.start()
        self._group = self._process.pid  # of its children too; None once they were killed
        theirs.close()
        self._step: GpuStep | None = None
        self._began = self._deadline = 0.0
        self._is_cut_off = False

    def begin(self, step: GpuStep, limit_s: float) -> None:
        """Have the process run a step."""
        self._step, self._began = step, time.monotonic()
        self._deadline = self._began + limit_s
        (self._out / f"{step.name}.json").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it has ended, which `outcome` says
            self._link.send((step.name, step.function, dict(step.options)))

    def outcome(self) -> StepOutcome | None:
        """Return the outcome of the step that was begun; None while it runs within its time."""
        if (step := self._step) is None:
            raise RuntimeError("no step was begun")
        has_ended = not self._process.is_alive()
        is_done = self._link.poll() and self._answered()
        is_late = time.monotonic() >= self._deadline
        if not (has_ended or is_done or is_late):
            return None
        if not is_done:
            self.end()
        self._step = None
        if (found := read_outcome(self._out / f"{step.name}.json")) is not None:
            return found
        code = self._process.exitcode or 0
        limit_s = self._deadline - self._began
        late = "it was cut off, not at its end after" if self._is_cut_off else "it was not at its end within"
        why = how_it_ended(code) if has_ended else f"{late} {limit_s:.0f} s"
        log = self._out / f"{step.name}.log"
        text = in_one_line(f"{why}; {log} ends: {_last_line(log)}")
        seconds = time.monotonic() - self._began
        return StepOutcome(step=step.name, verdict=StepVerdict.FAIL, text=text, seconds=seconds)

    @property
    def is_alive(self) -> bool:
        """Whether the process can run another step."""
        return self._process.is_alive()

    def cut_off(self) -> StepOutcome | None:
        """End the process in the middle of its step, and return that as the step's outcome; None where it ran none."""
        if self._step is not None:
            self._is_cut_off, self._deadline = True, time.monotonic()
        found = self.outcome() if self._step is not None else None
        self.end()
        return found

    def end(self) -> None:
        """Tell the process to end, and kill what is left of it and of its children; a second call does nothing."""
        if self._group is None:
            return
        self._link.close() if self._step is None else self._process.terminate()
        self._process.join(GRACE_S)
        with contextlib.suppress(ProcessLookupError):  # none is left, or it has not come to serve
            os.killpg(self._group, signal.SIGKILL)
        self._group = None
        self._process.kill()
        self._process.join(GRACE_S)

    def _answered(self) -> bool:
        try:
            self._link.recv()
        except (EOFError, OSError):
            return False
        return True


def serve(link: Connection, device: Device, folder: str, is_fork: bool) -> None:
    """Run steps as they come, until the other end of the link is closed. Each has a log of its own."""
    parent = os.getppid()
    os.setpgid(0, 0)
    die_with_parent(parent)
    os.chdir(results.ROOT)
    out, kept = Path(folder), Kept()
    with kept.stack:
        while True:
            try:
                name, function, options = link.recv()
            except EOFError:
                return
            with (out / f"{name}.log").open("wb") as stream:
                for descriptor in (1, 2):
                    os.dup2(stream.fileno(), descriptor)
            outcome = outcome_of(
                name, function, options, device=device, shared=out, kept=kept, is_fork=is_fork
            )
            sys.stdout.flush()
            outcome.write(out / f"{name}.json")
            link.send(name)


def _last_line(log: Path) -> str:
    if not log.exists():
        return "nothing"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing")
