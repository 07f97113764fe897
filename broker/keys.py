"""Names of every Redis key of a run, under `rl:{NAME}:`.

The braces are literal: they put a run on one cluster slot.

No other file names a key: all use the properties and methods of `Keys` (tests/test_map.py).

lua/keys.lua describes the keys of the protocol. Others are `alive:ROLE:ID` (`broker.monitoring.heartbeat`),
`died:HOST-PID` (`broker.monitoring.crash_reports`) and the hash `scorers`, the counters of the pool
(`broker.monitoring.counters`): people read them, dead letters quote them, and the dispatcher reads the cost of a group
there.

Workers that ask a served model share `calls:ENDPOINT`, its calls under way; `pace:ENDPOINT`, when the next call is due;
`claims:ENDPOINT`, the workers that want more calls; and `longest:ENDPOINT`, the worker that has waited longest
(`scorers.served_model.concurrency_limits`). `replies:PERIOD:DIGIT` holds the model's answers
(`scorers.served_model.cache`). All of them expire.

Weights for generators that can't read the learner's folder are in `weights:BUNDLE:CHUNK`, `weights_chunks` and
`weights_wanted` (`broker.weight_exchange`). They expire, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# The streams that a group passes through, in order. None is ever trimmed.
# `episodes` replaces `prompts` for groups that agents play.
PROMPTS, EPISODES, ROLLOUTS, SCORED, DEAD = WORK_STREAMS = (
    "prompts",
    "episodes",
    "rollouts",
    "scored",
    "dead",
)
GROUP = "workers"  # the consumer group of `prompts`, `episodes`, `rollouts` and of the calls
POLICY_CALLS = "policy_calls"  # the stream of turns that agents request from the policy


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of one run's keys."""

    name: str

    def __call__(self, suffix: str) -> str:
        """Return the key `suffix` of this run, for this module and for tests."""
        return f"{self.prefix}{suffix}"

    @property
    def prefix(self) -> str:
        """Return the prefix of every key of this run."""
        return f"rl:{{{self.name}}}:"

    @property
    def slots(self) -> str:
        """Return the key of the groups in flight with their floors, a sorted set."""
        return self("slots")

    @property
    def where(self) -> str:
        """Return the key of each group's stream and entry, a hash."""
        return self("where")

    @property
    def cursor(self) -> str:
        """Return the key of the learner's position, a hash."""
        return self("cursor")

    @property
    def run(self) -> str:
        """Return the key of the run's status and configuration, a hash."""
        return self("run")

    @property
    def weights(self) -> str:
        """Return the key of the announcements of new weights, a stream."""
        return self("weights")

    @property
    def jobs(self) -> str:
        """Return the key of the RQ job of each entry of `rollouts`, a hash."""
        return self("jobs")

    @property
    def tries(self) -> str:
        """Return the key of the workers that began each group, and of each group's last error, a hash."""
        return self("tries")

    @property
    def retries(self) -> str:
        """Return the key of the dead groups to retry, with their dead letters, a hash."""
        return self("retries")

    @property
    def scorers(self) -> str:
        """Return the key of the pool's counters, a hash."""
        return self("scorers")

    @property
    def answered(self) -> str:
        """Return the channel that announces the answer of a call: the group and the episode."""
        return self("answered")

    def stream(self, name: str) -> str:
        """Return the key of a work stream by its name in WORK_STREAMS."""
        return self(name)

    def turns(self, group_id: str) -> str:
        """Return the key of the turns and ends of a group of episodes, a hash."""
        return self(f"turns:{group_id}")

    def scripts(self) -> list[str]:
        """Return KEYS of every script, in the order of lua/keys.lua."""
        return [
            self(suffix)
            for suffix in (
                *WORK_STREAMS,
                "slots",
                "where",
                "cursor",
                "run",
                "weights",
                "jobs",
                "tries",
                "retries",
            )
        ]

    def alive(self, role: str, process: str) -> str:
        """Return the key of one process's heartbeat."""
        return f"{self.alive_prefix}{role}:{process}"

    @property
    def alive_prefix(self) -> str:
        """Return the prefix of all heartbeat keys."""
        return self("alive:")

    def died(self, process: str) -> str:
        """Return the key of the record of a process's end, HOST-PID, a hash."""
        return self(f"died:{process}")

    @property
    def weights_chunks(self) -> str:
        """Return the key of the manifest of the weights served through Redis, JSON."""
        return self("weights_chunks")

    @property
    def weights_wanted(self) -> str:
        """Return the key of the generators' requests for weights, a hash."""
        return self("weights_wanted")

    def weights_chunk(self, bundle: str, chunk: int) -> str:
        """Return the key of one chunk of a bundle: full weights, or a delta."""
        return self(f"weights:{bundle}:{chunk}")

    def served_calls(self, endpoint: str) -> list[str]:
        """Return KEYS of lua/exchange_calls.lua for one endpoint of a served model, named by a hash of its servers."""
        return [self(f"{what}:{endpoint}") for what in ("calls", "pace", "claims", "longest")]

    def replies(self, period: int, digit: str) -> str:
        """Return the key of a served model's replies of one period whose hashes begin with `digit`, a hash."""
        return self(f"replies:{period}:{digit}")

    def queue(self, queue: str) -> str:
        """Return the name of an RQ queue, with the run's name: RQ's keys are global."""
        return f"{self.name}.{queue}"


