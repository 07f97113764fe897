"""The Python that programs see: an environment with the standard library and the packages that they may import.

In: the interpreter, and the packages of ours (`sandbox.packages`). Out: a folder that is a virtual environment,
and what has to be shown beside it. Made by `sandbox.local.sandbox`, once a process. So a program finds the same
modules on every machine, whatever else its Python has. The packages are shown where they lie; where the programs' user
can't read them there, they are copied. For a Python of another version than ours those without native code are copied.
Raises OSError where there is no room.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Final

from sandbox.local.toolchain import Interpreter, content, copy_file, required
from sandbox.packages import PACKAGES

OURS: Final = "{}.{}".format(*sys.version_info)


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """A virtual environment for programs."""

    folder: Path
    inside: str  # where they see it
    shown: Mapping[Path, str] = field(default_factory=dict)  # folders of packages -> where they see them

    @property
    def python(self) -> str:
        """Return the interpreter's path, as programs see it."""
        return f"{self.inside}/bin/python3"


@cache
def versions(python: str) -> Mapping[str, str]:
    """Return the versions of the packages that a Python of this version can be offered, by their names."""
    return {name: found.version for name in PACKAGES if (found := _offered(name, python)) is not None}


def make_environment(
    folder: Path, interpreter: Interpreter, python: str, *, inside: str
) -> VirtualEnvironment:
    """Make the environment in an empty folder.

    Args:
        folder: where; its own path, if `inside` is the same.
        interpreter: that programs run with.
        python: its version.
        inside: where programs see the folder.
    """
    home = os.path.dirname(interpreter.path)  # noqa: PTH120
    (folder / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {python}\n", encoding="utf-8"
    )
    (folder / "bin").mkdir()
    for name in ("python3", "python"):
        (folder / "bin" / name).symlink_to(interpreter.path)
    short = ".".join(python.split(".")[:2])
    site = folder / "lib" / f"python{short}" / "site-packages"
    site.mkdir(parents=True)
    shown: dict[Path, str] = {}
    for distribution in required(tuple(versions(python))):
        _install(distribution, site, shown, short)
        _tell(distribution, site)
    is_elsewhere = inside != str(folder)
    for real, name in shown.items():
        if is_elsewhere:
            (site / name).mkdir()  # where it will be mounted
        else:
            (site / name).symlink_to(real)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    within = f"{inside}/{site.relative_to(folder)}"
    return VirtualEnvironment(
        folder,
        inside,
        {real: f"{within}/{name}" if is_elsewhere else str(real) for real, name in shown.items()},
    )


def _offered(name: str, python: str) -> metadata.Distribution | None:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    is_ours = python.startswith(f"{OURS}.")
    if is_ours or not any(_is_native(file) for each in required((name,)) for file in content(each)):
        return found
    return None


def _is_native(file: metadata.PackagePath) -> bool:
    """Return whether a file is code for one version of Python."""
    return file.suffix in {".so", ".pyd"}


def _install(distribution: metadata.Distribution, site: Path, shown: dict[Path, str], short: str) -> None:
    """Note the package's folders to be shown, or copy them; its single files are copied."""
    for top, files in groupby(content(distribution), key=lambda file: file.parts[0]):
        real = Path(os.path.realpath(str(distribution.locate_file(top))))
        if top != "__pycache__" and short == OURS and real.is_dir() and _is_readable(real):
            shown[real] = top
            continue
        for file in files:
            if "tests" not in file.parts and top != "__pycache__":
                copy_file(file, site)


def _tell(distribution: metadata.Distribution, site: Path) -> None:
    """Write down the package's version, for those who ask inside."""
    folder = site / f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: {distribution.name}\nVersion: {distribution.version}\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")


def _is_readable(folder: Path) -> bool:
    """Return whether the programs' user can read a folder of ours: another user, where we are root."""
    if os.getuid() != 0:
        return True
    return folder.stat().st_mode & 0o5 == 0o5 and all(
        parent.stat().st_mode & 0o1 for parent in folder.parents
    )
