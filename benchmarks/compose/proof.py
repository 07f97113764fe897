"""`make prove-compose`: the demo in containers: scaled, killed, down and up; and the demo of the agents.

In: a compose command. Out: a table of every bar with what was measured, which `--write` puts at the end of
benchmarks/RESULTS.md. Exit code 0 if all held. It builds the images, and runs a project and volumes of its own, which
it removes. Kills come from the host: it has to be root where the engine is.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks import results
from benchmarks.compose import asks
from benchmarks.compose.agents import agents
from benchmarks.compose.pages import pages
from benchmarks.compose.stack import MeasuredBar, NotInTime, Stack, moment, wait_for
from benchmarks.compose.walls import reach, rights

PROJECT = "millrace-proof"
BASE = "python:3.11-slim-bookworm"
SERVICES = ("redis", "learner", "generator", "scorer", "scorer-code", "sandbox")
MB = 1e6
RUN_S = 1500.0  # of one demo, on a machine that does other things too
START_S = 300.0
LIMITS_MB = {"millrace-scorer": 400, "millrace-learner": 2500}
FIRST_JOB_S = 10.0
SCALING = 1.9
LONG = (
    "learner.steps=100"  # lasts through all that on a quick machine too: later steps drop thousands of groups
)
RUN = "proof"
SLEEPY = {
    "RUN": "sleepy",
    "RECIPE": "own/sleepy.yaml",
    "OWN": "./benchmarks/compose/own",
    "LEARNER_ARGS": "generators.engine.type=fake generators.engine.answers=[one,other]",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compose.proof", description="The demo in containers."
    )
    parser.add_argument("--compose", default="docker compose", help="the command (docker compose)")
    parser.add_argument("--engine", default="docker", help="the program that knows containers (docker)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}; default: all")
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    heading = results.heading("The demo in containers")
    stack = Stack(results.ROOT, shlex.split(args.compose), args.engine, PROJECT, {"RUN": RUN})
    found: list[MeasuredBar] = []
    try:
        for part in args.parts.split(","):
            for held in told(part, PARTS[part], stack):
                found.append(held)
                sys.stdout.write(f"{'held' if held.is_held else 'MISSED'}: {held.bar}: {held.measured}\n")
                sys.stdout.flush()
    finally:
        stack.down()
    lines = [*heading, *as_table(found), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(held.is_held for held in found) and results.commit() == commit else 1


def as_table(found: Sequence[MeasuredBar]) -> list[str]:
    """Write the bars as lines of a Markdown table."""
    missed = sum(not held.is_held for held in found)
    return [
        "| what | measured | held |",
        "|---|---|---|",
        *(f"| {held.bar} | {held.measured} | {'yes' if held.is_held else 'NO'} |" for held in found),
        "",
        f"**{'Proven' if found and not missed else 'NOT proven'}**: {missed} of {len(found)} were missed.",
    ]


def images(stack: Stack) -> Iterator[MeasuredBar]:
    """Build the images, and compare the size of each with its base."""
    stack.compose("--profile", "agents", "build", timeout_s=3600.0)
    base = stack.size_bytes(BASE)
    for image, at_most in LIMITS_MB.items():
        above = (stack.size_bytes(image) - base) / MB
        yield MeasuredBar(
            f"{image}: at most {at_most:,} MB above its base", f"{above:,.0f} MB", above <= at_most
        )


def demo(stack: Stack) -> Iterator[MeasuredBar]:
    """Run the demo as it is, and ask for the finished run again."""
    stack.down()
    began = time.monotonic()
    stack.compose("up", "-d", "--no-build")
    yield from _ended(stack, began)
    stack.compose("up", "-d", "--no-build")
    (learner,) = stack.containers("learner", all_of_them=True)
    state = wait_for("the learner's end", START_S, lambda: asks.ended_state(stack, learner))
    yield MeasuredBar(
        "`up` again under a finished name ends with 0", f"{state['ExitCode']}", state["ExitCode"] == 0
    )


def operated(stack: Stack) -> Iterator[MeasuredBar]:
    """Operate a longer run: scale it, stop a container, look at it from within, kill each service in turn."""
    stack.down()
    stack.variables["LEARNER_ARGS"] = LONG
    began = time.monotonic()
    stack.compose("up", "-d", "--no-build")
    wait_for("version 3", RUN_S, lambda: asks.version(stack) >= 3)
    yield from _scaled(stack)
    yield reach(stack)
    for service in SERVICES:
        yield rights(stack, service)
    for service in SERVICES:
        before = asks.version(stack)
        took_s = stack.kill_main_process(stack.containers(service)[0])
        wait_for(f"a step after the kill of {service}", START_S, partial(asks.has_moved, stack, before))
        yield MeasuredBar(
            f"{service}: its main process killed with -9 from the host, started again, and the run goes on",
            f"back after {took_s:.1f} s",
            is_held=True,
        )
    for service in SERVICES:
        said = wait_for(f"a good word of {service}", START_S, partial(asks.health, stack, service))
        yield MeasuredBar(f"{service}: its health check holds, after the kill", said, is_held=True)
    yield from _ended(stack, began)


def resumed(stack: Stack) -> Iterator[MeasuredBar]:
    """Take a run down in the middle, bring it up again, and see that it goes on."""
    stack.down()
    stack.variables["LEARNER_ARGS"] = "learner.steps=40"
    stack.compose("up", "-d", "--no-build")
    wait_for("version 12", RUN_S, lambda: asks.version(stack) >= 12)
    at = asks.version(stack)
    stack.compose("down")
    stack.compose("up", "-d", "--no-build")
    wait_for("the end", RUN_S, lambda: asks.status(stack) == "finished")
    (learner,) = stack.containers("learner", all_of_them=True)
    audit = asks.audit(stack)
    log = stack.compose("logs", "learner")
    first = min(map(int, re.findall(r"step (\d+)/40", log)), default=0)
    yield MeasuredBar(
        "`down` and `up` in mid-run: it goes on",
        f"down at version {at}, first step after it {first}, lost {audit['lost']}, twice {audit['twice']}",
        first > at - 2 and not audit["lost"] + audit["twice"],
    )
    code = wait_for("its end", 60.0, partial(asks.ended_state, stack, learner))["ExitCode"]
    yield MeasuredBar("... and ends with 0", str(code), code == 0)


def scaling(stack: Stack) -> Iterator[MeasuredBar]:
    """Compare four containers of scorers with two, without a restart."""
    stack.down()
    stack.variables |= SLEEPY
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=2")
    wait_for("two scorers", START_S, lambda: len(asks.working_scorers(stack)) == 2)
    two = asks.rate(stack)
    before = asks.starts(stack, SERVICES)
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=4")
    wait_for("four scorers", START_S, lambda: len(asks.working_scorers(stack)) == 4)
    four = asks.rate(stack)
    is_same = before.items() <= asks.starts(stack, SERVICES).items()
    yield MeasuredBar(
        f"4 scorer containers, a second a group: at least {SCALING} times the throughput of 2, "
        "and nobody was started again",
        f"{two:.2f} and {four:.2f} groups/s: {four / two:.2f}",
        four / two >= SCALING and is_same,
    )


def extras(stack: Stack) -> Iterator[MeasuredBar]:
    """Ask the reward server with its scorers and sandbox over its port on this machine; read the metrics."""
    stack.down()
    port = asks.free_port()
    stack.variables |= {"RUN": "api", "API_PORT": str(port)}
    stack.compose(
        "--profile",
        "api",
        "--profile",
        "ops",
        "up",
        "-d",
        "--no-build",
        "redis",
        "sandbox",
        "api",
        "scorer-api",
        "metrics",
    )
    for what, body, score in asks.REQUESTS:
        said = wait_for(f"a score of {what}", START_S, partial(asks.reward, port, body))
        yield MeasuredBar(
            f"`--profile api` scores {what}", f"{said['score']}: {said['reason']}", said["score"] == score
        )
    said = wait_for("metrics", START_S, partial(asks.metrics, stack))
    yield MeasuredBar("`--profile ops` serves what Prometheus reads", said, is_held=True)


def _scaled(stack: Stack) -> Iterator[MeasuredBar]:
    """Add scorers and a generator, then stop one scorer. Some composes heed one `--scale` a call: both orders come."""
    old = set(stack.containers("scorer"))
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=2")
    (new,) = set(stack.containers("scorer")) - old
    first_job_at = wait_for("the new scorer's first job", START_S, lambda: asks.first_job_at(stack, new))
    took_s = first_job_at - moment(stack.state(new)["StartedAt"])
    yield MeasuredBar(
        f"a scorer's first job within {FIRST_JOB_S:.0f} s of its container's start",
        f"{took_s:.1f} s",
        took_s <= FIRST_JOB_S,
    )
    stack.compose("up", "-d", "--no-build", "--scale", "generator=2", "--scale", "scorer=3")
    stack.compose("up", "-d", "--no-build", "--scale", "scorer=3", "--scale", "generator=2")
    seen = wait_for("newcomers at work in `millrace top`", START_S, lambda: asks.newcomers(stack))
    yield MeasuredBar("`millrace top --once --json` shows the newcomers at work", seen, is_held=True)
    stopped = old.pop()
    stack.stop(stopped)
    code = stack.state(stopped)["ExitCode"]
    yield MeasuredBar(
        "a scorer's container that is stopped ends in good order", f"exit code {code}", code == 0
    )


def _ended(stack: Stack, began: float) -> Iterator[MeasuredBar]:
    """Wait for the end of the run and compare its outcome with the bars."""
    wait_for("the run's end", RUN_S, lambda: asks.status(stack) in {"finished", "failed", "stopped"})
    (learner,) = stack.containers("learner", all_of_them=True)
    state = wait_for("the learner's end", 120.0, lambda: asks.ended_state(stack, learner))
    yield MeasuredBar(
        "the learner's exit code is 0",
        f"{state['ExitCode']} after {time.monotonic() - began:.0f} s",
        state["ExitCode"] == 0,
    )
    others = [
        container
        for service in ("generator", "scorer", "scorer-code")
        for container in stack.containers(service, all_of_them=True)
    ]
    codes = [
        wait_for("a role's end", 120.0, partial(asks.ended_state, stack, one))["ExitCode"] for one in others
    ]
    yield MeasuredBar("generators and scorers end with 0 by themselves", str(codes), not any(codes))
    yield asks.audited(stack)
    rate = asks.pass_rate(stack)
    yield MeasuredBar(
        f"held-out pass rate with the final weights at least {asks.BAR}", f"{rate:.3f}", rate >= asks.BAR
    )


def told(name: str, part: Callable[[Stack], Iterator[MeasuredBar]], stack: Stack) -> Iterator[MeasuredBar]:
    """Yield a part's bars; a part that breaks off is a missed bar. Each part begins with a plain .env."""
    stack.variables = {"RUN": RUN}
    try:
        yield from part(stack)
    except (NotInTime, RuntimeError, LookupError, ValueError, subprocess.SubprocessError) as error:
        yield MeasuredBar(name, " ".join(str(error).split())[-300:].replace("|", "/"), is_held=False)


PARTS: dict[str, Callable[[Stack], Iterator[MeasuredBar]]] = {
    "images": images,
    "demo": demo,
    "operated": operated,
    "resumed": resumed,
    "agents": agents,
    "scaling": scaling,
    "extras": extras,
    "pages": pages,
}

if __name__ == "__main__":
    sys.exit(main())
