"""The demo of the agents in containers: two of them, one killed and one stopped in the middle. A part of the proof.

In: a stack whose images are built. Out: a bar for each thing that was tried. The bars on what is learnt, and on the
tokens that are sampled for it, are those of `make prove-demo-agents`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.compose import asks
from benchmarks.compose.stack import MeasuredBar, Stack, wait_for
from benchmarks.compose.walls import rights
from benchmarks.rigs.seed_runs import BARS
from config.yaml_text import read_yaml_text

PLAY = {"RUN": "agents", "RECIPE": "config/recipes/demo_agents.yaml"}
WITH_AGENTS = ("--profile", "agents")
RUN_S = 2400.0  # of the demo, on a machine that does other things too
START_S = 300.0
KILLED_AT, STOPPED_AT = 8, 20  # versions
PROCESSES = 32  # that a tool's bash starts at once, of the 64 that it may have
# What a tool's Python and bash do in an agent's container, by the agents' own class and the walls of the stack.
PROGRAMS = """
import os, sys
from agents.environments.child.programs import Programs
from config.yaml_text import read_yaml_text
name = "deploy/compose/stack.yaml"
walls = read_yaml_text(open(name).read(), name)["scorers"]["sandbox"]
section = {"programs": ["python", "bash"], "program_deadline_s": 60, "program_memory_mb": 512, "walls": walls}
tools = Programs(section | {"result_characters": 1000, "source": os.getcwd()})
reach = f"import socket; socket.create_connection(('{sys.argv[2]}', 6379), 2)"
refused = "PermissionError: [Errno 1] Operation not permitted"
steps = [
    ("python", {"code": "x = 6"}, ""),
    ("python", {"code": "x * 7"}, "42"),
    ("bash", {"command": f"for i in $(seq {sys.argv[1]}); do sleep 1 & done; wait; echo done"}, "done"),
    ("bash", {"command": "cat /srv/millrace/pyproject.toml /proc/1/environ 2>&1 | grep -cv denied; true"}, "0"),
    ("bash", {"command": f'python3 -c "{reach}" 2>&1 | tail -n 1'}, refused),
]
for tool, words, wanted in steps:
    failed, said = tools.call(tool, words)
    if failed or said.strip() != wanted:
        sys.exit(f"{tool} {words}: {said.strip()}")
