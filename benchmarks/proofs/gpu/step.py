"""One step of `make prove-gpu` is run here, in a worker.

In: the step's function, the device, the proof's folder. Out: an outcome, whatever the step raises. A package that is
missing is the outcome's reason, with the step that wants it. Called by `benchmarks.proofs.gpu.workers`, whose parent
knows what to say where the process dies or hangs.
"""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

from benchmarks.proofs.gpu.outcomes import (
    Device,
    Kept,
    Missed,
    Skipped,
    StepFigures,
    StepOutcome,
    StepPlace,
    StepVerdict,
    in_one_line,
)


def outcome_of(
    name: str,
    function: str,
    options: Mapping[str, object],
    *,
    device: Device,
    shared: Path,
    kept: Kept | None = None,
    is_fork: bool = False,
) -> StepOutcome:
    """Call a step's function, and say how it ended.

    Args:
        name: of the step.
        function: `module:function`.
        options: its keyword arguments.
        device: that the step is about.
        shared: the proof's folder; the step's own below it is emptied.
        kept: by the session; None: the step is alone.
        is_fork: as in `StepPlace`.
    """
    began = time.monotonic()
    own = shared / name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    facts: Mapping[str, object] = {}
    try:
        module, _, attribute = function.partition(":")
        run: Callable[..., StepFigures] = getattr(import_module(module), attribute)
        place = StepPlace(folder=own, shared=shared, device=device, kept=kept or Kept(), is_fork=is_fork)
        with place.kept.stack if kept is None else nullcontext():
            found = run(place, **options)
        verdict, text, facts = StepVerdict.PASS, found.text, found.facts
    except Skipped as why:
        verdict, text = StepVerdict.SKIP, str(why)
    except Missed as why:
        verdict, text = StepVerdict.FAIL, str(why)
    except ImportError as error:
        traceback.print_exc()
        verdict, text = StepVerdict.FAIL, f"can't import what it needs: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a driver, a kernel or a library raises here is the finding
        traceback.print_exc()
        verdict, text = StepVerdict.FAIL, f"{type(error).__name__}: {error}"
    return StepOutcome(
        step=name, verdict=verdict, text=in_one_line(text), seconds=time.monotonic() - began, facts=facts
    )
