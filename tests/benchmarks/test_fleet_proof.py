"""What the proof of a fleet types: the page's own lines, with the names of its machines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import cast

import pytest

from benchmarks.fleet.machine import ContainerProgram, FleetMachine, MachineError
from benchmarks.fleet.proof import Fleet, kind, lag_by_littles_law, page_lines, type_all, typed

pytestmark = pytest.mark.process


class FakeMachine:
    """Remembers what is typed on it, and what is left running."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.typed: list[str] = []
        self.running: dict[str, str] = {}

    def types(self, line: str) -> str:
        self.typed.append(line)
        return ""

    def starts(self, name: str, line: str) -> None:
        self.running[name] = line

    def code(self, _: str) -> str:
        return ""

    def log(self, _: str) -> str:
        return "Ready to accept connections"


def a_fleet(machine: FakeMachine) -> Fleet:
    one = cast("FleetMachine", machine)
    return Fleet(engine=ContainerProgram("docker"), a=one, b=one, password="word")


def test_every_line_of_the_page_is_typed_on_its_machine() -> None:
    first, others, anywhere = page_lines()
    machine = FakeMachine()
    type_all(a_fleet(machine), cast("FleetMachine", machine), [*first, *others])
    assert set(machine.running) == {"redis-server", "learner", "scorers", "generators"}
    assert machine.typed == [
        "scripts/redis_tls.sh fleet machine-a",
        "millrace doctor config/recipes/demo_cpu.yaml",
        "millrace doctor",
    ]
    assert machine.variables == {"REDIS_URL": "rediss://:word@machine-a:6380/0?ssl_ca_certs=ca.pem"}
    assert [line.split()[1] for line in anywhere] == ["top", "audit"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("echo requirepass PASSWORD | /usr/bin/redis-server deploy/redis/fleet.conf -", "redis-server"),
        ("python -m learner --config config/recipes/demo_cpu.yaml name=first", "learner"),
        ("python -m generators --run first", "generators"),
        ("millrace doctor config/recipes/demo_cpu.yaml", ""),
        ("scripts/redis_tls.sh fleet HOST", ""),
    ],
)
def test_a_line_that_goes_on_is_known_by_what_it_starts(line: str, found: str) -> None:
    assert kind(line) == found


def test_only_the_learner_is_told_where_the_model_is() -> None:
    fleet = a_fleet(FakeMachine())
    assert typed("python -m learner name=first", fleet).endswith("name=first model.path=models/demo")
    assert typed("python -m generators --run first", fleet) == "python -m generators --run first"


def test_a_line_that_fails_is_an_error_with_its_last_words_and_one_that_goes_on_leaves_its_code(
    tmp_path: Path,
) -> None:
    """An engine that runs `exec ... bash -c SCRIPT` here, in the place of a container."""
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/bash\nexec bash -c "${@: -1}"\n')
    engine.chmod(0o755)
    machine = FleetMachine(ContainerProgram(str(engine)), "one", image="", network="")
    assert machine.types("echo right").strip() == "right"
    said = machine.tries("echo wrong >&2; exit 3")
    assert (said.code, said.last_line) == (3, "wrong")
    with pytest.raises(MachineError, match="ended with 3: wrong"):
        machine.types("echo wrong >&2; exit 3")
    name = f"fleet-test-{tmp_path.name}"
    machine.starts(name, "sh -c 'echo done; exit 4'")
    try:
        assert machine.code(name) == "4"
        assert machine.log(name) == "done\n"
    finally:
        subprocess.run(["rm", "-f", *(f"/tmp/{name}.{end}" for end in ("log", "pid", "code"))], check=True)


def test_littles_law_takes_dropped_groups_and_waiting_prompts_off_the_lag() -> None:
    """Steps of 2 s with 16 groups: 8 more are dropped, 1 s after their issue, and prompts wait for half a second."""
    ages = {"age_prompts_s": 0.5, "age_sampling_s": 0.3, "age_rollouts_s": 0.1, "age_scoring_s": 0.1}
    record = {"seconds": 2.5, "seconds_evaluate": 0.5, "groups": 16, "dropped": 8, **ages}
    # 8 groups for half a step keep 4 of 80 slots; a prompt waits a quarter of a step.
    assert lag_by_littles_law([record], in_flight=80) == pytest.approx(76 / 16 - 1 - 0.25)