tools.close()
print(tools._sandbox.name)
"""


def agents(stack: Stack) -> Iterator[MeasuredBar]:
    """Play the demo's episodes with two agents' containers, and lose both in turn."""
    stack.down()
    stack.variables |= PLAY
    services = read_yaml_text(_only_yaml(stack.compose(*WITH_AGENTS, "config")), "config")["services"]
    yield MeasuredBar(
        "`--profile agents config` is valid, and has the agents",
        f"{len(services)} services",
        "agent" in services,
    )
    began = time.monotonic()
    stack.compose(*WITH_AGENTS, "up", "-d", "--no-build", "--scale", "agent=2")
    seen = wait_for("both agents at work in `millrace top`", RUN_S, partial(_at_work, stack))
    yield MeasuredBar(
        "`--profile agents up -d --scale agent=2`: both are at work in `millrace top`", seen, is_held=True
    )
    yield rights(stack, "agent")
    wait_for(f"version {KILLED_AT}", RUN_S, lambda: asks.version(stack) >= KILLED_AT)
    yield _programs(stack)
    first, second = stack.containers("agent")
    before = asks.version(stack)
    took_s = stack.kill_main_process(first)
    wait_for("a step after the kill of an agent", START_S, partial(asks.has_moved, stack, before))
    yield MeasuredBar(
        "agent: its main process killed with -9 from the host, started again, and the run goes on",
        f"at version {before}; back after {took_s:.1f} s",
        is_held=True,
    )
    said = wait_for("a good word of agent", START_S, partial(asks.health, stack, "agent"))
    yield MeasuredBar("agent: its health check holds, after the kill", said, is_held=True)
    wait_for(f"version {STOPPED_AT}", RUN_S, lambda: asks.version(stack) >= STOPPED_AT)
    yield from _one_stopped(stack, second)
    yield from _ended(stack, began)


def _one_stopped(stack: Stack, container: str) -> Iterator[MeasuredBar]:
    """Stop an agent as an operator does; the other one goes on alone."""
    before, began = asks.version(stack), time.monotonic()
    stack.stop(container)
    took_s, code = time.monotonic() - began, stack.state(container)["ExitCode"]
    wait_for("a step after an agent's stop", START_S, partial(asks.has_moved, stack, before + 1))
    yield MeasuredBar(
        "an agent's container that is stopped hands back what it plays and ends with 0; the other goes on",
        f"exit code {code} after {took_s:.1f} s, at version {before}",
        code == 0,
    )


def _programs(stack: Stack) -> MeasuredBar:
    """Run a tool's Python and bash in an agent's container, in the middle of a run."""
    container = stack.containers("agent")[0]
    (address, *_) = stack.addresses(stack.containers("redis")[0])
    asked = stack.execute(container, "python", "-c", PROGRAMS, str(PROCESSES), address)
    lines = (asked.stderr if asked.returncode else asked.stdout).strip().splitlines() or ["nothing"]
    return MeasuredBar(
        f"tools `python` and `bash` in an agent's container: a state that lasts, {PROCESSES} processes at once, "
        "none of the container's files, no Redis",
        lines[-1][-200:].replace("|", "/"),
        asked.returncode == 0,
    )


def _ended(stack: Stack, began: float) -> Iterator[MeasuredBar]:
    """Wait for the end of the run, and compare what has become of it with the bars."""
    bars = BARS["agents"]
    wait_for("the run's end", RUN_S, lambda: asks.status(stack) in {"finished", "failed", "stopped"})
    (learner,) = stack.containers("learner", all_of_them=True)
    code = wait_for("the learner's end", 120.0, partial(asks.ended_state, stack, learner))["ExitCode"]
    yield MeasuredBar(
        "the learner's exit code is 0", f"{code} after {time.monotonic() - began:.0f} s", code == 0
    )
    codes = {
        service: [
            wait_for(f"the end of {service}", 120.0, partial(asks.ended_state, stack, one))["ExitCode"]
            for one in stack.containers(service, all_of_them=True)
        ]
        for service in ("generator", "agent", "scorer", "scorer-code")
    }
    told = ", ".join(f"{service} {' '.join(map(str, found))}" for service, found in codes.items())
    yield MeasuredBar(
        "generators, agents and scorers have ended with 0", told, not any(map(any, codes.values()))
    )
    yield asks.audited(stack)
    rates = asks.pass_rates(stack)
    yield MeasuredBar(
        f"held-out pass rate at most {bars.at_most_before} at version 0, at least {bars.at_least_after} with "
        "the final weights",
        f"{rates[0]:.3f}, {rates[-1]:.3f}",
        rates[0] <= bars.at_most_before and rates[-1] >= bars.at_least_after,
    )
    tokens = asks.sampled_tokens(stack)
    yield MeasuredBar(
        f"at most {bars.at_most_tokens:,} sampled tokens of training groups",
        f"{tokens:,}",
        bars.at_most_tokens is not None and 0 < tokens <= bars.at_most_tokens,
    )


def _at_work(stack: Stack) -> str | None:
    """Name the agents that have played groups, once there are two."""
    try:
        processes = asks.processes(stack)
    except subprocess.TimeoutExpired:  # a machine that is this busy is asked again
        return None
    hosts = {one["host"] for one in processes if one["role"] == "agent" and one["groups"] > 0}
    return f"{len(hosts)} containers of agents have played groups" if len(hosts) == 2 else None


def _only_yaml(text: str) -> str:
    """Return a compose file out of what `config` has said: warnings may stand before it."""
    lines = text.splitlines()
    first = next(
        number
        for number, line in enumerate(lines)
        if line.partition(":")[0] in {"name", "networks", "services"}
    )
    return "\n".join(lines[first:])
