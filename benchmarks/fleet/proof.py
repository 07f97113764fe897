"""`make prove-fleet`: the demo over two machines that share nothing but a Redis behind TLS.

In: a container engine. Out: a table of every bar with what was measured, which `--write` puts at the end of
benchmarks/RESULTS.md. Exit code 0 if all held. Machine A has Redis, the learner and the scorers; machine B, another
container without a volume in common, has the generators. What is typed on them are the lines of docs/fleet.md. The
image, the containers and the network are the proof's own; the last two are removed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import results
from benchmarks.compose.proof import as_table
from benchmarks.compose.stack import MeasuredBar, NotInTime, wait_for
from benchmarks.fleet.machine import ContainerProgram, FleetMachine, MachineError
from benchmarks.pages.pages import Line, fences, is_command
from broker.keys import Keys

PAGE = results.ROOT / "docs" / "fleet.md"
DOCKERFILE = results.ROOT / "benchmarks" / "fleet" / "machine.Dockerfile"
IMAGE, NETWORK, HOST = "millrace-fleet-machine", "millrace-fleet", "machine-a"
RUN, PORT = "first", 6380
MODEL = "models/demo"  # copied from one machine to the other, as the page says; the image's own is not named
READY_S = 15.0  # from the engine's start to the first group that is handed over
PASS_RATE = 0.95
REDIS = "of the image"  # until the image says which version it is
REFUSED_S, START_S = 60.0, 30.0
KILL_AT, RUN_S, STEP_S = 12, 1500.0, 300.0
UNTIL_SCORED = ("age_prompts_s", "age_sampling_s", "age_rollouts_s", "age_scoring_s")
WAITS = frozenset({"redis-server", "learner", "scorers", "generators"})  # commands that go on
OPEN_PORTS = """
import socket, sys
found = []
for port in range(1, 65536):
    with socket.socket() as one:
        one.settimeout(2)
        if one.connect_ex((sys.argv[1], port)) == 0:
            found.append(port)
print(*found)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The two machines, and the secret between them."""

    engine: ContainerProgram
    a: FleetMachine
    b: FleetMachine
    password: str

    def url(self, authority: str) -> str:
        """Return REDIS_URL, with the file of the authority on the machine that it is for."""
        return f"rediss://:{self.password}@{HOST}:{PORT}/0?ssl_ca_certs={authority}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the proof, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.proof", description="Two machines.")
    parser.add_argument("--engine", default="docker", help="the program that knows containers (docker)")
    parser.add_argument("--build", default="", help="more words for its `build`, such as --network=host")
    results.add_write(parser)
    args = parser.parse_args(argv)
    commit = results.commit()
    heading = results.heading("A fleet of two machines", redis=REDIS)
    found: list[MeasuredBar] = []
    engine = ContainerProgram(args.engine, build_words=args.build.split())
    with contextlib.ExitStack() as stack:
        try:
            for held in prove(engine, stack):
                found.append(held)
                sys.stdout.write(f"{'held' if held.is_held else 'MISSED'}: {held.bar}: {held.measured}\n")
                sys.stdout.flush()
        except (NotInTime, MachineError, LookupError, ValueError) as error:
            found.append(MeasuredBar("the proof's end", " ".join(str(error).split())[-400:], is_held=False))
    lines = [
        *(line.replace(REDIS, engine.redis) for line in heading),
        *as_table(found),
        *results.remarks(commit),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(held.is_held for held in found) and results.commit() == commit else 1


def prove(engine: ContainerProgram, stack: contextlib.ExitStack) -> Iterator[MeasuredBar]:
    """Build the image, start both machines, and yield every bar."""
    engine.build(
        results.ROOT, results.ROOT / "deploy/docker/Dockerfile", "millrace-learner", target="learner"
    )
    engine.build(results.ROOT, DOCKERFILE, IMAGE)
    stack.callback(engine.remove_network, NETWORK)
    engine.make_network(NETWORK)
    machines = []
    for name in (HOST, "machine-b"):
        machines.append(FleetMachine(engine, name, image=IMAGE, network=NETWORK))
        stack.callback(machines[-1].remove)
        machines[-1].start()
    fleet = Fleet(engine=engine, a=machines[0], b=machines[1], password=secrets.token_hex(12))
    engine.redis = re.findall(r" v=(\S+)", fleet.a.types("/usr/bin/redis-server --version"))[0]
    yield from _first_machine(fleet)
    yield from _apart(fleet)
    yield from _refusals(fleet)
    yield from _a_run(fleet)


def page_lines() -> list[list[str]]:
    """Return the commands of the page's blocks: those of the first machine, of the others, and of any."""
    blocks = [
        [Line(PAGE, line).command for line in lines if is_command(line)]
        for language, lines in fences(PAGE)
        if not language
    ]
    return [block for block in blocks if block]


