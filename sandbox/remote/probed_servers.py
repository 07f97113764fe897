"""This module chooses which of several sandbox servers takes the next call.

In: the servers' addresses, and a probe that asks one for an answer that is known. Out: a server that has passed it, the
least busy one. Used by `sandbox.remote.fusion`, from any thread. A server is trusted once it has passed its
probe, and no longer once a call or a probe found trouble; it is then probed again, at once and with doubled waits, by a
thread of its own, and comes back when it passes. Waits begin anew once a call succeeded: a server that passes its
probe and hangs with programs is asked for fewer and fewer. No call waits for a probe while another server is ready.
Where none is ready, one call waits as long as its patience lasts; the calls of as long a time after it fail at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from sandbox.program import SandboxMissing, SandboxUnavailable
from sandbox.wire import DEFAULT_PORT
from web.client import ServerTrouble
from web.rotation import RotatedServer, Rotation, doubled, rested

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 15.0  # between two probes of a server that fails them
NOT_PROBED = "not probed yet"


@dataclass(slots=True, eq=False)
class SandboxServer(RotatedServer):
    """One sandbox server. `ProbedServers` owns its fields and changes them under its lock."""

    trouble: str | None = NOT_PROBED  # None: it has passed its probe, and no call failed since
    next_probe: float = 0.0  # monotonic seconds
    is_probed: bool = False  # a probe is under way
    is_ours: bool = False  # it speaks our additions to the API; set by the probe
    version: str = ""  # what it runs programs with, and the packages there; set by the probe


class ProbedServers:
    """The servers of one sandbox."""

    def __init__(
        self, urls: Sequence[str], probe: Callable[[SandboxServer], None], *, patience_s: float
    ) -> None:
        """Contact nothing yet.

        Args:
            urls: a URL, `host:port` or a host each; the port of a bare host is 8080.
            probe: asks a server for what is known; raises ServerTrouble where it does not answer just that.
            patience_s: how long a call waits for a server when none is ready.
        Raises:
            SandboxMissing: no address, or one that can't be used.
        """
        self.all = tuple(SandboxServer(url) for url in dict.fromkeys(normalised(url) for url in urls))
        if not self.all:
            raise SandboxMissing("no sandbox server: set scorers.sandbox_urls or SANDBOX_FUSION_SERVERS")
        self._probe = probe
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._rotation = Rotation()
        self._out_until = 0.0  # monotonic; until then nobody waits for a server if all are in trouble

    @contextmanager
    def lend(
        self, *, without: Collection[SandboxServer] = (), rather_not: Collection[SandboxServer] = ()
    ) -> Iterator[SandboxServer]:
        """Lend a ready server for one call: the one with the fewest calls, in turn among equals.

        Args:
            without: never one of these.
            rather_not: one of these only if no other is ready.
        Raises:
            SandboxUnavailable: none is ready within `patience_s`, or was when another call waited that long just now;
                it names every server and its trouble.
        """
        server = self._take(without, rather_not)
        try:
            yield server
        finally:
            with self._changed:
                self._rotation.give_back(server)
                self._changed.notify_all()

    def doubt(self, server: SandboxServer, trouble: str) -> None:
        """Leave a server out until it passes its probe: at once, if a call has succeeded since it was last in doubt."""
        with self._changed:
            if server.trouble is None:
                log.warning("sandbox_server_doubted url=%s reason=%s", server.url, trouble)
                self._put_off(server)
            server.trouble = trouble

    def trust(self, server: SandboxServer) -> None:
        """Note that the server did what it was asked: should it come into doubt, its next probe is at once."""
        with self._changed:
            server.wait_s = 0.0

    def rest(self, server: SandboxServer, seconds: float) -> None:
        """Leave a server alone for a while, as it asked."""
        with self._changed:
            server.rest(seconds)

    def probe_all(self) -> None:
        """Probe every server now and wait for the answers. Raises SandboxUnavailable where none passes."""
        with self._changed:
            for server in self.all:
                self._start_probe(server)
            self._changed.wait_for(lambda: not any(server.is_probed for server in self.all))
            if all(server.trouble for server in self.all):
                raise SandboxUnavailable(self._troubles())

    def meet(self) -> None:
        """Have every server probed that never was, and wait for that."""
        with self._changed:
            for server in self.all:
                if server.trouble == NOT_PROBED:
                    self._start_probe(server)
            self._changed.wait_for(lambda: all(server.trouble != NOT_PROBED for server in self.all))

    def _take(
        self, without: Collection[SandboxServer], rather_not: Collection[SandboxServer]
    ) -> SandboxServer:
        deadline = time.monotonic() + self._patience_s
        candidates = [server for server in self.all if server not in without]
        with self._changed:
            while True:
                now = time.monotonic()
                for server in self.all:
                    if server.trouble is not None and server.next_probe <= now:
                        self._start_probe(server)
                if ready := [server for server in rested(candidates, now) if server.trouble is None]:
                    return self._rotation.take(ready, lambda server: server in rather_not)
                is_out = all(server.trouble is not None for server in self.all)
                if is_out and now >= deadline:
                    self._out_until = now + self._patience_s
                if not candidates or now >= deadline or (is_out and now < self._out_until):
                    raise SandboxUnavailable(self._troubles())
                due = [
                    server.rests_until if server.trouble is None else server.next_probe
                    for server in candidates
                    if not server.is_probed
                ]
                self._changed.wait(max(min([deadline, *due]) - now, 0.001))

    def _start_probe(self, server: SandboxServer) -> None:
        """Have a thread of its own probe a server. The lock is held."""
        if not server.is_probed:
            server.is_probed = True
            threading.Thread(
                target=self._run_probe, args=(server,), name=f"probe {server.url}", daemon=True
            ).start()

    @staticmethod
    def _put_off(server: SandboxServer) -> None:
        """Put off the next probe by the present wait, and double the wait. The lock is held."""
        server.next_probe = time.monotonic() + server.wait_s
        server.wait_s = doubled(server.wait_s, first=FIRST_WAIT_S, longest=LONGEST_WAIT_S)

    def _run_probe(self, server: SandboxServer) -> None:
        trouble: str | None = "its probe failed by a bug"
        try:
            self._probe(server)
            trouble = None
        except ServerTrouble as error:
            trouble = str(error)
        finally:
            with self._changed:
                if trouble is None and server.trouble is not None:
                    log.info("sandbox_server_ready url=%s version=%r", server.url, server.version)
                elif trouble is not None and server.trouble != trouble:
                    log.warning("sandbox_server_failed_probe url=%s reason=%s", server.url, trouble)
                server.trouble = trouble
                if trouble is not None:
                    server.wait_s = max(server.wait_s, FIRST_WAIT_S)
                    self._put_off(server)
                server.is_probed = False
                self._changed.notify_all()

    def _troubles(self) -> str:
        now = time.monotonic()

        def trouble(server: SandboxServer) -> str:
            return server.trouble or (
                "busy" if server.rests_until > now else "it failed this call, and works again"
            )

        return "no sandbox server is left: " + "; ".join(
            f"{server.url}: {trouble(server)}" for server in self.all
        )


def normalised(address: str) -> str:
    """Return `h` as `http://h:8080`, `h:81` as `http://h:81`, a URL as it is. Raises SandboxMissing for others."""
    text = address.strip()
    is_url = "://" in text
    try:
        parts = urlsplit(text if is_url else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise SandboxMissing(f"the sandbox server {address!r} is no address: {error}") from None
    if "@" in parts.netloc:
        raise SandboxMissing(f"the sandbox server {host!r}: a password in an address would end up in logs")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or " " in text:
        raise SandboxMissing(f"the sandbox server {address!r} is neither http://HOST:PORT nor HOST[:PORT]")
    if is_url or port is not None:
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return f"http://{parts.netloc}:{DEFAULT_PORT}{parts.path.rstrip('/')}"
