"""Where a run stands: one look at its keys, for people.

In: the run's keys. Out: a `Snapshot`, which also says in words where groups pile up and who waits for whom. Called by
`millrace up` every second or so. It only reads; what it reads belongs to slightly different moments, and sums need not
add up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED, WORK_STREAMS, Keys
from broker.tally import ScorerStats, scorer_stats
from config.scorers import QUEUES

RQ_QUEUE = "rq:queue:"              # RQ's own prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One heartbeat."""

    role: str
    id: str
    pid: int
    host: str
    state: str              # what it does or waits for, in words
    version: str            # of the policy that it holds, or ""
    since: float            # Unix seconds when it came to that state
    queues: tuple[str, ...] = ()        # that a scorer serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A run at one moment."""

    status: str             # running | finished | stopped | failed, or "" before the learner's start
    reason: str             # why, where it is not running
    version: int            # the newest announced policy; -1 before the first
    steps: int              # of the whole run
    prompts: int            # groups in each stream
    rollouts: int
    scored: int
    dead: int
    slots: int              # training groups without an outcome
    queued_jobs: Mapping[str, int]          # RQ jobs that no worker has taken, by queue; queues without any left out
    scorers: tuple[ScorerStats, ...]        # what each scorer has done so far
    processes: tuple[Process, ...]

    def alive(self, role: str) -> int:
        """Number of processes of `role` whose heart beats."""
        return sum(process.role == role for process in self.processes)

    @property
    def bottleneck(self) -> str:
        """The stage where groups pile up, and so who waits for whom."""
        for depth, role, does in ((self.prompts, "generator", "sample"), (self.rollouts, "scorer", "score")):
            if depth and not self.alive(role):
                return f"{depth} groups wait for a {role} to {does} them, and none is alive"
        stages = [(self.prompts, "the learner waits for the generators", "to be sampled"),
                  (self.rollouts, "the learner waits for the scorers", "to be scored"),
                  (self.scored, "the generators wait for the learner", "to train")]
        depth, who, what = max(stages, key=lambda stage: stage[0])       # of equals the earliest
        total = sum(stage[0] for stage in stages)
        return f"{who} ({depth} of {total} groups are {what})" if depth else "nothing is in flight"


def snapshot(client: redis.Redis, name: str) -> Snapshot:
    """Look at the run `name` once. Two round trips, and a scan for the heartbeats.

    Raises:
        redis.RedisError: Redis is away; the caller shows what it saw last.
    """
    keys = Keys(name)
    with client.pipeline(transaction=False) as pipe:
        pipe.hmget(keys("run"), ["status", "reason", "version", "steps"])
        for stream in WORK_STREAMS:
            pipe.xlen(keys(stream))
        pipe.zcard(keys("slots"))
        pipe.hgetall(keys("scorers"))
        for queue in QUEUES:
            pipe.llen(RQ_QUEUE + keys.queue(queue))
        reply = iter(pipe.execute())
    status, reason, version, steps = next(reply)
    depth = {stream: next(reply) for stream in WORK_STREAMS}
    slots, counters = next(reply), next(reply)
    queued: dict[str, int] = {queue: jobs for queue in QUEUES if (jobs := next(reply))}
    return Snapshot(
        status=_text(status), reason=_text(reason), version=int(version or -1), steps=int(steps or 0),
        prompts=depth[PROMPTS], rollouts=depth[ROLLOUTS], scored=depth[SCORED], dead=depth[DEAD], slots=slots,
        queued_jobs=queued, scorers=scorer_stats(counters),
        processes=_processes(client, keys))


def keys_of(client: redis.Redis, prefix: str) -> list[bytes]:
    """Every key that begins with `prefix`, which is taken literally."""
    return sorted(client.scan_iter(match=re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*", count=1000))


def _processes(client: redis.Redis, keys: Keys) -> tuple[Process, ...]:
    found = keys_of(client, keys("alive:"))
    with client.pipeline(transaction=False) as pipe:
        for key in found:
            pipe.hgetall(key)
        beats = pipe.execute()
    return tuple(_process(key.decode()[len(keys("alive:")):], beat)
                 for key, beat in zip(found, beats, strict=True) if beat)       # gone between the two


def _process(place: str, beat: Mapping[bytes, bytes]) -> Process:
    role, _, process = place.partition(":")
    text = {key.decode(): value.decode(errors="replace") for key, value in beat.items()}
    return Process(role=role, id=process, pid=int(text.get("pid") or 0), host=text.get("host", ""),
                   state=text.get("state", ""), version=text.get("version", ""), since=float(text.get("since") or 0),
                   queues=tuple(filter(None, text.get("queues", "").split(","))))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if value else ""
