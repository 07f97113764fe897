"""`python -m benchmarks.compose`, or `make prove-compose`: the demo in containers: scaled, killed, down and up.

In: a compose command. Out: a table of every bar with what was measured, which `--write` puts at the end of
benchmarks/RESULTS.md. Exit code 0 if all held. It builds the images, and runs a project and volumes of its own, which
it removes. Kills come from the host: it has to be root where the engine is.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import results
from benchmarks.compose_stack import NotInTime, Stack, started_at, wait_for

PROJECT = "millrace-proof"
BASE = "python:3.11-slim-bookworm"
SERVICES = ("redis", "learner", "generator", "scorer", "scorer-code", "sandbox")
MB = 1e6
RUN_S = 1500.0              # of one demo, on a machine that does other things too
START_S = 300.0
BAR = 0.95                  # of held-out problems, with the final weights
LIMITS_MB = {"millrace-scorer": 400, "millrace-learner": 2500}
FIRST_JOB_S = 10.0
WINDOW_S = 40.0
SCALING = 1.9
REACH = """
import socket, sys
for host, port in [("redis", 6379), ("learner", 80), ("1.1.1.1", 53)]:
    try:
        socket.create_connection((host, port), timeout=3)
    except OSError as error:
        continue
    sys.exit(f"{host}:{port} can be reached")
"""


@dataclass(frozen=True, slots=True)
class Held:
    """One bar."""

    bar: str
    measured: str
    is_held: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts; show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compose", description="The demo in containers.")
    parser.add_argument("--compose", default="docker compose", help="the command (docker compose)")
    parser.add_argument("--engine", default="docker", help="the program that knows containers (docker)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}; default: all")
    parser.add_argument("--write", action="store_true", help=f"append to {results.RESULTS.relative_to(results.ROOT)}")
    args = parser.parse_args(argv)
    commit = results.commit()
    heading = results.heading("The demo in containers")
    stack = Stack(results.ROOT, shlex.split(args.compose), args.engine, PROJECT, {"RUN": "proof"})
    found: list[Held] = []
    try:
        for part in args.parts.split(","):
            for held in _told(part, PARTS[part], stack):
                found.append(held)
                sys.stdout.write(f"{'held' if held.is_held else 'MISSED'}: {held.bar}: {held.measured}\n")
                sys.stdout.flush()
    finally:
        stack.compose("down", "--volumes")
    lines = [*heading, *as_table(found), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(held.is_held for held in found) and results.commit() == commit else 1


def as_table(found: Sequence[Held]) -> list[str]:
    """Lines of Markdown."""
    missed = sum(not held.is_held for held in found)
    return ["| what | measured | held |", "|---|---|---|",
            *(f"| {held.bar} | {held.measured} | {'yes' if held.is_held else 'NO'} |" for held in found),
            "", f"**{'Proven' if found and not missed else 'NOT proven'}**: {missed} of {len(found)} were missed."]


def images(stack: Stack) -> Iterator[Held]:
    """Build them, and look how large they are above what they start from."""
    stack.compose("build", timeout_s=3600.0)
    base = stack.size_bytes(BASE)
    for image, at_most in LIMITS_MB.items():
        above = (stack.size_bytes(image) - base) / MB
        yield Held(f"{image}: at most {at_most:,} MB above its base", f"{above:,.0f} MB", above <= at_most)


def demo(stack: Stack) -> Iterator[Held]:
    """One run: scaled in the middle, one container stopped, each killed, audited at its end, and asked for again."""
    stack.compose("down", "--volumes")
    began = time.monotonic()
    stack.compose("up", "-d", "--no-build")
    wait_for("version 3", RUN_S, lambda: _version(stack) >= 3)
    yield from _scaled(stack)
    for service in SERVICES:
        before = _version(stack)
        took_s = stack.kill_main_process(stack.containers(service)[0])
        wait_for(f"a step after the kill of {service}", START_S, partial(_has_moved, stack, before))
        yield Held(f"{service}: its main process killed with -9 from the host, started again, and the run goes on",
                   f"back after {took_s:.1f} s", is_held=True)
    yield from walls(stack)
    yield from _ended(stack, began)
    stack.compose("up", "-d", "--no-build")
    (learner,) = stack.containers("learner", all_of_them=True)
    state = wait_for("the learner's end", START_S, lambda: _ended_state(stack, learner))
    yield Held("`up` again under a finished name ends with 0", f"{state['ExitCode']}", state["ExitCode"] == 0)


def resumed(stack: Stack) -> Iterator[Held]:
    """A run that is taken down in the middle goes on when it is brought up."""
    stack.compose("down", "--volumes")
    stack.variables["LEARNER_ARGS"] = "learner.steps=40"
    stack.compose("up", "-d", "--no-build")
    wait_for("version 12", RUN_S, lambda: _version(stack) >= 12)
    at = _version(stack)
    stack.compose("down")
    stack.compose("up", "-d", "--no-build")
    wait_for("the end", RUN_S, lambda: _status(stack) == "finished")
    (learner,) = stack.containers("learner", all_of_them=True)
    audit = _audit(stack)
    stack.variables.pop("LEARNER_ARGS")
    log = stack.compose("logs", "learner")
    first = min(map(int, re.findall(r"step (\d+)/40", log)), default=0)
    yield Held("`down` and `up` in mid-run: it goes on", f"down at version {at}, first step after it {first}, "
               f"lost {audit['lost']}, twice {audit['twice']}", first > at - 2 and not audit["lost"] + audit["twice"])
    code = wait_for("its end", 60.0, partial(_ended_state, stack, learner))["ExitCode"]
    yield Held("... and ends with 0", str(code), code == 0)


def scaling(stack: Stack) -> Iterator[Held]:
    """Four containers of scorers beside two, without a restart."""
    stack.compose("down", "--volumes")
    stack.variables |= {"RUN": "sleepy", "RECIPE": "own/sleepy.yaml", "OWN": "./benchmarks/compose_own"}
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=2")
    wait_for("groups", START_S, lambda: _scored(stack) > 8)
    two = _rate(stack)
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=4")
    wait_for("four scorers", START_S, lambda: len(_working_scorers(stack)) >= 4)
    four = _rate(stack)
    stack.compose("down", "--volumes")
    for name in ("RECIPE", "OWN"):
        stack.variables.pop(name)
    stack.variables["RUN"] = "proof"
    yield Held(f"4 scorer containers, a second a group: at least {SCALING} times the throughput of 2",
               f"{two:.2f} and {four:.2f} groups/s: {four / two:.2f}", four / two >= SCALING)


def walls(stack: Stack) -> Iterator[Held]:
    """What a container can't do."""
    (sandbox,) = stack.containers("sandbox")
    asked = stack.execute(sandbox, "python", "-c", REACH)
    yield Held("the sandbox's container reaches no Redis, no learner, nothing outside",
               asked.stderr.strip()[-100:] or "none of three", asked.returncode == 0)
    for service in SERVICES:
        container = stack.containers(service)[0]
        user = stack.execute(container, "id", "-u").stdout.strip()
        tried = stack.execute(container, "sh", "-c", "for place in / /etc /usr /srv/millrace /root /var; do "
                              "touch $place/probe 2>/dev/null && echo $place; done; true").stdout.split()
        yield Held(f"{service}: not root, writes nowhere outside its volumes",
                   f"uid {user}, wrote {' '.join(tried) or 'nothing'}", user not in {"", "0"} and not tried)


