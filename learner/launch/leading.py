"""Run the process that owns a run: its Redis, its signals, and the exit code for its launcher.

In: a resolved run, and the work to do. Out: an exit code: 0 done, or there was nothing to do; 1 failed; 2 the name is
taken. Run by rank 0 of a learner, and by a collector in a learner's place. Stops a private Redis that it started.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, PipelineError
from broker.private_redis import server as embedded
from broker.processes import stop_on_signals
from config.run import Run
from learner.incarnation import Incarnation
from learner.resume.history import AlreadyFinished, NameTaken

log = logging.getLogger(__name__)
Owner = TypeVar("Owner", bound=Incarnation)


def lead(
    run: Run,
    owner: Callable[[RedisLink], Owner],
    work: Callable[[Owner, threading.Event], int],
    *,
    is_alone: bool = True,
) -> int:
    """Open the run and do its work.

    Args:
        run: its Redis is started where the configuration names none.
        owner: makes the owner of the run.
        work: receives the opened owner and the event that a signal sets; returns the exit code.
        is_alone: no other rank waits for this process.
    """
    stop = stop_on_signals()
    server = None
    try:
        if run.broker.url is None:
            server = embedded.start(run)
        url = server.url if server else run.broker.url.get_secret_value()  # type: ignore[union-attr]
        session = owner(RedisLink(url, outage_s=run.broker.outage_s, stop=stop))
        try:
            session.open()
        except AlreadyFinished as done:
            session.status.restore()
            log.info("%s", done)
            return 0
        return work(session, stop)
    except NameTaken as error:
        log.error("%s", error)  # noqa: TRY400 - the message is what people need
        return 2
    except PipelineError as error:
        log.error("ended reason=%s", error)  # noqa: TRY400
        # If asked to end while Redis was away, it has not failed. But other ranks would wait for it, and a failure ends
        # them.
        return 0 if stop.is_set() and isinstance(error, BrokerUnavailable) and is_alone else 1
    finally:
        if server is not None and server.is_ours:
            server.stop()
