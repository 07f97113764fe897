"""Scripts of Redis of which one line is another one, as they are loaded; the product's files stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest

from broker import connection

Break = Callable[[pytest.MonkeyPatch], None]


class EditedScripts:
    """Stands in for `importlib.resources` in broker.connection: one line of one script is another one."""

    def __init__(self, script: str, line: str, instead: str) -> None:
        self._script = script
        self._line, self._instead = line, instead

    def files(self, package: str) -> EditedScripts:
        assert package == "broker"
        return self

    def __truediv__(self, name: str) -> Any:
        if name == "lua":
            return self
        text = (resources.files("broker") / "lua" / name).read_text()
        if name == f"{self._script}.lua":
            assert text.count(self._line) == 1, f"{name} has no such line any more: {self._line}"
            text = text.replace(self._line, self._instead)
        return SimpleNamespace(read_text=lambda: text)


def without_line(script: str, line: str, instead: str = "") -> Break:
    """Return a script with `instead` in the place of one line; AssertionError when it is put in place if there is none."""

    def take_out(monkeypatch: pytest.MonkeyPatch) -> None:
        edited = EditedScripts(script, line, instead)
        (edited / f"{script}.lua").read_text()
        monkeypatch.setattr(connection, "resources", edited)

    return take_out
