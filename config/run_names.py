"""Check the name of a run. Imports nothing heavy, so that a typo is reported at once."""

from __future__ import annotations

import argparse
import re

NAME = r"[A-Za-z0-9_-]+"


def is_run_name(text: str) -> bool:
    """Return whether `text` may name a run: its Redis keys, its folder and its address contain exactly this name."""
    return re.fullmatch(NAME, text) is not None


def run_name(text: str) -> str:
    """Return the run's name from an argument RUN, without the one `/` that a shell appends to a folder's name.

    Raises:
        ArgumentTypeError: it is not a valid name. Correcting it could select another run.
    """
    name = text.removesuffix("/")
    if is_run_name(name):
        return name
    folder, _, last = name.rpartition("/")
    hint = f"; is it {last} with --runs-dir {folder or '/'}?" if is_run_name(last) else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} is no run's name, which has letters, digits, _ and - alone{hint}"
    )
