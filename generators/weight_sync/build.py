"""Build the weight receiver for the learner's transport."""

from __future__ import annotations

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
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.receiver import WeightReceiver
from generators.weight_sync.relayed import RelayedReceiver


def build_receiver(run: Run, link: RedisLink, keys: Keys, generator: str) -> WeightReceiver:
    """Build the receiver for `learner.weights`.

    Args:
        generator: its name in requests for weights.
    Raises:
        RunFailed: a custom transport has no receiver, or its receiver's class can't be imported or built.
    """
    lora = run.learner.lora
    receiver = _transports_own(run, link, keys, generator)
    if lora is None or lora.publish == "merged":
        return receiver
    from generators.weight_sync.adapter import MergingReceiver  # which imports torch

    return MergingReceiver(receiver, run.model, lora)


def _transports_own(run: Run, link: RedisLink, keys: Keys, generator: str) -> WeightReceiver:
    match run.learner.weights:
        case FilesystemTransportConfig() as section:
            return FilesystemReceiver(_relayed(RedisExchange(link.client, keys), generator, section))
        case RelayTransportConfig() as section:
            folder = section.directory and FolderExchange(section.directory.absolute() / run.name)
            return _relayed(folder or RedisExchange(link.client, keys), generator, section)
        case CustomTransportConfig() as section:
            return _custom_receiver(run, section)
        case _:
            assert_never(run.learner.weights)


def _relayed(
    exchange: Exchange, generator: str, section: FilesystemTransportConfig | RelayTransportConfig
) -> RelayedReceiver:
    return RelayedReceiver(exchange, generator, most_bytes=section.redis_max_bytes)


def _custom_receiver(run: Run, section: CustomTransportConfig) -> WeightReceiver:
    if section.receiver is None:
        raise RunFailed(NO_RECEIVER.format(section.import_path))
    try:
        receiver: WeightReceiver = build(section.receiver, run=run)
    except CustomClassError as error:
        raise RunFailed(f"learner.weights.receiver: {error}") from error
    return receiver
