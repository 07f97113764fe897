"""Store each version where generators find it, then announce it with its checksum, during the training.

In: a source of weights after a step. Out: an entry of the stream `weights`, and a call to the code that frees slots.
Runs in rank 0. The trainer waits only while the weights are gathered; storing, hashing and announcing happen in the
publisher's thread, one version at a time. A crash in between leaves an unannounced version; the next incarnation of the
learner stores it again. Errors in the thread are raised in the trainer's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from broker.errors import RunFailed, WentBack
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from learner.weight_sync.transport import WeightHandle, WeightSource, WeightTransport

log = logging.getLogger(__name__)

LOOK_S = 0.5
SAY_EVERY_S = 10.0
LIMIT_S = 1800.0  # for one version: a hanging disk must not block a run for ever
END_S = 5.0  # for the version under way when a learner fails; a normal end has waited for it


class Publisher:
    """Store versions with a transport, and announce them.

    Args:
        check_fence: raises Fenced where a newer learner owns the run; called before a version is stored, and before it
            is announced.
        announced: called with each announced version, in the publisher's thread.
        keep_alive: called while the trainer waits for the thread.
    Attributes:
        behind_s: seconds that the last version took in the thread, including `announced`.
    """

    def __init__(
        self,
        run_owner: RunOwner,
        transport: WeightTransport,
        *,
        check_fence: Callable[[], None] = lambda: None,
        announced: Callable[[int], None] = lambda _: None,
        keep_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._run_owner = run_owner
        self._transport = transport
        self._check_fence = check_fence
        self._tell = announced
        self._keep_alive = keep_alive
        self.behind_s = 0.0
        self._last: Announcement | None = None  # the version stored last
        self._announced: int | None = None  # the version announced last, as far as Redis knows
        self._checksums: dict[int, str] = {}  # of the versions since `take_checksums`
        self._noting = threading.Lock()
        self._under_way: tuple[WeightHandle, int] | None = None
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._rested = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Start the transport, and the thread."""
        self._transport.start()
        self._thread.start()

    def publish(self, source: WeightSource, version: int) -> None:
        """Store `version` unless it is stored, and announce it, also to a Redis that may have lost it.

        For a recovery, which continues only after the announcement. Raises the errors of `settle`.
        """
        self.settle()
        if self._last is None or self._last.version != version:
            self._put(source.gather_weights(), version)
        self._announce()

    def begin(self, source: WeightSource, version: int) -> None:
        """Gather the current weights, and let the thread publish them as `version`.

        Waits for the version before. An announced version is not published again. Raises the errors of `settle`.
        """
        self.settle()
        if self._announced != version:
            self._rested.clear()
            self._under_way = source.gather_weights(), version
            self._wake.set()

    def settle(self) -> None:
        """Wait until no version is under way.

        Raises:
            WentBack, Fenced, RunFailed: an error in the thread; or the transport takes too long.
        """
        since = said = time.monotonic()
        while (under_way := self._under_way) is not None and self._failure is None:
            if self._rested.wait(LOOK_S):
                continue
            self._keep_alive()
            now = time.monotonic()
            what = f"version {under_way[1]} of the weights, which is put where generators find it"
            if now - said > SAY_EVERY_S:
                said = now
                log.info("waiting %.0f s: %s", now - since, what)
            if now - since > LIMIT_S:
                raise RunFailed(f"waited {LIMIT_S:.0f} s for {what}: is the disk of learner.weights at work?")
        self.raise_failure()

    def rest(self) -> None:
        """Wait as `settle` does, but ignore failures because Redis went back: a recovery repeats the work."""
        try:
            self.settle()
        except WentBack as error:
            log.warning("not_announced reason=%s", error)
            self._failure = self._under_way = None

    def raise_failure(self) -> None:
        """Raise the thread's error, if there is one."""
        if self._failure is not None:
            raise self._failure

    def take_checksums(self) -> dict[int, str]:
        """Return the checksums of the versions stored since the last call."""
        with self._noting:
            taken, self._checksums = self._checksums, {}
        return taken

    def close(self) -> None:
        """End the thread, which has a few seconds for its version, and the transport."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_S)
        self._transport.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(LOOK_S)
            self._wake.clear()
            if self._under_way is not None and self._failure is None:
                self._carry_out(*self._under_way)

    def _carry_out(self, weights: WeightHandle, version: int) -> None:
        started = time.monotonic()
        try:
            self._put(weights, version)
            self._announce()
        except BaseException as error:  # noqa: BLE001 - the trainer raises it in its own thread
            self._failure = error
        else:
            self.behind_s = time.monotonic() - started
            self._under_way = None
        finally:
            self._rested.set()

    def _put(self, weights: WeightHandle, version: int) -> None:
        self._check_fence()  # else an older learner that wakes up would overwrite a newer one's files
        placed = self._transport.put(weights, version)
        self._last = Announcement(
            version=version,
            path=placed.path,
            checksum=placed.checksum,
            size_bytes=placed.size_bytes,
            announced_at=time.time(),
        )
        with self._noting:
            self._checksums[version] = placed.checksum

    def _announce(self) -> None:
        """Announce the version stored last, and report it: no slot of its step may be freed before."""
        last = self._last
        if last is None:
            raise ValueError("nothing was put there")
        self._check_fence()
        self._run_owner.announce(last)
        self._announced = last.version
        self._transport.announced(last)
        self._tell(last.version)
