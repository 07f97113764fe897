"""Do rank 0's periodic duties while it waits for groups or for Redis.

In: the feeder, the publisher, operators' requests in Redis, the other ranks. Out: errors of both threads are raised,
and requests take effect. Retries of dead groups are issued on request, and no rank's wait times out. Called by
`learner.groups.selection` about once a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.group_ids import is_training, ordinal_of
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import asked
from learner.groups.feeder import Feeder
from learner.journal.ledger import DEAD
from learner.journal.writer import Journal
from learner.weight_sync.publisher import Publisher

if TYPE_CHECKING:
    from learner.training.backend import TrainingBackend

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 30.0


class KeepAlive:
    """Keep the other ranks' wait for a command from timing out, while rank 0 waits for groups or for Redis.

    A call within half a minute of the last one does nothing.
    """

    def __init__(self, policy: TrainingBackend) -> None:
        self._policy = policy
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Send the keep-alive. Raises the process group's error where a rank is gone."""
        if time.monotonic() - self._last > KEEP_ALIVE_S:
            self._last = time.monotonic()
            self._policy.keep_alive()


class Operator:
    """Carry out an operator's requests to a running learner: drain, pause, retries of dead groups.

    `millrace dead retry` requests a dead group's retry: `17-r1` for `17`. The journal records the retry before the
    feeder issues it.

    Attributes:
        wanted: DRAIN, PAUSE or GO_ON of `broker.protocol.run_state`, as of the last poll.

    Args:
        tell_wanted: receives the request when it changes.
    """

    def __init__(
        self,
        run_owner: RunOwner,
        journal: Journal,
        feeder: Feeder,
        tell_wanted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.wanted = ""
        self._tell_wanted = tell_wanted
        self._run_owner = run_owner
        self._journal = journal
        self._feeder = feeder

    def poll(self) -> None:
        """Read the request, close or open the feeder accordingly, and handle requests for retries."""
        wanted = asked(self._run_owner.link, self._run_owner.keys)
        self._feeder.is_open = not wanted
        if wanted != self.wanted:
            log.warning("asked wanted=%s", wanted or "to go on")
            self.wanted = wanted
            self._tell_wanted(wanted)
        if not wanted:
            self.retry_dead_groups()

    def retry_dead_groups(self) -> None:
        """Issue the retries that an operator requested, and those that the journal has and Redis never had."""
        for dead_id in self._run_owner.retry_requests():
            if reason := self._note(dead_id):
                log.warning("retry_refused group=%s reason=%s", dead_id, reason)
                self._run_owner.discard_retry_requests([dead_id])
        if noted := self._journal.ledger.open_retries:
            self._feeder.insert(noted)  # which skips those already issued

    def _note(self, dead_id: str) -> str:
        """Record a retry durably before it is issued, in case Redis loses it. Returns why it can't be, or ""."""
        outcome = self._journal.ledger.outcomes.get(dead_id)
        if outcome is None or outcome.kind != DEAD or not is_training(dead_id):
            return (
                "it has no outcome yet" if outcome is None else f"no dead training group but {outcome.kind}"
            )
        base, newest = str(ordinal_of(dead_id)), self._journal.ledger.newest_try(dead_id)
        if newest == dead_id:
            self._journal.retry(base, self._journal.ledger.retries.get(base, 0) + 1)
        elif self._journal.has(newest):
            return f"it was retried as {newest}"
        return ""


class WhileWaiting:
    """Check on the feeder, the publisher, the operator and the other ranks."""

    def __init__(
        self, feeder: Feeder, publisher: Publisher, operator: Operator, keep_alive: Callable[[], None]
    ) -> None:
        self._feeder = feeder
        self._publisher = publisher
        self._operator = operator
        self._keep_alive = keep_alive

    @property
    def wanted(self) -> str:
        """The operator's request, as of the last call."""
        return self._operator.wanted

    @property
    def has_issued_all(self) -> bool:
        """Whether no group is left to issue: the epochs are over."""
        return self._feeder.has_issued_all

    def __call__(self) -> None:
        """Do all checks. Raises what ended the feeder, an error of the publisher, or of `KeepAlive`."""
        self._feeder.raise_failure()
        self._publisher.raise_failure()
        self._operator.poll()
        self._keep_alive()
