"""The Python that programs see: a virtual environment with one set of packages, shown where they lie, or copied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest

from sandbox.local import environment
from sandbox.local.environment import OURS, make_environment, versions
from sandbox.local.sandbox import LocalSandbox
from sandbox.local.toolchain import Interpreter
from sandbox.program import Language, Program, SandboxMissing
from sandbox.walls.seccomp import Walls

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

PURE = {"mpmath": "mpmath", "sortedcontainers": "sortedcontainers"}
PYTHON = f"{OURS}.9"
SOURCE = b"""
import importlib.metadata, os, mpmath, sortedcontainers
print(os.path.basename(os.path.dirname(mpmath.__file__)), sortedcontainers.SortedList([2, 1]))
print(*sorted(found.name for found in importlib.metadata.distributions()))
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A set of two packages that every environment of ours has."""
    for name in PURE:
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed: pip install 'millrace[sandbox]'")
    monkeypatch.setattr(environment, "PACKAGES", PURE)
    versions.cache_clear()
    yield
    versions.cache_clear()


@pytest.mark.parametrize("walls", [Walls.BUBBLEWRAP, Walls.LANDLOCK])
@pytest.mark.parametrize("is_readable", [True, False])
def test_programs_find_the_packages_and_no_others_shown_or_copied(
    walls: Walls, is_readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_is_readable", lambda _: is_readable)
    with closing(LocalSandbox(walls)) as sandbox:
        try:
            with sandbox.prepare(Program(language=Language.PYTHON, source=SOURCE)) as prepared:
                outcome = prepared.run()
            made = sandbox._environment()
        except SandboxMissing as error:
            pytest.skip(str(error))
    assert outcome.stdout == b"mpmath SortedList([1, 2])\nmpmath sortedcontainers\n", outcome
    assert bool(made.shown) is is_readable


def test_a_folder_of_another_users_is_no_place_to_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    for user, is_readable in ((0, False), (1000, True)):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        assert environment._is_readable(tmp_path) is is_readable


def test_a_python_of_another_version_gets_copies_of_what_is_pure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PACKAGES", {**PURE, "numpy": "numpy"})
    assert "numpy" in versions(PYTHON)
    assert versions("3.99.1").keys() == PURE.keys()
    made = make_environment(tmp_path, Interpreter("/usr/bin/python3", None), "3.99.1", inside=str(tmp_path))
    assert made.shown == {}
    site = tmp_path / "lib" / "python3.99" / "site-packages"
    assert (site / "mpmath" / "__init__.py").is_file()
    assert not (site / "mpmath").is_symlink()
    assert not (site / "numpy").exists()
    assert "include-system-site-packages = false" in (tmp_path / "pyvenv.cfg").read_text(encoding="utf-8")
