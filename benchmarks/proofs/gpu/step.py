"""One step of `make prove-gpu`, in a process of its own: `python -m benchmarks.proofs.gpu.step NAME DEVICE FOLDER`.

In: the step's name, the device, the proof's folder. Out: `NAME.json` there, an outcome whatever the step raises. A
package that is missing is the outcome's reason, with the step that wants it. Started by the command, which knows what
to say where this process dies or hangs.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from benchmarks.proofs.gpu.outcomes import (
    Device,
    Found,
    Missed,
    Outcome,
    Place,
    Skipped,
    Verdict,
    in_one_line,
)
from benchmarks.proofs.gpu.plan import BY_NAME


def main() -> int:
    """Run the step that the arguments name."""
    name, device, folder = sys.argv[1], cast("Device", sys.argv[2]), Path(sys.argv[3])
    step = BY_NAME[name]
    outcome = outcome_of(name, step.function, dict(step.options), device=device, shared=folder)
    outcome.write(folder / f"{name}.json")
    return 0


def outcome_of(
    name: str, function: str, options: Mapping[str, object], *, device: Device, shared: Path
) -> Outcome:
    """Call a step's function, and say how it ended.

    Args:
        name: of the step.
        function: `module:function`.
        options: its keyword arguments.
        device: that the step is about.
        shared: the proof's folder; the step's own below it is emptied.
    """
    began = time.monotonic()
    own = shared / name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    facts: Mapping[str, object] = {}
    try:
        module, _, attribute = function.partition(":")
        run: Callable[..., Found] = getattr(import_module(module), attribute)
        found = run(Place(folder=own, shared=shared, device=device), **options)
        verdict, text, facts = Verdict.PASS, found.text, found.facts
    except Skipped as why:
        verdict, text = Verdict.SKIP, str(why)
    except Missed as why:
        verdict, text = Verdict.FAIL, str(why)
    except ImportError as error:
        traceback.print_exc()
        verdict, text = Verdict.FAIL, f"can't import what it needs: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a driver, a kernel or a library raises here is the finding
        traceback.print_exc()
        verdict, text = Verdict.FAIL, f"{type(error).__name__}: {error}"
    return Outcome(
        step=name, verdict=verdict, text=in_one_line(text), seconds=time.monotonic() - began, facts=facts
    )


if __name__ == "__main__":
    sys.exit(main())
