"""A sandbox whose Python has numpy, as a server's or a machine's may: this environment's, shown to every program."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

from scorers.sandbox.program import Language, Prepared, Program, Sandbox

PROBE = b"import numpy\nprint(float(numpy.arange(3).sum()))\n"


class _WithNumpy:
    def __init__(self, sandbox: Sandbox, packages: tuple[str, ...]) -> None:
        self._sandbox = sandbox
        self._packages = packages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def prepare(self, program: Program) -> AbstractContextManager[Prepared]:
        packages = self._packages or program.packages
        return self._sandbox.prepare(replace(program, packages=packages, alone=("numpy",)))


def with_numpy(sandbox: Sandbox, packages: tuple[str, ...] = ()) -> Sandbox:
    """Return the sandbox with numpy beside every program.

    Args:
        packages: that every program finds, too; then the files of numpy are copied once, and not once for each set.
    """
    return cast("Sandbox", _WithNumpy(sandbox, packages))


def lack_of_numpy(sandbox: Sandbox) -> str:
    """Return why programs in the sandbox can't import numpy; an empty text where they can."""
    with sandbox.prepare(Program(language=Language.PYTHON, source=PROBE)) as prepared:
        outcome = prepared.run()
    if outcome.stdout == b"3.0\n":
        return ""
    last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"the Python of the sandbox can't load the numpy of this environment: {outcome.detail} {last}"
