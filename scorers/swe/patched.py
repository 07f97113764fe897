"""A unified diff, put into the files of a row: every line that it shows has to stand where it says.

In: a row's files and the diff. Out: the new content of each file that it changes; a file that is deleted has none. Pure
functions, linear in their texts; what can't be read or made raises `NoEdit`, the reason of its zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from scorers.swe.edits import MAX_CHARS, NoEdit
from verdicts.repository import is_inside, lines_of

DEV_NULL: Final = "/dev/null"
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def patched(files: Mapping[str, str], patch: str) -> dict[str, str]:
    """Return the new content of each file that a diff changes. Raises NoEdit."""
    if len(patch) > MAX_CHARS:
        raise NoEdit(f"a patch of {len(patch)} characters; {MAX_CHARS} is the limit")
    written: dict[str, str] = {}
    lines = iter(lines_of(patch))
    source = ""
    line = next(lines, None)
    while line is not None:
        if line.startswith("--- "):
            source = _path(line)
            line = next(lines, None)
        elif line.startswith("+++ "):
            if not source:
                raise NoEdit(f"{line[:80].rstrip()!r} without a '---' line before it")
            target = _path(line)
            path = source if target == DEV_NULL else target
            before = "" if source == DEV_NULL else written.get(source, files.get(source))
            if before is None:
                raise NoEdit(f"the row has no file {source[:80]!r}")
            written[path], line = _changed(path, lines_of(before), lines)
            if source not in (path, DEV_NULL):  # renamed
                written[source] = ""
            source = ""
        else:
            line = next(lines, None)
    if sum(map(len, written.values())) > MAX_CHARS:
        raise NoEdit(f"the changed files have more than {MAX_CHARS} characters, which is the limit")
    return written


def _changed(path: str, old: list[str], lines: Iterator[str]) -> tuple[str, str | None]:
    """Return a file with its hunks made, and the line behind them."""
    new: list[str] = []
    at = 0  # of the old lines that were taken
    line = next(lines, None)
    while line is not None and (header := _HUNK.match(line)):
        left = int(header[2] or 1)
        first = int(header[1]) - (left > 0)
        if not at <= first <= len(old):
            raise NoEdit(f"{path}: the hunk {header[0]} does not lie behind the one before, or in the file")
        new += old[at:first]
        at, line = _hunk(f"{path}: the hunk {header[0]}", header, old, first, new=new, lines=lines)
    return "".join([*new, *old[at:]]), line


def _hunk(
    what: str, header: re.Match[str], old: list[str], at: int, *, new: list[str], lines: Iterator[str]
) -> tuple[int, str | None]:
    """Make one hunk, and return where the old lines go on, and the line behind it."""
    left, new_left, kind = int(header[2] or 1), int(header[4] or 1), ""
    while (line := next(lines, None)) is not None:
        if line.startswith("\\"):
            _unbreak(new, kind)
            continue
        if not (left or new_left):
            return at, line
        kind, text = (" ", "\n") if line == "\n" else (line[:1], line[1:])
        if kind not in {" ", "-", "+"}:
            break
        if kind != "+":
            if at >= len(old) or old[at].rstrip("\r\n") != text.rstrip("\r\n"):
                raise NoEdit(f"{what}: line {at + 1} of the file is not {text[:80].rstrip()!r}")
            at, left = at + 1, left - 1
        if kind != "-":
            new.append(old[at - 1] if kind == " " else text)
            new_left -= 1
        if left < 0 or new_left < 0:
            raise NoEdit(f"{what} is longer than its header says")
    if left or new_left:
        raise NoEdit(f"{what} is shorter than its header says")
    return at, line


def _unbreak(new: list[str], kind: str) -> None:
    """Take the line feed off the line that was read last, where the new file has it."""
    if new and kind == "+":
        new[-1] = new[-1].removesuffix("\n")


def _path(line: str) -> str:
    """Return the path of a `---` or `+++` line. Raises NoEdit."""
    name = line[4:].partition("\t")[0].rstrip("\r\n")
    if name == DEV_NULL:
        return name
    name = name[2:] if name[:2] in ("a/", "b/") else name
    if not is_inside(name):
        raise NoEdit(f"the path {name[:80]!r} leads out of the row's files")
    return name
