"""A real TLS endpoint for tests: certificates by scripts/redis_tls.sh, and a proxy that speaks TLS before a Redis.

The proxy is Python's own ssl, since the redis-server that tests have is built without TLS. It takes a certificate of
its own, and asks for its clients' where told to.
"""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from tests.support.paths import ROOT

POLL_S = 0.05
PIECE_BYTES = 1 << 16


def certificates(folder: Path, *names: str) -> Path:
    """Make an authority in `folder`, unless it has one, and a certificate for `names`; ca.pem, redis.pem, redis.key."""
    _run(ROOT / "scripts" / "redis_tls.sh", folder, *names)
    return folder


def beside(folder: Path, other: Path, *names: str) -> Path:
    """Make another certificate by the authority of `folder`, in the folder `other`."""
    for name in ("ca.pem", "ca.key"):
        (other / name).write_bytes((folder / name).read_bytes())
    return certificates(other, *names)


def expire(folder: Path) -> Path:
    """Sign the certificate of `folder` again, as one that ended yesterday."""
    shown, asked = folder / "redis.pem", folder / "asked.pem"
    sign = ("openssl", "x509", "-copy_extensions", "copyall")
    _run(*sign, "-x509toreq", "-in", shown, "-key", folder / "redis.key", "-out", asked)
    authority = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial")
    _run(*sign, "-req", "-in", asked, *authority, "-days", "-1", "-out", shown)
    return folder


def lock(key: Path, password: str) -> Path:
    """Write a key once more, behind a password."""
    locked = key.with_name("locked.key")
    _run("openssl", "ec", "-in", key, "-aes128", "-passout", f"pass:{password}", "-out", locked)
    return locked


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


class TlsProxy:
    """Speaks TLS on a free port of loopback, and hands on what it hears to a plain port of this machine.

    Args:
        folder: with ca.pem, redis.pem and redis.key.
        port: to listen on; 0 is a free one.
        wants_certificates: whether a client has to show a certificate of the same authority.
    """

    def __init__(
        self, folder: Path, to_port: int, *, port: int = 0, wants_certificates: bool = False
    ) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "redis.pem", folder / "redis.key")
        if wants_certificates:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(folder / "ca.pem")
        self._to_port = to_port
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(POLL_S)
        self.port: int = self._listener.getsockname()[1]
        self.handshakes = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, settings: str = "", *, user: str = "", host: str = "127.0.0.1") -> str:
        """Return the `rediss://` address, with `settings` behind the question mark."""
        return f"rediss://{user}{host}:{self.port}/0{f'?{settings}' if settings else ''}"

    def close(self) -> None:
        """End what is open, and listen no more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            with suppress(TimeoutError):
                plain, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(plain,), daemon=True))
                self._threads[-1].start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(5.0)
        with (
            suppress(OSError, ValueError),
            self._context.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(("127.0.0.1", self._to_port), timeout=5.0) as server,
        ):
            self.handshakes += 1
            self._hand_on(client, server)
        plain.close()

    def _hand_on(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        while not self._stop.is_set():
            ready = [client] if client.pending() else select.select([client, server], [], [], POLL_S)[0]
            for one in ready:
                data = one.recv(PIECE_BYTES)
                if not data:
                    return
                (server if one is client else client).sendall(data)
