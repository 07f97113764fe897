"""What the proof of compose asks a running stack: how far the run is, who has worked, how it came out.

In: the stack. Out: numbers and words, as the run's keys in Redis, its files, its containers and `millrace` have them.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx
import redis

from benchmarks.compose.stack import MeasuredBar, Stack, moment
from broker.keys import Keys

BAR = 0.95  # of held-out problems, with the final weights
WINDOW_S = 40.0
SCORED = re.compile(r"^(?P<at>\S+) .*\bscored group=", re.MULTILINE)
REACH = """
import socket, sys
for host in sys.argv[1:]:
    for port in (6379, 53, 80):
        try:
            socket.create_connection((host, port), timeout=2)
        except ConnectionRefusedError:          # somebody answered
            pass
        except OSError:
            continue
        sys.exit(f"{host}:{port} can be reached")
"""
_CASES = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "3\n"]}
REQUESTS = tuple(  # what is asked, with which body, and its score
    (what, {"llm_output": answer, "verification_info": {"type": kind, "answer": reference}}, score)
    for what, answer, kind, reference, score in (
        ("a right answer", "\\boxed{1/2}", "math", {"value": "0.5"}, 1.0),
        ("a right program", "```python\nprint(int(input()) + 1)\n```", "code", _CASES, 1.0),
        ("a wrong program", "```python\nprint(int(input()))\n```", "code", _CASES, 0.0),
    )
)
TOKENS = """
import sys
from pathlib import Path
from learner.journal.ledger import read_ledger
ledger = read_ledger(Path(sys.argv[1]))
trained = sum(int(record["tokens"]) for record in ledger.steps)
print("tokens", trained + sum(outcome.tokens for outcome in ledger.outcomes.values()))
"""
SCRAPE = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9090/metrics', timeout=10).read().decode())"


def _tool(stack: Stack, *words: str) -> str:
    """Run a command in a container of its own that has the run's volumes: the run's containers may have ended."""
    return stack.compose("run", "--rm", "--no-deps", "-T", "learner", *words)


def audit(stack: Stack) -> Any:
    """Return what `millrace audit` found."""
    text = _tool(
        stack, "sh", "-c", f"millrace audit {stack.variables['RUN']} --runs-dir /runs --json || true"
    )
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def audited(stack: Stack) -> MeasuredBar:
    """Return whether the audit finds nothing lost and nothing twice."""
    found = audit(stack)
    return MeasuredBar(
        "the audit is clean",
        f"issued {found['issued']}, trained {found['trained']}, lost {found['lost']}, twice {found['twice']}",
        not found["lost"] and not found["twice"],
    )


def pass_rates(stack: Stack) -> list[float]:
    """Return the pass rates of the rounds of held-out problems, in their order."""
    lines = _tool(stack, "cat", f"/runs/{stack.variables['RUN']}/metrics.jsonl").splitlines()
    rounds = [
        result for line in lines if line.startswith("{") for result in json.loads(line).get("evaluations", ())
    ]
    return [float(one["pass_rate"]) for one in rounds] or [0.0]


def pass_rate(stack: Stack) -> float:
    """Return the pass rate of the last round of held-out problems."""
    return pass_rates(stack)[-1]


def sampled_tokens(stack: Stack) -> int:
    """Count the tokens that were sampled of training groups, those that were thrown away included."""
    text = _tool(stack, "python", "-c", TOKENS, f"/runs/{stack.variables['RUN']}/journal")
    return int(re.findall(r"^tokens (\d+)$", text, re.MULTILINE)[-1])


def processes(stack: Stack) -> list[Any]:
    """Return the processes that `millrace top` shows; none while it shows nothing."""
    container = stack.containers("scorer")[0]
    asked = stack.execute(container, "millrace", "top", stack.variables["RUN"], "--once", "--json")
    if asked.returncode or "{" not in asked.stdout:
        return []
    found: list[Any] = json.loads(asked.stdout)["processes"]
    return found


def newcomers(stack: Stack) -> str | None:
    """Name the containers that have done groups, once the added ones are among them."""
    working = {(process["role"], process["host"]) for process in processes(stack) if process["groups"] > 0}
    hosts = {name: sum(role == name for role, _ in working) for name in ("generator", "scorer")}
    told = f"{hosts['generator']} containers of generators and {hosts['scorer']} of scorers have done groups"
    return told if hosts["generator"] >= 2 and hosts["scorer"] >= 3 else None


def first_job_at(stack: Stack, container: str) -> float | None:
    """Return when a scorer's container had scored its first group, in Unix seconds, by its log."""
    found = SCORED.search(stack.log(container))
    return moment(found["at"]) if found else None


