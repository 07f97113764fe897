"""This module makes one exchange with one reward server: a response and its row out, a score in.

In: a server's address and a body. Out: the score, or an error that says whose doing it is. Called by
`scorers.reward_api.scorer` from its threads. Nothing that goes wrong is ever a score.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from broker.errors import Permanent
from web.client import SAID_CHARS, BadAddress, BlockingClient, HttpAnswer, ServerTrouble

REPLY_BYTES: Final = 4 << 20  # the largest reply
_ROW: Final = frozenset({413, 422})  # the server never takes this row
_MISUSED: Final = frozenset({401, 403, 404, 405})


class ServerMisused(Permanent):
    """There is no reward server at this address, or it wants a key: every call fails until a person acts."""


class RowRefused(Exception):
    """The server does not take this row; the message is the reason."""


def post_reward(client: BlockingClient, url: str, body: bytes, timeout_s: float) -> float:
    """Have a server score one response.

    Raises:
        ServerTrouble, ServerAway, Busy, ServerMisused, RowRefused: as these say.
    """
    address = f"{url}/reward"
    try:
        answer = client.exchange("POST", address, body, timeout_s=timeout_s, max_bytes=REPLY_BYTES)
        answer.raise_for_server()
        if answer.status == HTTPStatus.OK:
            return _score(answer)
    except ServerTrouble as error:
        raise error.at(address) from None
    except RowRefused as error:
        raise RowRefused(f"{address}: {error}") from None
    except BadAddress as error:
        raise ServerMisused(f"{address}: {error}") from None
    what = f"{address}: HTTP {answer.status} {answer.said}".rstrip()
    if answer.status in _ROW:
        raise RowRefused(what)
    if answer.status in _MISUSED:
        raise ServerMisused(what)
    raise ServerTrouble(what)


def _score(answer: HttpAnswer) -> float:
    try:
        found: Any = json.loads(answer.body)
        score = found["score"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ServerTrouble(f"a reply without a score: {answer.said!r}") from None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise RowRefused(f"a score from 0 to 1 is expected, got {score!r:.{SAID_CHARS}}")
    return float(score)
