"""This module scores requests of the reward server in a worker of the run `api`.

In: a request, as a group of one completion. Out: that group with its score. Where no scorer could score the row, the
score says what is wrong with the row: the client reads that, and no operator gets a dead letter. A failure of the
machinery is handled as for every group. A request is text alone, so penalties for tokens are left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Final

from broker.errors import BadMessage
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.monitoring.counters import ProcessTally
from config.scorer_kinds import QUEUES, QueueName, SlowQueue
from config.scorers import ScorersConfig
from scorers.group import GroupScorer
from scorers.served_model.concurrency_limits import Shared

log = logging.getLogger(__name__)

BAD_ROW: Final = "bad_row"  # a component of a score that is unscorable because of its row


class RequestScorer(GroupScorer):
    """This `GroupScorer` answers a bad row with an unscorable score."""

    def __init__(
        self,
        config: ScorersConfig,
        queues: Collection[QueueName] = QUEUES,
        tally: ProcessTally | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Build no scorer yet."""
        super().__init__(_without_tokens(config), queues, tally, shared)

    def score(
        self,
        rollout: SampledGroup,
        worker: str,
        *,
        patience_s: float | None = None,
        queue: QueueName | SlowQueue | None = None,
    ) -> ScoredGroup:
        """Score as `GroupScorer.score` does; instead of a BadMessage, return a score that says what the row lacks."""
        started = time.monotonic()
        try:
            return super().score(rollout, worker, patience_s=patience_s, queue=queue)
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
    """Return the section without the penalties that count tokens: a request has none."""
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
