"""HTTP client for the servers of models, of sandboxes and of rewards.

In: a method, an address and a body. Out: an `HttpAnswer` with any status, or an error that names the cause:
- the server's: `ServerTrouble` (another server may work), `ServerAway` (it may be back soon) or `Busy`;
- the configuration's: `BadAddress`.
`Client` belongs to one event loop. `BlockingClient` is for threads, and has its own loop. Both use the proxy and trust
the certificates that the environment names. aiohttp needs a quarter of httpx' processor time.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi

from broker.errors import Permanent, Retryable
from web.retry_after import retry_after_s

CONNECT_S: Final = 10.0
KEEP_S: Final = 3.0  # to keep an idle connection; uvicorn, and so vLLM, closes one after 5
START_S: Final = 30.0  # for a blocking client's loop to start on a busy machine
CLOSE_S: Final = 5.0
SAID_CHARS: Final = 300  # of a server's text about an error
JSON: Final = {"content-type": "application/json"}
CLOSED: Final = "the client was closed"
_AWAY: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


class ServerTrouble(Retryable):
    """This server did not do its work; another server may, or the same server the next time."""

    def at(self, where: str) -> Self:
        """Return this error with its place in front of the message."""
        self.args = (f"{where}: {self}",)
        return self


class ServerAway(ServerTrouble):
    """Nothing answers at this server's address: the server may be about to start."""


class Busy(ServerTrouble):
    """The server is overloaded. This is no failure, but a request to ask again later.

    Attributes:
        seconds: until the server wants to be asked again; None: the server does not say when.
    """

    def __init__(self, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.seconds = seconds


class BadAddress(Permanent):
    """No request is possible: the address, a proxy or the certificates that the environment names are invalid."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A server's answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def said(self) -> str:
        """Return the beginning of its text, in one line."""
        return " ".join(self.body[: 4 * SAID_CHARS].decode(errors="replace").split())[:SAID_CHARS]

    def raise_for_server(self, said: str | None = None) -> None:
        """Raise the error that the status means. Statuses about the request, and 200, raise nothing.

        Args:
            said: the text for the error; None: the answer's own.
        Raises:
            Busy, ServerAway, ServerTrouble: see these classes.
        """
        what = f"HTTP {self.status} {self.said if said is None else said}".rstrip()
        asked_s = retry_after_s(self.headers.get("retry-after"))
        rest_s = asked_s if asked_s is not None and asked_s > 0 else None
        if self.status == HTTPStatus.TOO_MANY_REQUESTS or (
            self.status in _AWAY and "retry-after" in self.headers
        ):
            raise Busy(what, rest_s)
        if self.status in _AWAY:
            raise ServerAway(what)
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status == HTTPStatus.REQUEST_TIMEOUT:
            raise ServerTrouble(what)


class Client:
    """HTTP client that keeps its connections, as many as there are calls. Belongs to one event loop."""

    def __init__(self) -> None:
        """Prepare; contact nothing yet."""
        self._opened: aiohttp.ClientSession | None = None
        self._proxies: dict[
            str, str | None
        ] = {}  # by URL, as the environment named them at the client's first exchange

    async def close(self) -> None:
        """Close the connections, after the last exchange has ended."""
        if self._opened is not None:
            await self._opened.close()

    async def exchange(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] = JSON,
        timeout_s: float,
        max_bytes: int,
    ) -> HttpAnswer:
        """Make one exchange; redirections are returned, not followed.

        Args:
            timeout_s: for the whole exchange; connecting may take CONNECT_S of it at most.
            max_bytes: most bytes of the answer.
        Raises:
            ServerAway: nothing answers at the address.
            ServerTrouble: the answer is too late, too long or incomplete.
            BadAddress: no request to the address is possible.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=min(CONNECT_S, timeout_s))
        proxy = self._proxy(url)
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session().request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    proxy=proxy,
                    allow_redirects=False,
                ) as response,
            ):
                return HttpAnswer(response.status, response.headers, await _read(response, max_bytes))
        except (aiohttp.InvalidURL, UnicodeError) as error:
            raise BadAddress(f"no address ({error})") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ServerAway(f"no connection ({_trouble(error)})") from None
        except TimeoutError:
            raise ServerTrouble(f"no reply within {timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise ServerTrouble(f"the connection broke ({_trouble(error)})") from None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_S, ssl=_trusted())
            # A load balancer's cookie would send every call to the same server behind one address.
            self._opened = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._opened

    def _proxy(self, url: str) -> str | None:
        if url not in self._proxies:
            self._proxies[url] = _proxy_of(url)
        return self._proxies[url]


class BlockingClient:
    """HTTP client for threads. Its loop's thread starts with the first exchange; forked processes don't have it."""

    def __init__(self) -> None:
        """Prepare; contact nothing yet."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def exchange(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] = JSON,
        timeout_s: float,
        max_bytes: int,
    ) -> HttpAnswer:
        """Make one exchange, as `Client.exchange` does. Raises ServerTrouble if the client is closed meanwhile."""
        with self._lock:
            if self._is_closed:
                raise ServerTrouble(CLOSED)
            loop = self._loop = self._loop or self._start()
            exchange = self._client.exchange(
                method, url, body, headers=headers, timeout_s=timeout_s, max_bytes=max_bytes
            )
            call = asyncio.run_coroutine_threadsafe(exchange, loop)
        try:
            return call.result()  # the exchange has its own deadline
        except CancelledError:
            raise ServerTrouble(CLOSED) from None

    def close(self) -> None:
        """Cancel the running exchanges, and close the connections."""
        with self._lock:
            loop, self._loop, self._is_closed = self._loop, None, True
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(CLOSE_S)

    def _start(self) -> asyncio.AbstractEventLoop:
        """Start the loop's thread. Raises ServerTrouble if it takes longer than START_S. The caller holds the lock."""
        is_ready: Future[asyncio.AbstractEventLoop] = Future()
        self._client = Client()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(is_ready)), name="http", daemon=True
        )
        try:
            self._thread.start()
            return is_ready.result(START_S)
        except (OSError, RuntimeError) as error:  # no descriptor, no thread, or TimeoutError
            raise ServerTrouble(f"the thread that asks servers did not start: {error!r}") from error

    async def _live(self, is_ready: Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        is_ready.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        exchanges = asyncio.all_tasks() - {asyncio.current_task()}
        for task in exchanges:
            task.cancel()
        await asyncio.gather(*exchanges, return_exceptions=True)
        await self._client.close()


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates, read once: reading takes longer than a call. Raises BadAddress."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if folder and not file:
        return ssl.create_default_context(capath=folder)
    try:
        return ssl.create_default_context(cafile=file or certifi.where())
    except OSError as error:
        raise BadAddress(f"SSL_CERT_FILE={file}: no certificates can be read from it ({error})") from None


def _proxy_of(url: str) -> str | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name for `url`; None: there is none.

    aiohttp's own reader of these variables does not know ALL_PROXY, and uses a thread for every call.
    """
    parts, named = urlsplit(url), getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, _, _ = proxy.rpartition("://")
    if scheme not in {"", "http", "https"}:
        raise BadAddress(f"a proxy of the environment speaks {scheme}; expected an HTTP proxy")
    return proxy if scheme else f"http://{proxy}"


def _trouble(error: aiohttp.ClientError) -> str:
    """Return an error's message, without an address that may contain a proxy's password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{type(error).__name__} {error.status} {error.message}"
    return str(error) or type(error).__name__


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > max_bytes:
            raise ServerTrouble(f"a reply of more than {max_bytes >> 20} MiB")
    return bytes(data)
