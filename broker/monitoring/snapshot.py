"""Read the state of a run from its keys once, for people.

In: the run's keys. Out: a `Snapshot`. `millrace up`, `top` and `metrics` take one about every second; two snapshots
make a `tools.run_view.flow`, the share of time that each role works. Only reads, and never a payload. The values belong
to slightly different moments, so sums need not match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import redis

from broker.connection import script_text
from broker.keys import EPISODES, GROUP, PROMPTS, ROLLOUTS, SCORED, WORK_STREAMS, Keys
from broker.monitoring.counters import ScorerStats, scorer_stats
from broker.monitoring.work_meter import COUNTERS
from broker.protocol.streams import NOBODY
from config.explanations import ConfigError
from config.loading import from_yaml
from config.run import Run
from config.scorer_kinds import PUT_OFF_FROM, QUEUES, SLOW

RQ_QUEUE = "rq:queue:"  # RQ's own prefix
SHARED = (PROMPTS, EPISODES, ROLLOUTS)  # streams with a consumer group
# The role that works on a stream.
ROLES = {PROMPTS: "generator", EPISODES: "agent", ROLLOUTS: "scorer", SCORED: "learner"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """One stream at one moment."""

    depth: int = 0  # entries
    leased: int = 0  # entries with a lease; none of `scored` and `dead`
    oldest_s: float = 0.0  # age of the first entry, by Redis' clock; 0 where there is none
    oldest_entry: str = ""
    oldest_group: str = ""

    @property
    def waiting(self) -> int:
        """Count the entries without a lease: the consumer group's lag."""
        return self.depth - self.leased


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The answer of XPENDING for an entry."""

    consumer: str  # a generator's name; `scorers` for all of `rollouts`; `nobody`: handed back
    idle_s: float  # since the lease was taken or renewed, not since the work began
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, from its heartbeat."""

    role: str
    id: str
    pid: int
    host: str
    state: str  # what it does or waits for, in words
    version: str  # version of its policy, or ""
    since: float  # Unix seconds when that state began
    queues: tuple[str, ...] = ()  # queues that a scorer serves
    room: int = 0  # the most groups of a generator, or episodes of an agent; 0: unknown (yet)
    began: Mapping[str, float] = field(default_factory=dict)  # groups at work -> Unix seconds
    sums: Mapping[str, float] = field(default_factory=dict)  # of its `WorkMeter`; empty before it is ready
    ends: Mapping[str, int] = field(default_factory=dict)  # of an agent's episodes: how they ended -> number


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a run at one moment."""

    status: str  # running | finished | stopped | failed, or "" before the learner's start
    reason: str  # why it is not running
    version: int  # the newest announced policy; -1 before the first
    steps: int  # of the whole run
    slots: int = 0  # training groups without an outcome
    queued_jobs: Mapping[str, int] = field(default_factory=dict)  # RQ jobs that no worker has taken, by queue
    scorers: tuple[ScorerStats, ...] = ()  # the counts of each scorer
    processes: tuple[Process, ...] = ()
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    at: float = field(default=0.0, compare=False)  # Unix seconds of Redis' clock
    wanted: str = ""  # what an operator requested: broker.protocol.run_state
    advice: str = ""  # the learner's advice
    issued: int = 0  # training groups so far, retries among them
    floor: int = -1  # the lowest floor of the groups in flight; -1: none is in flight
    run: Run | None = field(default=None, compare=False, repr=False)  # None: missing, or of another version

    def depth(self, stream: str) -> int:
        """Count the groups in a stream."""
        return self.streams.get(stream, StreamState()).depth

    def alive(self, role: str) -> int:
        """Count the processes of `role` whose heart beats."""
        return sum(process.role == role for process in self.processes)

    @property
    def has_agents(self) -> bool:
        """Whether groups of the run are played, or agents are there to play them."""
        return (self.run is not None and self.run.has_agents) or bool(self.alive("agent"))

    @property
    def bound(self) -> int:
        """Return how many groups may be in flight: the budget, or what the last steps need; 0: unknown."""
        if self.run is None:
            return 0
        return max(
            0, min(self.run.budget, (self.steps - max(0, self.version)) * self.run.learner.groups_per_step)
        )

    @property
    def nobody(self) -> str:
        """Name the role that has work and no living process; "" where every role has one."""
        for stream, does in ((PROMPTS, "sample"), (EPISODES, "play"), (ROLLOUTS, "score")):
            role = ROLES[stream]
            if (depth := self.depth(stream)) and not self.alive(role):
                return f"{depth} groups wait for a {role} to {does} them, and none is alive"
        served = {queue for process in self.processes for queue in process.queues}
        served |= {SLOW} if PUT_OFF_FROM in served else set()
        for queue, jobs in self.queued_jobs.items():
            if (
                self.alive("scorer")
                and queue not in served
                and any(process.queues for process in self.processes)
            ):
                return f"{jobs} jobs wait in queue {queue}, and no scorer that is alive serves it"
        return ""

    @property
    def pile(self) -> str:
        """Say where groups pile up, and so who waits for whom, as far as one snapshot shows."""
        stages = [
            (self.depth(PROMPTS), "the learner waits for the generators", "to be sampled"),
            (self.depth(EPISODES), "the learner waits for the agents", "to be played"),
            (self.depth(ROLLOUTS), "the learner waits for the scorers", "to be scored"),
            (self.depth(SCORED), "the generators wait for the learner", "to train"),
        ]
        depth, who, what = max(stages, key=lambda stage: stage[0])  # the earliest of equals
        total = sum(stage[0] for stage in stages)
        return f"{who} ({depth} of {total} groups are {what})" if depth else "nothing is in flight"


def snapshot(client: redis.Redis, name: str) -> Snapshot:
    """Read the state of the run `name` once. Two round trips, and a scan for the heartbeats.

    Raises:
        redis.RedisError: Redis is away; the caller shows its last snapshot.
    """
    keys = Keys(name)
    with client.pipeline(transaction=False) as pipe:
        pipe.hmget(keys.run, ["status", "reason", "version", "steps", "wanted", "advice", "config"])
        pipe.hget(keys.cursor, "issued")
        pipe.zcard(keys.slots)
        pipe.zrange(keys.slots, 0, 0, withscores=True)
        pipe.hgetall(keys.scorers)
        for queue in (*QUEUES, SLOW):
            pipe.llen(RQ_QUEUE + keys.queue(queue))
        questions = ask_streams(pipe, keys)
        reply = pipe.execute(raise_on_error=False)
    at, streams = states_of(reply[-questions:])
    for answer in reply[:-questions]:
        if isinstance(answer, redis.RedisError):
            raise answer
    words, issued, slots, lowest, counters, *jobs = reply[:-questions]
    status, reason, version, steps, wanted, advice, config = words
    queued: dict[str, int] = {
        queue: number for queue, number in zip((*QUEUES, SLOW), jobs, strict=True) if number
    }
    return Snapshot(
        status=decoded(status),
        reason=decoded(reason),
        version=int(version or -1),
        steps=int(steps or 0),
        slots=slots,
        queued_jobs=queued,
        scorers=scorer_stats(counters),
        processes=processes_of(client, keys),
        streams=streams,
        at=at,
        wanted=decoded(wanted),
        advice=decoded(advice),
        issued=int(issued or 0),
        floor=int(lowest[0][1]) if lowest else -1,
        run=_run(decoded(config)),
    )


def ask_streams(pipe: Any, keys: Keys) -> int:
    """Queue the queries of `states_of` on a pipeline that raises no errors. Returns their number."""
    pipe.time()
    for stream in WORK_STREAMS:
        pipe.xlen(keys.stream(stream))
        pipe.eval(_headers(), len(keys.scripts()), *keys.scripts(), stream, "-", 1)
    for stream in SHARED:
        pipe.xpending(keys.stream(stream), GROUP)
    return 1 + 2 * len(WORK_STREAMS) + len(SHARED)


def states_of(reply: list[Any]) -> tuple[float, dict[str, StreamState]]:
    """Return Redis' time in Unix seconds, and the streams by name. Raises RedisError where an answer is one."""
    seconds, microseconds = _checked(reply[0])
    now = seconds + microseconds / 1e6
    leases = dict(zip(SHARED, map(_leased, reply[1 + 2 * len(WORK_STREAMS) :]), strict=True))
    states = {}
    for place, stream in enumerate(WORK_STREAMS):
        depth = _checked(reply[1 + 2 * place])
        first = [word.decode(errors="replace") for word in _checked(reply[2 + 2 * place])]
        entry, group = first or ("", "")
        began = int(entry.partition("-")[0]) / 1000 if entry else now
        states[stream] = StreamState(
            depth=depth,
            leased=min(depth, leases.get(stream, 0)),
            oldest_s=max(0.0, now - began),
            oldest_entry=entry,
            oldest_group=group,
        )
    return now, states


