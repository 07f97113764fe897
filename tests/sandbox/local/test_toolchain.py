"""What is put beside a program."""

from __future__ import annotations

from importlib.util import cache_from_source
from pathlib import Path

import pytest
from _pytest import config

from sandbox.local.toolchain import copy_packages

pytestmark = pytest.mark.process


def test_packages_come_with_their_bytecode(tmp_path: Path) -> None:
    """Without it each run of a pytest file compiles pytest, for a third of its time."""
    ours, copy = Path(str(config.__file__)), tmp_path / "_pytest" / "config" / "__init__.py"
    copy_packages(("pytest",), tmp_path)
    assert copy.read_bytes() == ours.read_bytes()
    assert Path(cache_from_source(str(copy))).read_bytes() == Path(cache_from_source(str(ours))).read_bytes()
    assert (
        copy.stat().st_mtime_ns == ours.stat().st_mtime_ns
    )  # by which Python sees that they belong together


def test_a_package_comes_without_what_it_requires_and_in_any_language(tmp_path: Path) -> None:
    copy_packages(("msgpack", "pydantic"), tmp_path)
    assert list((tmp_path / "msgpack").glob("*.so"))
    assert {path.name for path in tmp_path.iterdir()} == {"msgpack", "pydantic"}
