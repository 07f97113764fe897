"""Check the gateway, through which agents that own their loop call the policy.

In: a resolved run, this machine's addresses, and the environment. Out: findings; none where no agent owns its loop.
Reports before the run what the agents' worker would refuse at its start: an address of another machine, a port in use,
a missing key.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from config.episodes.own_loop import AgentSection
from config.run import Run
from tools.doctor.findings import Check, CheckFinding

GATEWAY = Check("run", "gateway")


def check_gateway(run: Run) -> Iterator[CheckFinding]:
    """Check that the gateway can listen here as configured, and that external agents have a key."""
    if not any(isinstance(task.environment, AgentSection) for task in run.scorers.tasks.values()):
        return
    place, variable = run.agents.gateway, run.agents.gateway.key_variable
    where = f"agents.gateway: {place.host}:{place.port or 'any port'}"
    trouble = why_unheard(place.host, place.port or 0)
    if trouble:
        yield GATEWAY.problem(
            f"{where} can't be listened at: {trouble}",
            do="agents.gateway.host names an address of this machine, and agents.gateway.port one that nobody has: "
            "ss -ltnp shows who has which",
        )
    if run.has_agents_elsewhere and variable is not None and not os.environ.get(variable):
        yield GATEWAY.problem(
            f"agents.gateway.key_variable={variable}: the variable is not set, and agents elsewhere show it",
            do=f"export {variable}=KEY where the agents run, and give the same to the agents elsewhere",
        )
    elif run.has_agents_elsewhere and variable is None:
        yield GATEWAY.note(
            f"{where}: whoever can open a connection on this machine can open episodes without a key",
            do="agents.gateway.key_variable=GATEWAY_API_KEY",
        )
    elif not trouble:
        yield GATEWAY.ok(f"{where} is free")


def why_unheard(host: str, port: int) -> str:
    """Return why no server can listen at an address; "": one can. 0 is any port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            with contextlib.closing(socket.create_server(address[:2], family=family)):
                pass
    except OSError as error:
        return error.strerror or str(error)
    return ""
