"""`make prove-slurm`: both demos under a Slurm of this machine; a job of each role is taken away once, and goes on.

In: Debian's Slurm and a redis-server with TLS. Out: a table of every bar with what was measured, which `--write` puts
at the end of benchmarks/RESULTS.md. Exit code 0 if all held, or where there is no Slurm, which is said. The jobs are
those of deploy/slurm, handed over by submit.sh with its own settings but for places and the port. A job is taken away
by `scontrol requeue`, which ends it as a preemption does: SIGTERM to all of it, SIGKILL after KillWait, and the queue.
The commands of Slurm in docs/clusters.md are typed on the way, in the folder of the cluster.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import results
from benchmarks.compose.proof import as_table
from benchmarks.compose.stack import MeasuredBar, NotInTime, wait_for
from benchmarks.rigs.seed_runs import BARS, sampled_tokens
from benchmarks.slurm.cluster import Cluster, SlurmError, a_cluster, missing

SETTINGS = results.ROOT / "deploy" / "slurm" / "settings.sh"
RUN, STEPS = "first", 60  # as the settings and the recipe have them
ROLES = ("redis", "learner", "generators", "scorers")
PLAYED, PLAYED_STEPS = "played", 40  # the demo of the agents
PLAY = {
    "RUN": PLAYED,
    "RECIPE": "config/recipes/demo_agents.yaml",
    "AGENTS": "(--array=1-1 --cpus-per-task=2)",
}
PLAYED_ROLES = (*ROLES, "agents")
PLAYED_TAKEN_AT = 8  # version
TAKEN_AT = {"learner": 12, "generators": 20, "scorers": 28, "redis": 36}  # versions
START_S, STEP_S, RUN_S = 60.0, 300.0, 900.0
PASS_RATE = 0.95
# What docs/clusters.md has people type.
COPY = "cp deploy/slurm/settings.sh first.sh"
SUBMIT = "deploy/slurm/submit.sh first.sh"
MORE = "deploy/slurm/submit.sh first.sh generators"
NAMES = "first-learner,first-generators,first-agents,first-scorers,first-redis"
LOOK = f"squeue --me --name={NAMES}"
TOP = 'REDIS_URL="$(cat ~/millrace/first/redis_url)" millrace top first --once'
CANCEL = f"scancel $(squeue --me --noheader --format=%A --name={NAMES})"


class UnderSlurm:
    """The run, as its folder and its jobs show it."""

    def __init__(
        self,
        cluster: Cluster,
        redis_server: Path,
        *,
        name: str = RUN,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Write the run's settings.

        Args:
            more: settings of it beside the places.
        """
        self.cluster, self.name = cluster, name
        self.state = cluster.folder / name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        given = {
            "STATE": self.state,
            "REDIS_SERVER": redis_server,
            "REDIS_PORT": port,
            "ENVIRONMENT": sys.prefix,
            **more,
        }
        self.settings = cluster.folder / f"{name}.sh"
        self.types(COPY)
        text = self.settings.read_text(encoding="utf-8")
        self.settings.write_text(settings_with(text, given), encoding="utf-8")
        self.jobs: dict[str, str] = {}

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.state / "runs" / self.name

    def types(self, line: str) -> str:
        """Type a line of the page in the checkout, whose settings and state are the cluster's. Raises SlurmError."""
        line = line.replace(f"={RUN}-", f"={self.name}-").replace(f",{RUN}-", f",{self.name}-")
        for theirs, ours in (("first.sh", self.settings), ("~/millrace/first", self.state)):
            line = line.replace(theirs, shlex.quote(str(ours)))
        line = line.replace(
            "millrace top first", f"{shlex.quote(sys.executable)} -m tools.main top {self.name}"
        )
        return self.cluster.asks("bash", "-c", f"cd {shlex.quote(str(results.ROOT))} && {line}")

    def submit(self) -> None:
        """Hand all jobs over, as the page says."""
        self.jobs = dict(line.split() for line in self.types(SUBMIT).splitlines())

    def take_away(self, role: str) -> None:
        """End a job as a preemption does, and have it queued again."""
        self.cluster.asks("scontrol", "requeue", self.jobs[role])

    def version(self) -> int:
        """Return the last step that the learner has reported; -1 before there is one."""
        try:
            return max(
                (int(record["step"]) for record in self.records() if "reward_mean" in record), default=-1
            )
        except (OSError, ValueError):  # not there yet, or its last line is half written
            return -1

    def restarts(self, role: str) -> int:
        """Return how often Slurm has started a job again."""
        return int(self.cluster.job(self.jobs[role])["Restarts"])

    def log(self, role: str) -> str:
        """Return what a role's jobs have said."""
        files = sorted((self.state / "logs").glob(f"{self.name}-{role}-*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def records(self) -> list[dict[str, Any]]:
        """Return the objects of metrics.jsonl."""
        file = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def settings_with(text: str, given: dict[str, object]) -> str:
    """Put values in the place of a settings file's own. Raises KeyError for one that it has not."""
    for name, value in given.items():
        text, count = re.subn(rf"(?m)^{name}=\S*", f"{name}={value}", text)
        if count != 1:
            raise KeyError(name)
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run the proof, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm.proof", description="Under Slurm.")
    parser.add_argument(
        "--redis-server", type=Path, default=Path("/usr/bin/redis-server"), help="one that is built with TLS"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}; default: all")
    results.add_write(parser)
    args = parser.parse_args(argv)
    server = args.redis_server.absolute()
    if lacks := (*missing(), *(() if server.is_file() else (str(server),))):
        sys.stdout.write(
            f"SKIP: no {', '.join(lacks)}: apt-get install slurmctld slurmd slurm-client munge redis-server\n"
        )
        return 0
    commit = results.commit()
    heading = results.heading("The demo under Slurm", redis=results.redis_version(server))
    found: list[MeasuredBar] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-slurm-")))
        try:
            cluster = stack.enter_context(a_cluster(folder))
            for part in args.parts.split(","):
                for held in PARTS[part](cluster, server):
                    found.append(held)
                    sys.stdout.write(f"{'held' if held.is_held else 'MISSED'}: {held.bar}: {held.measured}\n")
                    sys.stdout.flush()
        except (NotInTime, SlurmError, LookupError, ValueError) as error:
            found.append(MeasuredBar("the proof's end", " ".join(str(error).split())[-400:], is_held=False))
    lines = [*heading, *as_table(found), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if all(held.is_held for held in found) and results.commit() == commit else 1


def demo(cluster: Cluster, server: Path) -> Iterator[MeasuredBar]:
    """Hand the run over, take each job away in turn, and compare the outcome with the bars."""
    run = UnderSlurm(cluster, server)
    yield _handed_over(run, ROLES)
    for role, at in TAKEN_AT.items():
        yield _taken_away(run, role, at, STEPS)
    yield from _looked_at(run)
    yield from _ended(run, ROLES)
    log = run.log("learner")
    stopped = re.findall(r"status=stopped version=(\d+)", log)
    yield MeasuredBar(
        "the learner that was taken away ended its step and wrote a checkpoint before SIGKILL",
        f"stopped at version {', '.join(stopped)}" if stopped else "it did not",
        len(stopped) == 1 and f"checkpoints/step-{int(stopped[0]):06}" in log,
    )
    yield from _outcome(run, ROLES, STEPS)
    rates = [one["pass_rate"] for record in run.records() for one in record.get("evaluations", ())]
    yield MeasuredBar(
        f"held-out pass rate with the final weights at least {PASS_RATE}",
        f"{rates[-1]:.3f}",
        rates[-1] >= PASS_RATE,
    )
    yield _cancelled(run)


def agents(cluster: Cluster, server: Path) -> Iterator[MeasuredBar]:
    """Hand the demo of the agents over, take the agents' job away, and compare with the bars of that demo."""
    run = UnderSlurm(cluster, server, name=PLAYED, more=PLAY)
    yield _handed_over(run, PLAYED_ROLES)
    yield _taken_away(run, "agents", PLAYED_TAKEN_AT, PLAYED_STEPS)
    yield from _ended(run, PLAYED_ROLES)
    yield from _outcome(run, PLAYED_ROLES, PLAYED_STEPS)
    bars = BARS["agents"]
    rates = [float(one["pass_rate"]) for record in run.records() for one in record.get("evaluations", ())]
    yield MeasuredBar(
        f"held-out pass rate at most {bars.at_most_before} at version 0, at least {bars.at_least_after} with "
        "the final weights",
        f"{rates[0]:.3f}, {rates[-1]:.3f}",
        rates[0] <= bars.at_most_before and rates[-1] >= bars.at_least_after,
    )
    tokens = sampled_tokens(run.folder / "journal")
    yield MeasuredBar(
        f"at most {bars.at_most_tokens:,} sampled tokens of training groups",
        f"{tokens:,}",
        bars.at_most_tokens is not None and 0 < tokens <= bars.at_most_tokens,
    )
    yield _cancelled(run)


def _handed_over(run: UnderSlurm, roles: Sequence[str]) -> MeasuredBar:
    """Hand all jobs over."""
    wait_for("an idle node", START_S, partial(_is_idle, run.cluster))
    run.submit()
    return MeasuredBar(
        f"{run.cluster.asks('sbatch', '--version').strip()}: submit.sh hands over a job of each role",
        ", ".join(run.jobs),
        tuple(run.jobs) == tuple(roles),
    )


def _taken_away(run: UnderSlurm, role: str, at: int, steps: int) -> MeasuredBar:
    """Take a role's job away at a version, and wait until the run has gone on."""
    wait_for(f"version {at}", RUN_S, partial(_has_reached, run, at, steps))
    before, began = run.version(), time.monotonic()
    run.take_away(role)
    wait_for(f"another start of {role}", STEP_S, partial(_is_back, run, role))
    back_s, at_least = time.monotonic() - began, run.version() + 2
    wait_for(f"version {at_least}", STEP_S, partial(_has_reached, run, at_least, steps))
    return MeasuredBar(
        f"{role}: its job is taken away (`scontrol requeue`), starts again, and the run goes on",
        f"at version {before}; back after {back_s:.0f} s; version {run.version()} after "
        f"{time.monotonic() - began:.0f} s",
        run.restarts(role) == 1,
    )


def _cancelled(run: UnderSlurm) -> MeasuredBar:
    """End Redis' job, and what else is left."""
    run.types(CANCEL)
    began = time.monotonic()
    wait_for("an empty queue", STEP_S, lambda: not run.types(LOOK).splitlines()[1:])
    state = run.cluster.job(run.jobs["redis"])["JobState"]
    return MeasuredBar(
        "the page's `scancel` ends Redis' job, and what else is left",
        f"Redis {state}, the queue empty after {time.monotonic() - began:.0f} s",
        state == "CANCELLED",
    )


def _looked_at(run: UnderSlurm) -> Iterator[MeasuredBar]:
    """Hand over more generators while the run goes on, look at the queue, and ask for the run's state."""
    role, more = run.types(MORE).split()
    queue = run.types(LOOK).splitlines()[1:]
    top = run.types(TOP)
    yield MeasuredBar(
        "the page's `submit.sh` for more generators, `squeue` and `millrace top`",
        f"another job of {role}, {len(queue)} jobs in the queue, {len(top.splitlines())} lines",
        role == "generators" and more != run.jobs[role] and len(queue) == len(ROLES) + 1 and RUN in top,
    )


def _is_idle(cluster: Cluster) -> bool:
    try:
        return "State=IDLE" in cluster.asks("scontrol", "show", "node")
    except SlurmError:
        return False


def _has_reached(run: UnderSlurm, version: int, steps: int) -> bool:
    return run.version() >= min(version, steps)


def _is_back(run: UnderSlurm, role: str) -> bool:
    job = run.cluster.job(run.jobs[role])
    return job["JobState"] == "RUNNING" and job["Restarts"] == "1"


def _ended(run: UnderSlurm, with_redis: Sequence[str]) -> Iterator[MeasuredBar]:
    """Wait for the run's end."""
    roles = [role for role in with_redis if role != "redis"]
    for role in roles:
        wait_for(f"the end of {role}", RUN_S, partial(run.cluster.has_ended, run.jobs[role]))
    states = {role: run.cluster.job(run.jobs[role])["JobState"] for role in roles}
    yield MeasuredBar(
        f"{', '.join(roles[:-1])} and {roles[-1]} end by themselves",
        ", ".join(f"{role} {state}" for role, state in states.items()),
        set(states.values()) == {"COMPLETED"},
    )


def _outcome(run: UnderSlurm, roles: Sequence[str], steps: int) -> Iterator[MeasuredBar]:
    """Compare what the run has left with the bars; Redis' last hour answers the audit."""
    found = [int(record["step"]) for record in run.records()]
    yield MeasuredBar(
        f"each of {steps} steps was trained once",
        f"{len(found)} records of {len(set(found))} steps",
        found == list(range(1, steps + 1)),
    )
    yield _audit(run)
    password = (run.state / "password").read_text(encoding="utf-8").strip()
    logs = "".join(map(run.log, roles))
    yield MeasuredBar("the password is in no log", f"{len(logs):,} characters", password not in logs)


def _audit(run: UnderSlurm) -> MeasuredBar:
    url = (run.state / "redis_url").read_text(encoding="utf-8").strip()
    words = [
        sys.executable,
        "-m",
        "tools.main",
        "audit",
        run.name,
        "--json",
        "--runs-dir",
        str(run.state / "runs"),
    ]
    said = subprocess.run(
        words,
        cwd=results.ROOT,
        env={**run.cluster.variables, "REDIS_URL": url},
        check=False,
        text=True,
        capture_output=True,
        timeout=STEP_S,
    )
    audit = json.loads(said.stdout)
    return MeasuredBar(
        "the audit is clean",
        f"issued {audit['issued']}, trained {audit['trained']}, lost {audit['lost']}, twice {audit['twice']}",
        said.returncode == 0 and not audit["lost"] and not audit["twice"],
    )


PARTS: dict[str, Callable[[Cluster, Path], Iterator[MeasuredBar]]] = {"demo": demo, "agents": agents}

if __name__ == "__main__":
    sys.exit(main())
