"""Some hundred random actions of the protocol; `make prove-protocol` does many more, on two versions of Redis.

An action is whatever any role did that could take effect, or a rule of the machine that made none of them do anything:
about a third are rules drawn (3,601 of 10,584 with seed 6), the others what one rule made several workers do; about one
in six of all is of the undisturbed end of a run, in which what is in flight must come to an outcome. The report counts
each.

It sets PROTOCOL_ACTIONS, PROTOCOL_SEED, PROTOCOL_WITHOUT (a rule that is taken out) and PROTOCOL_REPORT (a file that
gets one more line of JSON, with what failed in `failure`; an interruption is a failure, too).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.protocol.broken_rules import RULES
from tests.protocol.lives import drive
from tests.protocol.machine import machine_on
from tests.protocol.random_runs import run_batch

pytestmark = pytest.mark.process

ACTIONS = int(os.environ.get("PROTOCOL_ACTIONS", "200"))
SEED = int(os.environ.get("PROTOCOL_SEED", "6"))
WITHOUT = os.environ.get("PROTOCOL_WITHOUT", "")
REPORT = os.environ.get("PROTOCOL_REPORT", "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # who is killed closes no file
@pytest.mark.timeout(300 + ACTIONS // 20)
def test_invariants_hold_at_random(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_on(redis_url, tmp_path, *drive(monkeypatch))
    if WITHOUT:
        RULES[WITHOUT](monkeypatch)
    failure = run_batch(machine, ACTIONS, first_seed=SEED, without=WITHOUT, report=REPORT)
    assert bool(failure) == bool(WITHOUT), f"without {WITHOUT}, {machine.actions} actions found nothing"
