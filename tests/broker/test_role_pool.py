"""Which ends of a child count as failures, and what is kept of its words. The pool itself: tests/scorers/pool."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from broker import role_pool
from broker.restarts import RestartPolicy, Restarts


@pytest.mark.prove(keep=True)
@pytest.mark.parametrize(
    ("code", "lived_s", "before", "after"),
    [
        (-9, 1.0, 3, 4),
        (-9, 6.0, 3, 0),  # somebody killed it at its work: every ten seconds, if they like
        (-9, 6.0, 0, 0),
        (0, 6.0, 3, 0),
        (0, 1.0, 3, 4),  # nobody told it to
        (1, 6.0, 3, 4),  # its self-test took so long to fail
        (-11, 59.0, 3, 4),
        (1, 61.0, 4, 0),  # redis was away
    ],
)
def test_only_failures_in_a_row_count(code: int, lived_s: float, before: int, after: int) -> None:
    policy = RestartPolicy(most=role_pool.MOST_FAILURES - 1, window_s=math.inf)
    restarts = Restarts(policy)
    for _ in range(before):
        restarts.fail(0.0)
    part = role_pool.PooledProcess(name="worker", command=[], restarts=restarts, started=100.0)
    assert part.may_restart(code, now=100.0 + lived_s)
    assert restarts.failures == after
    assert restarts.not_before == 100.0 + lived_s + (0.5 if after < 2 else 4.0)


def test_what_a_child_says_is_passed_on_and_its_last_lines_are_kept(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    reader, writer = os.pipe()
    echo = role_pool.Echo(os.fdopen(reader, "rb"))
    lines = b"".join(b"%d\n" % number for number in range(100))
    said = lines + b"x" * (2 * role_pool.LONGEST_LINE) + b"\xff no end of line"
    with os.fdopen(writer, "wb") as stream:
        stream.write(said)
    kept = echo.last_lines()
    assert capfdbinary.readouterr().err == said, "every byte of it"
    assert (len(kept), kept[-1]) == (40, "\ufffd no end of line")


def test_a_log_that_can_not_be_written_holds_no_child_up(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        echo = role_pool.Echo(os.fdopen(reader, "rb"))
        with os.fdopen(writer, "wb", buffering=0) as stream:
            for _ in range(3):  # a pipe holds 64 KiB: who did not read would stop us here
                stream.write(b"x" * 65_535 + b"\n")
        assert [len(line) for line in echo.last_lines()] == [65_535] * 3
