"""Report why a learner of several ranks ended, where rank 0 could not report it.

In: how the ranks ended. Out: the run's status in Redis and status.json. Run by the launcher of the ranks when all are
gone. A status that can't be written is logged; the exit code is the same.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from broker.connection import RedisLink
from broker.errors import PipelineError
from broker.joining import state_of
from broker.keys import Keys
from broker.private_redis import server as embedded
from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.journal.ledger import read_ledger
from learner.launch.ranks import ECHO, RanksEnded
from learner.resume.history import locked
from learner.status import Status, read_status

log = logging.getLogger(__name__)

OUTAGE_S = 5.0  # longest wait for Redis at the end


def report_death(run: Run, ended: RanksEnded) -> None:
    """Record why the ranks ended, unless rank 0 has given its own reason or another learner owns the run.

    After a signal a run in progress stays `running`, with the reason: the same command continues the run. `millrace up`
    issues it at once, and the other roles wait. Otherwise the run has failed.
    """
    try:
        with (
            locked(run.folder),
            _redis_of(run) as url,
            contextlib.closing(RedisLink(url, outage_s=OUTAGE_S)) as link,
        ):
            _tell(run, link, ended)
    except (PipelineError, OSError) as error:
        log.warning("reason_not_told reason=%r error=%s", ended.why, error)


def _tell(run: Run, link: RedisLink, ended: RanksEnded) -> None:
    keys = Keys(run.name)
    state = state_of(link, keys)
    is_echo = state.status == "failed" and ECHO.search(state.reason) is not None
    if not is_echo and (ended.has_verdict or state.status not in {"", "running", "stopped"}):
        return
    ledger = read_ledger(run.folder / "journal", strict=False)
    # With this fence, so that a newer learner's run, in another folder, is not marked as failed.
    gone = RunOwner(link, keys, fence=ledger.fence)
    status = Status(run, link, keys, gone)
    if ledger.incarnations:
        status.go_on()
    goes_on = ended.by_signal and (
        state.status == "running" or (not state.status and bool(ledger.incarnations))
    )
    status.end("running" if goes_on else "failed", ended.why, int(read_status(run.folder).get("version", 0)))


@contextlib.contextmanager
def _redis_of(run: Run) -> Iterator[str]:
    """Give the URL of the run's Redis. A private Redis has ended with rank 0, and is started again for the block."""
    if run.broker.url is not None:
        yield run.broker.url.get_secret_value()
        return
    server = embedded.start(run)
    try:
        yield server.url
    finally:
        server.stop()