def health(stack: Stack, service: str) -> str | None:
    """Run the health check of a service's first container and return its words, or None where the check fails."""
    container = stack.containers(service)[0]
    kind, *words = stack.inspect(container)["Config"]["Healthcheck"]["Test"]
    said = stack.execute(container, *(["sh", "-c", *words] if kind == "CMD-SHELL" else words))
    return (
        None
        if said.returncode
        else (said.stdout.strip().splitlines() or ["nothing"])[0][:100].replace("|", "/")
    )


def working_scorers(stack: Stack) -> list[str]:
    """Return the heartbeats of scorers that have scored a group."""
    run = stack.variables["RUN"]
    return [
        key
        for key in stack.redis("--scan", "--pattern", Keys(run).alive("scorer", "*")).split()
        if float(stack.redis("HGET", key, "groups") or 0) > 0
    ]


def starts(stack: Stack, services: Sequence[str]) -> dict[str, str]:
    """Return when each running container was started last."""
    return {
        container: str(stack.state(container)["StartedAt"])
        for service in services
        for container in stack.containers(service)
    }


def scored(stack: Stack) -> float:
    """Count the groups that the run's scorers have scored so far, all queues together."""
    lines = stack.redis("HGETALL", Keys(stack.variables["RUN"]).scorers).splitlines()
    return sum(
        float(value) for name, value in zip(lines[::2], lines[1::2], strict=True) if " groups " in name
    )


def rate(stack: Stack) -> float:
    """Measure the groups scored a second, over WINDOW_S."""
    before, began = scored(stack), time.monotonic()
    time.sleep(WINDOW_S)
    return (scored(stack) - before) / (time.monotonic() - began)


def free_port() -> int:
    """Find a free port of this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def ping(client: redis.Redis) -> str:
    """Return a server's answer to `/ping`, or None while there is none."""
    with suppress(redis.ConnectionError):
        return "PONG" if client.ping() else ""
    return ""


def reward(port: int, body: Mapping[str, Any]) -> Any:
    """Return the reward server's answer, or None while no scorer works for it."""
    try:
        answer = httpx.post(f"http://127.0.0.1:{port}/reward", json=body, timeout=60.0)
    except httpx.TransportError:
        return None
    return answer.json() if answer.status_code == httpx.codes.OK else None


def metrics(stack: Stack) -> str | None:
    """Return how many numbers `metrics` serves, or None while it does not see Redis."""
    if not (found := stack.containers("metrics")):
        return None
    lines = stack.execute(found[0], "python", "-c", SCRAPE).stdout.splitlines()
    return (
        f"{sum(line.startswith('millrace_') for line in lines)} numbers"
        if "millrace_up 1.0" in lines
        else None
    )


def version(stack: Stack) -> int:
    """Return the version of the run's newest weights; -1 where there are none."""
    if not stack.containers("redis"):
        return -1
    text = stack.redis("HGET", Keys(stack.variables["RUN"]).run, "version")
    return int(text) if text.isdecimal() else -1


def has_moved(stack: Stack, before: int) -> bool:
    """Tell whether there are newer weights than `before`."""
    return version(stack) > before


def status(stack: Stack) -> str:
    """Return the run's status: running, finished, stopped or failed; empty where Redis holds none."""
    return (
        stack.redis("HGET", Keys(stack.variables["RUN"]).run, "status") if stack.containers("redis") else ""
    )


def ended_state(stack: Stack, container: str) -> Any:
    """Return a container's `State` once it has ended and is not started again, else None."""
    state = stack.state(container)
    return None if state["Running"] or state.get("Restarting") else state