def typed(line: str, fleet: Fleet) -> str:
    """Put this proof's names in the place of the page's. The model is in a folder of its own, to be copied."""
    line = line.replace("PASSWORD", fleet.password).replace("HOST", HOST)
    return f"{line} model.path={MODEL}" if " name=first" in line else line


def kind(line: str) -> str:
    """Name what a line starts and leaves running; "" for a command that ends."""
    return next((word for word in re.findall(r"[\w-]+", line) if word in WAITS), "")


def type_all(fleet: Fleet, machine: FleetMachine, lines: Sequence[str], *, but: Sequence[str] = ()) -> None:
    """Type lines on a machine, one after the other; what goes on is left running under its name."""
    for line in lines:
        if line.startswith("export REDIS_URL="):
            machine.variables["REDIS_URL"] = typed(line, fleet).partition("=")[2].strip("'")
        elif name := kind(line):
            if name not in but:
                machine.starts(name, typed(line, fleet))
                if name == "redis-server":
                    wait_for("redis-server's start", START_S, partial(_is_ready, machine))
        else:
            machine.types(typed(line, fleet))


def _is_ready(machine: FleetMachine) -> bool:
    said = machine.log("redis-server")
    if machine.code("redis-server"):
        raise MachineError(f"redis-server ended: {said[-400:]}")
    return "Ready to accept connections" in said


def _first_machine(fleet: Fleet) -> Iterator[MeasuredBar]:
    fleet.a.types(f"mkdir -p models && cp -r config/recipes/demo_model {MODEL}")
    first, _, _ = page_lines()
    before = time.monotonic()
    type_all(fleet, fleet.a, first)
    yield MeasuredBar(
        "the page's lines of the first machine, typed as they stand; Redis has TLS and no other port",
        f"{len(first)} lines, {time.monotonic() - before:.0f} s, `millrace doctor` without a problem",
        is_held=True,
    )


def _apart(fleet: Fleet) -> Iterator[MeasuredBar]:
    mounts = [len(machine.inspect()["Mounts"]) for machine in (fleet.a, fleet.b)]
    ports = fleet.b.types(f"python - {HOST} <<'SCAN'\n{OPEN_PORTS}\nSCAN")
    yield MeasuredBar(
        "nothing is shared: no volume in either container; of 65,535 ports of the first machine the second reaches one",
        f"{sum(mounts)} volumes; reached: {ports.strip() or 'none'}",
        not any(mounts) and ports.split() == [str(PORT)],
    )


def _refusals(fleet: Fleet) -> Iterator[MeasuredBar]:
    """See that a wrong address is answered at once, with what to set and without the password."""
    cases = (
        ("no authority is named", fleet.url("").partition("?")[0], "?ssl_ca_certs="),
        (
            "redis:// at the port with TLS",
            fleet.url("").partition("?")[0].replace("rediss", "redis"),
            "rediss://",
        ),
    )
    for what, url, says in cases:
        before = time.monotonic()
        said = fleet.b.tries(f"REDIS_URL='{url}' timeout {REFUSED_S:.0f} python -m generators --run {RUN}")
        yield MeasuredBar(
            f"a generator whose REDIS_URL is wrong ({what}) ends with 1 and what to set, without the password",
            f"{time.monotonic() - before:.1f} s: {said.last_line.partition('reason=')[2][:120]}",
            said.code == 1 and says in said.text and fleet.password not in said.text,
        )


def _a_run(fleet: Fleet) -> Iterator[MeasuredBar]:
    """Let the demo run: two generators, of which one is killed, and a third that joins."""
    fleet.engine.copy(fleet.a, "fleet/ca.pem", fleet.b, "ca.pem")
    fleet.engine.copy(fleet.a, MODEL, fleet.b, MODEL)
    _, others, anywhere = page_lines()
    type_all(fleet, fleet.b, others)
    (generator,) = (line for line in others if kind(line))
    fleet.b.starts("second", typed(generator, fleet))
    wait_for(f"version {KILL_AT}", RUN_S, lambda: version(fleet) >= KILL_AT)
    fleet.b.kill("generators")
    killed_at = version(fleet)
    fleet.b.starts("third", typed(generator, fleet))
    top = fleet.b.types(anywhere[0])
    text = wait_for(
        "the newcomer's first group", STEP_S, lambda: re.search(r"first_group .*", fleet.b.log("third"))
    )[0]
    yield from _joined(fleet, text, killed_at)
    seen = [name for name in (fleet.a.name, fleet.b.name) if name in top]
    yield MeasuredBar(
        f"`{anywhere[0]}` on the second machine shows the processes of both",
        " and ".join(seen) or "no machine",
        len(seen) == 2,
    )
    yield from _ended(fleet, anywhere[1])


