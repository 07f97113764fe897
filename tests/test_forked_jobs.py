"""Tests in forks of the process that collected them: what a person is told is what one process would have told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.process

CONFTEST = """
import os, warnings
import pytest
from tests.support.forked_jobs import Jobs

def pytest_addoption(parser): parser.addoption("--jobs", type=int)
def pytest_configure(config): config.pluginmanager.register(Jobs(config.getoption("--jobs"), lambda item: item.path.name), "jobs")

@pytest.fixture(scope="session")
def kept():
    yield [os.getpid()]
    if "broken" in os.environ: raise ValueError("the session's end")
"""
FILES = {
    "test_a.py": """
import os, time, warnings
import pytest
def test_passes(kept, tmp_path): print("never shown"); assert kept == [os.getpid()]
def test_fails(kept): kept.append(1); print("said before"); assert [1, 2] == [1, 3]
def test_has_what_its_session_kept(kept): assert len(kept) == 2
@pytest.mark.parametrize("x", ["é", "b"])
def test_skips(x): pytest.skip("no " + x)
def test_warns(): warnings.warn("worn out", FutureWarning)
@pytest.fixture
def bad():
    yield
    raise OSError("left open")
def test_leaves_a_mess(bad): pass
""",
    "test_b.py": """
import os, signal
def test_first(kept): assert kept == [os.getpid()]
def test_is_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_goes_on_in_another_process(kept): assert kept == [os.getpid()]
def test_is_killed_too(): os._exit(0)
""",
    "test_c.py": """
import time
import pytest
def test_c(): pass
@pytest.mark.timeout(0.3)
def test_hangs(): time.sleep(60)
""",
}


def run(folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]", **FILES}.items():
        (folder / name).write_text(text, encoding="utf-8")
    options = f"-ra -p no:cacheprovider -p pytest_timeout --basetemp={folder}/t".split()
    own = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    command = [sys.executable, "-m", "pytest", *options, *words]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_every_outcome_is_told_and_a_job_that_dies_fails_its_test_alone(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--jobs", "2", "--junitxml", "said.xml", broken="yes")
    assert re.search(r"= 4 failed, 7 passed, 2 skipped, 1 warning, 2 errors in ", said), said
    for expected in (
        "FAILED test_a.py::test_fails - assert [1, 2] == [1, 3]",
        "FAILED test_b.py::test_is_killed - the process that ran it has died at it",
        "FAILED test_b.py::test_is_killed_too - the process that ran it has died at it",
        "FAILED test_c.py::test_hangs - Failed: Timeout (>0.3s) from pytest-timeout.",
        "ERROR test_a.py::test_leaves_a_mess - OSError: left open",
        "ValueError: the session's end",
        "SKIPPED [1] test_a.py:8: no é",
        "FutureWarning: worn out",
        "said before",
    ):
        assert expected in said, (expected, said)
    assert (code, "never shown" in said) == (1, False)
    assert (tmp_path / "said.xml").read_text(encoding="utf-8").count("<testcase ") >= 13


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--jobs", "1", "-x"], "stopping after 1 failures"),
        (["--jobs", "2", "test_c.py"], "1 failed, 1 passed"),
        (["--jobs", "2", "-k", "nothing"], "13 deselected"),
    ],
)
def test_who_asks_for_less_gets_less(tmp_path: Path, words: list[str], says: str) -> None:
    _, said = run(tmp_path, *words)
    assert says in said
    assert "test_goes_on" not in said
