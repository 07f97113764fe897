"""Build the configured weight transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.weight_exchange.exchange import Exchange
from broker.weight_exchange.folder_exchange import FolderExchange
from broker.weight_exchange.redis_exchange import RedisExchange
from config.custom import CustomClassError, build
from config.learner.weight_sync import (
    NO_RECEIVER,
    CustomTransportConfig,
    FilesystemTransportConfig,
    RelayTransportConfig,
)
from config.run import Run
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.redis_room import RedisRoom
from learner.weight_sync.relay import Relay
from learner.weight_sync.relay_transport import RelayTransport
from learner.weight_sync.transport import WeightTransport
from learner.weight_sync.version_folder import published


def build_transport(
    run: Run, link: RedisLink, keys: Keys, *, fence: Callable[[], int], mean_bytes: Callable[[], float]
) -> WeightTransport:
    """Build the transport of `learner.weights`.

    Args:
        run: the resolved run.
        link: to the run's Redis.
        keys: the run's.
        fence: of this learner, after its claim.
        mean_bytes: returns the mean size of a sampled group in Redis.
    Raises:
        RunFailed: a custom class can't be imported or built, which the message names; or a custom transport has no
            receiver for the generators.
    """
    match run.learner.weights:
        case FilesystemTransportConfig() as section:
            relay = _relay(run, section, link, keys, fence=fence, mean_bytes=mean_bytes)
            return FilesystemTransport(run, relay)
        case RelayTransportConfig() as section:
            relay = _relay(run, section, link, keys, fence=fence, mean_bytes=mean_bytes)
            return RelayTransport(run, relay)
        case CustomTransportConfig() as section:
            if section.receiver is None:  # else each generator would fail later
                raise RunFailed(NO_RECEIVER.format(section.import_path))
            try:
                transport: WeightTransport = build(section, run=run)
            except CustomClassError as error:
                raise RunFailed(f"learner.weights: {error}") from error
            return transport
        case _:
            assert_never(run.learner.weights)


def _relay(
    run: Run,
    section: FilesystemTransportConfig | RelayTransportConfig,
    link: RedisLink,
    keys: Keys,
    *,
    fence: Callable[[], int],
    mean_bytes: Callable[[], float],
) -> Relay:
    """Build the relay that gives weights out in Redis, or in the section's folder."""
    exchange: Exchange = RedisExchange(link.client, keys)
    room = RedisRoom(link.client, keys, budget=run.most_in_flight, mean_bytes=mean_bytes)
    lack_of_room: Callable[[int], str] = room.lack
    if isinstance(section, RelayTransportConfig) and section.directory:
        exchange, lack_of_room = FolderExchange(section.directory.absolute() / run.name), _no_lack
    return Relay(
        link,
        keys,
        exchange,
        published(run),
        most_bytes=section.redis_max_bytes,
        anchor_every=section.anchor_every,
        fence=fence,
        lack_of_room=lack_of_room,
    )


def _no_lack(_more_bytes: int) -> str:
    return ""  # a full disk reports it itself
