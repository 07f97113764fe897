"""A role that waits long says so in its log: for what, since when, and who has the work. Real Redis."""

from __future__ import annotations

import logging
import math
import re

import pytest

from broker.keys import PROMPTS, ROLLOUTS, SCORED
from broker.monitoring import heartbeat
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.stall_warning import Watchdog, who_has_the_work
from broker.protocol.leases import Consumer
from tests.broker.conftest import Board
from tests.support.hearts import looks
from tests.support.made_up_time import MadeUpTime
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(heartbeat, "LOOK_S", 0.02)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "waiting_long" in record.getMessage()]


def said_of(board: Board) -> str:
    return re.sub(r" for \d+ s", "", who_has_the_work(board.client, board.keys))


def test_it_speaks_after_its_time_and_then_ever_less(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog(board.client, board.keys, first_s=60.0)
    for idle_s in (1.0, 59.0, 61.0, 62.0, 119.0, 125.0, 239.0, 600.0, 959.0, 961.0):
        dog.look(idle_s, "waiting for prompts")
    assert [line.split()[1] for line in lines(caplog)] == [f"waited_s={s}" for s in (61, 125, 600, 961)]
    dog.look(0.0, "sampling")
    dog.look(61.0, "waiting for prompts")
    assert len(lines(caplog)) == 5, "another wait begins with the first interval"
    assert "for='waiting for prompts'" in lines(caplog)[0]
    assert "who_has_the_work='no group is in flight; no learner is alive'" in lines(caplog)[0]


def test_who_has_the_work_is_named(board: Board) -> None:
    board.issue(0, 1, 2, 3)
    generator = Consumer(board.link, board.keys, PROMPTS, "box-7-ab", lease_s=30)
    entries = generator.lease(3, block_s=0)
    board.move(entries[1], ROLLOUTS)
    board.move(entries[2], ROLLOUTS)
    board.move(board.entry("2"), SCORED)
    scorers = Consumer(board.link, board.keys, ROLLOUTS, "scorers", lease_s=30, worker="box-8-cd")
    assert said_of(board) == (
        "2 groups in prompts, the oldest (0), with generator box-7-ab; 1 groups in rollouts, the oldest (1), taken by "
        "nobody; 1 groups in scored, the oldest (2); no learner is alive"
    )
    (entry,) = scorers.lease(1, block_s=0)
    assert "(1), begun by no scorer" in said_of(board)
    scorers.begin(entry)
    assert "(1), with scorer box-8-cd" in said_of(board)
    generator.hand_back()
    assert "(0), taken by nobody" in said_of(board)


@pytest.mark.parametrize(
    ("long_wait_s", "holds", "speaks"),
    [
        (60.0, None, True),  # it starts, and that takes long
        (60.0, 0.0, True),
        (60.0, 1.0, False),  # long work is no wait
        (math.inf, 0.0, False),
    ],
)
def test_a_heart_watches_its_process(
    board: Board, caplog: pytest.LogCaptureFixture, long_wait_s: float, holds: float | None, speaks: bool
) -> None:
    learner = Heartbeat(board.link, board.keys, "learner", "box-9")
    learner.set_state("training step 4")
    learner.meter.hold(1.0)
    made_up, options = MadeUpTime(), {"long_wait_s": long_wait_s}
    heart = Heartbeat(board.link, board.keys, "generator", "g", clock=made_up.clock, **options)
    heart.set_state("waiting for prompts")
    if holds is not None:
        heart.meter.hold(holds, "prompts")
    try:
        wait_until(lambda: board.hash("alive:learner:box-9").get("state") == "training step 4")
        looks(heart)
        assert lines(caplog) == []
        made_up.now += 61.0
        looks(heart)
        assert bool(lines(caplog)) is speaks
    finally:
        heart.stop()
        learner.stop()
    levels = {record.levelname for record in caplog.records if "waiting_long" in record.getMessage()}
    assert levels <= {"INFO" if holds is None else "WARNING"}
    for line in lines(caplog):
        assert "for='waiting for prompts'" in line
        assert "learner box-9: training step 4" in line


def test_what_a_process_has_worked_is_in_its_heartbeat(board: Board) -> None:
    heart = Heartbeat(board.link, board.keys, "scorer", "s")
    wait_until(lambda: bool(board.client.exists(board.keys.alive("scorer", "s"))))
    assert "up_s" not in board.hash("alive:scorer:s"), "it is not ready"
    heart.meter.hold(1.0)
    heart.meter.count(groups=3)
    wait_until(lambda: float(board.hash("alive:scorer:s").get("busy_s", 0)) > 0)
    assert board.hash("alive:scorer:s")["groups"] == "3"
    heart.stop()
