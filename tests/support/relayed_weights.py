"""The learner's machine with a relay, and generators that ask it, each doing a step when it is told to."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker.checksums import weights_checksum
from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from broker.weight_exchange.bundles import SEAL_BYTES
from broker.weight_exchange.exchange import Exchange
from broker.weight_files import part_name
from generators.weight_sync.receiver import NotHere, Received
from generators.weight_sync.relayed import RelayedReceiver
from learner.weight_sync.redis_room import RedisRoom
from learner.weight_sync.relay import Relay
from tests.support.weight_files import content_of as safetensors_of
from tests.support.weight_files import made_up

CHUNK = 5_000
SIZE = len(safetensors_of(made_up(0)))  # of a version
ROOM = 3 * (CHUNK + SEAL_BYTES)  # less than a version has


class LearnersMachine:
    """Versions in a folder that no generator sees, and the relay, which looks when it is told to."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path, exchange: Exchange) -> None:
        self.link, self.keys, self.folder, self.exchange = link, keys, folder, exchange
        self.owner = RunOwner(link, keys)
        self.owner.claim(0)
        self.announced: dict[int, Announcement] = {}
        self.parts = 1  # files of each version
        self.room = RedisRoom(link.client, keys, budget=4, mean_bytes=lambda: 0.0)
        self.relay = self.start_again()

    def start_again(self, *, most_bytes: int = ROOM, anchor_every: int = 4) -> Relay:
        """Begin a relay that knows nothing of the one before."""
        self.relay = Relay(
            self.link,
            self.keys,
            self.exchange,
            self.folder,
            most_bytes=most_bytes,
            anchor_every=anchor_every,
            fence=lambda: self.owner.fence,
            lack_of_room=self.room.lack,
            chunk_bytes=CHUNK,
        )
        return self.relay

    def publish(self, version: int, content: bytes | None = None) -> Announcement:
        """Write, tell the relay, and announce under a path that other machines do not have."""
        contents = parts_of(version, self.parts) if content is None else [content]
        place = self.folder / f"v{version}"
        place.mkdir(exist_ok=True)
        files = [place / part_name(number, len(contents)) for number in range(len(contents))]
        for file, data in zip(files, contents, strict=True):
            file.unlink(missing_ok=True)  # another file, as a replaced folder has
            file.write_bytes(data)
        here = Announcement(
            version=version,
            path=str(place),
            checksum=weights_checksum(files),
            size_bytes=sum(map(len, contents)),
            announced_at=0.0,
        )
        self.announced[version] = here
        self.owner.announce(replace(here, path=f"/the/learners/v{version}"))
        self.relay.offer(here)
        if not self.relay._heard.has_looked:
            self.relay.look()  # whose request is there now may have gone
        return here

    def chunks(self) -> set[str]:
        prefix = self.keys("weights:")
        return {
            key.decode().removeprefix(prefix)
            for key in self.link.client.scan_iter(match=f"{prefix[:3]}*")
            if key.decode().startswith(prefix)
        }

    def bytes_in_redis(self) -> int:
        client: Any = self.link.client
        return sum(client.strlen(self.keys(f"weights:{chunk}")) for chunk in self.chunks())


def content_of(version: int, parts: int = 1) -> bytes:
    """Return the stream of a version's files."""
    return b"".join(parts_of(version, parts))


def parts_of(version: int, parts: int) -> list[bytes]:
    """Return a version's files, `parts` of them, each with some of its tensors."""
    tensors = list(made_up(version).items())
    bounds = [len(tensors) * number // parts for number in range(parts + 1)]
    return [safetensors_of(dict(tensors[begin:end])) for begin, end in pairwise(bounds)]


class Asking:
    """A generator that asks until it has an answer."""

    def __init__(self, learner: LearnersMachine, name: str = "g", *, most_bytes: int = ROOM) -> None:
        self.learner = learner
        self.held = -1
        self.weights = RelayedReceiver(learner.exchange, name, most_bytes=most_bytes)

    def ask(self) -> tuple[int, bytes]:
        """Return what it is given of the newest announcement; the relay looks meanwhile, as often as it has to."""
        reason = None
        for _ in range(20):
            with suppress(NotHere):
                return self.fetch()
            self.learner.relay.look()
        raise AssertionError(reason)

    def fetch(self) -> tuple[int, bytes]:
        announced = self.learner.announced
        received = self.weights.receive(
            [announced[version] for version in sorted(announced)[::-1]], held=self.held
        )
        return received.version, b"".join(file.read_bytes() for file in received.files)

    def load(self, version: int) -> None:
        self.weights.loaded(Received(version=version, files=(Path("nothing"),)))
        self.held = version

    def follow(self, version: int) -> set[str]:
        """Be given a version, load it, and return the kinds of chunks that were read for it."""
        read: set[str] = set()
        keep = self.weights._keep

        def note(bundle: Any, chunk: int, data: bytes) -> None:
            read.add(bundle.name.partition("-")[0])
            keep(bundle, chunk, data)

        self.weights._keep = note  # type: ignore[method-assign]
        assert self.ask() == (version, content_of(version, self.learner.parts))
        self.weights._keep = keep  # type: ignore[method-assign]
        self.load(version)
        return read

    @property
    def files(self) -> list[str]:
        """Names in its folder."""
        assert self.weights._folder is not None
        return sorted(path.name for path in self.weights._folder.path.iterdir())
