"""This module builds the weight receiver that belongs to the learner's transport."""

from __future__ import annotations

from typing import assert_never

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from config.custom import CustomClassError, build
from config.learner import NO_RECEIVER, CustomTransportConfig, FilesystemTransportConfig, RelayTransportConfig
from config.run import Run
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.receiver import WeightReceiver
from generators.weight_sync.redis_fetch import RedisReceiver


def build_receiver(run: Run, link: RedisLink, keys: Keys, generator: str) -> WeightReceiver:
    """Build the receiver for `learner.weights`.

    Args:
        generator: the name under which Redis is asked for weights.
    Raises:
        RunFailed: a custom transport names no receiver, or its receiver's class can't be imported or built.
    """
    lora = run.learner.lora
    receiver = _transports_own(run, link, keys, generator)
    if lora is None or lora.publish == "merged":
        return receiver
    from generators.weight_sync.adapter import MergingReceiver  # which imports torch

    return MergingReceiver(receiver, run.model, lora)


def _transports_own(run: Run, link: RedisLink, keys: Keys, generator: str) -> WeightReceiver:
    match run.learner.weights:
        case FilesystemTransportConfig(redis_max_bytes=most_bytes):
            return FilesystemReceiver(RedisReceiver(link, keys, generator, most_bytes=most_bytes))
        case RelayTransportConfig(redis_max_bytes=most_bytes):
            return RedisReceiver(link, keys, generator, most_bytes=most_bytes)
        case CustomTransportConfig() as section:
            return _custom_receiver(run, section)
        case _:
            assert_never(run.learner.weights)


def _custom_receiver(run: Run, section: CustomTransportConfig) -> WeightReceiver:
    if section.receiver is None:
        raise RunFailed(NO_RECEIVER.format(section.import_path))
    try:
        receiver: WeightReceiver = build(section.receiver, run=run)
    except CustomClassError as error:
        raise RunFailed(f"learner.weights.receiver: {error}") from error
    return receiver
