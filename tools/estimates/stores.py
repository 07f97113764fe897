"""Estimate what a run takes in Redis and on disks.

In: a run, and its model's shape. Out: bytes. Every answer is assumed to have `sampling.max_tokens` tokens, which most
will not reach: sums over tokens are upper bounds. Redis: groups in flight x tokens x 12 bytes, or 3 x as much for
episodes, held-out rounds, and weights on their way. Disk: journal, kept x step's tokens x 8 bytes; versions of the
weights, kept x parameters x 2; checkpoints, kept x (parameters x 2 + trained ones x 12). Used by `tools.doctor` and
`tools.plan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.protocol.run_reader import MEMORY_SHARE, TURNS_SHARE
from config.run import Run
from learner.data.held_out_rounds import held_out_rounds
from learner.weight_sync.version_folder import KEEP
from tools.estimates.learner import MASTER_AND_MOMENTS, trained_parameters
from tools.estimates.model import BYTES_OF, MIB, DecoderShape

TOKEN_BYTES = 8  # in journal and wire: an id and a log-probability
TEXT_BYTES = 4  # on the wire in addition: a token's text


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisRoom:
    """The most that a run takes in Redis, bytes."""

    groups: float  # of a full budget
    rounds: float  # of held-out groups
    weights: int  # for generators that lack the folder of the weights, or where they go through Redis

    @property
    def total(self) -> float:
        """The sum."""
        return self.groups + self.rounds + self.weights

    @property
    def limit(self) -> float:
        """The least `maxmemory` with which the learner issues a full budget."""
        return self.total / MEMORY_SHARE


def redis_room(run: Run) -> RedisRoom:
    """Return what a run takes in Redis: groups in flight, a round of all held-out sets, and weights on their way."""
    return RedisRoom(
        groups=_groups_bytes(run), rounds=_rounds_bytes(run), weights=run.learner.weights.redis_max_bytes
    )


def _groups_bytes(run: Run) -> float:
    """Return groups in flight x tokens x 12; for episodes x 3, with the records of their turns."""
    answers = run.sampling.group_size * run.sampling.max_tokens
    group = (answers + run.data.max_prompt_tokens) * (TOKEN_BYTES + TEXT_BYTES)
    return run.most_in_flight * group * (TURNS_SHARE if run.has_agents else 1)


def _rounds_bytes(run: Run) -> float:
    """Return the tokens of a round of all held-out sets x 12; 0 where no set has rounds."""
    tokens = sum(
        rounds.prompts * (rounds.samples * rounds.max_tokens + rounds.max_prompt_tokens)
        for rounds in held_out_rounds(run)
        if rounds.every
    )
    return float(tokens * (TOKEN_BYTES + TEXT_BYTES))


def journal_bytes(run: Run) -> float:
    """Return the most that the journal's payloads take: bytes per token x tokens per step x kept steps."""
    learner = run.learner
    answers = run.sampling.group_size * run.sampling.max_tokens
    step = learner.groups_per_step * (answers + run.data.max_prompt_tokens) * TOKEN_BYTES
    covering = learner.checkpoint.every * (learner.checkpoint.keep + 1)  # as many steps as recovery needs
    needed = min(learner.steps, covering or learner.steps)
    steps = needed if learner.journal.keep == "since_checkpoint" else learner.steps
    if learner.journal.keep_mb is not None:
        steps = max(needed, min(steps, math.ceil(learner.journal.keep_mb * MIB / step)))
    return float(step * steps)


def version_bytes(run: Run, parameters: int) -> int:
    """Return the size of one version of the weights."""
    return parameters * BYTES_OF[run.model.dtype]


def versions_bytes(run: Run, parameters: int) -> int:
    """Return the size of the versions that generators may still load, and of the one being written."""
    return version_bytes(run, parameters) * (KEEP + 1)


def checkpoints_bytes(run: Run, shape: DecoderShape) -> int:
    """Return the size of the kept checkpoints, of the one being written, and of the trained model at the end."""
    weights = version_bytes(run, shape.parameters)
    one = weights + trained_parameters(run, shape) * MASTER_AND_MOMENTS
    return one * (run.learner.checkpoint.keep + 1) + weights
