"""The receiver through Redis serves a generator that does not see the learner's folder.

In: the chunks that the learner's relay puts there while this generator asks (`broker.weight_chunks`). Out: a file in a
folder of this generator's own, hashed while it is written; the hash is the announced one. Weights that are not there
(yet) are a `NotHere` with the reason: the follower asks again, in a thread beside the event loop.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import redis

from broker import weight_chunks
from broker.checksums import weights_digest
from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from broker.own_folder import OwnFolder
from broker.weight_chunks import Manifest
from generators.weight_sync.receiver import NotHere, Received, TooLarge

PREFIX = "millrace-weights-"  # of the folder's name


class RedisReceiver:
    """A `WeightReceiver` that asks the learner's relay.

    Args:
        generator: the name under which the relay is asked.
        most_bytes: `learner.weights.redis_max_bytes`.
    """

    def __init__(self, link: RedisLink, keys: Keys, generator: str, *, most_bytes: int) -> None:
        self._client = link.client  # not the link, which would wait: the follower says that Redis is full
        self._keys = keys
        self._generator = generator
        self._most_bytes = most_bytes
        self._count = itertools.count(1)
        self._has_loaded = False
        self._stop = threading.Event()
        self._folder: OwnFolder | None = None

    @property
    def is_slow(self) -> bool:
        """Return whether weights have come this way before: each version is waited for then."""
        return self._has_loaded

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Ask the relay for the newest weights, and read what is there of them."""
        checksums = {one.version: one.checksum for one in reversed(announced)}
        version, file = self.fetch(announced[0], checksums, held=held)
        return Received(version=version, file=file)

    def fetch(self, newest: Announcement, checksums: Mapping[int, str], *, held: int) -> tuple[int, Path]:
        """Ask for a version newer than `held`, and read what the relay gives out: the newest, or an older one.

        Args:
            newest: the last announcement.
            checksums: version -> checksum, of the last announcements.
        Returns:
            The version, and its file, which `loaded` removes.
        Raises:
            TooLarge: the file has more bytes than the run's configuration lets through.
            NotHere: no such version is in Redis, or its chunks are not what was announced.
            RunFailed: this machine has no room for the file.
        """
        if refused := weight_chunks.refusal(newest.size_bytes, self._most_bytes):
            raise TooLarge(refused)
        try:
            self._ask(held)
            manifest = weight_chunks.read_manifest(self._client, self._keys)
            if manifest is None:
                raise NotHere("waiting for the learner to put them into Redis")
            if manifest.trouble:
                raise NotHere(manifest.trouble)
            if (
                manifest.version <= held
                or checksums.get(manifest.version, manifest.checksum) != manifest.checksum
            ):
                raise NotHere(
                    f"waiting for the learner to put them into Redis in the place of version "
                    f"{manifest.version}"
                )
            return manifest.version, self._read(manifest, held)
        except redis.RedisError as error:
            raise NotHere(f"Redis does not answer as it should: {error}") from error

    def loaded(self, received: Received) -> None:
        """Remove the file, and tell the relay that this generator holds the version and reads it no more."""
        self._has_loaded = True
        received.file.unlink(missing_ok=True)
        with contextlib.suppress(redis.RedisError):
            self._ask(received.version)

    def close(self) -> None:
        """Break off the reading, and leave nothing behind."""
        self._stop.set()
        if self._folder is not None:
            self._folder.close()

    def _ask(self, held: int) -> None:
        weight_chunks.ask(self._client, self._keys, self._generator, held=held, count=next(self._count))

    def _read(self, manifest: Manifest, held: int) -> Path:
        """Write chunk after chunk to a file. A missing chunk means that a newer version replaces this one."""
        file = self._own_folder() / f"v{manifest.version:06d}.safetensors"
        digest = weights_digest()
        try:
            with file.open("wb") as stream:
                for chunk in range(manifest.chunks):
                    data = weight_chunks.read_chunk(self._client, self._keys, manifest.version, chunk)
                    if data is None:
                        self._complain(manifest)
                        raise NotHere(
                            f"version {manifest.version} was replaced while it was read: beginning anew"
                        )
                    stream.write(data)
                    digest.update(data)
                    self._ask(held)
                    if self._stop.is_set():
                        raise NotHere("this generator ends")
        except OSError as error:
            raise RunFailed(
                f"{file} can't be written: {error.strerror}. Weights of {manifest.size_bytes} bytes that "
                "come through Redis need room there; TMPDIR names another place"
            ) from error
        if digest.hexdigest() != manifest.checksum:
            self._complain(manifest)
            raise NotHere(
                f"version {manifest.version} came through Redis with checksum {digest.hexdigest()[:12]}, "
                f"announced {manifest.checksum[:12]}: it is put there again"
            )
        return file

    def _complain(self, manifest: Manifest) -> None:
        """Remove a manifest whose chunks are not as it says: the learner then puts the version there again."""
        if weight_chunks.read_manifest(self._client, self._keys) == manifest:
            weight_chunks.discard_manifest(self._client, self._keys)

    def _own_folder(self) -> Path:
        """Return this generator's folder. The first call makes it, and removes the folders of killed generators."""
        if self._folder is None:
            self._folder = OwnFolder(PREFIX)
        return self._folder.path
