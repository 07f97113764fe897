"""The learner's end of direct weights, and generators that ask for them, each with couriers of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from broker.checksums import weights_checksum
from broker.connection import RedisLink
from broker.direct_weights.board import Board
from broker.direct_weights.courier_process import COMMAND
from broker.direct_weights.records import Epoch, State
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from broker.weight_files import part_name, weight_files
from config.learner import GlooDirectConfig, IpcDirectConfig
from generators.weight_sync.direct.member import DirectMember
from generators.weight_sync.direct.receiver import DirectReceiver
from generators.weight_sync.filesystem import FilesystemReceiver
from generators.weight_sync.receiver import NotHere, Received
from learner.weight_sync.direct import DirectSender
from tests.support.waiting import wait_until


def fake(what: str) -> tuple[str, ...]:
    """Return the command of a courier that moves nothing, see `tests.generators.weight_sync.fake_courier`."""
    return (sys.executable, "-m", "tests.generators.weight_sync.fake_courier", what)


class SendingLearner:
    """Versions in a folder, and what sends them."""

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        folder: Path,
        *,
        kind: str = "gloo",
        command: Sequence[str] = COMMAND,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.owner = RunOwner(link, keys)
        self.owner.claim(0)
        self.board = Board(link.client, keys)
        chosen = {"timeout_s": 60.0, "bucket_mb": 1, "address": "127.0.0.1"} | settings
        section = (
            GlooDirectConfig(type="gloo", **chosen)
            if kind == "gloo"
            else IpcDirectConfig(type="ipc", **chosen)
        )
        self.sender = DirectSender(link, keys, section, fence=lambda: self.owner.fence, command=command)
        self.announced: list[Announcement] = []  # the newest first
        self.sender.start()

    def publish(self, version: int, size: int = 3_000_000, *, parts: int = 1) -> Announcement:
        place = self.folder / f"v{version:06d}"
        place.mkdir()
        content = content_of(version, size)
        for part in range(parts):
            begin, end = part * size // parts, (part + 1) * size // parts
            (place / part_name(part, parts)).write_bytes(content[begin:end])
        announcement = Announcement(
            version=version,
            path=str(place),
            checksum=weights_checksum(weight_files(place)),
            size_bytes=size,
            announced_at=0.0,
        )
        self.announced.insert(0, announcement)
        self.sender.offer(announcement)
        return announcement

    def open_epoch(self, *members: str) -> Epoch:
        """Wait until an epoch of these members is open."""

        def is_open() -> Epoch | None:
            epoch = self.board.read_epoch()
            return epoch if epoch and epoch.state is State.OPEN and epoch.members == members else None

        found = wait_until(is_open, f"an open epoch of {members}", within_s=60)
        assert found
        return found


class DirectGenerator:
    """A generator's receiver, which notes where each version came from."""

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        name: str,
        *,
        command: Sequence[str] = COMMAND,
        timeout_s: float = 60.0,
    ) -> None:
        self.member = DirectMember(link, keys, name, command=command)
        self.receiver = DirectReceiver(self.member, FilesystemReceiver(), timeout_s=timeout_s)
        self.held = -1

    def take(self, announced: Sequence[Announcement], *, within_s: float = 60.0) -> tuple[bytes, bool]:
        """Follow the newest version; return its bytes, and whether they came directly."""
        received = self.receive(announced, within_s=within_s)
        is_direct = received.files[0].parts[1] == "proc"
        content = b"".join(file.read_bytes() for file in received.files)
        self.receiver.loaded(received)
        self.held = received.version
        return content, is_direct

    def receive(self, announced: Sequence[Announcement], *, within_s: float = 60.0) -> Received:
        """Ask as the follower does, until there is an answer."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                return self.receiver.receive(announced, held=self.held)
            except NotHere:
                assert time.monotonic() < deadline


def content_of(version: int, size: int) -> bytes:
    """Bytes that each version has for itself."""
    return np.random.default_rng(version).bytes(size)
