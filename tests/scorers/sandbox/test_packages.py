"""One set of packages for programs: what a text asks of it, and that all places name the same set."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement

from scorers.sandbox.packages import PACKAGES, absent, imports_of, versions_text
from tests.support.paths import ROOT

pytestmark = pytest.mark.process


def test_the_extra_declares_what_programs_are_offered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["sandbox"]
    assert {Requirement(line).name for line in extra} == PACKAGES.keys()


@pytest.mark.parametrize("lock", ["cpu", "gpu", "learner", "scorers"])
def test_every_lock_has_them(lock: str) -> None:
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    assert {line.partition("==")[0] for line in lines} >= PACKAGES.keys()


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import numpy", {("numpy", "")}),
        ("import numpy as np, os", {("numpy", "")}),
        ("from numpy import array, linalg", {("numpy", "array"), ("numpy", "linalg")}),
        ("from numpy import *", {("numpy", "")}),
        ("import scipy.sparse.csgraph as g", {("scipy.sparse.csgraph", "")}),
        ("def f():\n    import sympy\n    return 1", {("sympy", "")}),
        ("class A:\n    from networkx import Graph", {("networkx", "Graph")}),
        ("if False:\n    import pandas", {("pandas", "")}),
        ("try:\n    import mpmath\nexcept ImportError:\n    mpmath = None", {("mpmath", "")}),
        ("import importlib\nm = importlib.import_module('sortedcontainers')", {("sortedcontainers", "")}),
        ("m = __import__('more_itertools')", {("more_itertools", "")}),
        ("exec('import numpy as np')", {("numpy", "")}),
        ("f = lambda: __import__(f'{\"numpy\"}')", {("numpy", "")}),
        ("import sqlite3, bz2", {("sqlite3", ""), ("bz2", "")}),
        ("import sys, tkinter, winreg, requests, antigravity", set()),
        ("from . import numpy\nfrom .numpy import x", set()),
        ("import numpy\nx = '\\d' is 1", {("numpy", "")}),  # of which the parser warns
        ("# import numpy\nx = 1", set()),
        ("import numpy as", set()),
        ("x = " + "(" * 500, set()),
    ],
)
def test_what_a_program_imports_is_read_from_its_text(text: str, imported: set[tuple[str, str]]) -> None:
    assert imports_of(text) == imported


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (f"python=3.11.2 {versions_text(dict.fromkeys(PACKAGES, '1.2'))}", ()),
        (f"python=3.11.2 {versions_text({})}", tuple(PACKAGES)),
        ("python=3.11.2,3.12.1 numpy=1.26.4,none scipy=1.2", ("numpy",)),
        ("python=3.11.2", ()),  # nothing is known
        ("0", ()),
    ],
)
def test_a_version_says_what_is_absent(version: str, names: tuple[str, ...]) -> None:
    assert absent(version) == names
