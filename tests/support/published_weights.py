"""The learner's side of weights, and an engine that records which versions it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import xxhash

from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from config.generators import ScriptedEngineConfig
from generators.engines.scripted import ScriptedEngine
from tests.support.byte_model import make_run


class RecordingEngine(ScriptedEngine):
    """The fake engine, which keeps a list of what it was given; `before` runs first."""

    def __init__(self, before: Callable[[Path, int], None] = lambda _file, _version: None) -> None:
        super().__init__(make_run(Path("no-such-model"), ScriptedEngineConfig()), ScriptedEngineConfig())
        self.before = before
        self.loaded: list[int] = []

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        self.before(files[0], version)
        await super().load_weights(files, version)
        self.loaded.append(version)


class Publisher:
    """The learner's side: files and announcements."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path) -> None:
        self.link = link
        self.keys = keys
        self.folder = folder
        self.owner = RunOwner(link, keys)
        self.owner.claim(0)

    def write(self, version: int) -> Path:
        file = self.folder / str(version) / "model.safetensors"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(f"weights {version}".encode())
        return file

    def announce(self, version: int, *, checksum: str | None = None) -> None:
        """Tell of a version, whether its file is there or not."""
        right = xxhash.xxh3_128(f"weights {version}".encode()).hexdigest()
        self.owner.announce(
            Announcement(
                version=version,
                path=str(self.folder / str(version)),
                size_bytes=9,
                checksum=checksum or right,
                announced_at=0.0,
            )
        )

    def publish(self, version: int) -> None:
        self.write(version)
        self.announce(version)
