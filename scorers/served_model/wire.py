"""This module makes one exchange with one server of a model, by OpenAI's API.

In: a server's address and the body of a request. Out: what the model said, or an error that says whose doing it is:
- the server's: `HostTrouble` (another server may do better), `HostAway` (the server may be back soon) or `Busy`;
- the request's own: `RequestRefused`;
- the configuration's: `EndpointMisused`.
Called by `scorers.served_model.calls` on the endpoint's loop. No message holds the key, also where a server repeats it.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from pydantic import SecretStr

from broker.errors import Permanent, Retryable
from config.logs import MASK
from scorers.servers.retry_after import retry_after_s
from tasks.thoughts import THINK_OPEN

CONNECT_S: Final = 10.0
KEEP_S: Final = 3.0  # for which an idle connection is kept; uvicorn, and so vLLM, closes one after 5
LIST_S: Final = 10.0  # for the names of a server's models
REPLY_BYTES: Final = 4 << 20  # the largest reply
UNENDED: Final = THINK_OPEN  # instead of a reply, where there were thoughts and then nothing
SAID_CHARS: Final = 300  # of a server's words about an error
_AWAY: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_THIS_REQUEST: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
# Of filters and firewalls in between, which look at what is asked; or of a server that lets nobody in.
_MAYBE_THIS_REQUEST: Final = frozenset(
    {
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS,
    }
)
_FILTERED: Final = "content_filter"  # the finish reason of a reply that a filter has taken away
_BROKEN_OFF: Final = frozenset({"abort", "error"})  # finish reasons of vLLM and SGLang without a reply
_THOUGHTS: Final = ("reasoning", "reasoning_content")  # vLLM's name for thoughts, and the older name
_OUT_OF_MONEY: Final = "insufficient_quota"  # OpenAI's code for a 429 that no waiting ends


class HostTrouble(Retryable):
    """This server did not do its work; another server may, or the same server the next time."""


class HostAway(HostTrouble):
    """Nothing answers at this server's address: the server may be about to start."""


class Refusal(Permanent):
    """Servers have answered that they do not do this.

    Attributes:
        servers: addresses of those that said so of this very request, and might take another; none where the trouble
            is the address, the key or the model.
        at: when, in monotonic seconds.
    """

    def __init__(self, message: str, *servers: str) -> None:
        super().__init__(message)
        self.servers = frozenset(servers)
        self.at = time.monotonic()


class RequestRefused(Refusal):
    """No server takes this very request: it is too long for the model, say. Other requests may be taken."""


class EndpointMisused(Refusal):
    """The model is unknown, or the key or the address is wrong: every request fails until a person acts."""


class Busy(Exception):
    """The server has too much to do. This is no failure, but a wish to be asked again later.

    Attributes:
        seconds: until the server wants to be asked again; None: the server does not say.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply is what the model said."""

    text: str  # "" where the model said nothing, UNENDED where it only thought
    finish_reason: str | None  # "length": the text was cut off
    cached: bool = False  # the reply is an earlier one, from the cache
    seconds: float = field(default=0.0, compare=False)  # of the call; 0 for a reply from the cache
    server: str = field(default="", compare=False)  # the address that it came from; "" for one from the cache


