r"""Unified diffs: what a patch changes in each file, and the emptiest patch at the same places.

In: the text of a patch. Out: for each file its hunks as SWE-RL compares them. Pure functions, linear in their text.

A file's change is its hunks one after the other, each header with all four numbers (`@@ -1,1 +1,1 @@`), a rename before
them in a line of its own. A binary file counts as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

DEV_NULL: Final = "/dev/null"

_GIT: Final = re.compile(r"diff --git (a/.+) (b/.+)")
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_HEADER: Final = re.compile(r"@@ -(\d+(?:,\d+)?) \+\d+(?:,\d+)? @@(.*)")


class BadPatch(ValueError):
    """A text that is no unified diff; the message says where it stops being one."""


@dataclass(slots=True)
class _File:
    """One file of a patch while it is read."""

    source: str
    target: str
    is_git: bool  # its names come from `diff --git`; `---` and `+++` only repeat them
    is_over: bool = False  # a line that belongs to no patch came after it
    hunks: list[str] = field(default_factory=list)

    @property
    def is_header(self) -> bool:
        """Return whether the lines after `diff --git` are being read, up to the first hunk."""
        return self.is_git and not self.hunks

    def take(self, line: str) -> None:
        """Take a line that is neither a name nor a hunk."""
        if not self.is_header:
            self.is_over = self.is_over or (line != "" and not line.startswith("\\"))
        elif line.startswith("new file mode "):
            self.source = DEV_NULL
        elif line.startswith("deleted file mode "):
            self.target = DEV_NULL

    @property
    def path(self) -> str:
        return self.target if self.source == DEV_NULL else self.source

    @property
    def change(self) -> str:
        renamed = DEV_NULL not in (self.source, self.target) and self.source != self.target
        header = f"rename from {self.source} to {self.target}" if renamed else ""
        return "\n".join([header, *(hunk.strip() for hunk in self.hunks)]).strip()


def changes_of(patch: str) -> dict[str, str]:
    """Return the change of each file, by its path before the patch, or after it where the file is new.

    Args:
        patch: a unified diff of any number of files, as `git diff` or `diff -u` write it; other text around it is
            passed over.
    Raises:
        BadPatch: a hunk without a file, or one that is not as long as its header says.
    """
    files: list[_File] = []
    source: str | None = None  # of a `---` line whose `+++` is still to come
    lines = iter(patch.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    for line in lines:
        current = files[-1] if files else None
        if named := _GIT.fullmatch(line):
            files.append(_File(_path(named[1]), _path(named[2]), is_git=True))
        elif line.startswith("--- "):
            source = _path(line[4:])
        elif line.startswith("+++ "):
            if source is None:
                raise BadPatch(f"{line[:80]!r} without a '---' line before it")
            if not (current and current.is_header):
                files.append(_File(source, _path(line[4:]), is_git=False))
            source = None
        elif header := _HUNK.match(line):
            _open(current, line).hunks.append(_hunk(header, lines))
        elif current:
            current.take(line)
    return {file.path: file.change for file in files if file.change}


def no_op(change: str) -> str:
    """Return the change that touches the same lines and does nothing: one space at the end of each, and no line added.

    Of a line that is only added, the line before it is touched, or the one after it where there is none. "" where there
    is no line to touch: a new file.
    """
    lines: list[str] = []
    touched: list[str] = []  # lines that are removed, until the run of changes ends
    first = True  # no line of this hunk was written yet
    wants_next = False  # an insertion before the first line of a hunk touches the line that follows
    for line in [*change.split("\n"), "@@"]:
        if line[:1] == "-" or (line[:1] == " " and wants_next):
            touched.append(line[1:])
            wants_next = False
        elif line[:1] == "+":
            if not touched and lines and lines[-1][:1] == " ":
                touched.append(lines.pop()[1:])
            wants_next = wants_next or (not touched and first)
            first = False
        else:
            lines += [f"-{text}" for text in touched] + [f"+{text} " for text in touched]
            touched = []
            first, wants_next = line[:2] == "@@", False
            header = _HEADER.match(line)
            lines.append(f"@@ -{header[1]} +{header[1]} @@{header[2]}" if header else line)
    lines.pop()
    return "\n".join(lines) if any(line[:1] == "+" for line in lines) else ""


def _open(current: _File | None, line: str) -> _File:
    """Return the file that a hunk belongs to."""
    if current is None:
        raise BadPatch(f"{line[:80]!r} before any file is named")
    if current.is_over:
        raise BadPatch(f"{line[:80]!r} after lines that belong to no patch")
    return current


def _hunk(header: re.Match[str], lines: Iterator[str]) -> str:
    """Return the hunk of this header, read from the lines after it."""
    start, length, new_start, new_length, section = header.groups()
    source_left = wanted_source = int(length or 1)
    target_left = wanted_target = int(new_length or 1)
    hunk = [
        f"@@ -{int(start)},{wanted_source} +{int(new_start)},{wanted_target} @@{f' {section}' if section else ''}"
    ]
    while source_left > 0 or target_left > 0:
        line = next(lines, None)
        if line is None:
            raise BadPatch(f"the hunk {header[0][:80]!r} is shorter than its header says")
        line = line or " "  # an empty line of context whose space was lost
        if line[0] not in " -+\\":
            raise BadPatch(
                f"{line[:80]!r} in the hunk {header[0][:80]!r}, where a line of the file should be"
            )
        source_left -= line[0] in " -"
        target_left -= line[0] in " +"
        if source_left < 0 or target_left < 0:
            raise BadPatch(f"the hunk {header[0][:80]!r} is longer than its header says")
        hunk.append(line)
    return "\n".join(hunk)


def _path(name: str) -> str:
    """Return a file's name without what `git` and `diff` put around it."""
    name = name.partition("\t")[0].strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    return name[2:] if name[:2] in ("a/", "b/") else name
