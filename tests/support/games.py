"""Games of libraries that are in no lock: an interpreter that has one, and a game of gem's shape for where none has it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

# What a child imports as `gem` from the folder of its start: Mastermind with the rewards of gem 0.1.0, in other words.
STAND_IN = r"""
import random, re

class Mastermind:
    def __init__(self, code_length=2, max_turns=10):
        self.length, self.most = code_length, max_turns

    def reset(self, seed):
        self.code, self.turns, self.best = random.Random(seed).sample(range(1, 7), self.length), 0, 0
        return f"Guess {self.length} of the digits 1 to 6 in a box.", {}

    def step(self, action):
        self.turns += 1
        found = re.findall(r"\\boxed{(\d+(?:\s+\d+)*)}", action)
        if not found:
            return "No guess.", -0.1, True, False, {}
        guess = [int(digit) for digit in found[-1].split()]
        black = sum(one == other for one, other in zip(guess, self.code)) if len(guess) == self.length else 0
        paid, self.best = max(0, black - self.best) / self.length, max(black, self.best)
        is_over = black == self.length or self.turns == self.most
        return f"{black} black.", paid, is_over, is_over, {}

def make(name, **options):
    if name != "game:Mastermind-v0-easy":
        raise ValueError(name)
    return Mastermind(**options)
"""


def interpreter_with(library: str) -> dict[str, str] | None:
    """Return the key `python` of a section for an interpreter that has the library: `GAMES_PYTHON` names some.

    Empty: this one has it. None: none has it.
    """
    if importlib.util.find_spec(library) is not None:
        return {}
    for python in filter(None, os.environ.get("GAMES_PYTHON", "").split(os.pathsep)):
        command = [python, "-c", f"import importlib.util as u; exit(u.find_spec({library!r}) is None)"]
        if subprocess.run(command, check=False).returncode == 0:
            return {"python": python}
    return None


def gem_beside(folder: Path) -> str:
    """Return the interpreter that a recipe's game is played by, "null" for our own; without gem, a stand-in is written."""
    found = interpreter_with("gem")
    if found is None:
        (folder / "gem.py").write_text(STAND_IN, encoding="utf-8")
    return (found or {}).get("python", "null")
