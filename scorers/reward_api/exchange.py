"""This module makes one exchange with one reward server: a response and its row out, a score in.

In: a server's address and a body. Out: the score, or an error that says whose doing it is. Called by
`scorers.reward_api.scorer` from its threads. Nothing that goes wrong is ever a score.
"""

from __future__ import annotations

import json
from typing import Any, Final

import httpx

from broker.errors import Permanent, Retryable
from scorers.servers.retry_after import retry_after_s

CONNECT_S: Final = 10.0
SAID_CHARS: Final = 300  # of what a server says of its trouble
_AWAY: Final = frozenset({502, 503, 504})
_ROW: Final = frozenset({413, 422})  # the server never takes this row
_MISUSED: Final = frozenset({401, 403, 404, 405})


class ServerTrouble(Retryable):
    """This server did not score; another one may, or the same one the next time."""


class ServerAway(ServerTrouble):
    """Nothing answers at this address: the server may be about to start."""


class ServerBusy(ServerTrouble):
    """The server wants to be asked later.

    Attributes:
        seconds: until then; None: it does not say.
    """

    def __init__(self, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.seconds = seconds


class ServerMisused(Permanent):
    """There is no reward server at this address, or it wants a key: every call fails until a person acts."""


class RowRefused(Exception):
    """The server does not take this row; the message is the reason."""


def post_reward(client: httpx.Client, url: str, body: bytes, timeout_s: float) -> float:
    """Have a server score one response.

    Raises:
        ServerTrouble, ServerAway, ServerBusy, ServerMisused, RowRefused: as these say.
    """
    address = f"{url}/reward"
    try:
        response = client.post(
            address,
            content=body,
            headers={"content-type": "application/json"},
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        )
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ServerAway(f"{address}: no connection ({error})") from None
    except httpx.TimeoutException:
        raise ServerTrouble(f"{address}: no reply within {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerTrouble(f"{address}: {type(error).__name__}: {error}") from None
    if response.status_code != httpx.codes.OK:
        raise _error(address, response)
    return _score(address, response)


def _error(address: str, response: httpx.Response) -> Exception:
    """Return the exception that an answer other than 200 stands for."""
    status = response.status_code
    what = f"{address}: HTTP {status} {' '.join(response.text[:SAID_CHARS].split())}".rstrip()
    rest_s = retry_after_s(response.headers.get("retry-after"))
    if status == httpx.codes.TOO_MANY_REQUESTS or (status in _AWAY and rest_s is not None):
        return ServerBusy(what, rest_s)
    if status in _AWAY:
        return ServerAway(what)
    if status in _ROW:
        return RowRefused(what)
    if status in _MISUSED:
        return ServerMisused(what)
    return ServerTrouble(what)


def _score(address: str, response: httpx.Response) -> float:
    try:
        found: Any = json.loads(response.content)
        score = found["score"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ServerTrouble(f"{address}: a reply without a score: {response.text[:SAID_CHARS]!r}") from None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise RowRefused(f"{address}: a score from 0 to 1 is expected, got {score!r:.{SAID_CHARS}}")
    return float(score)
