"""One scorer scores one text here, with as many tries as the config allows.

In: a completion's text and its row. Out: its score; unscorable once the machinery has failed in every try. Called for
each completion, of groups and of single rows. An error that is no `Retryable` goes through to the caller.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.errors import Retryable
from broker.messages import Score, ScoreStatus
from config.scorers import ScorersConfig
from scorers.scorer import Scorer

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
    text: str,
    verification_info: Mapping[str, Any],
    config: ScorersConfig,
    on_failure: Callable[[Retryable], None] = lambda _: None,
) -> Score:
    """Score a text; call it unscorable after `retries` more tries, with doubled waits before them.

    Args:
        scorer: tries to score the text.
        text: the response.
        verification_info: its row.
        config: `retries` and `retry_backoff_s`.
        on_failure: is told of every try that failed.
    Raises:
        BadMessage: the scorer does not score such rows.
    """
    started = time.monotonic()
    wait_s = config.retry_backoff_s
    tries = config.retries + 1
    for number in range(1, tries + 1):
        try:
            return scorer.score(text, verification_info)
        except Retryable as error:
            log.warning("score_failed scorer=%s try=%d of=%d reason=%s", scorer.name, number, tries, error)
            on_failure(error)
            reason = f"not scored in {tries} {'try' if tries == 1 else 'tries'}: {error}"
        if number < tries:
            time.sleep(min(wait_s, LONGEST_WAIT_S))
            wait_s *= 2
    return Score(
        status=ScoreStatus.UNSCORABLE,
        value=None,
        reason=reason,
        scorer=scorer.name,
        version=scorer.version,
        seconds=time.monotonic() - started,
        components={FAILED_TRIES: float(tries)},
    )
