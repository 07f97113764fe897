"""`python -m benchmarks.rigs.killed_learner --config ...`: a learner killed with -9 before a chosen line of code.

In: the learner's own words, and in the environment DIE_BEFORE, `FILE:LINE:N`: before this line of a file of `learner/`
runs for the Nth time in this incarnation, rank 0 kills itself. Out: in the file DIE_NOTE, that it came to that. Without
DIE_BEFORE it is `python -m learner`. Lines are seen by the interpreter's own tracing, so that the learner has no hook
for this and is, line for line, what users run.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.results import ROOT
from config.loading import load_run

LEARNER = ROOT / "learner"
MODULE = "benchmarks.rigs.killed_learner"
# Not on the plain path, or nothing by themselves.
NEVER = (ast.Raise, ast.Return, ast.Break, ast.Continue, ast.FunctionDef, ast.Try)


class Death:
    """A trace function that waits for a line to come up for the Nth time, and kills the process then."""

    def __init__(self, place: str, note: Path) -> None:
        name, line, times = place.split(":")
        self._file = str(LEARNER / name)
        self._line = int(line)
        self._left = int(times)
        self._note = note

    def call(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Trace only functions of the chosen file, for sys.settrace, so that the rest runs as fast as ever."""
        return self.look if event == "call" and frame.f_code.co_filename == self._file else None

    def look(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Count the passes of the chosen line, and die at the Nth."""
        if event == "line" and frame.f_lineno == self._line:
            self._left -= 1
            if self._left == 0:
                self._note.write_text("dead", encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)
        return self.look


def lines_of(module: str, *functions: str, loop: bool = False) -> list[str]:
    """List the statements of functions of `learner/MODULE.py`, as `MODULE.py:LINE`, in order.

    Args:
        module: without `.py`.
        functions: their names; a method's without its class.
        loop: only what is inside their loops.
    """
    tree = ast.parse((LEARNER / f"{module}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in functions]
    if missing := set(functions) - {node.name for node in found}:
        raise ValueError(f"learner/{module}.py has no function {', '.join(sorted(missing))}")
    lines = {
        line
        for function in found
        for part in (_loops(function) if loop else [function])
        for line in _statements(part)
    }
    return [f"{module}.py:{line}" for line in sorted(lines)]


def text_of(place: str) -> str:
    """Return the source line of a place."""
    name, line = place.split(":")[:2]
    return (LEARNER / name).read_text(encoding="utf-8").splitlines()[int(line) - 1].split("#")[0].strip()


def main() -> int:
    """Run one rank, or the launcher of several."""
    words = sys.argv[1:]
    place = os.environ.get("DIE_BEFORE")
    if "RANK" not in os.environ and load_run(words).learner.ranks > 1:
        from learner.launch.ranks import launch

        return launch([sys.executable, "-m", MODULE, *words], load_run(words).learner.ranks)
    if place and os.environ.get("RANK", "0") == "0":
        death = Death(place, Path(os.environ["DIE_NOTE"]))
        threading.settrace(death.call)  # the publisher's too
        sys.settrace(death.call)
    from learner.__main__ import main as learn

    return learn(words)


def _loops(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.While):
            yield from node.body


def _statements(part: ast.AST) -> Iterator[int]:
    """Yield the lines of statements in it that the plain path reaches: no docstring, no handler of an error."""
    if isinstance(part, ast.ExceptHandler):
        return
    is_text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
    if isinstance(part, ast.stmt) and not isinstance(part, NEVER) and not is_text:
        yield part.lineno
    for child in ast.iter_child_nodes(part):
        yield from _statements(child)


if __name__ == "__main__":
    sys.exit(main())
