"""The choice of the weight receiver that belongs to the learner's transport."""

from __future__ import annotations

from typing import assert_never

from broker.connection import RedisLink
from broker.keys import Keys
from config.learner import CustomTransportConfig, FilesystemTransportConfig, RelayTransportConfig
from config.run import Run
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.receiver import WeightReceiver
from generators.weight_sync.redis_fetch import RedisReceiver


def build_receiver(run: Run, link: RedisLink, keys: Keys, generator: str) -> WeightReceiver:
    """Build the receiver for `learner.weights`.

    Args:
        generator: the name under which Redis is asked for weights.
    """
    section = run.learner.weights
    through_redis = RedisReceiver(link, keys, generator, most_bytes=section.redis_max_bytes)
    match section:
        case FilesystemTransportConfig() | CustomTransportConfig():  # a custom one announces a folder, too
            return FilesystemReceiver(through_redis)
        case RelayTransportConfig():
            return through_redis
        case _:
            assert_never(section)
