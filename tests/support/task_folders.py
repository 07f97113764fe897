"""Task directories of Harbor's, made for tests: whoever puts the right number into answer.txt is paid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

NUMBER = "41"
TEST = """#!/bin/bash
echo looking
if [ "$(cat answer.txt)" = "$(cat /tests/expected.txt)" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
SETTINGS = """
version = "1.0"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 20.0
"""


def task_folder(
    folder: Path, *, test: str = TEST, settings: str = SETTINGS, files: Mapping[str, str] = {}
) -> Path:
    """Make a task directory that asks for no image; more files by their path in it."""
    given = {
        "instruction.md": "Write the number of number.txt into answer.txt.\n",
        "task.toml": settings,
        "environment/number.txt": f"{NUMBER}\n",
        "tests/test.sh": test,
        "tests/expected.txt": f"{NUMBER}\n",
        **files,
    }
    for name, text in given.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def row_of(folder: Path) -> dict[str, Any]:
    """A row with a task directory."""
    return {
        "type": "harbor",
        "answer": {"folder": str(folder)},
        "messages": [{"role": "user", "content": "Do it."}],
    }
