"""Make every client of an external Redis: check its URL, and explain a TLS failure with what to set.

In: a URL, `redis://`, `rediss://` or `unix://`, with redis-py's settings after its `?`. Out: a client. No connection is
made here; files that the URL names are read, so that a missing one is a clear error and no outage. Used by
`broker.connection.RedisLink`, by RQ's workers and by the tools.

A failed handshake raises `TlsRefused`, a subclass of ConnectionError. A plain port where TLS was expected, and TLS
where none was, look like silence or a lost connection: one probe of the port distinguishes them from an outage.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from redis.connection import Connection, SSLConnection, parse_url
from redis.exceptions import ConnectionError as RedisConnectionError

from broker.errors import WrongBroker

HANDSHAKE_S = 5.0  # redis-py would wait for its socket_timeout, which is that of a blocking read
PROBE_S = 1.0
EXAMPLE = "Set REDIS_URL=redis://USER:PASSWORD@HOST:PORT"
WITH_CA = "REDIS_URL=rediss://USER:PASSWORD@HOST:PORT/0?ssl_ca_certs=/path/ca.pem"
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
MISMATCH = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
EXPIRED, NOT_YET_VALID = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID
# What a server sends that refuses this client's certificate, or the lack of one, in OpenSSL's names.
CLIENT_REFUSED = re.compile(r"ALERT_(CERTIFICATE|BAD_CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE|ACCESS_DENIED)")
NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|UNKNOWN_PROTOCOL|HTTP_REQUEST|RECORD_LAYER_FAILURE|PACKET_LENGTH")


class TlsRefused(RedisConnectionError):
    """Client and server can't agree on TLS; waiting does not help.

    Attributes:
        seen: what is wrong, with the address.
        do: what to set.
    """

    def __init__(self, seen: str, do: str) -> None:
        super().__init__(f"{seen}. {do}")
        self.seen = seen
        self.do = do


class PlainConnection(Connection):
    """A connection without TLS, which distinguishes a port that speaks TLS from a lost connection."""

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Exchange the first commands. Raises TlsRefused where the server does not answer because it speaks TLS."""
        try:
            super().on_connect_check_health(check_health)
        except RedisConnectionError as error:
            if is_cut(error) and speaks_tls(self.host, self.port):
                raise TlsRefused(
                    f"redis at {self.host}:{self.port} speaks TLS, and REDIS_URL does not ask for it",
                    f"Write rediss:// with two s: {WITH_CA}",
                ) from error
            raise


class TlsConnection(SSLConnection):
    """A connection with TLS, whose handshake has a deadline and explains its failure."""

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> Any:
        # With None, OpenSSL would ask a terminal for the key's password at each connection.
        self.certificate_password = self.certificate_password or ""
        sock.settimeout(HANDSHAKE_S)
        try:
            wrapped = super()._wrap_socket_with_ssl(sock)  # type: ignore[no-untyped-call]
        except (TimeoutError, ssl.SSLError) as error:
            if refused := self._why(error):
                raise refused from error
            raise
        wrapped.settimeout(self.socket_timeout)
        return wrapped

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Exchange the first commands. With TLS 1.3 a refusal of the client's certificate arrives here."""
        try:
            super().on_connect_check_health(check_health)
        except RedisConnectionError as error:
            alert = self._alert() if is_cut(error) else None
            if refused := self._why(error) or (alert and self._why(alert)):
                raise refused from error
            raise

    def _alert(self) -> ssl.SSLError | None:
        """Repeat the handshake and only read: to a client that writes, a refusal may look like a lost connection."""
        try:
            with socket.create_connection((self.host, self.port), timeout=PROBE_S) as plain:
                listening = super()._wrap_socket_with_ssl(plain)  # type: ignore[no-untyped-call]
                with listening:
                    listening.recv(1)
        except ssl.SSLError as error:
            return error
        except OSError:
            return None
        return None

    def _why(self, error: BaseException) -> TlsRefused | None:
        """Return the explanation of a failure; None where it may pass, as in an outage."""
        found = next((one for one in _chain(error) if isinstance(one, ssl.SSLError)), None)
        if isinstance(found, ssl.SSLCertVerificationError):
            return self._of_certificate(found)
        reason = (found.reason if found is not None else None) or ""
        address = f"redis at {self.host}:{self.port}"
        if CLIENT_REFUSED.search(reason):
            given = f"does not take the certificate {self.certfile}" if self.certfile else "asks for one"
            return TlsRefused(
                f"{address} wants certificates of its clients, and {given} ({reason})",
                "Add ssl_certfile=/path/client.pem&ssl_keyfile=/path/client.key to REDIS_URL, "
                "or set tls-auth-clients no in that Redis",
            )
        if NO_TLS.search(reason) or (
            isinstance(error, TimeoutError) and speaks_plainly(self.host, self.port)
        ):
            return TlsRefused(
                f"{address} answers without TLS, and REDIS_URL's rediss:// asks for it",
                "Name the port with TLS (tls-port of that Redis), or write redis:// in a network of your own",
            )
        return None

    def _of_certificate(self, error: ssl.SSLCertVerificationError) -> TlsRefused:
        what = f"the certificate of redis at {self.host}:{self.port}"
        if error.verify_code in MISMATCH:
            return TlsRefused(
                f"{what} is not for {self.host!r}",
                f"Use a name of the certificate as REDIS_URL's host, or make one that has {self.host!r} among its "
                "subjectAltNames (scripts/redis_tls.sh)",
            )
        if error.verify_code == EXPIRED:
            return TlsRefused(
                f"{what} has expired", "Give that Redis a new one, or mend this machine's clock"
            )
        if error.verify_code == NOT_YET_VALID:
            return TlsRefused(f"{what} is not valid yet", "Mend the clock of this machine or of its maker's")
        knows = f"{self.ca_certs} does not hold" if self.ca_certs else "this machine does not know"
        return TlsRefused(
            f"{what} is signed by an authority that {knows} ({error.verify_message})",
            f"Name the authority's own file: {WITH_CA}",
        )


