"""Copy what a script may see behind the walls: the small files of its own folder and its start folder.

In: a script, and its start folder. Out: copies of these files below a folder of the sandbox's, at the same paths. A
large or binary file becomes an empty one. Nothing else of the machine is shown.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.places import is_there
from tools.imports.shell.writes import without_writes

MOST_FILES, MOST_BYTES, MOST_OF_A_FILE = 300, 4 << 20, 256 << 10
TEXT_TOOLS: Final = (
    "[", "awk", "basename", "bash", "bc", "cat", "comm", "cut", "date", "dirname", "echo", "egrep", "expand",
    "expr", "false", "fgrep", "find", "fmt", "fold", "gawk", "grep", "head", "jq", "join", "ls", "mawk", "nl",
    "od", "paste", "printf", "readlink", "realpath", "rev", "sed", "seq", "sort", "split", "stat", "tac", "tail",
    "test", "tr", "true", "unexpand", "uniq", "wc",
)  # fmt: skip
MOST_NAMED: Final = 50  # paths named in a script
_ABSOLUTE: Final = re.compile(
    r"(?<![\w./=:-])(?:~|\$\{?HOME\}?)?/[\w./+-]+|(?<==)(?:~|\$\{?HOME\}?)?/[\w./+-]+"
)
_OF_SYSTEM: Final = ("/usr", "/bin", "/lib", "/sbin", "/dev", "/proc", "/sys", "/etc", "/run")
SCRIPTS: Final = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".job"})
_NOT_SHOWN: Final = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptView:
    """The folders that a script sees."""

    mirror: Path  # contains all of them at their own paths
    roots: tuple[Path, ...]  # the real folders and files, none inside another
    tools: Path  # the programs that it may run
    top: Path  # of the repository that contains it


def top_of(folder: Path) -> Path:
    """Return the root of a folder's repository; the folder itself for none."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def make_view(base: Path, script: Path, start: Path) -> ScriptView:
    """Copy the files that the script may see.

    Args:
        base: an empty folder that programs can read.
        script: the script, by its real path.
        start: its start folder.
    """
    mirror, tools = base / "files", base / "tools"
    mirror.mkdir(mode=0o755)
    tools.mkdir(mode=0o755)
    for name in TEXT_TOOLS:
        if found := next((one for one in _places(name) if one.exists()), None):
            (tools / name).symlink_to(found)
    top = top_of(script.parent)
    wanted = sorted({top, start, script.parent} - {Path("/")})
    roots = tuple(one for one in wanted if not any(other in one.parents for other in wanted))
    left = [MOST_FILES, MOST_BYTES]
    written = script.read_text(encoding="utf-8")
    for folder in (script.parent, start, *roots):
        _copy_folder(folder, mirror, left, written)
    for path in _named(written, MOST_NAMED):  # only that they exist
        if not any(root == path or root in path.parents or path in root.parents for root in roots):
            _stand_in(path, mirror)
            roots = (*roots, path)
    place(script, mirror).parent.mkdir(parents=True, exist_ok=True)
    place(script, mirror).write_text(without_writes(written), encoding="utf-8")
    for folder in (base, *(one for one in mirror.rglob("*") if one.is_dir())):
        folder.chmod(0o755)
    return ScriptView(mirror=mirror, roots=roots, tools=tools, top=top)


def _places(name: str) -> Iterator[Path]:
    for folder in ("/usr/bin", "/bin"):
        yield Path(folder) / name


def _named(written: str, left: int) -> Iterator[Path]:
    """Yield the absolute paths in a script that exist on this machine, `~` and `$HOME` included."""
    home = str(Path.home())
    for found in dict.fromkeys(_ABSOLUTE.findall(written)):
        path = Path(re.sub(r"^(?:~|\$\{?HOME\}?)", home, found).rstrip("/"))
        if path.is_absolute() and not str(path).startswith(_OF_SYSTEM) and is_there(path):
            yield path
            left -= 1
            if not left:
                return


def place(path: Path, mirror: Path) -> Path:
    """Return the path of a file's or folder's copy."""
    return mirror / str(path).lstrip("/")


def _stand_in(path: Path, mirror: Path) -> None:
    """Make an empty folder, or an empty file, for an existing one."""
    copy = place(path, mirror)
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        copy.mkdir(exist_ok=True)
    else:
        copy.touch()


def _copy_folder(top: Path, mirror: Path, left: list[int], written: str) -> None:
    """Copy small files, the nearest first, until the limit is reached."""
    waiting = deque([top])
    while waiting and left[0] > 0:
        folder = waiting.popleft()
        place(folder, mirror).mkdir(parents=True, exist_ok=True)
        try:
            entries = sorted(os.scandir(folder), key=lambda one: one.name)
        except OSError:
            continue
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _NOT_SHOWN:
                    waiting.append(Path(entry.path))
            elif entry.is_file():
                _copy_file(Path(entry.path), place(Path(entry.path), mirror), left, written)


def _copy_file(file: Path, copy: Path, left: list[int], written: str) -> None:
    try:
        size = file.stat().st_size
        if size <= min(MOST_OF_A_FILE, left[1]) and b"\0" not in (content := file.read_bytes()):
            if file.suffix in SCRIPTS and file.name in written:
                content = without_writes(content.decode()).encode()
            copy.write_bytes(content)
            left[1] -= size
        else:
            copy.touch()
        copy.chmod(0o644)
    except (OSError, UnicodeDecodeError):
        return
