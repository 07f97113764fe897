"""Random runs of the machine until so many actions are done, one batch after the other, each with a seed of its own."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.protocol.machine import ProtocolMachine

RULES_A_RUN = 60
RUNS_A_BATCH = 10


def run_until(machine: type[ProtocolMachine], actions: int, *, first_seed: int, shrink: bool = True) -> None:
    """Raises what a run fails with; the machine's `actions` say how many were done.

    Args:
        shrink: look for the shortest failing run, which may take minutes.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    batch = settings(max_examples=RUNS_A_BATCH, stateful_step_count=RULES_A_RUN, deadline=None, database=None,
                     phases=phases, suppress_health_check=list(HealthCheck), print_blob=False)
    number = first_seed * 10_000
    while machine.actions < actions:
        run_state_machine_as_test(seed(number)(machine), settings=batch)
        number += 1