def error_field(group_id: str) -> str:
    """Return the field of `tries` that holds the last error of a group."""
    return f"error:{group_id}"


class KeyRow(NamedTuple):
    """What people should know of one key, or of several that go together; docs/redis_keys.md is written from these."""

    names: str  # without the run's prefix; several are separated by a comma
    kind: str  # of Redis
    holds: str
    by: str  # who writes it
    goes: str  # when it is removed


TABLE: Final = (
    KeyRow(
        "prompts, rollouts, scored",
        "streams",
        "the groups on their way, one entry each",
        "generators, scorers, learner",
        "with the hand-over or with `retire`",
    ),
    KeyRow(
        "dead",
        "stream",
        "letters: stage, reason, attempts, the last lines of the worker that died, the payload",
        "any role",
        "by `millrace dead purge`, or when a retry is issued",
    ),
    KeyRow(
        "slots",
        "sorted set",
        "ids of groups that were issued and not retired yet, by their floors",
        "feeder, learner",
        "when the group is retired",
    ),
    KeyRow(
        "where", "hash", "group id: stream and entry", "every script that moves a group", "with the outcome"
    ),
    KeyRow(
        "episodes",
        "stream",
        "the groups whose completions are episodes of several turns, in the place of `prompts`",
        "feeder, agents",
        "with the hand-over",
    ),
    KeyRow(
        "policy_calls, policy_calls:GENERATOR",
        "streams",
        (
            "turns that agents want of the policy, of any generator, or of the one that has the "
            "conversation in its cache"
        ),
        "agents",
        "with the answer, or with the group; a generator's own a lease after it has gone",
    ),
    KeyRow(
        "turns:GROUP",
        "hash",
        (
            "the newest attempt; of each call its prompt while it is asked, then its record; how each "
            "episode ended"
        ),
        "agents, generators",
        "with the group's hand-over, death or retirement",
    ),
    KeyRow(
        "cursor",
        "hash",
        (
            "`position` (the next number), `issued`, `retry:ID` (how often a group was begun anew), "
            "`seq` (scripts of the learner so far)"
        ),
        "learner",
        "with the run",
    ),
    KeyRow(
        "run",
        "hash",
        (
            "`status`, `reason`, `config` (YAML), `version`, `fence`, `steps`, `wanted` and `why` "
            "(what an operator or `millrace up` asks), `advice`, `coming` (the configuration of a learner that loads), "
            "`lost_s` (seconds of this learner in which nobody could work; in runs with agents)"
        ),
        "learner; `wanted` by `millrace pause`, `resume`, `drain`",
        "with the run",
    ),
    KeyRow(
        "weights", "stream", "announcements: version, path, checksum, size", "learner", "the last 16 stay"
    ),
    KeyRow(
        "jobs",
        "hash",
        "entry of `rollouts`: the RQ job that was made for it last",
        "dispatcher",
        "with the hand-over",
    ),
    KeyRow(
        "tries",
        "hash",
        "group id: the workers that began its stage, one name an attempt; `error:ID`: the last failure",
        "generators, scorers",
        "with the hand-over",
    ),
    KeyRow(
        "retries",
        "hash",
        "dead group to retry: its letter",
        "`millrace dead retry`",
        "when the retry is issued",
    ),
    KeyRow("scorers", "hash", "counters by queue and scorer", "scorers", "with the run"),
    KeyRow(
        "alive:ROLE:ID",
        "hash",
        "what a process does, and its sums of work",
        "every process",
        "15 seconds after its last beat; a scorer's after `broker.lease_s`",
    ),
    KeyRow("died:HOST-PID", "hash", "how a process ended, its last lines", "its supervisor", "after a day"),
    KeyRow(
        "calls:ENDPOINT, pace:ENDPOINT, claims:ENDPOINT, longest:ENDPOINT",
        "sorted sets; numbers and names",
        (
            "calls to a served model: under way, when the next is due, the workers that want more, "
            "and the one that has waited longest"
        ),
        "scorers",
        "expire",
    ),
    KeyRow(
        "replies:PERIOD:DIGIT", "hash", "what a served model has answered", "scorers", "expire, 6 to 12 hours"
    ),
    KeyRow(
        "weights_wanted, weights_chunks, weights:BUNDLE:CHUNK",
        "hash, strings",
        "weights for generators that do not see their folder",
        "generators; learner",
        "expire",
    ),
)
