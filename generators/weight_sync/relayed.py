"""Receive weights from the learner's relay, for a generator that can't read the learner's folder.

In: the manifest and the chunks that the relay offers while this generator asks (`broker.weight_exchange`). Out: files
in this generator's own folder, with the announced checksum. The generator keeps the last ones, so that a delta is
enough for the next version; without them, or where the result has the wrong checksum, it requests full weights. A file
gets its name only after its checksum was checked. Missing weights are a `NotHere` with the reason: the follower calls
again, in a thread.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from broker.checksums import weights_checksum
from broker.errors import RunFailed
from broker.messages import Announcement
from broker.own_folder import OwnFolder
from broker.weight_delta.delta_file import apply_deltas, split
from broker.weight_delta.segment import BadDelta
from broker.weight_exchange.bundles import Bundle, WeightsRequest, refusal, unsealed, way
from broker.weight_exchange.exchange import Exchange, ExchangeAway
from generators.weight_sync.receiver import NotHere, Received, TooLarge

log = logging.getLogger(__name__)

PREFIX = "millrace-weights-"  # of the folder's name
QUIET_S = 2.0  # without a chunk, until the follower gets a `NotHere`
POLL_S = 0.05  # between two tries for the next chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldVersion:
    """A version's verified files in a folder within this generator's."""

    version: int
    checksum: str
    files: tuple[Path, ...]

    def discard(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.files[0].parent, ignore_errors=True)


@dataclass(slots=True)
class PartialBundle:
    """A partially received bundle."""

    bundle: Bundle
    file: Path
    lacks: int  # missing chunks, one bit each


class RelayedReceiver:
    """A `WeightReceiver` that asks the learner's relay.

    Args:
        exchange: the relay's storage.
        generator: its name in requests.
        most_bytes: `learner.weights.redis_max_bytes`.
    """

    def __init__(self, exchange: Exchange, generator: str, *, most_bytes: int) -> None:
        self._exchange = exchange
        self._generator = generator
        self._most_bytes = most_bytes
        self._count = itertools.count(1)
        self._has_loaded = False
        self._stop = threading.Event()
        self._folder: OwnFolder | None = None
        self._held: HeldVersion | None = None
        self._parts: dict[str, PartialBundle] = {}

    @property
    def is_slow(self) -> bool:
        """Return whether weights have come this way before: then each version is waited for."""
        return self._has_loaded

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Request weights newer than `held`, and return the newest that the relay offers, or an older version.

        Raises:
            TooLarge: the run's configuration lets no weights through.
            NotHere: the weights have not arrived, or differ from the announced ones.
            RunFailed: this machine has no disk space for the files.
        """
        if refused := refusal(announced[0].size_bytes, self._most_bytes):
            raise TooLarge(refused)
        checksums = {one.version: one.checksum for one in reversed(announced)}
        try:
            return self._follow(checksums, held)
        except ExchangeAway as error:
            raise NotHere(str(error)) from error
        except OSError as error:
            if self._stop.is_set():  # and the folder is gone
                raise NotHere("this generator ends") from error
            place = self._folder.path if self._folder else tempfile.gettempdir()
            raise RunFailed(
                f"{place} can't be used: {error.strerror or error}. Weights of {announced[0].size_bytes} "
                "bytes that come through the relay need twice their room there; TMPDIR names another place"
            ) from error

    def loaded(self, received: Received) -> None:
        """Tell the relay that the engine has the version. The files stay: the next delta is based on them."""
        self._has_loaded = True
        with suppress(ExchangeAway):
            self._ask(received.version)

    def close(self) -> None:
        """Stop reading, and remove all files."""
        self._stop.set()
        if self._folder is not None:
            self._folder.close()

    def _follow(self, checksums: Mapping[int, str], held: int) -> Received:
        """Receive the bundles of the manifest, for as long as chunks arrive."""
        has_arrived, since = False, time.monotonic()
        while True:
            self._ask(held)
            bundles, reason = self._way(checksums, held)
            if bundles and self._collect(bundles, held):
                has_arrived, since = True, time.monotonic()
            if self._stop.is_set():
                raise NotHere("this generator ends")
            if bundles and self._is_whole(bundles):
                self._assemble(bundles)
                since = time.monotonic()
            elif bundles and time.monotonic() - since < QUIET_S:
                self._stop.wait(POLL_S)
            elif self._held is not None and self._held.version > held:
                return Received(version=self._held.version, files=self._held.files)
            else:
                raise NotHere(reason, is_arriving=has_arrived)

    def _way(self, checksums: Mapping[int, str], held: int) -> tuple[Sequence[Bundle], str]:
        """Return the bundles to newer weights, () for none; and what is waited for."""
        manifest, place = self._exchange.read_manifest(), self._exchange.place
        if manifest is None:
            return (), f"waiting for the learner to put them into {place}"
        if manifest.trouble:
            return (), manifest.trouble
        given = {manifest.version: manifest.checksum}
        given |= {bundle.version: bundle.checksum for bundle in manifest.bundles}
        is_other = any(checksums.get(version, checksum) != checksum for version, checksum in given.items())
        if manifest.version <= held or is_other:
            stale = f"in the place of version {manifest.version}"
            return (), f"waiting for the learner to put them into {place} {stale}"
        names = {bundle.name for bundle in manifest.bundles}
        for part in [part for name, part in self._parts.items() if name not in names]:
            self._discard(part)
        bundles = way(manifest, held=self._held.checksum if self._held else "", above=held)
        if bundles is None:
            full = f"full weights of version {manifest.version}"
            return (), f"waiting for the learner to put {full} into {place}"
        missing = sum(self._lacks(bundle).bit_count() for bundle in bundles)
        return bundles, f"waiting for {missing} more chunks of version {manifest.version} from {place}"

    def _collect(self, bundles: Sequence[Bundle], held: int) -> bool:
        """Read the missing chunks that are stored, and return whether there were any."""
        lacking = {
            (bundle.name, chunk): bundle
            for bundle in bundles
            for chunk in range(bundle.chunks)
            if self._lacks(bundle) >> chunk & 1
        }
        has_arrived = False
        for name, chunk in sorted(self._exchange.present(lacking)):
            value = self._exchange.get((name, chunk))
            if self._stop.is_set():
                break
            if value is None:  # another generator has found it damaged
                continue
            data = unsealed(lacking[name, chunk], chunk, value)
            if data is None:
                log.warning("weights_damaged parcel=%s chunk=%d; asking for it again", name, chunk)
                self._exchange.drop([(name, chunk)])
                continue
            self._keep(lacking[name, chunk], chunk, data)
            self._ask(held)
            has_arrived = True
        return has_arrived

    def _is_whole(self, bundles: Sequence[Bundle]) -> bool:
        """Return whether the bundles can be applied: a base version alone, or all deltas together."""
        first = bundles[:1] if not bundles[0].base else bundles
        return not any(self._lacks(bundle) for bundle in first)

    def _keep(self, bundle: Bundle, chunk: int, data: bytes) -> None:
        """Write a chunk to its place in the bundle's file."""
        part = self._parts.get(bundle.name)
        if part is None:
            part = PartialBundle(bundle, self._own_folder() / f"{bundle.name}.part", bundle.all_chunks)
            part.file.write_bytes(b"")
            self._parts[bundle.name] = part
        with part.file.open("r+b") as stream:
            stream.seek(bundle.extent(chunk)[0])
            stream.write(data)
        part.lacks &= ~(1 << chunk)

    def _assemble(self, bundles: Sequence[Bundle]) -> None:
        """Make a version from a base version, or from the held one and deltas, check its checksum, and hold it instead.

        Raises:
            NotHere: it differs from the announced one. It is removed, with everything that it was made of.
        """
        used = [self._parts[bundle.name] for bundle in (bundles if bundles[0].base else bundles[:1])]
        last = used[-1].bundle
        made = self._own_folder() / f"v{last.version:06d}-{last.checksum[-8:]}.made"
        try:
            if last.base and self._held:
                apply_deltas(self._held.files, [part.file for part in used], made)
            else:
                used[0].file.rename(made)
            if (found := weights_checksum([made])) != last.checksum:
                raise BadDelta(f"its checksum is {found[:12]}, announced {last.checksum[:12]}")
        except BadDelta as error:
            made.unlink(missing_ok=True)
            self._begin_anew(last, error)
        finally:
            for part in used:
                self._discard(part)
        self._hold(last, made)

    def _hold(self, last: Bundle, made: Path) -> None:
        """Release the previous version, and keep this one's files in their own folder."""
        if self._held is not None:
            self._held.discard()
            self._held = None
        files = split(made, made.with_suffix(""))
        self._held = HeldVersion(version=last.version, checksum=last.checksum, files=files)

    def _begin_anew(self, last: Bundle, error: BadDelta) -> None:
        """Discard weights with a wrong checksum."""
        log.warning("weights_differ version=%d reason=%s; asking for full weights", last.version, error)
        if self._held is not None:
            self._held.discard()
            self._held = None
        raise NotHere(
            f"version {last.version} is not what was announced: {error}. Waiting for its full weights"
        ) from error

    def _ask(self, version: int) -> None:
        request = WeightsRequest(
            count=next(self._count),
            version=version,
            held=self._held.checksum if self._held else "",
            lacks={name: part.lacks for name, part in self._parts.items()},
        )
        self._exchange.ask(self._generator, request)

    def _lacks(self, bundle: Bundle) -> int:
        part = self._parts.get(bundle.name)
        return part.lacks if part else bundle.all_chunks

    def _discard(self, part: PartialBundle) -> None:
        part.file.unlink(missing_ok=True)
        self._parts.pop(part.bundle.name, None)

    def _own_folder(self) -> Path:
        """Return this generator's folder. The first call makes it, and removes the folders of killed generators."""
        if self._folder is None:
            self._folder = OwnFolder(PREFIX)
        return self._folder.path
