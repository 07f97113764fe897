"""One text, one scorer, as many tries as the config allows.

In: a completion's text and its row. Out: its score; unscorable once the machinery has failed in every try. Called for
each completion, of groups and of single rows. What is no `Retryable` goes through to the caller.
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
# A component of an unscorable score: tries after which the machinery was given up. Without it, the row or what was said
# of it can't be scored, now or later.
FAILED_TRIES: Final = "failed_tries"


def was_given_up(components: Mapping[str, float]) -> bool:
    """Whether a score has these components because the machinery failed, of the scorer or of one of those beside it."""
    return any(name.rpartition(".")[2] == FAILED_TRIES for name in components)


def score_with_retries(
    scorer: Scorer,
    text: str,
    verification_info: Mapping[str, Any],
    config: ScorersConfig,
    on_failure: Callable[[Retryable], None] = lambda _: None,
) -> Score:
    """The scorer's score, or unscorable after `retries` more tries, with doubled waits before them.

    Args:
        scorer: who judges.
        text: the response.
        verification_info: its row.
        config: `retries` and `retry_backoff_s`.
        on_failure: told of every try that failed.
    Raises:
        BadMessage: the row is none that it scores.
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