def _joined(fleet: Fleet, first_group: str, killed_at: int) -> Iterator[MeasuredBar]:
    after_s = float(re.findall(r"after_start_s=([\d.]+)", first_group)[0])
    loaded = re.findall(r"weights_loaded version=(\d+)", fleet.b.log("third"))
    yield MeasuredBar(
        "a generator is killed with SIGKILL, and the run goes on",
        f"at version {killed_at}; {version(fleet)} when the newcomer had handed its first group over",
        version(fleet) > killed_at,
    )
    yield MeasuredBar(
        "another joins: the first weights that it loads are of the version at its start or newer",
        f"started at version {killed_at}, first loaded {loaded[0] if loaded else 'none'}; "
        f"first group sampled with {re.findall(r'version=([0-9]+)', first_group)[0]}",
        bool(loaded) and int(loaded[0]) >= killed_at,
    )
    yield MeasuredBar(
        f"its first group is handed over at most {READY_S:.0f} s after its engine is ready",
        f"{after_s:.1f} s",
        after_s <= READY_S,
    )


def _ended(fleet: Fleet, audit_line: str) -> Iterator[MeasuredBar]:
    """Wait for the run's end, and compare its outcome with the bars."""
    ended = [("learner", fleet.a), ("scorers", fleet.a), ("second", fleet.b), ("third", fleet.b)]
    codes = [wait_for(f"the end of {name}", RUN_S, partial(one.code, name)) for name, one in ended]
    yield MeasuredBar(
        "learner, scorers and both generators end with 0 by themselves", " ".join(codes), set(codes) == {"0"}
    )
    audit = json.loads(fleet.a.types(f"{audit_line} --json", quiet=True))
    yield MeasuredBar(
        "the audit is clean",
        f"issued {audit['issued']}, trained {audit['trained']}, lost {audit['lost']}, twice {audit['twice']}",
        not audit["lost"] and not audit["twice"],
    )
    records = [
        json.loads(line) for line in fleet.a.types(f"cat runs/{RUN}/metrics.jsonl", quiet=True).splitlines()
    ]
    rates = [one["pass_rate"] for record in records for one in record.get("evaluations", ())]
    yield MeasuredBar(
        f"held-out pass rate with the final weights at least {PASS_RATE}",
        f"{rates[-1]:.3f}",
        rates[-1] >= PASS_RATE,
    )
    yield _lag(fleet, records)
    logs = "".join(machine.all_logs() for machine in (fleet.a, fleet.b))
    yield MeasuredBar(
        "the password is in no log of either machine", f"{len(logs):,} characters", fleet.password not in logs
    )


def lag_by_littles_law(records: Sequence[dict[str, float]], *, in_flight: int) -> float:
    """Return the mean lag that follows from what steps measured: (N - D x T) / S - 1 - P, see `expected_lag`.

    Args:
        records: objects of `metrics.jsonl`.
        in_flight: N, groups.
    """
    mean = {
        name: statistics.fmean(record.get(name, 0.0) for record in records)
        for name in ("seconds", "seconds_evaluate", "groups", "dropped", *UNTIL_SCORED)
    }
    step_s = mean["seconds"] - mean["seconds_evaluate"]
    dropped_slots = mean["dropped"] * sum(mean[name] for name in UNTIL_SCORED) / step_s
    return (in_flight - dropped_slots) / mean["groups"] - 1 - mean["age_prompts_s"] / step_s


def _lag(fleet: Fleet, records: Sequence[dict[str, float]]) -> MeasuredBar:
    """Compare the lag that the learner foretold with what came, while few groups were dropped."""
    log = fleet.a.log("learner")
    told = re.findall(r"expected_lag_mean=([\d.]+)", log)
    in_flight = int(re.findall(r"lag groups_in_flight=(\d+)", log)[0])
    early = [record for record in records if 5 < record["step"] <= 20]
    mean = statistics.fmean(record["lag_mean"] for record in early)
    parts = {
        name: statistics.fmean(record[f"lag_{name}"] for record in early)
        for name in ("sampling", "queue", "scoring")
    }
    split = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    return MeasuredBar(
        "the lag of steps 6 to 20 is at most what was printed before the start, and its parts add up to it",
        f"printed {told[0] if told else 'nothing'}, measured {mean:.2f}: {split}; with these steps' waiting "
        f"prompts and dropped groups Little's law gives {lag_by_littles_law(early, in_flight=in_flight):.2f}",
        bool(told) and mean <= float(told[0]) and abs(sum(parts.values()) - mean) < 0.01,
    )


def version(fleet: Fleet) -> int:
    """Return the run's version by the system's redis-cli, over TLS; -1 before there is one."""
    said = fleet.a.tries(
        f"/usr/bin/redis-cli --tls --cacert fleet/ca.pem -h {HOST} -p {PORT} HGET '{Keys(RUN).run}' version",
        variables={"REDISCLI_AUTH": fleet.password},
    )
    return int(said.text) if said.text.strip().isdecimal() else -1


if __name__ == "__main__":
    sys.exit(main())
