"""How many tasks a user has, as the kernel counts them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.process

# Five that sleep, of which /proc would show none in another container. The user is nobody else's.
COUNT = """
import os, resource, subprocess
from sandbox.local import processes
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(61071, 61071, 61071)
    os.setresuid(61071, 61071, 61071)
shown = processes.threads_of_user
sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]
before = resource.getrlimit(resource.RLIMIT_NPROC)
uid = os.getuid()
whole = shown(uid)
processes.threads_of_user = lambda uid: shown(uid) - {hidden}
print(processes.tasks_of_user(uid) - whole, processes.tasks_of_user(uid + 1), shown(uid) - whole)
print(*(processes.has_more_tasks(uid, whole + more) for more in (-2, -1, 0, 1)))
assert resource.getrlimit(resource.RLIMIT_NPROC) == before
for one in sleepers:
    one.kill()
    one.wait()
"""


@pytest.mark.parametrize("hidden", [0, 1, 5])
def test_tasks_that_proc_does_not_show_are_counted(hidden: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(hidden=hidden)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    counted, more = done.stdout.splitlines()
    assert counted.split() == ["0", str(-hidden), "0"], done.stderr
    assert more.split() == ["True", "True", "False", "False"]