def redis_client(url: str, **options: Any) -> redis.Redis:
    """Make a client of the Redis at `url`.

    Args:
        options: of `redis.Redis.from_url`; what the URL sets wins.
    Raises:
        WrongBroker: `url` is no URL of a Redis, or a setting or file in it can't be used. The message contains no part
            of the URL that may be secret.
    """
    try:
        parsed = parse_url(url)
    except ValueError as error:  # never the URL itself: it may hold a password
        raise WrongBroker(f"REDIS_URL is no URL of a redis: {error}. {EXAMPLE}") from None
    if parsed.get("connection_class") is SSLConnection:
        options["connection_class"] = TlsConnection
    elif "path" not in parsed:
        options["connection_class"] = PlainConnection
    client: redis.Redis = redis.Redis.from_url(url, **options)
    pool = client.connection_pool
    try:
        connection = pool.connection_class(**pool.connection_kwargs)  # does not connect
    except TypeError as error:
        raise WrongBroker(_unknown_setting(url, error)) from None
    except redis.RedisError as error:
        raise WrongBroker(f"REDIS_URL has a setting that can't be used: {error}") from None
    if isinstance(connection, TlsConnection):
        _check_files(connection, parsed)
    return client


def _unknown_setting(url: str, error: TypeError) -> str:
    found = re.search(r"'(\w+)'", str(error))
    name = found[1] if found else "one"
    if name.startswith("ssl_") and not url.startswith("rediss:"):
        return f"REDIS_URL sets {name}, which is for TLS: write rediss:// with two s"
    return f"REDIS_URL has a setting that redis-py does not know behind its '?': {name}"


def _check_files(connection: TlsConnection, parsed: dict[str, Any]) -> None:
    """Read the files that a URL names, once, and check their contents."""
    for name in FILES:
        if not (file := parsed.get(name)):
            continue
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise WrongBroker(
                f"REDIS_URL's {name}={file} can't be read on this machine: {error.strerror}. "
                "It has to name a PEM file here"
            ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if connection.ca_certs:
            context.load_verify_locations(cafile=connection.ca_certs)
    except ssl.SSLError:
        raise WrongBroker(
            f"REDIS_URL's ssl_ca_certs={connection.ca_certs} holds no certificate in PEM's form"
        ) from None
    try:
        if connection.certfile or connection.keyfile:
            context.load_cert_chain(
                connection.certfile, connection.keyfile, password=connection.certificate_password or ""
            )
    except (ssl.SSLError, TypeError, OSError) as error:
        raise WrongBroker(
            f"REDIS_URL's ssl_certfile={connection.certfile} and ssl_keyfile={connection.keyfile} are no pair that "
            f"can be read ({getattr(error, 'reason', None) or error}); a key with a password wants ssl_password too"
        ) from None


def is_cut(error: RedisConnectionError) -> bool:
    """Return whether a connection ended without an error reply; a refused password, say, is a subclass."""
    return type(error) is RedisConnectionError


def speaks_tls(host: str, port: int) -> bool:
    """Return whether a handshake with this port gets an answer, whatever its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def speaks_plainly(host: str, port: int) -> bool:
    """Return whether this port answers a PING without TLS, as a Redis does: with a reply or a refusal."""
    try:
        with socket.create_connection((host, port), timeout=PROBE_S) as plain:
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in {b"+", b"-"}
    except OSError:
        return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
