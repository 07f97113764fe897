"""A run whose folder can't be written: said at once, before anything heavy is loaded or anybody else begins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Roles

pytestmark = pytest.mark.e2e

# The learner without the privileges by which root passes over every permission.
UNPRIVILEGED = """
import ctypes, os, runpy, sys
LIBC = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)      # _LINUX_CAPABILITY_VERSION_3, this process
nothing = (ctypes.c_uint32 * 6)()
if LIBC.capset(header, nothing) != 0:
    raise OSError(ctypes.get_errno(), "capset")
sys.argv = ["learner", *sys.argv[1:]]
runpy.run_module("learner", run_name="__main__")
"""


@pytest.mark.parametrize("what", ["the folder of runs", "the run's own folder"])
def test_a_read_only_folder_ends_the_learner_at_once_with_the_reason(roles: Roles, what: str) -> None:
    folder = roles.runs_dir if what == "the folder of runs" else roles.folder
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    try:
        learner = roles.learner(command=(sys.executable, "-c", UNPRIVILEGED), forked=True)
        assert roles.wait(learner, 60) == 1
    finally:
        folder.chmod(0o755)
    said = roles.log_of(learner)
    assert f"the run's folder {roles.folder} can't be written: Permission denied" in said
    assert "Traceback" not in said
    assert "policy ready" not in said
    assert list(roles.redis.scan_iter(match=roles.keys("*"))) == [], "and nothing was begun"
    assert not list(Path(folder).iterdir())
