"""Interpreters with the packages of one kind of environment, each made in a folder of the proof.

In: requirements with their versions. Out: the path of a Python that has them. What pip can't install raises `Missing`
with its last line.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.proofs.agents.stage import Missing

INSTALL_S = 1800.0
READY = "installed"  # a file: an interpreter that has it is not made again


class Packages(NamedTuple):
    """What an interpreter is given."""

    named: str  # the package that the kind is of; its version is shown
    with_needs: tuple[str, ...] = ()  # installed with all that they need
    alone: tuple[str, ...] = ()  # installed after these, without what they ask for
    behind: tuple[str, ...] = ()  # other interpreters, whose packages are found behind its own
    version: str = ""  # of Python, such as 3.12; "": the proof's own


def make(folder: Path, packages: Packages, others: dict[str, Path]) -> Path:
    """Return an interpreter that has the packages. Raises Missing."""
    python = folder / "bin" / "python"
    if (folder / READY).exists():
        return python
    base = shutil.which(f"python{packages.version}") if packages.version else sys.executable
    if base is None:
        raise Missing(
            f"{packages.named} needs Python {packages.version}, and there is no python{packages.version}"
        )
    _run([base, "-m", "venv", folder])
    theirs = [f"{_site(others[name].parent.parent)}\n" for name in packages.behind]
    (_site(folder) / "behind.pth").write_text("".join(theirs), encoding="utf-8")
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if packages.with_needs:
        _run([*pip, *packages.with_needs])
    if packages.alone:
        _run([*pip, "--no-deps", *packages.alone])
    (folder / READY).touch()
    return python


def version(python: Path, package: str) -> str:
    """Return the version of a package that an interpreter has."""
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return _run([python, "-c", asked]).strip()


def _site(folder: Path) -> Path:
    return next((folder / "lib").glob("python*")) / "site-packages"


def _run(command: Sequence[str | Path]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took longer than {INSTALL_S:g} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "WARNING" not in line and line.strip()]
        raise Missing(lines[-1][:300] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout
