"""SEARCH/REPLACE edits: out of a solution, into the files.

In: what stands between a response's `<solution>` tags. Out: the new content of every file that it edits. Pure
functions; a limit on edits and sizes keeps the time that they take in bounds. What a policy gets wrong raises `NoEdit`,
whose message is the reason of its zero.

An edit stands in a fenced block that names its file first:

    ```python
    ### path/of/the/file.py
    <<<<<<< SEARCH
    lines as they are
    =======
    lines as they shall be
    >>>>>>> REPLACE
    ```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

from scorers.text.extract import Unanswered
from verdicts.repository import is_inside

SEARCH: Final = "<<<<<<< SEARCH"
DIVIDER: Final = "======="
REPLACE: Final = ">>>>>>> REPLACE"
PATH: Final = "### "
MAX_EDITS: Final = 1_000  # of one answer
MAX_CHARS: Final = 1_000_000  # of all files that an answer writes


class NoEdit(Unanswered):
    """The answer holds no edit that can be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one file."""

    path: str
    search: str  # lines joined by "\n"; "" creates a file
    replace: str | None  # likewise; None: the lines are taken out


def solution_of(response: str) -> str:
    """Return what stands between the one pair of `<solution>` tags. Raises NoEdit."""
    for tag in ("<solution>", "</solution>"):
        if (count := response.count(tag)) != 1:
            raise NoEdit(f"{count} times {tag} after the thinking, where one is wanted")
    before, _, solution = response.partition("<solution>")
    if "</solution>" in before:
        raise NoEdit("</solution> stands before <solution>")
    return solution.partition("</solution>")[0]


def edits_of(solution: str) -> list[Edit]:
    """Return every edit in order. Raises NoEdit where there is none, or one has no file or no end."""
    edits: list[Edit] = []
    fence = path = ""
    lines = iter(solution.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if (run := _fence(line)) and (not fence or run.startswith(fence)):
            ends = fence and not line.strip(" `")  # with an info string, one begins anew
            fence, path = "" if ends else run, ""
        elif fence and line.startswith(PATH):
            path = line.removeprefix(PATH).strip()
        elif fence and line.rstrip() == SEARCH:
            edits.append(_edit(path, lines))
            if len(edits) > MAX_EDITS:
                raise NoEdit(f"more than {MAX_EDITS} edits, which is the limit")
    if fence and path:
        raise NoEdit(f"the block of {path!r} is never closed")
    if not edits:
        raise NoEdit("no SEARCH/REPLACE edit in a fenced block")
    return edits


def _edit(path: str, lines: Iterator[str]) -> Edit:
    """Return the edit whose first line was just read."""
    if not path:
        raise NoEdit(f"an edit whose block does not begin with '{PATH}path'")
    search = list(takewhile(lambda line: line.rstrip() != DIVIDER, lines))
    replacement: list[str] = []
    for line in lines:
        if line.rstrip() == REPLACE:
            return Edit(_normal(path), "\n".join(search), "\n".join(replacement) if replacement else None)
        replacement.append(line)
    raise NoEdit(f"the edit of {path!r} is never closed")


def apply_edits(
    files: Mapping[str, str], edits: Sequence[Edit], *, compatible: bool = False
) -> dict[str, str]:
    r"""Return the new content of each file that is edited, line breaks as "\n".

    As in SWE-RL, an edit begins at the start of a line, replaces every place where its lines stand, and sees the
    changes of earlier edits. An empty SEARCH creates a file, and is refused where that exists.

    Args:
        files: path -> content.
        edits: in order.
        compatible: an empty SEARCH also inserts its lines at every line break of a file that exists, as SWE-RL has it.
    Raises:
        NoEdit: the first edit that can't be made.
    """
    written: dict[str, str] = {}
    size = 0
    for edit in edits:
        before = written.get(edit.path, files.get(edit.path, "").replace("\r\n", "\n"))
        if edit.search == (edit.replace or ""):
            raise NoEdit(f"SEARCH and REPLACE are the same in an edit of {edit.path!r}")
        if not edit.search and before and not compatible:
            raise NoEdit(f"an empty SEARCH in {edit.path!r}, which exists")
        searched, replacement = f"\n{edit.search}", f"\n{edit.replace}"
        count = f"\n{before}".count(searched)
        if not count:
            raise NoEdit(
                f"SEARCH was not found in {edit.path!r}: {edit.search[:80]!r}"
                if edit.path in files or edit.path in written
                else f"the row has no file {edit.path!r}"
            )
        size += count * (len(replacement) - len(searched)) + (0 if edit.path in written else len(before))
        if size > MAX_CHARS:
            raise NoEdit(f"the edited files have more than {MAX_CHARS} characters, which is the limit")
        if edit.replace is None:
            written[edit.path] = _without(f"\n{before}", searched)[1:]
        else:
            written[edit.path] = f"\n{before}".replace(searched, replacement)[1:]
    return written


def _without(content: str, lines: str) -> str:
    r"""Return the text without these lines wherever they stand as a whole. Each line begins with "\n"."""
    text, searched = f"{content}\n", f"{lines}\n"
    kept, start = [], 0
    while (place := text.find(searched, start)) >= 0:
        kept.append(text[start:place])
        start = place + len(lines)  # the line break after them may be the one before the next ones
    return "".join([*kept, text[start:]])[:-1]


def _normal(path: str) -> str:
    if not is_inside(path):
        raise NoEdit(f"the path {path[:80]!r} leads out of the row's files")
    return str(PurePosixPath(path))


def _fence(line: str) -> str:
    """Return the backticks that a line begins with, three or more; "" where it does not."""
    text = line.lstrip(" ")
    run = text[: len(text) - len(text.lstrip("`"))]
    return run if len(run) >= 3 else ""
