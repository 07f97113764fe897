"""Give weights to the generators that request them: deltas to those that hold older weights.

In: the announced versions, and the generators' requests. Out: a manifest and chunks in an exchange
(`broker.weight_exchange`), in Redis or a folder. The relay is a thread of rank 0 during the training, which only offers
each version and never waits. A failure here is a warning, and a reason in the manifest for the waiting generators.

A chunk is stored while a living generator lacks it, and all together take at most `redis_max_bytes`, so that weights of
any size pass through. A slow reader delays nobody: a base version's chunks are removed at once for those of deltas, and
any chunk after CHUNK_S for a generator that has read all stored ones. Removed chunks are stored again after the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import redis

from broker.connection import RedisLink
from broker.keys import Keys
from broker.messages import Announcement
from broker.protocol.run_owner import newest_fence
from broker.weight_exchange.bundles import SEAL_BYTES, Bundle, Manifest, WeightsRequest, refusal, sealed, way
from broker.weight_exchange.exchange import Chunk, Exchange, ExchangeAway, ExchangeCutOff, ExchangeFull
from learner.weight_sync.delta_chain import DeltaChain, OpenVersion
from learner.weight_sync.heard_requests import HeardRequests

log = logging.getLogger(__name__)

CHUNK_BYTES = 32 << 20  # Redis does nothing else while it takes one: some tens of milliseconds
LOOK_S = 0.5
BUSY_S = 0.05  # between two looks while generators read
RETRY_S = 10.0  # after the exchange was full
SILENT_S = 15.0  # a generator silent for this long has gone, or has the weights
LATELY_S = 600.0  # deltas from a generator's weights are made for this long although it does not ask
CHUNK_S = 1.0  # shortest time that a chunk stays, for slow readers
PROLONG_S = 30.0  # between extensions of the expiry
END_S = 5.0  # for the thread's end, where Redis does not answer
SETTLE_S, SETTLE_POLL_S = 10.0, 0.05  # for the disk of Redis


class Relay:
    """Serve the generators that request weights.

    Args:
        exchange: storage of requests, manifest and chunks.
        folder: of the versions, for deltas between them.
        most_bytes: of chunks stored at one time; 0: none may be.
        anchor_every: versions behind, up to which a generator gets deltas.
        fence: of this learner, after its claim; the relay stores nothing once a newer one owns the run.
        lack_of_room: returns why that many more bytes have no room in the exchange; "" where they have.
        chunk_bytes: the largest chunk.
    """

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        exchange: Exchange,
        folder: Path,
        *,
        most_bytes: int,
        anchor_every: int,
        fence: Callable[[], int],
        lack_of_room: Callable[[int], str],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._client = link.client  # not the link, which waits: the next look replaces a failed one
        self._keys = keys
        self._exchange = exchange
        self._fence = fence
        self._lack_of_room = lack_of_room
        self._chain = DeltaChain(
            folder, longest=anchor_every, chunk_bytes=min(chunk_bytes, max(1, most_bytes // 2 - SEAL_BYTES))
        )
        self._heard = HeardRequests[WeightsRequest](LATELY_S)
        self._there: dict[Chunk, int] = {}  # chunks in the exchange, with their bytes
        self._put_at: dict[Chunk, float] = {}  # when each was last stored
        self._prolonged_at = time.monotonic()
        self._not_before = 0.0
        self._said = ""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="relay", daemon=True)

    def start(self) -> None:
        """Start looking for generators that ask."""
        self._thread.start()

    def offer(self, announcement: Announcement) -> None:
        """Take the version that was just announced; its path is a folder that this process can read. Never waits."""
        try:
            self._chain.offer(OpenVersion(announcement))
        except OSError as error:
            log.warning("weights_not_relayed version=%d error=%s", announcement.version, error)
            return
        self._wake.set()

    def stop(self) -> None:
        """Empty the exchange and end: no more versions come. Chunks that can't be removed expire."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_S)
        else:
            self._chain.close()

    def look(self) -> bool:
        """Read the requests, and store, keep or remove chunks accordingly.

        Returns:
            Whether a generator still lacks something.
        Raises:
            ExchangeAway, redis.RedisError: the exchange or Redis is away, or full.
            OSError: a version's file can't be read, or a delta can't be written.
        """
        self._chain.take_offered()
        newest = self._chain.newest
        if newest is None or self._is_fenced():
            return False
        self._listen()
        living, lately = self._requests_since(SILENT_S), self._requests_since(LATELY_S)
        held = {request.held for request in lately} - {""}
        behind = [request for request in living if request.version < newest.version]
        if living and not self._most_bytes:
            self._refuse(self._chain.manifest(), refusal(newest.size_bytes, self._most_bytes))
            return False
        if behind:
            self._chain.extend(held)
        else:
            self._chain.forget_unless(held)
        self._chain.choose_base_version(behind, lately)
        if not living:
            self._withdraw()
            return False
        return self._serve(self._chain.manifest(), behind)

    def _serve(self, manifest: Manifest, behind: Collection[WeightsRequest]) -> bool:
        """Store some of the lacking chunks, as many as there is room for."""
        by_generator = [_lacked(manifest, request) for request in behind]
        lacked = {chunk: bundle for chunks in by_generator for chunk, bundle in chunks.items()}
        self._remove_all_but(lacked)
        missing = sorted(
            (chunk for chunk in lacked if chunk not in self._there),
            key=lambda chunk: (not lacked[chunk].base, self._put_at.get(chunk, 0.0)),  # deltas first
        )
        sizes = {chunk: lacked[chunk].extent(chunk[1])[1] + SEAL_BYTES for chunk in missing}
        room = self._most_bytes - sum(self._there.values())
        if missing and not self._there and (trouble := self._lack_of_room(sizes[missing[0]])):
            self._refuse(manifest, trouble)
            return False
        if manifest != self._exchange.read_manifest():
            self._exchange.write_manifest(manifest)
        if missing and room < sizes[missing[0]]:
            is_stuck = any(chunks and chunks.keys().isdisjoint(self._there) for chunks in by_generator)
            room += self._make_way(lacked, for_delta=bool(lacked[missing[0]].base), for_stuck=is_stuck)
        for chunk in missing:
            room -= sizes[chunk]
            if room < 0 or self._stop.is_set() or self._lack_of_room(sizes[chunk]):
                break
            self._put(lacked[chunk], chunk, sizes[chunk])
            self._said = ""
        return bool(lacked)

    def _put(self, bundle: Bundle, chunk: Chunk, size_bytes: int) -> None:
        value = sealed(*chunk, self._chain.read(bundle, chunk[1]))
        before = time.monotonic()
        self._there[chunk] = size_bytes  # also if Redis takes it and the reply is lost
        self._put_at[chunk] = before
        self._exchange.put(chunk, value)
        self._put_at[chunk] = time.monotonic()
        if self._exchange.others_wait:
            self._leave_alone(self._put_at[chunk] - before)

    def _remove_all_but(self, lacked: Mapping[Chunk, Bundle]) -> None:
        """Remove chunks that nobody lacks any more, and note those that have expired."""
        present = self._exchange.present(self._there)
        if time.monotonic() - self._prolonged_at > PROLONG_S:
            self._exchange.prolong(present & lacked.keys())
            self._prolonged_at = time.monotonic()
        self._exchange.drop(present - lacked.keys())
        self._there = {chunk: size for chunk, size in self._there.items() if chunk in present & lacked.keys()}
        self._put_at = {chunk: at for chunk, at in self._put_at.items() if chunk in lacked}

    def _make_way(self, lacked: Mapping[Chunk, Bundle], *, for_delta: bool, for_stuck: bool) -> int:
        """Remove the base version's chunks for a delta, and old ones for a generator with them; return the bytes."""
        since = time.monotonic() - CHUNK_S
        old = [
            chunk
            for chunk in self._there
            if (for_stuck and self._put_at[chunk] < since) or (for_delta and not lacked[chunk].base)
        ]
        self._exchange.drop(old)
        return sum(self._there.pop(chunk) for chunk in old)

    def _leave_alone(self, seconds: float) -> None:
        """Wait as long as the last chunk occupied the exchange, and until the chunk is on its disk."""
        self._stop.wait(seconds)
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if self._exchange.has_settled() or self._stop.wait(SETTLE_POLL_S):
                return

    def _refuse(self, manifest: Manifest, trouble: str) -> None:
        """Tell the waiting generators why they get nothing, once."""
        refused = replace(manifest, deltas=(), anchor=None, trouble=trouble)
        self._remove_all_but({})
        if self._exchange.read_manifest() != refused:
            self._say(f"weights_not_relayed version={manifest.version} reason={trouble}")
            self._exchange.write_manifest(refused)

    def _listen(self) -> None:
        """Read the requests. Those at the first look may be from before this learner."""
        requests = self._exchange.requests()
        if not self._heard.has_looked:
            self._exchange.clear()
        self._heard.listen(requests)

    def _requests_since(self, seconds: float) -> list[WeightsRequest]:
        """Return the last request of each generator that has asked within that many seconds."""
        return list(self._heard.since(seconds).values())

    def _is_fenced(self) -> bool:
        return newest_fence(self._client, self._keys) > self._fence()

    def _withdraw(self) -> None:
        """Empty the exchange."""
        self._exchange.drop(self._there)
        self._there, self._put_at = {}, {}
        self._exchange.clear()

    def _keep_looking(self) -> None:
        is_busy = False
        while not self._stop.is_set():
            self._wake.wait(BUSY_S if is_busy else LOOK_S)
            self._wake.clear()
            if time.monotonic() < self._not_before or self._stop.is_set():
                continue
            is_busy = False
            try:
                is_busy = self.look()
            except ExchangeFull as error:
                self._not_before = time.monotonic() + RETRY_S
                self._say(f"weights_not_relayed reason={error}; trying again")
            except (ExchangeCutOff, redis.ConnectionError, redis.TimeoutError) as error:
                log.debug("relay_cut_off error=%s", error)  # the learner's own link warns about it
            except (ExchangeAway, redis.RedisError, OSError) as error:
                self._say(f"weights_not_relayed error={error}; trying again")
            except Exception:  # a bug here must not end the learner
                self._not_before = time.monotonic() + RETRY_S
                log.exception("relay_failed")
        with suppress(ExchangeAway, redis.RedisError):
            self._withdraw()
        self._chain.close()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.warning("%s", text)


def _lacked(manifest: Manifest, request: WeightsRequest) -> dict[Chunk, Bundle]:
    """Return the chunks that a generator lacks of the bundles on its way."""
    bundles = way(manifest, held=request.held, above=request.version) or ()
    return {
        (bundle.name, chunk): bundle
        for bundle in bundles
        for chunk in range(bundle.chunks)
        if request.chunks_of(bundle) >> chunk & 1
    }