class Wire:
    """A wire makes exchanges, which share its connections, its key and its time limit. One loop uses it."""

    def __init__(self, key: SecretStr | None, *, timeout_s: float) -> None:
        """Contact nothing yet."""
        self._key = "" if key is None else key.get_secret_value()
        self._timeout_s = timeout_s
        self._opened: aiohttp.ClientSession | None = None
        self._proxies: dict[
            str, str | None
        ] = {}  # by URL, as the environment named them at its first exchange

    async def close(self) -> None:
        """Close the connections, once no exchange runs any more."""
        if self._opened is not None:
            await self._opened.close()

    async def complete(self, url: str, body: bytes) -> Reply:
        """Have the model answer. Raises as the module says."""
        url, started = f"{url}/chat/completions", time.monotonic()
        found = await self._exchange("POST", url, body, self._timeout_s)
        try:
            choice = found["choices"][0]
            if choice.get("finish_reason") == _FILTERED:  # with a message or without
                raise RequestRefused(f"{url}: a filter of the server's took the reply away", url)
            message, finish_reason = choice["message"], choice.get("finish_reason")
            text = (
                UNENDED if message["content"] in (None, "") and _has_thought(message) else message["content"]
            )
        except (LookupError, TypeError, AttributeError):
            raise HostTrouble(f"{url}: a reply without a message") from None
        if not isinstance(text, str | None) or not isinstance(finish_reason, str | None):
            raise HostTrouble(f"{url}: a reply whose message is no text")
        if finish_reason in _BROKEN_OFF:
            raise HostTrouble(f"{url}: the server broke its reply off ({finish_reason})")
        return Reply(text or "", finish_reason, seconds=time.monotonic() - started, server=url)

    async def models(self, url: str) -> list[str]:
        """Ask a server for the names of its models. Raises as the module says."""
        url = f"{url}/models"
        found = await self._exchange("GET", url, None, LIST_S)
        try:
            return [str(model["id"]) for model in found["data"]]
        except (LookupError, TypeError):
            raise HostTrouble(f"{url}: a list of models without names") from None

    async def _exchange(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Any:
        if not (self._key.isascii() and self._key.isprintable()):  # the client's error would show the key
            raise EndpointMisused(f"{url}: the key has a character that no header can carry")
        headers = {"content-type": "application/json"} | (
            {"authorization": f"Bearer {self._key}"} if self._key else {}
        )
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
                data = await _read(response)
        except (aiohttp.InvalidURL, UnicodeError) as error:
            raise EndpointMisused(f"{url}: no address ({error})") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise HostAway(f"{url}: no connection ({_trouble(error)})") from None
        except TimeoutError:
            raise HostTrouble(f"{url}: no reply within {timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise HostTrouble(f"{url}: the connection broke ({_trouble(error)})") from None
        if response.status != HTTPStatus.OK:
            raise self._error(url, response.status, response.headers, data)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise HostTrouble(f"{url}: a reply that is not JSON") from None

    def _session(self) -> aiohttp.ClientSession:
        """Return the one session of this loop, with as many connections as there are calls."""
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_S, ssl=_trusted())
            # A load balancer's cookie would bring every call to the same server behind one address.
            self._opened = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._opened

    def _proxy(self, url: str) -> str | None:
        if url not in self._proxies:
            self._proxies[url] = _proxy_of(url)
        return self._proxies[url]

    def _error(self, url: str, status: int, headers: Mapping[str, str], data: bytes) -> Exception:
        """Return the exception that an answer other than 200 stands for."""
        code, said = _said(data, self._key)
        what = f"{url}: HTTP {status} {said}".rstrip()
        asked_s = retry_after_s(headers.get("retry-after"))
        rest_s = asked_s if asked_s is not None and asked_s > 0 else None
        if status == HTTPStatus.TOO_MANY_REQUESTS and code != _OUT_OF_MONEY:
            return Busy(rest_s)
        if status == HTTPStatus.SERVICE_UNAVAILABLE and rest_s is not None:
            return Busy(rest_s)
        if status in _THIS_REQUEST:
            return RequestRefused(what, url)
        if status in _AWAY:
            return HostAway(what)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
            return HostTrouble(what)
        return EndpointMisused(what, *((url,) if status in _MAYBE_THIS_REQUEST else ()))


def _has_thought(message: Mapping[str, Any]) -> bool:
    """Say whether a message has thoughts beside its reply (vLLM's --reasoning-parser tells the two apart)."""
    return any(isinstance(thoughts := message.get(name), str) and thoughts.strip() for name in _THOUGHTS)


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates, read once: reading takes longer than a call."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if folder and not file:
        return ssl.create_default_context(capath=folder)
    try:
        return ssl.create_default_context(cafile=file or certifi.where())
    except OSError as error:
        raise EndpointMisused(
            f"SSL_CERT_FILE={file}: no certificates can be read from it ({error})"
        ) from None


def _proxy_of(url: str) -> str | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name for `url`; None: there is none.

    aiohttp's own reading of these variables knows no ALL_PROXY, and takes a thread for every call.
    """
    parts, named = urlsplit(url), getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, _, _ = proxy.rpartition("://")
    if scheme not in {"", "http", "https"}:
        raise EndpointMisused(f"{url}: a proxy of the environment speaks {scheme}; expected an HTTP proxy")
    return proxy if scheme else f"http://{proxy}"


def _trouble(error: aiohttp.ClientError) -> str:
    """Return what an error says of itself, without an address that may hold a proxy's password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{type(error).__name__} {error.status} {error.message}"
    return str(error) or type(error).__name__


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > REPLY_BYTES:
            raise HostTrouble(f"{response.url}: a reply of more than {REPLY_BYTES >> 20} MiB")
    return bytes(data)


def _said(data: bytes, key: str) -> tuple[str, str]:
    """Read code and message of an error, without the key: those of its JSON, else the beginning of the body."""
    code, text = "", data.decode(errors="replace")
    try:
        error = json.loads(data)
        error = error.get("error", error)
        if isinstance(error, str):  # vLLM's form for a wrong key
            error = {"message": error}
        code, text = str(error.get("code")), str(error.get("message") or text)
    except (ValueError, AttributeError, RecursionError):
        pass
    if key:  # before the text is cut: half of a key is a secret too
        text = text.replace(key, MASK)
    return code, " ".join(text.split())[:SAID_CHARS]
