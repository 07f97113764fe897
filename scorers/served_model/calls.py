"""A question to a served model is answered from the cache, or by a call to one of its servers after the other.

In: messages. Out: a reply. Run by `scorers.served_model.client` on its loop, any number of questions side by side. Each
exchange with a server is one call of the shared limits; between two of them a question holds none.

- A server that fails is not asked the same again, but the next server. When no server is left, `EndpointUnavailable`.
  So it is where one refuses the question; where each that answers has, `RequestRefused`, without a wait for others.
- A server at which nobody answers is tried again for `timeout_s`, with doubled pauses: it may be about to start.
- A server that is busy is left alone as it asks, which costs no attempt, for `BUSY_S` at most.
- A time-out begins with its call, not with the wait for a call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgpack

from broker.errors import PipelineError, Retryable
from config.endpoint import EndpointConfig
from scorers.served_model.admission import Admission
from scorers.served_model.cache import Replies
from scorers.served_model.servers import EndpointServer, EndpointServers
from scorers.served_model.wire import UNENDED, EndpointMisused, Refusal, Reply, RequestRefused, Wire
from web.client import Busy, ServerAway, ServerTrouble

T = TypeVar("T")

BUSY_S = 300.0  # for which all servers may be busy for one question
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # before servers at which nobody answers are tried again
NO_ADDRESS: Final = (
    "no address of a served model: set `urls` of the task's endpoint, or SERVED_JUDGE_URL for these scorers where "
    "another launcher than `millrace up` serves the model of `judge.serve`"
)
HITS, MISSES = "cache_hits", "cache_misses"


class EndpointUnavailable(Retryable):
    """This is raised where no server has answered; the message names each server and its trouble."""


class EndpointCalls:
    """All questions to one endpoint share these servers, limits and cache."""

    def __init__(
        self,
        config: EndpointConfig,
        wire: Wire,
        servers: EndpointServers,
        admission: Admission,
        replies: Replies,
        *,
        count: Callable[[str], None],
    ) -> None:
        """Take over what the questions share; `count` is told of HITS and MISSES of the cache."""
        self._model = config.model  # once it is known
        self._config = config
        self._wire = wire
        self._servers = servers
        self._admission = admission
        self._replies = replies
        self._count = count
        self._naming: asyncio.Task[str] | None = None

    async def reply(
        self, messages: Sequence[Mapping[str, str]], key: str | None, *, anew: bool = False
    ) -> Reply:
        """Have the model reply, from the cache or by a call.

        Args:
            messages: the chat's.
            key: the text by which the cache knows the question; None: the messages themselves.
            anew: call even where the cache has a reply.
        Raises:
            Retryable: see `scorers.served_model.client`; Permanent likewise.
        """
        model = self._model or await self._name_model()
        settings = {
            "model": model,
            "max_tokens": self._config.max_tokens,
            "temperature": self._config.temperature,
        }
        name = _digest([settings, list(messages) if key is None else key])
        if self._config.cache and not anew:
            kept = _unpacked(await asyncio.to_thread(self._replies.find, name))
            self._count(MISSES if kept is None else HITS)
            if kept is not None:
                return kept
        whole = [{part: _whole(text) for part, text in message.items()} for message in messages]
        body = json.dumps({**settings, "messages": whole, "stream": False}).encode("ascii")
        reply = await self._fail_over(partial(self._wire.complete, body=body))
        if self._config.cache and reply.text not in {
            "",
            UNENDED,
        }:  # which the server's settings may have made
            await asyncio.to_thread(self._replies.keep, name, _packed(reply))
        return reply

    async def _name_model(self) -> str:
        """Ask for the name of the only served model. All questions that need the name share one call."""
        if self._naming is None or self._naming.done():
            self._naming = asyncio.create_task(self._only_model())
        return await asyncio.shield(self._naming)

    async def _only_model(self) -> str:
        names = await self._fail_over(self._wire.models)
        if len(names) != 1:
            served = ", ".join(names) or "none"
            raise EndpointMisused(
                f"{self._servers.all[0].url}: set `model` of the endpoint; it serves {served}"
            )
        self._model = names[0]
        return names[0]

    async def _fail_over(self, exchange: Callable[[str], Awaitable[T]]) -> T:
        """Make an exchange with one server after the other, until one of them does it."""
        if not self._servers.all:
            raise EndpointMisused(NO_ADDRESS)
        failed: dict[EndpointServer, PipelineError] = {}  # servers that are not asked this again
        away: dict[EndpointServer, PipelineError] = {}  # servers that are asked again after a pause
        pause_s, began, busy_since = FIRST_PAUSE_S, 0.0, 0.0
        while True:
            if not (
                candidates := [
                    server for server in self._servers.all if server not in failed and server not in away
                ]
            ):
                is_over = not away or time.monotonic() - began > self._config.timeout_s
                if is_over or _is_refused(failed.values()):
                    raise _verdict([*failed.values(), *away.values()])
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                away.clear()
                continue
            busy_since = await self._wait_for_rest(candidates, busy_since)
            async with self._admission.call():
                with self._servers.lend(candidates) as server:
                    if server is None:
                        continue
                    began = began or time.monotonic()
                    try:
                        done = await exchange(server.url)
                        self._servers.trust(server)
                        return done
                    except Busy as busy:
                        busy_since = busy_since or time.monotonic()
                        self._servers.rest(server, busy.seconds)
                    except ServerAway as error:
                        away[server] = error
                        self._servers.doubt(server, str(error))
                    except (ServerTrouble, Refusal) as error:
                        failed[server] = error
                        if not _is_refused([error]):  # which says nothing of the next question
                            self._servers.doubt(server, str(error))

    async def _wait_for_rest(self, servers: Sequence[EndpointServer], since: float) -> float:
        """Wait until one of the servers may be asked.

        Args:
            servers: those that may be asked next.
            since: when a server was first busy for this question, in monotonic seconds; 0: none was yet.
        Returns:
            `since`, now where a server is first busy.
        """
        now = time.monotonic()
        until = max(now, min(server.rests_until for server in servers))
        since = since or (now if until > now else 0.0)
        if since and until - since > BUSY_S:
            urls = " and ".join(server.url for server in servers)
            raise EndpointUnavailable(
                f"{urls}: too many requests (HTTP 429) for {now - since:.0f} s, and wants to be "
                f"left alone for {until - now:.0f} s more"
            )
        await asyncio.sleep(until - now)
        return since


def _is_refused(errors: Iterable[PipelineError]) -> bool:
    return any(isinstance(error, RequestRefused) for error in errors)


def _verdict(errors: Sequence[PipelineError]) -> PipelineError:
    """Make one error of all servers' errors. It is Permanent only where no server may get well by itself.

    Where a server has refused the question, that is what counts: others may have been too busy with themselves to say.
    """
    refusals = [error for error in errors if isinstance(error, Refusal)]
    servers = [server for error in refusals for server in error.servers]
    said = "; ".join(map(str, errors))
    if _is_refused(errors):
        return RequestRefused(said, *servers)
    return EndpointMisused(said, *servers) if len(refusals) == len(errors) else EndpointUnavailable(said)


def _whole(text: str) -> str:
    """Replace halves of surrogate pairs in a text, which are no characters: vLLM refuses a question with one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _digest(question: Any) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode("ascii")).hexdigest()


def _packed(reply: Reply) -> bytes:
    """Pack a reply for the cache. A model may break off within a character that JSON writes as two halves."""
    packed: bytes = msgpack.packb([reply.text, reply.finish_reason], unicode_errors="surrogatepass")
    return packed


def _unpacked(kept: bytes | None) -> Reply | None:
    """Unpack a reply out of the cache; None where this version did not pack the bytes."""
    if kept is None:
        return None
    try:
        text, finish_reason = msgpack.unpackb(kept, unicode_errors="surrogatepass")
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    return Reply(text, finish_reason, cached=True)
