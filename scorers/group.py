"""A group is scored here: every completion alone, equal texts once; of episodes, as much as each scorer reads of them.

In: a `SampledGroup`. Out: a `ScoredGroup`, and counts for the run's tally. Called by the RQ job in every scorer
process. A completion that hangs costs its own deadline, which begins with its own work, and no other completion's;
where all of them could outlast the time that the group has, they share that (`scorers.time_shares`).
Where the machinery breaks, a completion is tried again with doubled waits, and only then called unscorable; those of a
scorer that waits for a service are tried again together, so that a group waits no longer than one of them. What is
wrong with the row or the run's config (`BadMessage`, `UnknownTask`) goes to the caller, who writes the dead letter. An
episode that nobody could play to its end is unscorable, and no scorer is asked.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from broker.errors import Retryable
from broker.messages import Completion, SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.monitoring.counters import FAILED, ProcessTally
from config.scorer_kinds import QUEUES, QueueName, SlowQueue
from config.scorers import ScorersConfig, TaskConfig
from scorers.build import Scorers, task_config
from scorers.conversation import asked_of, begin, read_by, unplayed
from scorers.retries import score_together
from scorers.reward.combine import combine_scores, reward_of
from scorers.scorer import (
    OVER_LIMIT,
    Asked,
    Counting,
    Patient,
    Prefetching,
    PrefetchingConversations,
    Scorer,
    Timed,
)
from scorers.served_model.concurrency_limits import Shared
from scorers.time_shares import score_in_shares

log = logging.getLogger(__name__)


class GroupScorer:
    """This scores groups of the run's tasks, with all that one scorer process needs for it.

    Args:
        config: the run's section.
        queues: the self-test builds and asks the scorers of these.
        tally: counts what has been done.
        shared: the run whose workers share the endpoints of served models.
        deadline_of: returns the seconds that the answers of one group of a task may run, all together.
    """

    def __init__(
        self,
        config: ScorersConfig,
        queues: Collection[QueueName] = QUEUES,
        tally: ProcessTally | None = None,
        shared: Shared | None = None,
        *,
        deadline_of: Callable[[str], float] = lambda _: math.inf,
    ) -> None:
        """Build nothing yet."""
        self.tally = tally or ProcessTally()
        self._config = config
        self._queues = queues
        self._scorers = Scorers(config, shared)
        self._deadline_of = deadline_of

    def prefetch(self, rollout: SampledGroup) -> None:
        """Start what `score` will wait for, where scorers of the group's task wait for a service."""
        if (task := self._config.tasks.get(rollout.prompt.task)) is None:
            return
        prefetching = [
            scorer
            for scorer in self._all_scorers(task)
            if isinstance(scorer, Prefetching | PrefetchingConversations)
        ]
        info = dict(rollout.prompt.verification_info)
        answers = [asked_of(completion) for completion in rollout.completions] if prefetching else []
        begun = {
            (read_by(scorer, answer), scorer): None
            for answer in answers
            for scorer in prefetching
            if unplayed(scorer, answer) is None
        }
        for asked, scorer in begun:
            begin(scorer, asked, info)

    def score(
        self,
        rollout: SampledGroup,
        worker: str,
        *,
        patience_s: float | None = None,
        queue: QueueName | SlowQueue | None = None,
    ) -> ScoredGroup:
        """Score every completion.

        Args:
            rollout: the group.
            worker: the name of this process, for the record.
            patience_s: seconds that a case of a patient scorer's may take; None: as long as its limits say.
            queue: the queue that the group is counted in; None: the task's own.
        Raises:
            UnknownTask: the run has no scorer for the group's task.
            BadMessage: the group's row has nothing to score against.
            TakesLong: an answer took longer than `patience_s`, and the group has no scores.
        """
        started = time.monotonic()
        prompt = rollout.prompt
        info = dict(prompt.verification_info)
        task = task_config(self._config, prompt.task)
        scorers = self._all_scorers(task)
        for scorer in scorers:
            scorer.check_row(info)
            if isinstance(scorer, Patient):
                scorer.patience_s = patience_s
        self.prefetch(rollout)
        contents = self._contents(task, rollout.completions, info, self._deadline_of(prompt.task))
        scores, rewards = zip(
            *(
                reward_of(task, content, completion, info, prompt.max_tokens)
                for content, completion in zip(contents, rollout.completions, strict=True)
            ),
            strict=True,
        )
        seconds = time.monotonic() - started
        unscorable = sum(score.status is ScoreStatus.UNSCORABLE for score in scores)
        log.info(
            "scored group=%s task=%s scored=%d unscorable=%d took_s=%.3f",
            prompt.group_id,
            prompt.task,
            len(scores) - unscorable,
            unscorable,
            seconds,
        )
        self._count(queue or task.scorer.queue, scorers, scores, seconds)
        return ScoredGroup(rollout=rollout, scores=scores, rewards=rewards, worker=worker, seconds=seconds)

    def _count(
        self, queue: QueueName | SlowQueue, scorers: Sequence[Scorer], scores: Sequence[Score], seconds: float
    ) -> None:
        """Count a group in the tally, under the name of the task's own scorer, which is the first."""
        counts = {
            "groups": 1,
            "completions": len(scores),
            "unscorable": sum(score.status is ScoreStatus.UNSCORABLE for score in scores),
            "over_limit": sum(OVER_LIMIT in score.components for score in scores),
        }
        self.tally.count(queue, scorers[0].name, counts, seconds=seconds)
        for scorer in scorers:
            if isinstance(scorer, Counting):
                self.tally.count(queue, scorer.name, scorer.take_counts())

    def self_test(self) -> None:
        """Have every scorer of the queues score a right, a wrong and a hanging answer. Raises SelfTestFailed."""
        tasks = [task for task in self._config.tasks.values() if task.scorer.queue in self._queues]
        for scorer in {scorer: None for task in tasks for scorer in self._all_scorers(task)}:
            scorer.self_test()

    def close(self) -> None:
        """End every child process."""
        self._scorers.close()

    def _all_scorers(self, task: TaskConfig) -> list[Scorer]:
        """Give all scorers of a task, the task's own first."""
        return [self._scorers.of(task), *self._scorers.extra_scorers(task).values()]

    def _contents(
        self,
        task: TaskConfig,
        completions: Sequence[Completion],
        verification_info: Mapping[str, Any],
        deadline_s: float,
    ) -> list[Score]:
        """Combine what all scorers of the task say of each completion."""
        answers = [asked_of(completion) for completion in completions]
        timed = sum(isinstance(one, Timed) for one in self._all_scorers(task))
        each_s = deadline_s / max(1, timed)
        own = self._scored_by(self._scorers.of(task), task, answers, verification_info, each_s)
        extra = {
            name: self._scored_by(scorer, task, answers, verification_info, each_s)
            for name, scorer in self._scorers.extra_scorers(task).items()
        }
        return [
            combine_scores(task, score, {name: scores[place] for name, scores in extra.items()})
            for place, score in enumerate(own)
        ]

    def _scored_by(
        self,
        scorer: Scorer,
        task: TaskConfig,
        answers: Sequence[Asked],
        verification_info: Mapping[str, Any],
        deadline_s: float,
    ) -> list[Score]:
        """Have one scorer score answers, equal ones once, together if it waits for a service; count its failures."""
        failures: list[tuple[Asked, Retryable]] = []

        def failed(asked: Asked, error: Retryable) -> None:
            failures.append((asked, error))
            if isinstance(scorer, Timed):
                scorer.own_time.ran_s = 0.0  # what the machinery broke off is nobody's

        def score(some: Sequence[Asked]) -> dict[Asked, Score]:
            return score_together(scorer, some, verification_info, self._config, failed)

        without = [unplayed(scorer, answer) for answer in answers]
        read = [read_by(scorer, answer) for answer in answers]
        distinct = list(dict.fromkeys(one for one, none in zip(read, without, strict=True) if none is None))
        try:
            scores = score_in_shares(scorer, distinct, score, deadline_s=deadline_s)
        finally:  # failures count even where the group then ends in an exception
            counts = Counter(FAILED + type(error).__name__ for _, error in failures)
            by_answer = Counter(asked for asked, _ in failures)
            counts["retries"] = sum(min(number, self._config.retries) for number in by_answer.values())
            self.tally.count(task.scorer.queue, scorer.name, counts)
        return [none or scores[one] for one, none in zip(read, without, strict=True)]
