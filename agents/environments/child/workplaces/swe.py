"""Let an agent work in a checkout of a row's files; its changes are the answer.

In: a row of type `swe` with its files. Out: a unified diff, which the scorer `swe` judges like an answer of one turn.
The row's test files are hidden, unless the section shows them. Needs Millrace's own interpreter, which has the walls.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.environments.child.prepared import PreparedKind
from agents.environments.child.workplaces.agent import Finish, PlacedAgent, seen, solver_of, walls_of
from agents.environments.child.workplaces.place import UnfitRow

if TYPE_CHECKING:
    from agents.environments.child.own_loop.walled import Walled
    from agents.environments.child.workplaces.walled import WalledPlace

MOST_BYTES = 16 << 20  # of all compared files
MOST_FILES = 5000
# Files that tools leave behind, and that are no change.
PASSED_OVER = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "node_modules"}
GIT_S = 60.0
# So that the agent can use git diff; without git on the machine the checkout has none.
GIT = (
    "if command -v git > /dev/null; then git init -q . && git add -A && "
    "git -c user.name=row -c user.email=row@localhost commit -q --allow-empty -m 'The row'; fi"
)


class TooMuch(Exception):
    """The agent's changes are too large for an answer."""


def prepare(section: dict[str, Any]) -> PreparedKind:
    """Import the agent, and find walls. Raises the errors of `sandbox.choice`, where there are none."""
    sys.path.append(section["source"])  # permanently: some of it is imported on first use
    walls = walls_of(section)
    from agents.environments.child.workplaces.walled import WalledPlace

    solve = None if section["command"] else solver_of(section)
    make = functools.partial(WalledPlace, walls, is_command=bool(section["command"]), env={})
    return PreparedKind(functools.partial(SweAgent, section, solve, walls, make), is_async=True)


class SweAgent(PlacedAgent):
    """An agent in a checkout."""

    def __init__(
        self, section: dict[str, Any], solve: Any, walls: Walled, make: functools.partial[WalledPlace]
    ) -> None:
        super().__init__(section, solve)
        self._make, self._words = make, walls.command if section["command"] else ()

    async def reset(self, row: Mapping[str, Any], seed: int) -> None:
        """Check out the row. Raises UnfitRow, PlaceBroken."""
        from verdicts.repository import files_of

        answer = row.get("answer")
        files = files_of(answer) if isinstance(answer, Mapping) else {}
        if not files:
            raise UnfitRow("a row of type swe to work at has files: `code_context`, `files` or `input`")
        hidden = set() if self._section["shows_tests"] else tests_of(answer, files)
        self._files = {path: text for path, text in files.items() if path not in hidden}
        self._row, self._seed = seen(row), seed
        self._place = self._checkout = self._make(memory_bytes=self._section["memory_mb"] << 20)
        await asyncio.to_thread(self._checkout.open, functools.partial(_write, self._files))
        await self._checkout.exec(GIT, timeout_s=GIT_S)

    async def judge(self) -> Finish:
        """Return the changes, as the answer."""
        from verdicts.repository import diff_of

        await self._checkout.still()
        try:
            after = await asyncio.to_thread(texts_of, self._checkout.work)
        except (TooMuch, RecursionError) as error:  # the second for deeply nested folders
            return {"reward": None, "remark": f"no answer: {error}", "answer": ""}
        answer = await asyncio.to_thread(diff_of, self._files, after)
        return {"reward": None, "remark": "", "answer": answer}


def tests_of(answer: Any, files: Mapping[str, str]) -> set[str]:
    """Return the test files: by their names, or because the row's command names them."""
    from verdicts.repository import belongs_to_tests

    try:
        words = shlex.split(str(answer.get("test_command", "")))
    except ValueError:
        words = []
    named = {*words, *(f"{word.replace('.', '/')}.py" for word in words)}
    return {path for path in files if path in named or belongs_to_tests(path)}


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "replace"))


def texts_of(folder: Path) -> dict[str, str]:
    """Return the texts of the files below a folder, by path; follows no links. Raises TooMuch."""
    found: dict[str, str] = {}
    left = MOST_BYTES
    for place, folders, names in os.walk(folder):  # which follows no links
        folders[:] = sorted(name for name in folders if name not in PASSED_OVER)
        for name in sorted(names):
            path = Path(place) / name
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or name.endswith(".pyc"):
                continue
            left -= status.st_size
            if left < 0 or len(found) >= MOST_FILES:
                raise TooMuch(f"more than {MOST_FILES} files, or {MOST_BYTES >> 20} MiB of them")
            try:
                data = path.read_bytes()
            except OSError:  # the agent has made it unreadable: not part of an answer
                continue
            if b"\0" not in data:  # diffs do not show it
                found[str(path.relative_to(folder))] = data.decode("utf-8", "replace")
    return found
