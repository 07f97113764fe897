"""What programs of each language need of this machine: interpreter and compiler, the folders they live in, packages.

In: the machine. Out: command lines and paths for `sandbox.local.sandbox`. Nothing is run here; whether a tool
works inside the walls is found out by running it there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from sandbox.limits import Limits
from sandbox.program import Language, SandboxMissing

PATH = "/usr/local/bin:/usr/bin:/bin"
# What interpreters and compilers live in. Not all of /usr: containers keep their applications in /usr/src.
SYSTEM = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/usr/include",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/include",
    "/usr/share/nodejs",
    "/usr/share/node_modules",
    "/usr/share/zoneinfo",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
MAIN_FILE = {Language.PYTHON: "main.py", Language.CPP: "main.cpp", Language.JAVASCRIPT: "main.js"}
TOOL = {Language.CPP: "g++", Language.JAVASCRIPT: "node"}
STANDARDS = ("c++17", "c++20")  # one after the other: some programs are one in the older standard alone
STACK_BYTES = {Language.PYTHON: 8 << 20, Language.CPP: 64 << 20, Language.JAVASCRIPT: 8 << 20}
COMPILER_LIMITS = Limits(
    memory_bytes=2 << 30, processes=64, file_bytes=256 << 20, scratch_bytes=512 << 20, output_bytes=1 << 20
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that programs could be run with."""

    path: str
    prefix: str | None  # a folder that has to be shown for it; None: SYSTEM has it


def interpreters() -> Iterator[Interpreter]:
    """Yield the interpreters in order of preference: the one that runs this process, then the system's."""
    ours = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    prefix = os.path.realpath(sys.base_prefix)
    in_system = any(prefix == root or ours.startswith(f"{root}/") for root in ("/usr", "/usr/local", *SYSTEM))
    yield Interpreter(ours, None if in_system else prefix)
    if ours != os.path.realpath("/usr/bin/python3"):
        yield Interpreter("/usr/bin/python3", None)


def find_tool(language: Language) -> str | None:
    """Find the compiler, or the interpreter other than Python's, by its path inside."""
    return shutil.which(TOOL[language], path=PATH)


def copy_packages(names: tuple[str, ...], target: Path) -> None:
    """Copy installed packages to a folder of their own, with their bytecode, without what they require and their tests.

    Copied, since the environment that they are in need be neither readable for the programs' user nor fit to be shown.
    Native code is copied, too: whoever asks finds out whether the interpreter inside can load it.

    Raises:
        SandboxMissing: not installed.
    """
    for name in names:
        for file in content(_installed(name)):
            if "tests" not in file.parts:
                copy_file(file, target)


def content(distribution: metadata.Distribution) -> Iterator[metadata.PackagePath]:
    """Yield the files of a package, without scripts and what only pip reads."""
    for file in distribution.files or ():
        if ".." not in file.parts and not file.parts[0].endswith((".dist-info", ".pth")):
            yield file


def copy_file(file: metadata.PackagePath, target: Path) -> None:
    """Copy one file of a package, and its bytecode, to the same place below a folder."""
    source, copy = Path(str(file.locate())), target.joinpath(*file.parts)
    files = {source: copy}
    if source.suffix == ".py":  # pip lists bytecode among the files, uv does not
        files[Path(cache_from_source(str(source)))] = Path(cache_from_source(str(copy)))
    for mine, theirs in files.items():
        if mine.is_file():
            theirs.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(mine, theirs)


def _installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise SandboxMissing(f"a program needs {name}, which is not installed: pip install {name}") from None


def required(names: tuple[str, ...]) -> list[metadata.Distribution]:
    """Return the packages and, of their requirements, the installed ones; extras are not followed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, is_asked = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            found[key] = _installed(name)
        except SandboxMissing:
            if is_asked:
                raise
            continue  # for another platform or version of Python
        for requirement in found[key].requires or ():
            match = NAME.match(requirement)
            if match and "extra ==" not in requirement:
                waiting.append((match[0], False))
    return list(found.values())
