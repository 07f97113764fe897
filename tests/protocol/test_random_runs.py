"""Ten thousand random actions of the protocol; `make prove-protocol` does many more, on two versions of Redis.

It sets PROTOCOL_ACTIONS, PROTOCOL_SEED, PROTOCOL_WITHOUT (a rule that is taken out) and PROTOCOL_REPORT (a file that
gets one more line of JSON).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.protocol.broken_rules import RULES
from tests.protocol.lives import drive
from tests.protocol.machine import machine_on
from tests.protocol.random_runs import run_until

ACTIONS = int(os.environ.get("PROTOCOL_ACTIONS", "10000"))
SEED = int(os.environ.get("PROTOCOL_SEED", "6"))
WITHOUT = os.environ.get("PROTOCOL_WITHOUT", "")
REPORT = os.environ.get("PROTOCOL_REPORT", "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")      # who is killed closes no file
@pytest.mark.timeout(300 + ACTIONS // 20)
def test_the_invariants_hold_in_random_runs(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_on(redis_url, tmp_path, *drive(monkeypatch))
    started = time.monotonic()
    failure = ""
    if WITHOUT:
        RULES[WITHOUT](monkeypatch)
    try:
        run_until(machine, ACTIONS, first_seed=SEED, shrink=not WITHOUT)
    except Exception as error:
        failure = str(error)
        if not WITHOUT:
            raise
    finally:
        if REPORT:
            with Path(REPORT).open("a", encoding="utf-8") as report:
                report.write(json.dumps({
                    "seed": SEED, "without": WITHOUT, "actions": machine.actions, "failure": failure,
                    "seconds": round(time.monotonic() - started, 1), "did": machine.did}) + "\n")
    assert bool(failure) == bool(WITHOUT), f"without {WITHOUT}, {machine.actions} actions found nothing"
