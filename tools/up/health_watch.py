"""The watch on a server that a run has started: whether it has answered, and for how long it has not.

In: a URL. Out: what `tools.up.supervisor` asks at every tick, and never waits for. A thread of its own makes the calls:
a server that hangs holds up nobody else. What goes wrong in a call is silence, whatever it is.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from http import HTTPStatus
from http.client import HTTPException

EVERY_S = 0.5  # between two calls while the server starts
MOST_S = 5.0  # between two calls later, and for a reply
CALLS = 4  # at least so many are made before a server counts as silent

# Loopback is never behind a proxy, whatever HTTP_PROXY says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class HealthWatch:
    """Calls one URL again and again until it is closed.

    Args:
        url: answered by 200 where the server is well.
        silence_s: after which its owner takes the server for dead.
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
        """Tells whether the server has answered 200 since the watch began."""
        return self._has_answered

    @property
    def silent_s(self) -> float:
        """Returns the seconds since the last answer, or since the watch began."""
        return time.monotonic() - self._since

    def close(self) -> None:
        """Ends the calls; one that is under way ends by itself."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(self._pause_s if self._has_answered else EVERY_S):
            if answers(self.url, timeout_s=self._pause_s):
                self._since = time.monotonic()
                self._has_answered = True


def answers(url: str, *, timeout_s: float) -> bool:
    """Tells whether GET `url` gives 200 in time."""
    try:
        with _OPENER.open(url, timeout=timeout_s) as reply:
            return bool(reply.status == HTTPStatus.OK)
    except (OSError, HTTPException):
        return False
