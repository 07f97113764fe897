"""What the proof of compose makes of an engine's words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any, cast

import pytest

from benchmarks.compose import asks
from benchmarks.compose.proof import as_table, told
from benchmarks.compose.stack import MeasuredBar, NotInTime, Stack, moment

pytestmark = pytest.mark.process


class FakeStack:
    """One container, which says `said` and `logged`."""

    def __init__(
        self, *, said: str = "", code: int = 0, logged: str = "", test: tuple[str, ...] = ()
    ) -> None:
        self.asked: tuple[str, ...] = ()
        self._said, self._code, self._logged, self._test = said, code, logged, test

    def containers(self, _: str) -> list[str]:
        return ["one"]

    def inspect(self, _: str) -> Any:
        return {"Config": {"Healthcheck": {"Test": list(self._test)}}}

    def log(self, _: str) -> str:
        return self._logged

    def execute(self, _: str, *words: str) -> subprocess.CompletedProcess[str]:
        self.asked = words
        return subprocess.CompletedProcess(words, self._code, self._said, "")


def as_stack(fake: FakeStack) -> Stack:
    return cast("Stack", fake)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-22T15:05:40.171393470Z", 1795359940.171393),  # Docker, and podman's log
        ("2026-11-22T16:05:40.171393470+01:00", 1795359940.171393),  # podman's inspect
        ("2026-11-22T15:05:40Z", 1795359940.0),  # on the second
    ],
)
def test_a_moment_is_read_as_engines_write_it(text: str, at: float) -> None:
    assert moment(text) == pytest.approx(at, abs=1e-5)


def test_a_first_job_is_the_first_group_that_the_log_tells_of() -> None:
    log = (
        "2026-11-22T15:05:38.1Z 15:05:38 scorer INFO scorers.pool.worker: self_test passed worker=a queues=math\n"
        "2026-11-22T15:05:40.2Z 15:05:40 scorer INFO scorers.group: scored group=4 task=math scored=2\n"
        "2026-11-22T15:05:41.3Z 15:05:41 scorer INFO scorers.group: scored group=5 task=math scored=2\n"
    )
    assert asks.first_job_at(as_stack(FakeStack(logged=log)), "one") == pytest.approx(1795359940.2, abs=1e-5)
    assert asks.first_job_at(as_stack(FakeStack(logged=log.splitlines()[0])), "one") is None


@pytest.mark.parametrize(
    ("test", "asked"),
    [
        (("CMD", "python", "-m", "broker.monitoring.health"), ("python", "-m", "broker.monitoring.health")),
        (("CMD-SHELL", "redis-cli PING | grep PONG"), ("sh", "-c", "redis-cli PING | grep PONG")),
    ],
)
def test_a_health_check_is_asked_as_the_engine_would(test: tuple[str, ...], asked: tuple[str, ...]) -> None:
    fake = FakeStack(test=test, said="scorer a: wait\nscorer b: wait\n")
    assert asks.health(as_stack(fake), "scorer") == "scorer a: wait"
    assert fake.asked == asked
    assert asks.health(as_stack(FakeStack(test=test, code=1, said="stuck")), "scorer") is None


def test_a_part_that_breaks_off_has_missed_what_it_was_at() -> None:
    def part(_: Stack) -> Iterator[MeasuredBar]:
        yield MeasuredBar("a bar", "3 s", is_held=True)
        raise NotInTime("version 3 did not come within 5 s")

    found = list(told("demo", part, as_stack(FakeStack())))
    assert [(held.bar, held.measured, held.is_held) for held in found] == [
        ("a bar", "3 s", True),
        ("demo", "version 3 did not come within 5 s", False),
    ]
    assert as_table(found)[2:] == [
        "| a bar | 3 s | yes |",
        "| demo | version 3 did not come within 5 s | NO |",
        "",
        "**NOT proven**: 1 of 2 were missed.",
    ]
    assert "NOT proven" in as_table([])[-1]
