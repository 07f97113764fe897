"""A reward server writes the reserved run `api` to Redis, so that scorers can work for the server.

In: the server's configuration. Out: the hash `run`, with that configuration and the status `running`, which no server
ever takes back. `python -m scorers --run api` joins the run as any other, and outlives the servers. Several servers may
be up with one configuration; a server with another configuration has to wait until the last of them has ended. The run
has no learner: model and data are names that nobody opens.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any, Final

from broker.connection import RedisLink
from broker.errors import Permanent
from broker.joining import Joined
from broker.keys import Keys
from broker.monitoring.snapshot import names_of
from config.endpoint import EndpointConfig
from config.loading import load_run, to_yaml
from config.run import API, Run
from config.scorer_kinds import ScorerConfig
from scorers.api import all_tasks
from scorers.pool.rq_queues import RqQueues
from scorers.reward_server.redis_messages import discard_old
from verdicts.gym.rows import LIBRARY as GYM_LIBRARY

log = logging.getLogger(__name__)

ROLE: Final = "server"  # of a server's heartbeat
# A client waits for each request. So a killed worker's request is tried again within the client's time, and a request
# waits behind no other one in its job.
_BROKER: Final = {"lease_s": 6.0, "max_attempts": 3}
_SCORERS: Final = {"groups_per_job": 1}
# Other requests wait while a worker has a hanging answer, and want its core. MATH-500's slowest answer takes 0.16 s.
_MATH: Final = {"deadline_s": 2.0, "give_way_s": 0.15}


class OtherServer(Permanent):
    """This error says that another reward server is up, with another configuration."""


def api_run(words: Sequence[str], runs_dir: Path = Path("runs")) -> Run:
    """Build the run `api`.

    Args:
        words: `--config FILE` and `key=value`; without a file, the run has every scorer of this version that can work.
        runs_dir: the folder of the private Redis, if the server has one.
    Raises:
        ConfigError: a file that can't be read, an unknown key, a wrong value.
    """
    below: dict[str, Any] = {
        "model": {"path": "none"},
        "data": {"train": {"type": "dataset", "path": "none"}},
        "broker": _BROKER,
        "scorers": dict(_SCORERS),
    }
    if not any(word.startswith("--config") for word in words):
        below["scorers"]["tasks"] = {
            name: {
                "scorer": task.scorer.model_dump(mode="json") | (_MATH if task.scorer.type == "math" else {})
            }
            for name, task in all_tasks().tasks.items()
            if _can_work(task.scorer)
        }
    return load_run(words, below=below, above={"name": API, "runs_dir": str(runs_dir)})


def register(joined: Joined, server: str) -> None:
    """Write the run's hash, unless Redis has it.

    Raises:
        OtherServer: a living server other than `server` has written another configuration.
        RedisError, PipelineError: Redis is away.
    """
    link, keys = joined.link, joined.keys
    wanted = to_yaml(joined.run)
    link.client.hsetnx(keys.run, "config", wanted)  # of two servers that start at once, one
    if _written(link, keys) != wanted:
        if others := [name for name in _living(link, keys) if name != server]:
            raise OtherServer(
                f"reward server {others[0]} is up with another configuration: give this "
                "one the same, or stop that one first"
            )
        if workers := RqQueues(link.client, keys).living_workers():
            log.warning(
                "old_configuration workers=%d: start the scorers of run %s again, they have an earlier one",
                len(workers),
                keys.name,
            )
    link.client.hset(keys.run, mapping={"config": wanted, "status": "running"})


def maintain(joined: Joined, server: str) -> None:
    """Restore the run's hash where Redis has lost it, and discard requests without a client."""
    written = _written(joined.link, joined.keys)
    if written is None:
        register(joined, server)
    elif written != to_yaml(joined.run):
        log.error(
            "other_configuration run=%s: somebody else has written it since, and scorers that start now score by "
            "that one; end whatever else goes by this name, and start this server again",
            joined.keys.name,
        )
    if forgotten := discard_old(joined.link, joined.keys):
        log.warning("too_old requests=%d: forgotten", forgotten)


def _can_work(scorer: ScorerConfig) -> bool:
    """Say whether the scorer lacks nothing that this machine knows of: a judge's address, reasoning-gym for its rows.

    A worker proves each of its scorers before it serves any.
    """
    endpoint = getattr(scorer, "endpoint", None)
    has_library = scorer.type != "gym" or util.find_spec(GYM_LIBRARY) is not None
    return has_library and (not isinstance(endpoint, EndpointConfig) or bool(endpoint.urls))


def _written(link: RedisLink, keys: Keys) -> str | None:
    """Read the configuration in the run's hash; None: there is none."""
    found: Any = link.client.hget(keys.run, "config")
    return None if found is None else found.decode()


def _living(link: RedisLink, keys: Keys) -> list[str]:
    return names_of(link.client, keys.alive(ROLE, ""))
