"""This module says what may name a run. It imports nothing heavy: a typo is answered at once."""

from __future__ import annotations

import argparse
import re

NAME = r"[A-Za-z0-9_-]+"


def is_run_name(text: str) -> bool:
    """Return whether `text` may name a run: its keys, its folder and its address are found by exactly these letters."""
    return re.fullmatch(NAME, text) is not None


def run_name(text: str) -> str:
    """Return an argument's RUN, a run's name, without the one `/` that a shell appends to a folder's.

    Raises:
        ArgumentTypeError: it is no name; another one would name other keys than those of the run that is meant.
    """
    name = text.removesuffix("/")
    if is_run_name(name):
        return name
    folder, _, last = name.rpartition("/")
    hint = f"; is it {last} with --runs-dir {folder or '/'}?" if is_run_name(last) else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} is no run's name, which has letters, digits, _ and - alone{hint}"
    )