def _scaled(stack: Stack) -> Iterator[Held]:
    """More scorers and generators, by one call where compose takes that, and one scorer less again."""
    more = ("--scale", "scorer=3"), ("--scale", "generator=2")
    old = set(stack.containers("scorer"))
    for first, second in (more, more[::-1]):            # one that heeds only the last --scale hears both
        stack.compose("up", "-d", "--no-build", *first, *second)
    new = next(iter(set(stack.containers("scorer")) - old))
    host = stack.inspect(new)["Config"]["Hostname"]
    first_job_at = wait_for("the new scorer's first job", START_S, lambda: _has_worked(stack, host) and time.time())
    took_s = first_job_at - started_at(stack.state(new))
    yield Held(f"a scorer's first job within {FIRST_JOB_S:.0f} s of its container's start", f"{took_s:.1f} s",
               took_s <= FIRST_JOB_S)
    seen = wait_for("newcomers at work in `millrace top`", START_S, lambda: _newcomers(stack))
    yield Held("`millrace top --once --json` shows the newcomers at work", seen, is_held=True)
    stopped = old.pop()
    stack.stop(stopped)
    code = stack.state(stopped)["ExitCode"]
    yield Held("a scorer's container that is stopped ends in good order", f"exit code {code}", code == 0)


def _ended(stack: Stack, began: float) -> Iterator[Held]:
    """How the run came out."""
    wait_for("the run's end", RUN_S, lambda: _status(stack) in {"finished", "failed", "stopped"})
    (learner,) = stack.containers("learner", all_of_them=True)
    state = wait_for("the learner's end", 120.0, lambda: _ended_state(stack, learner))
    yield Held("the learner's exit code is 0", f"{state['ExitCode']} after {time.monotonic() - began:.0f} s",
               state["ExitCode"] == 0)
    others = [container for service in ("generator", "scorer", "scorer-code")
              for container in stack.containers(service, all_of_them=True)]
    codes = [wait_for("a role's end", 120.0, partial(_ended_state, stack, one))["ExitCode"] for one in others]
    yield Held("generators and scorers end with 0 by themselves", str(codes), not any(codes))
    audit = _audit(stack)
    yield Held("the audit is clean", f"issued {audit['issued']}, trained {audit['trained']}, lost {audit['lost']}, "
               f"twice {audit['twice']}", not audit["lost"] and not audit["twice"])
    rate = _pass_rate(stack)
    yield Held(f"held-out pass rate with the final weights at least {BAR}", f"{rate:.3f}", rate >= BAR)


