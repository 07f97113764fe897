"""Run a role in this process under `sys.setprofile`, and write which functions of the product it called.

In: a checkout, a folder, the role's package and its arguments. Out: `calls-ROLE.json`: the file and the qualified name
of each call, in order, of the main thread. Knows nothing of the product but the names of its roles, so that any
checkout can be traced.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

CALLS = "calls-{}.json"
INSIDE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}
OPTIMIZED = 0x1  # a flag of a function's code, which the body of a class lacks


def main(tree: str, folder: str, role: str, *words: str) -> int:
    """Trace `python -m ROLE WORDS` of the checkout `tree`."""
    sys.path.insert(0, tree)
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(tree) or "/.venv/" in code.co_filename:
            return
        if code.co_name not in INSIDE and code.co_flags & OPTIMIZED:
            calls.append((code.co_filename[len(tree) + 1 :], code.co_qualname))

    run = importlib.import_module(f"{role}.__main__").main
    sys.setprofile(note)
    try:
        return int(run(list(words)) or 0)
    finally:
        sys.setprofile(None)
        (Path(folder) / CALLS.format(role)).write_text(json.dumps(calls))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
