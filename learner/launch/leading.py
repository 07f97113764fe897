"""The process that owns a run: its Redis, its signals, and the exit code that its launcher sees.

In: a resolved run, and what is to be done with it. Out: an exit code: 0 done, or there was nothing to do; 1 failed; 2
the name is taken. Run by rank 0 of a learner, and by a collector in a learner's place. A private Redis that was started
here ends here.
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
        run: whose Redis is started where the configuration names none.
        owner: makes what owns the run.
        work: given the owner, opened, and what a signal sets; returns the exit code.
        is_alone: no other rank would wait for this process.
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
        # Asked to end while Redis was away, it has not failed. Other ranks would wait for it, and a failure ends them.
        return 0 if stop.is_set() and isinstance(error, BrokerUnavailable) and is_alone else 1
    finally:
        if server is not None and server.is_ours:
            server.stop()
