"""This module builds the weight transport that the configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from config.custom import CustomClassError, build
from config.learner import NO_RECEIVER, CustomTransportConfig, FilesystemTransportConfig, RelayTransportConfig
from config.run import Run
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.relay import Relay, RelayTransport
from learner.weight_sync.transport import WeightTransport


def build_transport(
    run: Run, link: RedisLink, keys: Keys, *, fence: Callable[[], int], mean_bytes: Callable[[], float]
) -> WeightTransport:
    """Build the transport of `learner.weights`.

    Args:
        run: the resolved run.
        link: to the run's Redis.
        keys: the run's.
        fence: of this learner, once it has claimed the run.
        mean_bytes: bytes that a group takes in Redis once it is sampled.
    Raises:
        RunFailed: a custom class can't be imported or built, which the message names; or a custom transport names no
            receiver for the generators.
    """
    match run.learner.weights:
        case FilesystemTransportConfig():
            return FilesystemTransport(run, Relay(run, link, keys, fence=fence, mean_bytes=mean_bytes))
        case RelayTransportConfig():
            return RelayTransport(run, Relay(run, link, keys, fence=fence, mean_bytes=mean_bytes))
        case CustomTransportConfig() as section:
            if section.receiver is None:  # each generator would fail for it later
                raise RunFailed(NO_RECEIVER.format(section.import_path))
            try:
                transport: WeightTransport = build(section, run=run)
            except CustomClassError as error:
                raise RunFailed(f"learner.weights: {error}") from error
            return transport
        case _:
            assert_never(run.learner.weights)
