"""A verb of `millrace` called in the test's own process: its exit code and what it printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tools.main import main

Capsys = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


class Told(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the one object that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Millrace = Callable[..., Told]


def told(capsys: Capsys, *words: object) -> Told:
    """Call `millrace` with these words; `argparse` may end it."""
    capsys.readouterr()
    try:
        code = main(list(map(str, words)))
    except SystemExit as ended:
        code = int(str(ended.code or 0))
    return Told(code, *capsys.readouterr())
