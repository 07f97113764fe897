"""Sections of the transports that send new weights to the generators.

A new transport is one section here, in `WeightsConfig`, one file each in `learner/weight_sync/` and
`generators/weight_sync/`, and one case in the `build.py` of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from config.custom import CustomSection
from config.section import Section, default_type

DIRECT_IS_GONE = (
    "direct is no longer there: its bytes passed through the memory of both machines as files do. On one machine set "
    "directory: /dev/shm, a folder in memory; between machines type: relay sends what has changed through Redis"
)


class WeightsSection(Section):
    """How often to publish weights, by any transport."""

    every: int = Field(1, ge=1)
    """Publish weights every `every` optimizer steps, and always at a checkpoint, an evaluation and the end. At most
    max_lag + 1: trained groups hold their slots until the next publication."""

    @model_validator(mode="before")
    @classmethod
    def _goes_by_files(cls, given: Any) -> Any:
        """Handle the key `direct` of earlier versions' configurations, mostly null."""
        if not isinstance(given, Mapping) or "direct" not in given:
            return given
        if given["direct"] is not None:
            raise ValueError(DIRECT_IS_GONE)
        return {key: value for key, value in given.items() if key != "direct"}


class FilesystemTransportConfig(WeightsSection):
    """Publish weights as safetensors files in a folder that learner and generators share."""

    type: Literal["filesystem"] = "filesystem"
    directory: Path | None = None
    """Write versions to DIRECTORY/NAME of the run. Unset: to `weights` in the run's folder."""
    redis_max_bytes: int = Field(256_000_000, ge=0)
    """Most bytes of weights in Redis at a time, besides the groups in flight, for generators on machines without that
    folder. Weights of any size pass through in parts. 0: send no weights through Redis."""
    anchor_every: int = Field(16, ge=1)
    """Send deltas to such a generator while it is at most this many versions behind and deltas take fewer bytes; else
    send full weights."""


class RelayTransportConfig(WeightsSection):
    """Publish weights in parts, as deltas where they take fewer bytes, to generators on any machine."""

    type: Literal["relay"] = "relay"
    directory: Path | None = None
    """Write the parts to DIRECTORY/NAME of the run, in a folder that learner and generators share. Unset: to Redis."""
    redis_max_bytes: int = Field(256_000_000, ge=1)
    """Most bytes of parts in Redis, besides the groups in flight, or in `directory`, at a time. Weights of any size
    pass through."""
    anchor_every: int = Field(16, ge=1)
    """Send deltas to a generator while it is at most this many versions behind; else send full weights."""


NO_RECEIVER = (
    "learner.weights.receiver is missing: the transport {} is of type custom, and generators need the class of its "
    "other end: receiver: {{import_path: package.module:Class}}"
)


class CustomReceiverConfig(CustomSection):
    """Your own `generators.weight_sync.receiver.WeightReceiver`. The class takes `run`."""


class CustomTransportConfig(CustomSection, WeightsSection):
    """Your own `learner.weight_sync.transport.WeightTransport`. The class takes `run`."""

    receiver: CustomReceiverConfig | None = None
    """The generators' side of this transport. Required."""

    redis_max_bytes: int = Field(0, ge=0)
    """Most bytes of weights that your classes keep in Redis at a time, besides the groups in flight. 0: none."""


WeightsConfig = Annotated[
    FilesystemTransportConfig | RelayTransportConfig | CustomTransportConfig,
    Field(discriminator="type"),
    default_type("filesystem"),
]
