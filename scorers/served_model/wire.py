"""This module makes one exchange with one server of a model, by OpenAI's API.

In: a server's address and the body of a request. Out: what the model said, or an error that says whose doing it is:
- the server's: one of `web.client`, `ServerTrouble`, `ServerAway` or `Busy`;
- the request's own: `RequestRefused`;
- the configuration's: `EndpointMisused`.
Called by `scorers.served_model.calls` on the endpoint's loop. No message holds the key, also where a server repeats it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from pydantic import SecretStr

from broker.errors import Permanent
from config.logs import MASK
from tasks.thoughts import THINK_OPEN
from web.client import JSON, SAID_CHARS, BadAddress, Client, HttpAnswer, ServerTrouble

LIST_S: Final = 10.0  # for the names of a server's models
REPLY_BYTES: Final = 4 << 20  # the largest reply
UNENDED: Final = THINK_OPEN  # instead of a reply, where there were thoughts and then nothing
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
        self._client = Client()

    async def close(self) -> None:
        """Close the connections, once no exchange runs any more."""
        await self._client.close()

    async def complete(self, url: str, body: bytes) -> Reply:
        """Have the model answer. Raises as the module says."""
        started = time.monotonic()
        found = await self.completion(url, body)
        url = f"{url}/chat/completions"
        try:
            choice = found["choices"][0]
            if choice.get("finish_reason") == _FILTERED:  # with a message or without
                raise RequestRefused(f"{url}: a filter of the server's took the reply away", url)
            message, finish_reason = choice["message"], choice.get("finish_reason")
            text = (
                UNENDED if message["content"] in (None, "") and _has_thought(message) else message["content"]
            )
        except (LookupError, TypeError, AttributeError):
            raise ServerTrouble(f"{url}: a reply without a message") from None
        if not isinstance(text, str | None) or not isinstance(finish_reason, str | None):
            raise ServerTrouble(f"{url}: a reply whose message is no text")
        if finish_reason in _BROKEN_OFF:
            raise ServerTrouble(f"{url}: the server broke its reply off ({finish_reason})")
        return Reply(text or "", finish_reason, seconds=time.monotonic() - started, server=url)

    async def completion(self, url: str, body: bytes) -> Any:
        """Have the model answer, and return the reply's JSON, whatever it is. Raises as the module says."""
        return await self._exchange("POST", f"{url}/chat/completions", body, self._timeout_s)

    async def models(self, url: str) -> list[str]:
        """Ask a server for the names of its models. Raises as the module says."""
        url = f"{url}/models"
        found = await self._exchange("GET", url, None, LIST_S)
        try:
            return [str(model["id"]) for model in found["data"]]
        except (LookupError, TypeError):
            raise ServerTrouble(f"{url}: a list of models without names") from None

    async def _exchange(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Any:
        if not (self._key.isascii() and self._key.isprintable()):  # the client's error would show the key
            raise EndpointMisused(f"{url}: the key has a character that no header can carry")
        headers = JSON | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        try:
            answer = await self._client.exchange(
                method, url, body, headers=headers, timeout_s=timeout_s, max_bytes=REPLY_BYTES
            )
            if answer.status != HTTPStatus.OK:
                self._refuse(url, answer)
        except ServerTrouble as error:
            raise error.at(url) from None
        except BadAddress as error:
            raise EndpointMisused(f"{url}: {error}") from None
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise ServerTrouble(f"{url}: a reply that is not JSON") from None

    def _refuse(self, url: str, answer: HttpAnswer) -> None:
        """Raise what an answer other than 200 stands for."""
        code, said = _said(answer.body, self._key)
        status = answer.status
        if not (status == HTTPStatus.TOO_MANY_REQUESTS and code == _OUT_OF_MONEY):
            answer.raise_for_server(said)
        what = f"{url}: HTTP {status} {said}".rstrip()
        if status in _THIS_REQUEST:
            raise RequestRefused(what, url)
        raise EndpointMisused(what, *((url,) if status in _MAYBE_THIS_REQUEST else ()))


def _has_thought(message: Mapping[str, Any]) -> bool:
    """Say whether a message has thoughts beside its reply (vLLM's --reasoning-parser tells the two apart)."""
    return any(isinstance(thoughts := message.get(name), str) and thoughts.strip() for name in _THOUGHTS)


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
