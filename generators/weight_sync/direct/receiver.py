"""The receiver of direct weights: what a courier has staged in memory, or else what another receiver brings.

In: announcements, and the versions that this generator's courier has staged (`generators.weight_sync.direct.member`).
Out: files in memory whose checksum is the announced one. A generator that is no member of an open epoch, or whose round
fails, is void or takes longer than its deadline, is given the announced file at once, by the receiver that it would
have without direct weights. Used by the follower, in a thread beside the event loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from broker.checksums import weights_checksum
from broker.messages import Announcement
from generators.weight_sync.direct.member import DirectMember, Staged
from generators.weight_sync.receiver import NotHere, Received, WeightReceiver

log = logging.getLogger(__name__)

QUIET_S = 1.0  # in one call, until the follower is told what is waited for
OFFER_S = 3.0  # from an announcement to its round


class DirectReceiver:
    """A `WeightReceiver` that prefers staged versions.

    Args:
        otherwise: brings what does not come directly.
        timeout_s: from the first look for a version newer than the one held, to the other receiver.
    Attributes:
        versions: that came directly and were loaded.
        fallbacks: that came by the other receiver while this generator was a member.
    """

    def __init__(self, member: DirectMember, otherwise: WeightReceiver, *, timeout_s: float) -> None:
        self._member = member
        self._otherwise = otherwise
        self._timeout_s = timeout_s
        self._wanted_since: float | None = None
        self._staged: Staged | None = None
        self._given: Received | None = None  # of `_staged`
        self._is_falling_back = False
        self.versions = 0
        self.fallbacks = 0

    @property
    def is_slow(self) -> bool:
        """Return whether a version takes a while to arrive: the other receiver's do, if these don't."""
        return self._otherwise.is_slow or self._member.open_since is not None

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Return a staged version, wait for one that is on its way, or ask the other receiver.

        Raises:
            NotHere: a version is on its way.
            What the other receiver raises.
        """
        now = time.monotonic()
        if self._wanted_since is None:
            self._wanted_since = now
        self._let_go()
        before = self._member.arrived_bytes
        reason = self._why_not(now)
        checksums = {one.version: one.checksum for one in reversed(announced)}
        staged = self._member.take(checksums, above=held, wait_s=0.0 if reason else QUIET_S)
        if staged is not None and self._is_as_announced(staged):
            self._staged = staged
            self._given = Received(version=staged.version, files=staged.files)
            return self._given
        if reason or (reason := self._why_not(time.monotonic())):
            return self._fall_back(announced, held, reason)
        raise NotHere(
            f"version {announced[0].version} is on its way from the learner",
            is_arriving=self._member.arrived_bytes > before,
        )

    def loaded(self, received: Received) -> None:
        """Let a staged version's memory go, or pass the note on."""
        self._wanted_since, self._is_falling_back = None, False
        if received is self._given:
            self.versions += 1
            self._let_go()
        else:
            self._otherwise.loaded(received)

    def close(self) -> None:
        """End the courier, and close the other receiver. A staged version that is being loaded stays until the end."""
        self._member.close()
        self._otherwise.close()

    def _why_not(self, now: float) -> str:
        """Say why nothing newer is to be waited for; "" where it is."""
        since = self._wanted_since or now
        open_since = self._member.open_since
        if open_since is None:
            return self._member.reason
        if now - since > self._timeout_s:
            return f"none has arrived within {self._timeout_s:.0f} s"
        if self._member.expected is None and (now - since > OFFER_S or open_since > since):
            return self._member.reason
        return ""

    def _is_as_announced(self, staged: Staged) -> bool:
        """Compare the checksum of all that has arrived; other weights are let go."""
        found = weights_checksum(staged.files, like=staged.checksum)
        if found == staged.checksum:
            return True
        log.warning(
            "direct_spoiled version=%d checksum=%s announced=%s", staged.version, found, staged.checksum
        )
        staged.close()
        return False

    def _fall_back(self, announced: Sequence[Announcement], held: int, reason: str) -> Received:
        if not self._is_falling_back and held >= 0:
            self._is_falling_back = True
            self.fallbacks += 1
            log.info("direct_fallback version=%d reason=%s", announced[0].version, reason)
        return self._otherwise.receive(announced, held=held)

    def _let_go(self) -> None:
        staged, self._staged, self._given = self._staged, None, None
        if staged is not None:
            staged.close()