def _tool(stack: Stack, *words: str) -> str:
    """A command in a container of its own, which has the run's volumes: the run's are gone when it has ended."""
    return stack.compose("run", "--rm", "--no-deps", "-T", "learner", *words)


def _audit(stack: Stack) -> Any:
    text = _tool(stack, "sh", "-c", f"millrace audit {stack.variables['RUN']} --runs-dir /runs --json || true")
    return json.loads(text[text.index("{"):text.rindex("}") + 1])


def _pass_rate(stack: Stack) -> float:
    lines = _tool(stack, "cat", f"/runs/{stack.variables['RUN']}/metrics.jsonl").splitlines()
    rounds = [result for line in lines if line.startswith("{") for result in json.loads(line).get("evaluations", ())]
    return float(rounds[-1]["pass_rate"]) if rounds else 0.0


def _newcomers(stack: Stack) -> str | None:
    """Whose containers have worked, once the newcomers have."""
    container = stack.containers("scorer")[0]
    asked = stack.execute(container, "millrace", "top", stack.variables["RUN"], "--once", "--json")
    if asked.returncode or "{" not in asked.stdout:
        return None
    working = {(process["role"], process["host"]) for process in json.loads(asked.stdout)["processes"]
               if process["groups"] > 0}
    hosts = {name: sum(role == name for role, _ in working) for name in ("generator", "scorer")}
    told = f"{hosts['generator']} containers of generators and {hosts['scorer']} of scorers have done groups"
    return told if hosts["generator"] >= 2 and hosts["scorer"] >= 3 else None


def _has_worked(stack: Stack, host: str) -> bool:
    """Whether a scorer of this host has scored a group."""
    run = stack.variables["RUN"]
    keys = stack.redis("--scan", "--pattern", f"rl:{{{run}}}:alive:scorer:{host}-*").split()
    return any(float(stack.redis("HGET", key, "groups") or 0) > 0 for key in keys)


def _working_scorers(stack: Stack) -> list[str]:
    run = stack.variables["RUN"]
    return [key for key in stack.redis("--scan", "--pattern", f"rl:{{{run}}}:alive:scorer:*").split()
            if float(stack.redis("HGET", key, "groups") or 0) > 0]


def _scored(stack: Stack) -> float:
    """Groups that the run's scorers have scored so far, all queues together."""
    lines = stack.redis("HGETALL", f"rl:{{{stack.variables['RUN']}}}:scorers").splitlines()
    return sum(float(value) for name, value in zip(lines[::2], lines[1::2], strict=True) if " groups " in name)


def _rate(stack: Stack) -> float:
    """Groups a second over WINDOW_S."""
    before, began = _scored(stack), time.monotonic()
    time.sleep(WINDOW_S)
    return (_scored(stack) - before) / (time.monotonic() - began)


def _version(stack: Stack) -> int:
    if not stack.containers("redis"):
        return -1
    text = stack.redis("HGET", f"rl:{{{stack.variables['RUN']}}}:run", "version")
    return int(text) if text.isdecimal() else -1


def _has_moved(stack: Stack, version: int) -> bool:
    return _version(stack) > version or _status(stack) == "finished"


def _status(stack: Stack) -> str:
    return stack.redis("HGET", f"rl:{{{stack.variables['RUN']}}}:run", "status") if stack.containers("redis") else ""


def _ended_state(stack: Stack, container: str) -> Any:
    state = stack.state(container)
    return None if state["Running"] or state.get("Restarting") else state


def _told(name: str, part: Callable[[Stack], Iterator[Held]], stack: Stack) -> Iterator[Held]:
    """A part's bars; one that breaks off has missed what it was at."""
    try:
        yield from part(stack)
    except (NotInTime, RuntimeError, LookupError, ValueError) as error:
        yield Held(name, " ".join(str(error).split())[-300:].replace("|", "/"), is_held=False)


PARTS: dict[str, Callable[[Stack], Iterator[Held]]] = {
    "images": images, "demo": demo, "resumed": resumed, "scaling": scaling}

if __name__ == "__main__":
    sys.exit(main())
