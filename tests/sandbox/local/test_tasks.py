"""How many tasks a user has, as the kernel counts them, and whether others took those of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox.limits import Limits
from sandbox.local import processes
from sandbox.local.execution import Execution
from sandbox.local.launch import NOBODY, Identity
from sandbox.local.orders import RunOrder
from sandbox.local.preparation import Preparation
from sandbox.walls.seccomp import Walls
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


@pytest.mark.skipif(
    os.getuid() != 0, reason="other tasks of this user come and go: root takes one of its own"
)
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


class Counted(processes.Tree):
    """A run whose tasks are these, one count after the other."""

    def __init__(self, counts: Iterator[int]) -> None:
        super().__init__()
        self._counts = counts

    def tasks(self) -> int:
        return next(self._counts)


@pytest.mark.parametrize(
    ("others", "own", "is_crowded"),  # beyond those before the run; of its 64 tasks it may lose 16
    [
        ((16, 16), (0, 0), False),
        ((40, 40), (0, 40), False),  # the run's own, begun between the two counts
        ((40, 40, 24), (0, 8, 8), False),  # they come and go
        ((17, 17, 17), (0, 0, 0, 0), True),
        ((64, 64, 64), (20, 24, 20, 24), True),  # its own were refused
    ],
)
def test_others_took_a_runs_tasks_only_where_no_count_can_be_its_own(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    others: tuple[int, ...],
    own: tuple[int, ...],
    is_crowded: bool,
) -> None:
    before, user = 100, Identity(NOBODY, NOBODY)
    kernel = iter(others)
    monkeypatch.setattr(processes, "has_more_tasks", lambda _, than: before + next(kernel) > than)
    order = RunOrder(
        walls=Walls.LANDLOCK,
        argv=(),
        env={},
        readable=(),
        limits=Limits(processes=64),
        stack_bytes=0,
        address_space=False,
    )
    run = Execution(order, base=tmp_path, identity=user, gone_fds=())
    with ExitStack() as resources:
        run._made = Preparation(order, base=tmp_path, identity=user, resources=resources)
        run._made.others = before
        run._tree = Counted(iter(own))
        run._count(own=run._tree.tasks())
    assert run._is_crowded is is_crowded
