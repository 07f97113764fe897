"""Exchange weights in a folder that learner and generators share, such as a network file system.

    manifest.json            the bundles on offer, or why there are none
    wanted/GENERATOR.json    a generator's request
    chunks/BUNDLE.CHUNK      a sealed chunk

Each file is written under a temporary name and renamed, so that no reader sees half of it. A new learner removes the
files of a dead one; a generator's request stays for OLD_S.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from broker.weight_exchange.bundles import (
    Manifest,
    WeightsRequest,
    manifest_text,
    read_manifest_text,
    read_request_text,
    request_text,
)
from broker.weight_exchange.exchange import Chunk, ExchangeAway

OLD_S = 3600.0  # since a request was written, by the folder's clock: its generator is gone


class FolderExchange:
    """An `Exchange` in a folder."""

    others_wait = False

    def __init__(self, folder: Path) -> None:
        self.place = f"the folder {folder}"
        self._folder = folder
        self._manifest = folder / "manifest.json"
        self._chunks = folder / "chunks"
        self._wanted = folder / "wanted"

    def read_manifest(self) -> Manifest | None:
        """Read the manifest."""
        data = self._read(self._manifest)
        return read_manifest_text(data) if data is not None else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        self._write(self._manifest, manifest_text(manifest).encode())

    def clear(self) -> None:
        """Remove the manifest and all chunks."""
        with self._said_plainly():
            self._manifest.unlink(missing_ok=True)
            for file in [*self._chunks.glob("*"), *self._chunks.glob(".*")]:
                file.unlink(missing_ok=True)

    def put(self, chunk: Chunk, value: bytes) -> None:
        """Write a chunk."""
        self._write(self._file(chunk), value)

    def has_settled(self) -> bool:
        """Return True: writes to the disk are synchronous."""
        return True

    def get(self, chunk: Chunk) -> bytes | None:
        """Read a chunk."""
        return self._read(self._file(chunk))

    def drop(self, chunks: Iterable[Chunk]) -> None:
        """Remove chunks."""
        with self._said_plainly():
            for chunk in chunks:
                self._file(chunk).unlink(missing_ok=True)

    def present(self, chunks: Iterable[Chunk]) -> set[Chunk]:
        """Return which are stored."""
        with self._said_plainly():
            return {chunk for chunk in chunks if self._file(chunk).exists()}

    def prolong(self, chunks: Iterable[Chunk]) -> None:
        """Do nothing: nothing here expires."""

    def ask(self, generator: str, request: WeightsRequest) -> None:
        """Replace the generator's request."""
        self._write(self._wanted / f"{_file_name(generator)}.json", request_text(request).encode())

    def requests(self) -> dict[str, WeightsRequest]:
        """Read the requests, and remove those of generators that left long ago."""
        found: dict[str, WeightsRequest] = {}
        with self._said_plainly():
            for file in self._wanted.glob("*.json"):
                with suppress(FileNotFoundError):
                    if time.time() - file.stat().st_mtime > OLD_S:
                        file.unlink()
                    elif request := read_request_text(file.read_bytes()):
                        found[file.stem] = request
        return found

    def _file(self, chunk: Chunk) -> Path:
        name, number = chunk
        return self._chunks / f"{_file_name(name)}.{number}"

    def _read(self, file: Path) -> bytes | None:
        with self._said_plainly():
            try:
                return file.read_bytes()
            except FileNotFoundError:
                return None

    def _write(self, file: Path, data: bytes) -> None:
        with self._said_plainly():
            aside = file.with_name(f".{file.name}.new")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                aside.write_bytes(data)
                aside.rename(file)
            except OSError:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)
                raise

    @contextmanager
    def _said_plainly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ExchangeAway(f"{self.place} can't be used: {error.strerror}") from error


def _file_name(name: str) -> str:
    """Return a name without characters that are special in a path."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")
