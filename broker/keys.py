"""Every key of a run in Redis, under `rl:{NAME}:`. The braces are literal: they keep a run on one cluster slot.

The keys of the protocol are described in lua/keys.lua. Beside them there are `alive:ROLE:ID`
(`broker.monitoring.heartbeat`), `died:HOST-PID` (`broker.monitoring.crash_reports`) and the hash `scorers`, the pool's
counters (`broker.monitoring.counters`): people read them, dead letters quote them, and the dispatcher reads what a
group costs.

Workers that ask a served model share `calls:ENDPOINT`, its calls under way; `pace:ENDPOINT`, when the next call is due;
`claims:ENDPOINT`, the workers that want more calls; and `longest:ENDPOINT`, the worker that has wanted them for longest
(`scorers.served_model.concurrency_limits`). `replies:PERIOD:DIGIT` holds what the model has answered
(`scorers.served_model.cache`). All of them expire.

Weights for generators that do not see the learner's folder: `weights:VERSION:CHUNK`, `weights_chunks` and
`weights_wanted` (`broker.weight_chunks`). They expire, too.
"""

from __future__ import annotations

from dataclasses import dataclass

# The streams that a group passes through, in order. None is ever trimmed.
PROMPTS, ROLLOUTS, SCORED, DEAD = WORK_STREAMS = ("prompts", "rollouts", "scored", "dead")
GROUP = "workers"  # the consumer group of `prompts` and of `rollouts`


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of one run's keys."""

    name: str

    def __call__(self, suffix: str) -> str:
        """Return the key `suffix` of this run."""
        return f"rl:{{{self.name}}}:{suffix}"

    def scripts(self) -> list[str]:
        """Return KEYS of every script, in the order in which lua/keys.lua names them."""
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
        return self(f"alive:{role}:{process}")

    def queue(self, queue: str) -> str:
        """Return the name of an RQ queue: RQ's keys are global, so it carries the run's name."""
        return f"{self.name}.{queue}"
