"""One scorer scores answers here, with as many tries as the config allows.

In: completions' texts, or episodes, and their row. Out: their scores; unscorable once the machinery has failed in every
try. Called for each completion of a group, for all of them together where the scorer waits for a service, and for
single rows. So a group waits for a service that is away as long as one completion does. An error that is no `Retryable`
goes through to the caller.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from broker.errors import Retryable
from broker.scores import Score, ScoreStatus
from config.scorers import ScorersConfig
from scorers.conversation import ask, begin
from scorers.scorer import Asked, Scorer

log = logging.getLogger(__name__)

LONGEST_WAIT_S: Final = 30.0  # before a retry
# A component of an unscorable score: tries after which the machinery was given up. An unscorable score without it is
# due to the row, or to what was said of the answer: no later try would score it.
FAILED_TRIES: Final = "failed_tries"


def was_given_up(components: Mapping[str, float]) -> bool:
    """Say by a score's components whether the machinery failed, of the task's own scorer or of an extra one."""
    return any(name.rpartition(".")[2] == FAILED_TRIES for name in components)


def score_with_retries(
    scorer: Scorer,
    asked: Asked,
    verification_info: Mapping[str, Any],
    config: ScorersConfig,
    on_failure: Callable[[Asked, Retryable], None] = lambda *_: None,
) -> Score:
    """Score one answer, as `score_together` scores several."""
    return score_together(scorer, [asked], verification_info, config, on_failure)[asked]


def score_together(
    scorer: Scorer,
    answers: Collection[Asked],
    verification_info: Mapping[str, Any],
    config: ScorersConfig,
    on_failure: Callable[[Asked, Retryable], None] = lambda *_: None,
) -> dict[Asked, Score]:
    """Score answers; those that fail are tried again after one wait for all, begun together where that is known.

    An answer is unscorable after `retries` more tries, with doubled waits before them.

    Args:
        scorer: tries to score the answers.
        answers: distinct ones, as the scorer reads them.
        verification_info: their row.
        config: `retries` and `retry_backoff_s`.
        on_failure: is told of every try that failed, and of its answer.
    Returns:
        The score of each answer.
    Raises:
        BadMessage: the scorer does not score such rows.
    """
    started = time.monotonic()
    wait_s = config.retry_backoff_s
    tries = config.retries + 1
    scores: dict[Asked, Score] = {}
    failed: dict[Asked, Retryable] = {}
    for number in range(1, tries + 1):
        if number > 1:
            time.sleep(min(wait_s, LONGEST_WAIT_S))
            wait_s *= 2
            for asked in failed:
                begin(scorer, asked, verification_info)
        again, failed = list(failed) if number > 1 else list(answers), {}
        for asked in again:
            try:
                scores[asked] = ask(scorer, asked, verification_info)
            except Retryable as error:
                log.warning(
                    "score_failed scorer=%s try=%d of=%d reason=%s", scorer.name, number, tries, error
                )
                on_failure(asked, error)
                failed[asked] = error
        if not failed:
            break
    for asked, last in failed.items():
        scores[asked] = Score(
            status=ScoreStatus.UNSCORABLE,
            value=None,
            reason=f"not scored in {tries} {'try' if tries == 1 else 'tries'}: {last}",
            scorer=scorer.name,
            version=scorer.version,
            seconds=time.monotonic() - started,
            components={FAILED_TRIES: float(tries)},
        )
    return scores
