"""A real pool to measure: a private Redis, `python -m scorers`, and groups that appear all at once.

In: a run's `scorers` section. Out: seconds from the moment that the groups are there to the last hand-over, the groups
with their scores, and the memory that the workers took. The dispatcher is stopped by a signal while the groups are laid
down, so that neither their making nor the start of Python counts, and all that the pool does with them does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT
from benchmarks.rigs.groups import demo_run
from broker import codec, processes
from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import SampledGroup, ScoredGroup
from broker.monitoring.snapshot import Process, snapshot
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import entries_of
from config.loading import to_yaml

START_S = 120.0
WORK_S = 300.0
POLL_S = 0.05


class LivePool:
    """A pool whose workers have passed their self-test and wait."""

    def __init__(self, link: RedisLink, keys: Keys, process: subprocess.Popen[bytes], workers: int) -> None:
        self._link = link
        self._keys = keys
        self._process = process
        self._workers = workers
        self._issued = 0
        self._run_owner = RunOwner(link, keys)
        self._run_owner.claim(0)
        self._wait("the workers", START_S, lambda: len(self._idle()) == workers)

    def score(self, rollouts: Sequence[SampledGroup]) -> tuple[float, list[ScoredGroup]]:
        """Have groups scored, with ids that go on from the last call's; return seconds, and the groups.

        Raises:
            RuntimeError: it takes too long, or a group ends elsewhere.
        """
        (dispatcher,) = self._processes("dispatcher")
        os.kill(dispatcher.pid, signal.SIGSTOP)
        self._lay_down(rollouts)
        began_at = time.time()
        os.kill(dispatcher.pid, signal.SIGCONT)
        self._wait("the scores", WORK_S, lambda: self._depth(SCORED) == len(rollouts))
        entries = entries_of(SCORED, self._link(lambda client: client.xrange(self._keys.stream(SCORED))))
        ended_at = int(entries[-1].entry_id.split("-")[0]) / 1000  # Redis' clock, which is this machine's
        groups = [codec.decode_scored(entry.raw) for entry in entries]
        self._run_owner.retire([group.group_id for group in groups])
        return ended_at - began_at, groups

    def peak_bytes(self) -> list[int]:
        """Sum, for each worker with its children, the peaks of resident memory; shared pages count twice."""
        return [sum(map(_peak_bytes, _family(worker.pid))) for worker in self._processes("scorer")]

    def _lay_down(self, rollouts: Sequence[SampledGroup]) -> None:
        count = len(rollouts)
        self._run_owner.issue(
            self._issued,
            self._issued + count,
            count,
            0,
            [NewGroup(rollout.prompt.group_id, codec.encode_prompt(rollout.prompt)) for rollout in rollouts],
        )
        self._issued += count
        prompts = Consumer(self._link, self._keys, PROMPTS, "generator-0", lease_s=600.0)
        for entry, rollout in zip(prompts.read_new(count, block_s=1.0), rollouts, strict=True):
            if not prompts.hand_over(entry, ROLLOUTS, codec.encode_rollout(rollout)):
                raise RuntimeError(f"group {entry.group_id} could not be laid down")

    def _idle(self) -> list[Process]:
        return [worker for worker in self._processes("scorer") if worker.state.startswith("waiting")]

    def _processes(self, role: str) -> list[Process]:
        return [
            process
            for process in snapshot(self._link.client, self._keys.name).processes
            if process.role == role
        ]

    def _depth(self, stream: str) -> int:
        return int(self._link(lambda client: client.xlen(self._keys.stream(stream))))

    def _wait(self, what: str, seconds: float, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or processes.has_ended(self._process) or self._depth("dead"):
                raise RuntimeError(f"{what} did not come: {snapshot(self._link.client, self._keys.name)}")
            time.sleep(POLL_S)


@contextlib.contextmanager
def live_pool(workers: int, **section: Any) -> Iterator[LivePool]:
    """Start a pool of so many workers, with `section` for the run's `scorers`, and remove it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        run = demo_run(Path(folder), scorers=section)
        server = embedded.start(run)
        link, keys = RedisLink(server.url, outage_s=run.broker.outage_s), Keys(run.name)
        link.client.hset(keys.run, mapping={"config": to_yaml(run), "status": "running"})
        log = Path(folder, "scorers.log")
        with log.open("wb") as stream:
            process = processes.spawn(
                [sys.executable, "-m", "scorers", "--run", run.name, "--workers", str(workers)],
                env={**os.environ, "REDIS_URL": server.url},
                stderr=stream,
                cwd=ROOT,
            )
        try:
            yield LivePool(link, keys, process, workers)
        except RuntimeError:
            sys.stderr.write(log.read_text(encoding="utf-8")[-4000:])
            raise
        finally:
            processes.stop(process, 20.0)
            link.close()
            server.stop()
            addresses.discard(run.folder)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        yield from _family(int(child))


def _peak_bytes(pid: int) -> int:
    status: Mapping[str, str] = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    )
    return int(status["VmHWM"].split()[0]) * 1024
