"""The transport through Redis: the relay puts the newest weights there, in chunks, while a generator asks for them.

In: the announced version, and the generators' questions (`broker.weight_chunks`). Out: the chunks of one version, and
its manifest. The relay is a thread of rank 0 beside the training, which only offers each version and never waits.
Whatever goes wrong here is a warning, and a reason in the manifest for the generator that waits. A version that is
being read stays until the generators that ask have it: replaced at each step, it might never be read to its end.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import OutOfMemoryError

from broker import weight_chunks
from broker.connection import RedisLink
from broker.keys import PROMPTS, Keys
from broker.messages import Announcement
from broker.protocol.run_reader import MEMORY_SHARE
from broker.weight_chunks import CHUNK_BYTES, EXPIRY_S, Manifest
from config.run import Run
from learner.weight_sync.transport import Placed, WeightHandle
from learner.weight_sync.version_folder import FILE, folder_of, published, remove_old, write_version

log = logging.getLogger(__name__)

LOOK_S = 0.5
RETRY_S = 10.0  # after Redis has refused a chunk
SILENT_S = 15.0  # a generator that has not asked for so long has gone, or has the weights
END_S = 5.0  # for the thread's end, where Redis does not answer
SETTLE_S, SETTLE_POLL_S = 10.0, 0.05  # for the disk of Redis
SERVE_S = 300.0  # at most, that an older version stays for the generators that still read it


class Relay:
    """Serves the generators that ask for weights through Redis.

    Args:
        fence: of this learner, once it has claimed the run; the relay puts nothing there when a newer one has it.
        mean_bytes: bytes that a group takes in Redis once it is sampled.
        chunk_bytes: bytes of each key.
    """

    def __init__(
        self,
        run: Run,
        link: RedisLink,
        keys: Keys,
        *,
        fence: Callable[[], int],
        mean_bytes: Callable[[], float],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._run = run
        self._client = link.client  # not the link, which waits: the next look makes up for a failed one
        self._keys = keys
        self._fence = fence
        self._mean_bytes = mean_bytes
        self._chunk_bytes = chunk_bytes
        self._newest: Announcement | None = None
        # Generator -> its last question, and when it came; None before the first look.
        self._heard: dict[str, tuple[tuple[int, int], float]] | None = None
        self._there_since = -SERVE_S  # of the version in Redis, as far as this relay knows
        self._not_before = 0.0
        self._said = ""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="relay", daemon=True)

    def start(self) -> None:
        """Begin to look for generators that ask."""
        self._thread.start()

    def offer(self, announcement: Announcement) -> None:
        """Take the version that has just been announced; its path is a folder that this process sees. Never waits."""
        self._newest = announcement
        self._wake.set()

    def stop(self) -> None:
        """Remove the chunks from Redis and end: no more versions come. Chunks that can't be removed expire."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_S)

    def look(self) -> None:
        """Look which generators ask, and put, keep or remove the chunks accordingly.

        Raises:
            redis.RedisError: Redis is away, or full.
        """
        newest = self._newest
        if newest is None or self._is_fenced():
            return
        manifest = weight_chunks.read_manifest(self._client, self._keys)
        held = self._held_by_those_who_ask()
        if not held:
            self._clear(manifest)
        elif min(held) < newest.version:
            self._serve(newest, manifest, min(held))

    def _serve(self, newest: Announcement, manifest: Manifest | None, held: int) -> None:
        """Serve `newest` to the generators that ask; the one furthest behind holds version `held`."""
        is_there = manifest is not None and not manifest.trouble
        present = manifest.size_bytes if manifest is not None and is_there else 0
        trouble = weight_chunks.refusal(
            newest.size_bytes, self._run.learner.weights.redis_max_bytes
        ) or self._lack_of_room(newest.size_bytes - present)
        if trouble:
            self._refuse(newest, manifest, trouble)
        elif (
            manifest is not None
            and is_there
            and (
                manifest.checksum == newest.checksum
                or (held < manifest.version and time.monotonic() - self._there_since < SERVE_S)
            )
        ):
            weight_chunks.extend(self._client, self._keys, manifest)
        else:
            self._put(newest, manifest)

    def _put(self, newest: Announcement, manifest: Manifest | None) -> None:
        """Put a version into Redis in the place of the one before: never more than one takes up memory."""
        started = time.monotonic()
        self._clear(manifest)
        chunks = math.ceil(newest.size_bytes / self._chunk_bytes)
        there = Manifest(
            version=newest.version, checksum=newest.checksum, size_bytes=newest.size_bytes, chunks=chunks
        )
        try:
            with (Path(newest.path) / FILE).open("rb") as file:
                for chunk in range(chunks):
                    before = time.monotonic()
                    self._client.set(
                        self._keys.weights_chunk(newest.version, chunk),
                        file.read(self._chunk_bytes),
                        ex=EXPIRY_S,
                    )
                    self._leave_redis_alone(time.monotonic() - before)
                    if self._stop.is_set():
                        break
        except FileNotFoundError:  # a newer version has replaced it
            return
        except redis.RedisError:
            with suppress(redis.RedisError):
                weight_chunks.remove(self._client, self._keys, there)
            raise
        weight_chunks.write_manifest(self._client, self._keys, there)
        self._there_since, self._said = time.monotonic(), ""
        log.info(
            "weights_relayed version=%d bytes=%d chunks=%d took_s=%.2f",
            newest.version,
            newest.size_bytes,
            chunks,
            time.monotonic() - started,
        )

    def _leave_redis_alone(self, seconds: float) -> None:
        """Wait as long as the last chunk has kept Redis, and until the chunk is on its disk.

        When its disk is two seconds behind, Redis accepts no writes at all.
        """
        self._stop.wait(seconds)
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            info: Any = self._client.info("persistence")
            if not int(info.get("aof_pending_bio_fsync", 0)) or self._stop.wait(SETTLE_POLL_S):
                return

    def _refuse(self, newest: Announcement, manifest: Manifest | None, trouble: str) -> None:
        """Tell the generators that wait why they get nothing, once."""
        refused = Manifest(
            version=newest.version,
            checksum=newest.checksum,
            size_bytes=newest.size_bytes,
            chunks=0,
            trouble=trouble,
        )
        if manifest != refused:
            self._clear(manifest)
            self._say(f"weights_not_relayed version={newest.version} reason={trouble}")
            weight_chunks.write_manifest(self._client, self._keys, refused)
        else:
            weight_chunks.extend(self._client, self._keys, refused)

    def _lack_of_room(self, more_bytes: int) -> str:
        """Return why Redis has no room for `more_bytes` beside a full budget of groups; "" where it has."""
        with self._client.pipeline(transaction=False) as pipe:
            pipe.info("memory")
            pipe.xlen(self._keys.stream(PROMPTS))
            pipe.zcard(self._keys.slots)
            memory, prompts, slots = pipe.execute()
        limit = int(memory.get("maxmemory", 0))
        to_come = (prompts + max(0, self._run.budget - slots)) * self._mean_bytes()
        lacking = int(memory["used_memory"]) + to_come + more_bytes - MEMORY_SHARE * limit
        if not limit or lacking <= 0:
            return ""
        return (
            f"Redis has no room for them: maxmemory is {limit >> 20} MiB, and beside a full budget of groups they "
            f"need {math.ceil((limit + lacking / MEMORY_SHARE) / 2**20)} MiB"
        )

    def _held_by_those_who_ask(self) -> list[int]:
        """Return the version that each asking generator holds.

        No clock of a generator is read: its question has to change from look to look. A question that is there at the
        first look may be left from a generator that has gone.
        """
        now, wishes = time.monotonic(), weight_chunks.wishes(self._client, self._keys)
        if self._heard is None:
            self._heard = {generator: (said, -math.inf) for generator, said in wishes.items()}
        for generator, said in wishes.items():
            if generator not in self._heard or said != self._heard[generator][0]:
                self._heard[generator] = said, now
        return [said[0] for said, at in self._heard.values() if now - at < SILENT_S]

    def _is_fenced(self) -> bool:
        found = self._client.hget(self._keys.run, "fence")
        return int(found or 0) > self._fence()

    def _clear(self, manifest: Manifest | None) -> None:
        if manifest is not None:
            weight_chunks.remove(self._client, self._keys, manifest)

    def _keep_looking(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(LOOK_S)
            self._wake.clear()
            if time.monotonic() < self._not_before:
                continue
            try:
                self.look()
            except OutOfMemoryError as error:
                self._not_before = time.monotonic() + RETRY_S
                self._say(f"weights_not_relayed reason=Redis is full: {error}; trying again")
            except (redis.ConnectionError, redis.TimeoutError) as error:
                log.debug("relay_cut_off error=%s", error)  # the learner's own link warns of it
            except (redis.RedisError, OSError) as error:
                self._say(f"weights_not_relayed error={error}; trying again")
            except Exception:  # a bug here is not the learner's end
                self._not_before = time.monotonic() + RETRY_S
                log.exception("relay_failed")
        with suppress(redis.RedisError):
            self._clear(weight_chunks.read_manifest(self._client, self._keys))

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.warning("%s", text)


class RelayTransport:
    """A `WeightTransport` through Redis alone: every generator asks the relay, also one on the learner's machine.

    The learner keeps the versions in the run's folder, from which the relay reads. The announced path is a handle that
    no machine has as a folder.
    """

    def __init__(self, run: Run, relay: Relay) -> None:
        self._run = run
        self._relay = relay
        self._folder = published(run)

    def start(self) -> None:
        """Begin to look for generators that ask."""
        self._relay.start()

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Write the version to the learner's own disk."""
        saved = write_version(self._folder, weights, version)
        path = f"redis:/{self._run.name}/{folder_of(self._folder, version).name}"
        return Placed(path=path, checksum=saved.checksum, size_bytes=saved.size_bytes)

    def announced(self, announcement: Announcement) -> None:
        """Offer the version to the generators that ask."""
        folder = folder_of(self._folder, announcement.version)
        self._relay.offer(replace(announcement, path=str(folder)))
        remove_old(self._folder, announcement.version)

    def close(self) -> None:
        """Take the chunks away and end."""
        self._relay.stop()
