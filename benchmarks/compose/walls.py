"""What a container must not be able to do, tried from inside.

In: a stack with running containers. Out: a bar for each attempt.
"""

from __future__ import annotations

from benchmarks.compose import asks
from benchmarks.compose.stack import MeasuredBar, Stack

PLACES = "/ /etc /usr /srv/millrace /root /var"


def reach(stack: Stack) -> MeasuredBar:
    """Try to reach somebody from the sandbox's container."""
    (sandbox,) = stack.containers("sandbox")
    hosts = [
        "redis",
        "learner",
        "1.1.1.1",
        *(
            address
            for service in ("redis", "learner")
            for address in stack.addresses(stack.containers(service)[0])
        ),
    ]
    asked = stack.execute(sandbox, "python", "-c", asks.REACH, *hosts)
    return MeasuredBar(
        "the sandbox's container reaches no Redis, no learner, nothing outside, by name or by number",
        asked.stderr.strip()[-100:] or f"none of {len(hosts)}",
        asked.returncode == 0,
    )


def rights(stack: Stack, service: str) -> MeasuredBar:
    """Try to write beside a container's volumes, and see whose rights it has."""
    container = stack.containers(service)[0]
    user = stack.execute(container, "id", "-u").stdout.strip()
    tried = stack.execute(
        container,
        "sh",
        "-c",
        f"for place in {PLACES}; do touch $place/probe 2>/dev/null && echo $place; done; true",
    ).stdout.split()
    return MeasuredBar(
        f"{service}: not root, writes nowhere outside its volumes",
        f"uid {user}, wrote {' '.join(tried) or 'nothing'}",
        user not in {"", "0"} and not tried,
    )
