"""Keep what the relay gives out: the newest versions of the weights, the deltas between them, and one base version.

In: versions as they are announced. Out: a manifest, and the bytes of each chunk. Deltas are made one after the other,
each from the version that the last one produced: a **chain**. The relay's thread makes them only while generators hold
a version of the chain, and skips versions where training is faster. Files of versions are held open, so that they stay
readable when their folders are removed: the newest and the one before, the chain's last and the base version, which are
often the same. Deltas are in a folder of this process next to the versions, and take up one version at most.

Weights without a delta (another layout, or a delta that is not smaller) begin a new chain.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from broker.messages import Announcement
from broker.own_folder import OwnFolder
from broker.weight_delta.delta_file import Made, write_delta
from broker.weight_delta.layout import NoLayout
from broker.weight_exchange.bundles import Bundle, Manifest, WeightsRequest, way
from broker.weight_files import WeightStream, weight_files

log = logging.getLogger(__name__)

PREFIX = "millrace-deltas-"  # of the folder's name
WAITING = 2  # versions that the relay's thread has not read yet: the newest, and the one before


class OpenVersion:
    """A version's files, open from its announcement until they are no longer needed.

    Raises:
        OSError: they are missing.
    """

    def __init__(self, announcement: Announcement) -> None:
        self.version = announcement.version
        self.checksum = announcement.checksum
        self.size_bytes = announcement.size_bytes
        self.stream = WeightStream(weight_files(Path(announcement.path)))

    def close(self) -> None:
        """Close the files."""
        self.stream.close()


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """A delta on disk."""

    bundle: Bundle
    file: Path


class DeltaChain:
    """Versions, deltas and a base version. Only `offer` may be called outside the relay's thread.

    Args:
        folder: contains the deltas' own folder, next to the versions, on the same disk.
        longest: deltas in the chain; a generator further behind starts with a base version.
        chunk_bytes: of each bundle.
    """

    def __init__(self, folder: Path, *, longest: int, chunk_bytes: int) -> None:
        self._parent = folder
        self._longest = longest
        self._chunk_bytes = chunk_bytes
        self._offered: deque[OpenVersion] = deque()
        self._lock = threading.Lock()  # of `_offered`
        self._open: list[OpenVersion] = []
        self._previous: OpenVersion | None = None
        self.newest: OpenVersion | None = None
        self._last: OpenVersion | None = None  # the chain's end or start
        self._deltas: list[StoredDelta] = []
        self._base_version: OpenVersion | None = None
        self._folder: OwnFolder | None = None

    def offer(self, version: OpenVersion) -> None:
        """Queue a version that was just announced, from any thread. Never waits."""
        with self._lock:
            self._offered.append(version)
            passed_over = [self._offered.popleft() for _ in range(len(self._offered) - WAITING)]
        for one in passed_over:
            one.close()

    def take_offered(self) -> None:
        """Make the queued versions current, and free what is no longer needed."""
        with self._lock:
            offered = list(self._offered)
            self._offered.clear()
        for version in offered:
            self._open.append(version)
            if not self.newest or version.checksum != self.newest.checksum:
                self._previous, self.newest = self.newest, version
        self._let_go()

    def extend(self, held: Collection[str]) -> None:
        """Make the delta to the newest version, if any of the held weights is on the chain.

        Args:
            held: checksums of the weights that generators hold, or will soon.
        Raises:
            OSError: a file can't be read, or the delta can't be written.
        """
        if self.newest is None or self._last is self.newest:
            return
        held = {*held, *([self._base_version.checksum] if self._base_version else [])}
        if self._on_chain().isdisjoint(held):
            is_with_previous = self._previous is not None and self._previous.checksum in held
            self._begin_with(self._previous if is_with_previous else self.newest)
        if self._last and self._last is not self.newest:
            self._add_delta(self._last, self.newest)
        self._let_go()

    def choose_base_version(
        self, living: Collection[WeightsRequest], lately: Collection[WeightsRequest]
    ) -> None:
        """Make the newest version the base if a living generator needs one, and the current base does not help it.

        Args:
            living: requests of generators that ask.
            lately: these, and requests of generators that asked recently and may be reading.
        """
        if self._base_version and not self._is_of_use(self._base_version, lately):
            self._base_version = None
        if self.newest and any(self._has_no_way(request, with_base_version=True) for request in living):
            self._base_version = self.newest
            log.info("weights_anchored version=%d bytes=%d", self.newest.version, self.newest.size_bytes)
        self._let_go()

    def forget_unless(self, held: Collection[str]) -> None:
        """Free what only a chain needs that no generator's weights are on, to save disk space."""
        if self._on_chain().isdisjoint(held):
            self._begin_with(None)
        self._let_go()

    def manifest(self, *, with_base_version: bool = True) -> Manifest:
        """Describe the bundles on offer.

        Raises:
            RuntimeError: no version has been offered.
        """
        if self.newest is None:
            raise RuntimeError("there is no version to describe")
        is_reached = self._last is self.newest
        return Manifest(
            version=self.newest.version,
            checksum=self.newest.checksum,
            size_bytes=self.newest.size_bytes,
            deltas=tuple(delta.bundle for delta in self._deltas) if is_reached else (),
            anchor=self._full(self._base_version) if self._base_version and with_base_version else None,
        )

    def read(self, bundle: Bundle, chunk: int) -> bytes:
        """Read the bytes of a chunk.

        Raises:
            OSError: its file can't be read, or is truncated.
        """
        begin, size = bundle.extent(chunk)
        if not bundle.base and self._base_version:
            data = self._base_version.stream.read(size, begin)
        else:
            (file,) = [delta.file for delta in self._deltas if delta.bundle == bundle]
            with file.open("rb") as stream:
                data = os.pread(stream.fileno(), size, begin)
        if len(data) != size:
            raise OSError(f"{bundle.name} ends before byte {begin + size}")
        return data

    def close(self) -> None:
        """Close all files, and remove the deltas."""
        self.take_offered()
        self._last = self._base_version = self._previous = self.newest = None
        self._let_go()
        if self._folder is not None:
            self._folder.close()

    def _on_chain(self) -> set[str]:
        return {delta.bundle.base for delta in self._deltas} | (
            {self._last.checksum} if self._last else set()
        )

    def _begin_with(self, version: OpenVersion | None) -> None:
        self._drop_deltas(len(self._deltas))
        self._last = version

    def _drop_deltas(self, count: int) -> None:
        for delta in self._deltas[:count]:
            delta.file.unlink(missing_ok=True)
        del self._deltas[:count]

    def _add_delta(self, base: OpenVersion, new: OpenVersion) -> None:
        started = time.monotonic()
        if self._folder is None:
            self._folder = OwnFolder(PREFIX, self._parent)
        name = f"delta-{base.version}-{new.version}-{base.checksum[-8:]}{new.checksum[-8:]}"
        file = self._folder.path / name
        try:
            made = write_delta(base.stream, new.stream, file)
        except NoLayout as error:
            log.info("weights_without_delta version=%d reason=%s", new.version, error)
            made = None
        except OSError:
            file.unlink(missing_ok=True)
            self._begin_with(new)  # full weights need no chain
            raise
        if made is None or made.size_bytes >= new.size_bytes:
            file.unlink(missing_ok=True)
            self._begin_with(new)
            return
        self._deltas.append(StoredDelta(self._bundle(name, base, new, made), file))
        self._last = new
        while len(self._deltas) > self._longest or self._chain_bytes() > new.size_bytes:
            self._drop_deltas(1)
        log.info(
            "weights_encoded version=%d base=%d changed=%.4f bytes=%d of_full=%.4f took_s=%.2f",
            new.version,
            base.version,
            made.changed / max(made.elements, 1),
            made.size_bytes,
            made.size_bytes / new.size_bytes,
            time.monotonic() - started,
        )

    def _chain_bytes(self) -> int:
        return sum(delta.bundle.size_bytes for delta in self._deltas)

    def _bundle(self, name: str, base: OpenVersion, new: OpenVersion, made: Made) -> Bundle:
        return Bundle(
            name=name,
            version=new.version,
            checksum=new.checksum,
            base=base.checksum,
            size_bytes=made.size_bytes,
            chunk_bytes=self._chunk_bytes,
        )

    def _full(self, version: OpenVersion) -> Bundle:
        return Bundle(
            name=f"full-{version.version}-{version.checksum[-16:]}",
            version=version.version,
            checksum=version.checksum,
            base="",
            size_bytes=version.size_bytes,
            chunk_bytes=self._chunk_bytes,
        )

    def _has_no_way(self, request: WeightsRequest, *, with_base_version: bool) -> bool:
        """Return whether no bundles lead from a generator's weights to a newer version."""
        is_behind = self.newest is not None and request.version < self.newest.version
        manifest = self.manifest(with_base_version=with_base_version)
        return is_behind and way(manifest, held=request.held, above=request.version) is None

    def _is_of_use(self, base_version: OpenVersion, lately: Iterable[WeightsRequest]) -> bool:
        """Return whether a base version is needed and deltas continue from this one, or it is being read and helps."""
        name, is_on_chain = self._full(base_version).name, base_version.checksum in self._on_chain()
        return any(
            self._has_no_way(request, with_base_version=False)
            and (is_on_chain or (name in request.lacks and base_version.version > request.version))
            for request in lately
        )

    def _let_go(self) -> None:
        needed = {id(one) for one in (self.newest, self._previous, self._last, self._base_version) if one}
        for version in self._open:
            if id(version) not in needed:
                version.close()
        self._open = [version for version in self._open if id(version) in needed]
