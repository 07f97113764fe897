"""A run of real processes without a learner or scorers: a private Redis, generators, agents' workers, and groups.

In: a run, and a file of weights for its generators. Out: of a batch of groups, the rollouts and the processor seconds
that each role has spent on it, children included. The processes are those of `millrace up`, and the rig has the
learner's part: it announces versions, issues groups and retires them. `tree` is the checkout whose generators are
started, so that two commits can be compared. What does not come in time is named.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import ROOT
from broker.checksums import weights_checksum
from broker.codec import decode_rollout
from broker.connection import RedisLink
from broker.keys import DEAD, ROLLOUTS, Keys
from broker.messages import Announcement, SampledGroup
from broker.monitoring.snapshot import Process, processes_of
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import entries_of
from config.loading import to_yaml
from config.run import Run

DEADLINE_S = 900.0  # for what the machine can be slow at
POLL_S = 0.25
SHOW = "MILLRACE_SHOW"  # set, it shows what the processes say
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Processor seconds."""

    generators: float
    agents: float  # of the workers alone
    environments: float  # of the workers' children
    redis: float

    @property
    def total(self) -> float:
        """Return those of all processes."""
        return self.generators + self.agents + self.environments + self.redis

    def since(self, before: Spent) -> Spent:
        """Return what was spent after `before`."""
        return Spent(
            generators=self.generators - before.generators,
            agents=self.agents - before.agents,
            environments=self.environments - before.environments,
            redis=self.redis - before.redis,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What became of a batch of groups."""

    rollouts: tuple[SampledGroup, ...]
    spent: Spent
    seconds: float  # from the issue to the last hand-over

    @property
    def tokens(self) -> int:
        """Count the tokens that the policy sampled."""
        return sum(completion.num_sampled for group in self.rollouts for completion in group.completions)


class ProcessRig:
    """The run's Redis and its processes, by role."""

    def __init__(self, run: Run, link: RedisLink, started: dict[str, list[subprocess.Popen[bytes]]]) -> None:
        self.run, self.link, self.keys = run, link, Keys(run.name)
        self._started = started
        self._owner = RunOwner(link, self.keys)
        self._owner.claim(0)
        self._position = self.version = 0

    def announce(self, file: Path, version: int) -> None:
        """Announce a version of the weights, whose folder holds this file alone."""
        self._owner.announce(
            Announcement(
                version=version,
                path=str(file.parent),
                checksum=weights_checksum([file]),
                size_bytes=file.stat().st_size,
                announced_at=time.time(),
            )
        )
        self.version = version

    @property
    def heartbeats(self) -> tuple[Process, ...]:
        """Return what the living processes say of themselves."""
        return processes_of(self.link.client, self.keys)

    def wait_until_ready(self) -> None:
        """Wait until every process waits for work."""
        wanted = sum(map(len, self._started.values()))
        self.wait_for(
            lambda: sum(one.state.startswith("waiting for ") for one in self.heartbeats) == wanted,
            f"a word of all {wanted} processes",
        )

    def play(
        self,
        count: int,
        group_of: Callable[[str], NewGroup],
        *,
        look: Callable[[int], object] = lambda _: None,
    ) -> Round:
        """Issue groups, wait until they are handed over, and retire them.

        Args:
            group_of: makes the group of an id.
            look: told every `POLL_S` how many are there.
        """
        client, rollouts = self.link.client, self.keys.stream(ROLLOUTS)
        end = self._position + count
        groups = [group_of(str(ordinal)) for ordinal in range(self._position, end)]
        before, started = self.spent(), time.monotonic()
        issued = self._owner.issue(self._position, end, count, self.version, groups)
        if issued.floor is None:
            raise RuntimeError(f"{count} groups were not let in: {issued}")
        self._position = end

        def are_there() -> bool:
            found = int(client.xlen(rollouts))
            look(found)
            return found == count

        self.wait_for(are_there, f"{count} groups")
        seconds, spent = time.monotonic() - started, self.spent().since(before)
        found = tuple(decode_rollout(entry.raw) for entry in entries_of(ROLLOUTS, client.xrange(rollouts)))
        self._owner.retire([group.group_id for group in groups])
        return Round(rollouts=found, spent=spent, seconds=seconds)

    def pids(self, role: str) -> list[int]:
        """Return the ids of the processes of a role that were started."""
        return [process.pid for process in self._started[role]]

    def spent(self) -> Spent:
        """Return the processor seconds of all processes so far."""
        client = self.link.client
        agents = [seconds_of(process.pid) for process in self._started["agents"]]
        cpu = client.info("cpu")
        return Spent(
            generators=sum(sum(seconds_of(process.pid)) for process in self._started["generators"]),
            agents=sum(own for own, _ in agents),
            environments=sum(below for _, below in agents),
            redis=float(cpu["used_cpu_sys"]) + float(cpu["used_cpu_user"]),
        )

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something.

        Raises:
            TimeoutError: it did not come; the message names it.
            RuntimeError: a process has ended, or a group is dead.
        """
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            for role, processes in self._started.items():
                if any(process.poll() is not None for process in processes):
                    raise RuntimeError(f"one of the {role} has ended; set {SHOW}=1 to see what it says")
            if self.link.client.xlen(self.keys.stream(DEAD)):
                raise RuntimeError("a group is dead")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not come within {DEADLINE_S:.0f} s")
            time.sleep(POLL_S)


@contextlib.contextmanager
def process_rig(
    run: Run,
    *,
    generators: int = 0,
    agents: int = 0,
    weights: Path | None = None,
    tree: Path = ROOT,
    config: str = "",
) -> Iterator[ProcessRig]:
    """Start a run's Redis and its processes, with `weights` as version 0; all end with the block.

    Args:
        tree: the checkout that the processes run.
        config: the run's configuration as that checkout writes it; "": as this one does.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    server = embedded.start(run)
    with ExitStack() as stack:
        stack.callback(addresses.discard, run.folder)
        stack.callback(server.stop)
        link = RedisLink(server.url, outage_s=10)
        stack.callback(link.close)
        said = config or to_yaml(run)
        link.client.hset(Keys(run.name).run, mapping={"status": "running", "reason": "", "config": said})
        started = {
            role: [stack.enter_context(_process(role, run, server.url, tree)) for _ in range(count)]
            for role, count in (("generators", generators), ("agents", agents))
        }
        rig = ProcessRig(run, link, started)
        if weights is not None:
            rig.announce(weights, 0)
        rig.wait_until_ready()
        yield rig


@contextlib.contextmanager
def _process(role: str, run: Run, url: str, tree: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of a role, and end it."""
    said = None if SHOW in os.environ else subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", role, "--run", run.name],
        cwd=tree,
        env={**os.environ, "REDIS_URL": url, "PYTHONPATH": str(tree)},
        stdout=said,
        stderr=said,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def seconds_of(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process, and of its descendants, those that were reaped included."""
    own, reaped = _seconds(pid)
    below, todo = reaped, [pid]
    while todo:
        parent = todo.pop()
        for task in Path(f"/proc/{parent}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended, and is reaped by the next look
                for child in map(int, (task / "children").read_text().split()):
                    below += sum(_seconds(child))
                    todo.append(child)
    return own, below


def _seconds(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process alone, and of its children that it has reaped."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, reaped = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / TICKS, reaped / TICKS