@cache
def _headers() -> str:
    return script_text("headers")


def _leased(reply: Any) -> int:
    """Count the leased entries of a consumer group; 0 where the group does not exist (yet)."""
    if isinstance(reply, redis.ResponseError):
        return 0
    consumers = _checked(reply)["consumers"]
    return sum(int(consumer["pending"]) for consumer in consumers if consumer["name"] != NOBODY.encode())


def lease_of(client: redis.Redis, keys: Keys, stream: str, entry_id: str) -> Lease | None:
    """Read who holds an entry; None where nobody ever did, or where its stream has no leases."""
    if stream not in SHARED:
        return None
    try:
        found: Any = client.xpending_range(keys.stream(stream), GROUP, entry_id, entry_id, 1)
    except redis.ResponseError:  # no consumer group: nothing has come this far yet, or Redis lost it
        return None
    if not found:
        return None
    return Lease(
        consumer=decoded(found[0]["consumer"]),
        idle_s=found[0]["time_since_delivered"] / 1000,
        deliveries=found[0]["times_delivered"],
    )


def _checked(reply: Any) -> Any:
    if isinstance(reply, redis.RedisError):
        raise reply
    return reply


def keys_of(client: redis.Redis, prefix: str) -> list[bytes]:
    """Return every key that begins with `prefix`, taken literally."""
    return sorted(client.scan_iter(match=re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*", count=1000))


def names_of(client: redis.Redis, prefix: str) -> list[str]:
    """Return what follows `prefix` in every key that begins with it: of `keys.alive(ROLE, "")` the living processes."""
    return [key.decode().removeprefix(prefix) for key in keys_of(client, prefix)]


def processes_of(client: redis.Redis, keys: Keys, role: str = "") -> tuple[Process, ...]:
    """Read every heartbeat of a run, or of one role. Raises redis.RedisError."""
    found = keys_of(client, keys.alive(role, "") if role else keys.alive_prefix)
    with client.pipeline(transaction=False) as pipe:
        for key in found:
            pipe.hgetall(key)
        beats = pipe.execute()
    return tuple(
        _process(key.decode()[len(keys.alive_prefix) :], beat)
        for key, beat in zip(found, beats, strict=True)
        if beat
    )  # gone between the two reads


def _process(place: str, beat: Mapping[bytes, bytes]) -> Process:
    role, _, process = place.partition(":")
    text = {key.decode(): value.decode(errors="replace") for key, value in beat.items()}
    return Process(
        role=role,
        id=process,
        pid=int(text.get("pid") or 0),
        host=text.get("host", ""),
        state=text.get("state", ""),
        version=text.get("version", ""),
        since=float(text.get("since") or 0),
        queues=tuple(filter(None, text.get("queues", "").split(","))),
        room=int(text.get("room") or 0),
        began={
            group: float(at)
            for group, _, at in (word.rpartition("@") for word in text.get("began", "").split())
        },
        sums={name: float(text[name]) for name in COUNTERS & text.keys()} if "up_s" in text else {},
        ends={
            end: int(count)
            for end, _, count in (pair.partition("=") for pair in text.get("ends", "").split())
        },
    )


@lru_cache(maxsize=8)
def _run(config: str) -> Run | None:
    """Read the learner's configuration; None where it is missing, or of another version of this program."""
    try:
        return from_yaml(config) if config else None
    except ConfigError:
        return None


def decoded(value: Any) -> str:
    """Return the text of a value of Redis; "" for none."""
    return value.decode(errors="replace") if value else ""
