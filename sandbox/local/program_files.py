"""A program's files, written into the folder in which it is going to run.

In: a `Program`, whose names and contents a model or a row wrote. Out: the folder, which the programs' user can read and
not write. Called by `sandbox.local.sandbox`; no name leads out of the folder.
"""

from __future__ import annotations

import errno
from pathlib import Path, PurePosixPath
from typing import Final

from sandbox.local.toolchain import MAIN_FILE
from sandbox.program import Program

IMPOSSIBLE_NAME: Final = {
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
}  # a file as a folder, ...


def write_program(folder: Path, program: Program) -> None:
    """Write the program's files, readable by all users and writable by ours alone.

    Raises:
        ValueError: a path that leaves the folder, or that no file can have beside the others.
        OSError: no room.
    """
    folder.mkdir()
    main = MAIN_FILE[program.language]
    for name, content in {**program.files, main: program.source}.items():
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
            raise ValueError(f"a file of a program must lie beside it, not at {name!r}")
        path = folder / relative
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            if error.errno in IMPOSSIBLE_NAME:
                raise ValueError(f"a program can't have the file {name[:80]!r}: {error.strerror}") from error
            raise
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    folder.parent.chmod(0o755)
