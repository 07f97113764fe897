"""Random runs of the machine until so many actions are done, one batch after the other, each with a seed of its own."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.protocol.episodes_machine import EpisodesMachine
from tests.protocol.invariants import Violated
from tests.protocol.machine import ProtocolMachine

RUNS_A_BATCH = 10  # at most

Machine = type[ProtocolMachine] | type[EpisodesMachine]


def run_batch(machine: Machine, actions: int, *, first_seed: int, without: str = "", report: str = "") -> str:
    """`run_until`, with a line of JSON for it in the file `report`, however it ends.

    Args:
        without: the rule that is taken out.
    Returns:
        What its lack violated; "" if nothing failed.
    Raises:
        What else fails: anything where no rule is missing, and what shows no lack of it where one is.
    """
    started = time.monotonic()
    failure = ""
    try:
        run_until(machine, actions, first_seed=first_seed, shrink=machine.shrinks and not without)
    except BaseException as error:  # a timeout and Ctrl-C, too
        failure = repr(error)
        if not (without and isinstance(error, Violated)):
            raise
    finally:
        if report:
            counts = {"actions": machine.actions, "rules": machine.rules_applied, "did": machine.did}
            line = {"seed": first_seed, "without": without, "failure": failure} | counts
            line["seconds"] = round(time.monotonic() - started, 1)
            with Path(report).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")
    return failure


def run_until(machine: Machine, actions: int, *, first_seed: int, shrink: bool = True) -> None:
    """Raises what a run fails with; the machine's `actions` say how many were done.

    Args:
        shrink: look for the shortest failing run, which may take minutes.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    batch = settings(
        max_examples=min(RUNS_A_BATCH, math.ceil(actions / machine.actions_a_run)),
        stateful_step_count=machine.rules_a_run,
        deadline=None,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    number = first_seed * 10_000
    while machine.actions < actions:
        run_state_machine_as_test(seed(number)(machine), settings=batch)
        number += 1
