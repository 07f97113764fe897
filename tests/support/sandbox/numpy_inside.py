"""Whether a sandbox's programs have numpy."""

from __future__ import annotations

from sandbox.program import Language, Program, Sandbox

PROBE = b"import numpy\nprint(float(numpy.arange(3).sum()))\n"


def lack_of_numpy(sandbox: Sandbox) -> str:
    """Return why programs in the sandbox can't import numpy; an empty text where they can."""
    with sandbox.prepare(Program(language=Language.PYTHON, source=PROBE)) as prepared:
        outcome = prepared.run()
    if outcome.stdout == b"3.0\n":
        return ""
    last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"the Python of the sandbox can't load the numpy of this environment: {outcome.detail} {last}"
