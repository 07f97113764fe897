"""The commands of README and docs/compose.md that begin with `docker compose`, typed: a part of `make prove-compose`.

In: a stack. Out: a bar for each. The words are the pages'; the command that is proven stands for `docker compose`.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from benchmarks.compose import asks
from benchmarks.compose.stack import MeasuredBar, Stack, wait_for
from benchmarks.results import ROOT
from broker.redis_client import TlsRefused, redis_client

DEMO_S = 1500.0
START_S = 300.0
PASSWORD = "a-password-of-our-own"  # noqa: S105 - of a server that lives for seconds, on loopback
WATCHED = (  # commands that go on, and what has to come
    ("docker compose logs -f learner", r"step \d+/\d+ .*"),
    ("docker compose exec scorer millrace top demo", "groups/s"),
)


def whole_run(stack: Stack) -> Iterator[MeasuredBar]:
    """Type the page's first command, alone, and the second one over what the first has left."""
    stack.variables["RUN"] = "demo"
    stack.down()
    began = time.monotonic()
    stack.types("docker compose up --build --exit-code-from learner", timeout_s=DEMO_S)
    rate = asks.pass_rate(stack)
    yield MeasuredBar(
        "`up --build --exit-code-from learner` ends with the learner's code, and the demo has learnt",
        f"0 after {time.monotonic() - began:.0f} s, {rate:.3f}",
        rate >= asks.BAR,
    )
    stack.types("docker compose up --build -d")
    (learner,) = stack.containers("learner", all_of_them=True)
    code = wait_for("its end", START_S, lambda: asks.ended_state(stack, learner))["ExitCode"]
    stack.types("docker compose down -v")
    yield MeasuredBar(
        "`up --build -d` after it says that the run is finished, `down -v` forgets it",
        f"exit code {code}, {len(stack.volumes())} volumes left",
        code == 0 and not stack.volumes(),
    )


def in_the_middle(stack: Stack) -> Iterator[MeasuredBar]:
    """Type every other command of the pages while a run goes on."""
    stack.variables |= {"RUN": "demo", "LEARNER_ARGS": "learner.steps=400"}
    stack.types("docker compose up -d")
    wait_for("version 1", START_S, lambda: asks.version(stack) >= 1)
    for line, pattern in WATCHED:
        yield MeasuredBar(f"`{line}`", stack.watches(line, pattern, START_S), is_held=True)
    stack.types("docker compose ps")
    stack.types("docker compose up -d --scale scorer=4 --scale generator=2")
    more = {service: len(stack.containers(service)) for service in ("scorer", "generator")}
    stack.types("docker compose up -d --scale scorer=1 --scale generator=2")
    fewer = {service: len(stack.containers(service)) for service in ("scorer", "generator")}
    yield MeasuredBar(
        "of two `--scale` in one call the last is heeded, up and down (not every compose heeds the first)",
        f"{more}, then {fewer}",
        more["generator"] == fewer["generator"] == 2 and more["scorer"] in {1, 4},
    )
    stack.types("docker compose down")
    stack.types("docker compose up -d")
    before = wait_for("a version", START_S, lambda: asks.version(stack))
    wait_for("a step after it", START_S, lambda: asks.has_moved(stack, before))
    yield MeasuredBar("`down`, and `up -d` goes on", f"at version {before}", before >= 1)
    stack.types("docker compose down -v")


def published(stack: Stack) -> Iterator[MeasuredBar]:
    """Publish Redis for another machine: with a password it works, without one it is refused."""
    port = asks.free_port()
    stack.variables |= {"REDIS_PORT": str(port)}
    line = "docker compose -f compose.yaml -f compose.redis-port.yaml up -d redis"
    try:
        stack.types(line)
    except RuntimeError as error:
        yield MeasuredBar(
            "Redis' port is not published without a password", "refused", "REDIS_PASSWORD" in str(error)
        )
    else:
        yield MeasuredBar("Redis' port is not published without a password", "published", is_held=False)
    stack.variables["REDIS_PASSWORD"] = PASSWORD
    stack.types(line)
    client = redis.Redis(port=port, password=PASSWORD)
    said = wait_for("its answer", START_S, lambda: asks.ping(client))
    client.close()
    yield MeasuredBar(f"`{line}`, with one", said, is_held=True)
    stack.down()
    yield from _published_by_tls(stack)


def _published_by_tls(stack: Stack) -> Iterator[MeasuredBar]:
    """Publish Redis' port with TLS: who knows the authority is answered, and nobody else is."""
    line = "docker compose -f compose.yaml -f compose.redis-tls.yaml up -d redis"
    port = asks.free_port()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [ROOT / "scripts" / "redis_tls.sh", folder, "127.0.0.1"], check=True, capture_output=True
        )
        Path(folder).chmod(0o755)
        Path(folder, "redis.key").chmod(0o644)
        stack.variables |= {"REDIS_PASSWORD": PASSWORD, "REDIS_TLS_PORT": str(port), "TLS": folder}
        stack.types(line)
        url = f"rediss://:{PASSWORD}@127.0.0.1:{port}/0"
        with redis_client(f"{url}?ssl_ca_certs={folder}/ca.pem") as client:
            said = wait_for("its answer by TLS", START_S, lambda: asks.ping(client))
        with redis_client(url) as stranger:
            try:
                stranger.ping()
            except TlsRefused as error:
                said = f"{said}; without its authority: {error.seen.partition('(')[0].strip()}"
                yield MeasuredBar(
                    f"`{line}`, with certificates of `scripts/redis_tls.sh`", said, is_held=True
                )
            else:
                yield MeasuredBar(
                    f"`{line}`: a certificate of an unknown authority is refused", "PONG", is_held=False
                )
        stack.down()


def pages(stack: Stack) -> Iterator[MeasuredBar]:
    """Type all commands of the pages and return a bar for each."""
    yield from whole_run(stack)
    yield from in_the_middle(stack)
    yield from published(stack)
