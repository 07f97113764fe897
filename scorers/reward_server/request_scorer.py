"""What scores requests of the reward server in a worker of the run `api`.

In: a request, as a group of one completion. Out: that group with its score, also where no scorer
could score the row: its client hears what is wrong with it, and an operator has no letter to read. What the machinery
can't do goes the way of every group. A request is text alone, so what a task takes off for tokens is not taken here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Final

from broker.errors import BadMessage
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.monitoring.counters import Tally
from config.scorer_kinds import QUEUES, QueueName
from config.scorers import ScorersConfig
from scorers.group import GroupScorer
from scorers.served_model.concurrency_limits import Shared

log = logging.getLogger(__name__)

BAD_ROW: Final = "bad_row"  # a component of what is unscorable because of its row; the reason names the fault


class RequestScorer(GroupScorer):
    """A `GroupScorer` whose bad rows are answers."""

    def __init__(
        self,
        config: ScorersConfig,
        queues: Collection[QueueName] = QUEUES,
        tally: Tally | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Nothing is built here."""
        super().__init__(_without_tokens(config), queues, tally, shared)

    def score(self, rollout: SampledGroup, worker: str) -> ScoredGroup:
        """As `GroupScorer.score`, but for BadMessage: an unscorable score says what the row lacks."""
        started = time.monotonic()
        try:
            return super().score(rollout, worker)
        except BadMessage as error:
            score = Score(
                status=ScoreStatus.UNSCORABLE,
                value=None,
                reason=str(error),
                scorer="",
                version="",
                components={BAD_ROW: 1.0},
            )
            return ScoredGroup(
                rollout=rollout,
                scores=(score,) * len(rollout.completions),
                rewards=(None,) * len(rollout.completions),
                worker=worker,
                seconds=time.monotonic() - started,
            )


def _without_tokens(config: ScorersConfig) -> ScorersConfig:
    """The section without the penalties that count tokens, of which a request has none."""
    tasks = {}
    for name, task in config.tasks.items():
        counting = [key for key in ("overlong", "length") if getattr(task.penalties, key) is not None]
        if counting:
            log.warning(
                "not_taken_off task=%s penalties=%s: a request says nothing of its tokens",
                name,
                ",".join(counting),
            )
        kept = task.penalties.model_copy(update=dict.fromkeys(counting))
        tasks[name] = task.model_copy(update={"penalties": kept})
    return config.model_copy(update={"tasks": tasks})
