"""Score one group: every completion alone, equal texts once.

In: a `Rollout`. Out: a `ScoredGroup`, and counts for the run's tally. Called by the RQ job in every scorer process. A
completion that hangs costs its deadline, which begins with its own work, and no other completion anything; one whose
machinery breaks is tried again with doubled waits and only then called unscorable. What is wrong with the row or the
run's config (`BadMessage`, `UnknownTask`) goes to the caller, who writes the dead letter.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from broker.errors import Retryable
from broker.messages import Completion, Rollout, Score, ScoredGroup, ScoreStatus
from broker.tally import FAILED, Tally
from config.scorers import QUEUES, QueueName, ScorersConfig, TaskConfig
from scorers.answer_format import AnswerFormat
from scorers.combine import reward
from scorers.registry import Scorers, task_config
from scorers.retries import score_with_retries
from scorers.scorer import OVER_LIMIT, Scorer

log = logging.getLogger(__name__)


class GroupScorer:
    """Everything that one scorer process needs to score groups of the run's tasks.

    Args:
        config: the run's section.
        queues: whose scorers the self-test builds and asks.
        tally: what has been done is counted here.
    """

    def __init__(self, config: ScorersConfig, queues: Collection[QueueName] = QUEUES,
                 tally: Tally | None = None) -> None:
        """Nothing is built here."""
        self.tally = tally or Tally()
        self._config = config
        self._queues = queues
        self._scorers = Scorers(config)

    def score(self, rollout: Rollout, worker: str) -> ScoredGroup:
        """Score every completion.

        Args:
            rollout: the group.
            worker: who scores it, for the record.
        Raises:
            UnknownTask: the run has no scorer for its task.
            BadMessage: its row has nothing to score against.
        """
        started = time.monotonic()
        prompt = rollout.prompt
        task = task_config(self._config, prompt.task)
        scorer = self._scorers.of(task)
        scorer.check_row(prompt.verification_info)
        judged: dict[str, tuple[Score, float | None]] = {}
        for completion in rollout.completions:
            if completion.text not in judged:
                judged[completion.text] = self._judge(scorer, task, completion, prompt.verification_info)
        scores, rewards = zip(*(judged[completion.text] for completion in rollout.completions), strict=True)
        seconds = time.monotonic() - started
        unscorable = sum(score.status is ScoreStatus.UNSCORABLE for score in scores)
        log.info("scored group=%s task=%s scored=%d unscorable=%d distinct=%d took_s=%.3f", prompt.group_id,
                 prompt.task, len(scores) - unscorable, unscorable, len(judged), seconds)
        counts = {"groups": 1, "completions": len(scores), "unscorable": unscorable,
                  "over_limit": sum(OVER_LIMIT in score.components for score in scores)}
        self.tally.count(task.scorer.queue, scorer.name, counts, seconds=seconds)
        return ScoredGroup(rollout=rollout, scores=scores, rewards=rewards, worker=worker, seconds=seconds)

    def self_test(self) -> None:
        """Have every scorer of these queues judge a right, a wrong and a hanging answer. Raises SelfTestFailed."""
        tasks = [task for task in self._config.tasks.values() if task.scorer.queue in self._queues]
        for scorer in {self._scorers.of(task): None for task in tasks}:
            scorer.self_test()

    def close(self) -> None:
        """End every child process."""
        self._scorers.close()

    def _judge(self, scorer: Scorer, task: TaskConfig, completion: Completion,
               verification_info: Mapping[str, Any]) -> tuple[Score, float | None]:
        """Content and format of one completion, and the reward that they make."""
        failures: list[Retryable] = []
        try:
            content = score_with_retries(scorer, completion.text, verification_info, self._config, failures.append)
        finally:        # they count even where the group then ends in an exception
            counts = Counter(FAILED + type(error).__name__ for error in failures)
            counts["retries"] = min(len(failures), self._config.retries)
            self.tally.count(task.scorer.queue, scorer.name, counts)
        shape = None if task.format is None else AnswerFormat(task.format).score(completion)
        return reward(content, shape, task)
