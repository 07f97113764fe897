"""Read the state of one group from Redis, for `millrace trace`.

In: a run's keys and a group's id. Out: a `Sight`: the group's stream and entry, its lease holder, its RQ job, the
workers that began it. Only reads, and no payload but the group's own. A group that changes hands between two reads is
looked up again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import EPISODES, ROLLOUTS, Keys, error_field
from broker.monitoring.crash_reports import deaths_of
from broker.monitoring.snapshot import ROLES, RQ_QUEUE, Lease, Process, decoded, lease_of, processes_of
from broker.protocol.ledger_view import Cursor, cursor_of
from broker.protocol.streams import Entry, read_entry

LOOKS = 5  # tries at a group that moves
RQ_JOB = "rq:job:"  # RQ's own prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The RQ job that was last enqueued for an entry of `rollouts`."""

    id: str
    queue: str  # "" where RQ has forgotten the job
    enqueued_at: float  # Unix seconds
    started_at: float  # 0: not yet
    worker: str  # who took it, or ""
    ahead: int | None  # jobs before it in its queue; None: not in the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeProgress:
    """Progress of the episodes of a group."""

    episodes: int
    ended: int  # episodes that ended
    turns: int  # turns recorded so far; no replay samples them again
    asked: int  # turns without a generator's answer yet

    def __str__(self) -> str:
        return (
            f"{self.ended} of {self.episodes} episodes have ended, {self.turns} turns are recorded, {self.asked} wait "
            "for a generator or are being sampled"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The state of a group in Redis at one moment."""

    now: float  # Unix seconds, by the clock of Redis
    is_known: bool  # False: this Redis knows nothing of the run
    status: str  # of the run
    version: int  # the newest announced; -1 before the first
    cursor: Cursor  # the groups issued so far
    is_asked_again: bool  # an operator asked for a retry that no learner has issued yet
    floor: int | None  # of its slot; None: it holds none
    entry: Entry | None  # its position; None: in no stream
    where: str = ""  # its value in the hash `where`, "" for none
    lease: Lease | None = None
    job: Job | None = None
    played: EpisodeProgress | None = None  # of a group in `episodes`
    began: tuple[str, ...] = ()  # workers that began its stage, in order
    ends: Mapping[str, str] = field(default_factory=dict)  # how those of them that died ended
    error: str = ""  # the last error of its stage
    beats: Mapping[str, Process] = field(default_factory=dict)  # of the role of that stage, by id

    @property
    def stream(self) -> str:
        """Return the group's stream, or ""."""
        return self.entry.stream if self.entry else ""

    @property
    def arrived_at(self) -> float:
        """Return when the group entered that stream, Unix seconds by Redis' clock; 0 where it is in none."""
        return int(self.entry.entry_id.partition("-")[0]) / 1000 if self.entry else 0.0


def look(link: RedisLink, keys: Keys, group_id: str) -> Sight:
    """Read the state of a group; again if it moves meanwhile.

    Raises:
        BrokerUnavailable: Redis is away.
        WrongBroker: it refuses this user or password.
    """
    for _ in range(LOOKS):
        sight = _look_once(link, keys, group_id)
        if sight.entry is not None or not sight.where:
            break
    return sight


def _look_once(link: RedisLink, keys: Keys, group_id: str) -> Sight:
    def attempt(client: redis.Redis) -> list[Any]:
        with client.pipeline(transaction=True) as pipe:  # of one moment
            pipe.time()
            pipe.hmget(keys.run, ["status", "fence", "version"])
            pipe.hgetall(keys.cursor)
            pipe.hget(keys.retries, group_id)
            pipe.zscore(keys.slots, group_id)
            pipe.hget(keys.where, group_id)
            pipe.hmget(keys.tries, [group_id, error_field(group_id)])
            return list(pipe.execute())

    now, (status, fence, version), found, asked, floor, where, (began, error) = link(attempt)
    cursor = cursor_of(found)
    stream, _, entry_id = decoded(where).partition(" ")
    entry = read_entry(link, keys, stream, entry_id) if entry_id else None
    names = tuple(decoded(began).split())
    role = ROLES.get(stream, "") if entry else ""
    return Sight(
        now=now[0] + now[1] / 1e6,
        is_known=cursor.is_there or fence is not None,
        status=decoded(status),
        version=int(version or -1),
        cursor=cursor,
        is_asked_again=asked is not None,
        floor=None if floor is None else int(floor),
        entry=entry,
        where=decoded(where),
        lease=link(lambda client: lease_of(client, keys, stream, entry_id)) if entry else None,
        job=_job(link, keys, entry) if entry and stream == ROLLOUTS else None,
        played=_played(link, keys, entry) if entry and stream == EPISODES else None,
        began=names,
        ends={name: death.how for name, death in deaths_of(link, keys, list(dict.fromkeys(names))).items()},
        error=(decoded(error).rstrip().splitlines() or [""])[-1],
        beats={one.id: one for one in link(lambda client: processes_of(client, keys, role))} if role else {},
    )


def _played(link: RedisLink, keys: Keys, entry: Entry) -> EpisodeProgress:
    """Count the fields of the group's turns, without reading any."""
    found: Any = link(lambda client: client.hkeys(keys.turns(entry.group_id)))
    kinds = Counter(field.decode(errors="replace").partition(":")[0] for field in found)
    n = entry.raw.get(b"n", b"")
    return EpisodeProgress(
        episodes=int(n) if n.isdigit() else 0, ended=kinds["end"], turns=kinds["turn"], asked=kinds["asked"]
    )


def _job(link: RedisLink, keys: Keys, entry: Entry) -> Job | None:
    found: Any = link(lambda client: client.hget(keys.jobs, entry.entry_id))
    if found is None:
        return None
    job_id = decoded(found)
    fields: Any = link(
        lambda client: client.hmget(f"{RQ_JOB}{job_id}", ["origin", "started_at", "worker_name"])
    )
    queue, started, worker = map(decoded, fields)
    ahead: Any = link(lambda client: client.lpos(RQ_QUEUE + queue, job_id)) if queue else None
    enqueued = job_id.rpartition("_")[2]  # scorers.pool.rq_queues: microseconds end a job's id
    return Job(
        id=job_id,
        queue=queue,
        enqueued_at=int(enqueued) / 1e6 if enqueued.isdecimal() else 0.0,
        started_at=_seconds(started),
        worker=worker,
        ahead=ahead,
    )


def _seconds(text: str) -> float:
    """Return an RQ time, ISO 8601 in UTC, in Unix seconds; 0 for none."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() if text else 0.0
    except ValueError:
        return 0.0
