"""Whose fault it is that a server refuses a question: the answer's, or the row's, the server's and ours.

In: a question, and the refusal of it. Out: a ruling; None where it is not shown that the answer is at fault. Used by
`scorers.served_model.scorer`, in its thread. The same question is asked about a plain answer, and then as it was once
more. Where one server refuses the question, takes the plain one and refuses the question again, the answer is what it
refuses: it is too long for the model, or nothing that the server passes on. A server that refuses everything, since
its model is another or `max_tokens` too many, refuses the plain question too, and so it does for a row that is too
long by itself.

An answer that is refused costs one more call, and its row one that all answers share which were refused before it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic

from scorers.served_model.client import EndpointMisused, Refusal, Reply, RequestRefused
from scorers.served_model.protocol import Case, ModelQuestion, PlainlyAsking, Ruling, ServedModelProtocol

MOST_ROWS: Final = 256  # whose plain questions are remembered


class Refusals(Generic[Case]):
    """This finds out about the refusals of one scorer's questions.

    Args:
        protocol: words the plain question, where it can.
        ask: asks a question and waits for the reply, not out of the cache where it is told so.
    """

    def __init__(
        self, protocol: ServedModelProtocol[Any, Case], ask: Callable[[ModelQuestion[Case], bool], Reply]
    ) -> None:
        self._protocol = protocol
        self._ask = ask
        # When a plain question was last asked, in monotonic seconds, and the server that took it; "": none did.
        self._plain: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def ruling_on(self, question: ModelQuestion[Case], refusal: Refusal) -> Ruling | None:
        """Rule on an answer whose question was refused, or say by None that the answer may not be at fault.

        Raises:
            Retryable: meanwhile a server failed.
            Permanent: meanwhile the servers do not know the model or the key.
        """
        if not refusal.servers or not isinstance(self._protocol, PlainlyAsking):
            return None
        server = self._taker(self._protocol.plain_question(question), since=refusal.at)
        if server not in refusal.servers:
            return None
        try:
            reply = self._ask(question, False)
        except Refusal as again:
            if server in again.servers:
                reason = f"the server refuses this answer, and again, but not a plain one: {again}"
                return self._protocol.refused(question, reason)
            if isinstance(again, EndpointMisused):
                raise
            return None
        return self._protocol.ruling_of(reply, question)

    def _taker(self, plain: ModelQuestion[Case], *, since: float) -> str:
        """Name the server that takes the plain question, asked after `since`; "" where none does."""
        asked, server = self._plain.pop(plain.key, (0.0, ""))
        if asked <= since:
            asked = time.monotonic()
            try:
                server = self._ask(plain, True).server
            except RequestRefused:
                server = ""
        self._plain[plain.key] = asked, server
        while len(self._plain) > MOST_ROWS:
            self._plain.popitem(last=False)
        return server
