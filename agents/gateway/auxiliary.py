"""Recognize an agent's calls outside its task, such as one for a title: those that match `environment.auxiliary`.

In: a call, and the configured conditions. Out: whether one of them matches. The policy answers such a call, and none of
it trains. Pure; used by `agents.gateway.calls`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.gateway.dialects.dialect import ApiRequest
from config.episodes.own_loop import AuxiliaryCall
from tasks.turns import text_of


def is_auxiliary(asked: ApiRequest, conditions: Sequence[AuxiliaryCall]) -> bool:
    """Return whether a call is outside the task."""
    return any(_meets(asked, one) for one in conditions)


def _meets(asked: ApiRequest, one: AuxiliaryCall) -> bool:
    messages = (*asked.instructions, *asked.messages)
    system = "\n".join(text_of(message) for message in messages if message["role"] == "system")
    most = asked.most_tokens
    return (
        (one.model is None or _has(f"\0{asked.model}\0", f"\0{one.model}\0"))  # the whole name
        and (one.system is None or _has(system, one.system))
        and (one.last_message is None or _has(text_of(messages[-1]), one.last_message))
        and (one.tools is None or one.tools == bool(asked.tools))
        and (one.max_tokens is None or (most is not None and most <= one.max_tokens))
    )


def _has(text: str, wanted: str) -> bool:
    """Return whether a text contains a pattern, in which `*` stands for any text."""
    at = 0
    for part in wanted.split("*"):
        if (at := text.find(part, at)) < 0:
            return False
        at += len(part)
    return True
