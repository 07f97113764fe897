"""Watch a server that a run has started: whether it has answered, and how long it has been silent.

In: a URL. Out: values that `tools.up.supervisor` reads at every tick, without waiting. A separate thread makes the
calls, so that a hanging server blocks nothing else. Any error in a call counts as silence.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from http import HTTPStatus
from http.client import HTTPException

EVERY_S = 0.5  # between two calls while the server starts
MOST_S = 5.0  # between two calls later, and for a reply
CALLS = 4  # fewest calls before a server counts as silent

# Loopback is never behind a proxy, whatever HTTP_PROXY says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class HealthWatch:
    """Call one URL repeatedly until closed.

    Args:
        url: returns 200 where the server is well.
        silence_s: after which its owner considers the server dead.
    """

    def __init__(self, url: str, *, silence_s: float) -> None:
        self.url = url
        self._pause_s = min(MOST_S, silence_s / CALLS)
        self._since = time.monotonic()  # of the last answer; at first, of the start
        self._has_answered = False
        self._closed = threading.Event()
        threading.Thread(target=self._look, name="health", daemon=True).start()

    @property
    def has_answered(self) -> bool:
        """Return whether the server has returned 200 since the watch began."""
        return self._has_answered

    @property
    def silent_s(self) -> float:
        """Return the seconds since the last answer, or since the watch began."""
        return time.monotonic() - self._since

    def close(self) -> None:
        """End the calls; one in progress ends by itself."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(self._pause_s if self._has_answered else EVERY_S):
            if answers(self.url, timeout_s=self._pause_s):
                self._since = time.monotonic()
                self._has_answered = True


def answers(url: str, *, timeout_s: float) -> bool:
    """Return whether GET `url` returns 200 in time."""
    try:
        with _OPENER.open(url, timeout=timeout_s) as reply:
            return bool(reply.status == HTTPStatus.OK)
    except (OSError, HTTPException):
        return False
