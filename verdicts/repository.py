"""The repository of a row of type `swe`: its files, which of them belong to the tests, and changes as a diff.

In: a row's answer. Out: paths and texts; and for two states of them the unified diff that `scorers.swe` reads. Used by
the scorer and by the environment that checks a row out. Pure functions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
NAMELESS: Final = "file"  # for the one file of a row that names none
MOST_LINES: Final = 20_000  # of one file that is compared line by line
NO_BREAK: Final = "\\ No newline at end of file\n"


def files_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a row by path; none if it has only a diff.

    Args:
        answer: the row's; it may not have been checked, so values that are not text are ignored.
    """
    found: dict[str, str] = {}
    for name in ("files", "code_context"):
        part = answer.get(name)
        if isinstance(part, Mapping):
            found |= {
                str(PurePosixPath(path)): text
                for path, text in part.items()
                if isinstance(path, str) and isinstance(text, str) and is_inside(path)
            }
    if isinstance(answer.get("input"), str) and "files" not in answer:
        path = answer.get("path")
        found[path if isinstance(path, str) and is_inside(path) else NAMELESS] = answer["input"]
    return found


def is_inside(path: str) -> bool:
    """Return whether a path stays in the folder that it is relative to."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and not set(path) & set("\\\0\n\r")


def belongs_to_tests(path: str) -> bool:
    """Return whether a file belongs to the tests by its name or its folder."""
    *folders, name = PurePosixPath(path).parts
    return not TEST_FOLDERS.isdisjoint(folders) or (
        name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
    )


def diff_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the changes as one unified diff, as `git diff` writes it; "" if there are none."""
    return "".join(
        part
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
        for part in _file_diff(path, before.get(path), after.get(path))
    )


def _file_diff(path: str, before: str | None, after: str | None) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if before is None:
        yield "new file mode 100644\n"
    if after is None:
        yield "deleted file mode 100644\n"
    yield f"--- {'/dev/null' if before is None else f'a/{path}'}\n"
    yield f"+++ {'/dev/null' if after is None else f'b/{path}'}\n"
    old, new = lines_of(before or ""), lines_of(after or "")
    is_long = max(len(old), len(new)) > MOST_LINES
    for line in _whole(old, new) if is_long else [*difflib.unified_diff(old, new)][2:]:
        yield line if line.endswith("\n") else f"{line}\n{NO_BREAK}"


def _whole(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield one hunk that replaces the whole file: fast for files of any length."""
    yield f"@@ -{min(1, len(old))},{len(old)} +{min(1, len(new))},{len(new)} @@\n"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their line feeds; other line breaks do not end a line."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]
