"""Weights that come through Redis, where the learner's folder is not on this machine.

In: the chunks that the learner's relay puts there while this generator asks (`broker.weight_chunks`). Out: a file in a
folder of this generator's own, whose checksum is the announced one. What is not there (yet) is a `NotHere` with the
reason: the follower asks again. Used by `generators.weight_sync.follower`, in a thread beside the event loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import redis

from broker import weight_chunks
from broker.connection import RedisLink
from broker.errors import Permanent, Retryable, RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from broker.weight_chunks import Manifest, chunk_key

PREFIX = "millrace-weights-"  # of the folder, in the system's own for such things
LOCK = "lock"  # in it, held while its generator lives


class NotHere(Retryable):
    """These weights have not come through Redis; the message says what is waited for."""


class TooLarge(Permanent):
    """They may not go through Redis."""


class RelayedWeights:
    """One generator's.

    Args:
        generator: its name.
        most_bytes: `learner.weights.redis_max_bytes`.
    """

    def __init__(self, link: RedisLink, keys: Keys, generator: str, *, most_bytes: int) -> None:
        self._client = link.client  # not the link, which waits: where Redis is full, that is said
        self._keys = keys
        self._generator = generator
        self._most_bytes = most_bytes
        self._count = itertools.count(1)
        self._stop = threading.Event()
        self._folder: Path | None = None
        self._lock: BinaryIO | None = None

    def fetch(self, newest: Announcement, checksums: Mapping[int, str], *, held: int) -> tuple[int, Path]:
        """Ask for what is newer than `held`, and get what is there of it: the newest, or the one that is given out now.

        Args:
            newest: the last announcement.
            checksums: of the versions announced last.
        Returns:
            the version, and its file; `loaded` removes it.
        Raises:
            TooLarge: by the run's configuration.
            NotHere: it is not there, or what came is not what was announced.
            RunFailed: this machine has no room for it.
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

    def loaded(self, version: int, file: Path) -> None:
        """The engine holds this version: who waits for it to be replaced need not wait for this generator."""
        file.unlink(missing_ok=True)
        with contextlib.suppress(redis.RedisError):
            self._ask(version)

    def close(self) -> None:
        """Break off what is being read, and leave nothing behind."""
        self._stop.set()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def _ask(self, held: int) -> None:
        weight_chunks.ask(self._client, self._keys, self._generator, held=held, count=next(self._count))

    def _read(self, manifest: Manifest, held: int) -> Path:
        """Chunk after chunk into a file. Where one is gone, a newer version has taken its place, or will."""
        file = self._own_folder() / f"v{manifest.version:06d}.safetensors"
        digest = hashlib.sha256()
        try:
            with file.open("wb") as stream:
                for chunk in range(manifest.chunks):
                    data = self._client.get(chunk_key(self._keys, manifest.version, chunk))
                    if not isinstance(data, bytes):
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
                f"version {manifest.version} came through Redis with sha256 {digest.hexdigest()[:12]}, "
                f"announced {manifest.checksum[:12]}: it is put there again"
            )
        return file

    def _complain(self, manifest: Manifest) -> None:
        """What the manifest says is not so. Without it the learner puts the version there again."""
        if weight_chunks.read_manifest(self._client, self._keys) == manifest:
            weight_chunks.discard_manifest(self._client, self._keys)

    def _own_folder(self) -> Path:
        """Made when it is first needed; those of generators that were killed are removed then."""
        if self._folder is None:
            _sweep(Path(tempfile.gettempdir()))
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            aside = self._folder / f"{LOCK}.new"
            self._lock = aside.open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            aside.rename(self._folder / LOCK)  # locked before anybody can find it
        return self._folder


def _sweep(parent: Path) -> None:
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
