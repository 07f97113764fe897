"""What every API of the gateway is made of: a request read into one form, and an answer written out of one.

In: a body in the API's own words. Out: `Asked`. Then in: `Answer`, or `Refused`. Out: a body, or events of a stream.
Pure; the server and the session use it through the Protocol `Dialect`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.messages import Turn

BAD_REQUEST, UNKNOWN_KEY, NOT_FOUND, TOO_SLOW, ENDED, TOO_LARGE, FAILED = 400, 401, 404, 408, 409, 413, 500
COMMENT: Final = ": the policy is at it\n\n"  # of a stream: no client of OpenAI's takes it for an event


class Refused(Exception):
    """A request is not answered by the policy.

    Attributes:
        status: of HTTP. What trying again can't help is 4xx.
        code: for programs.
        where: the part of the request that is wrong; "": it as a whole.
    """

    def __init__(self, reason: str, *, status: int = BAD_REQUEST, code: str = "", where: str = "") -> None:
        super().__init__(reason)
        self.status, self.code, self.where = status, code, where


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks, whatever API it came by."""

    messages: tuple[Turn, ...]  # as OpenAI's chat API has them; content is a text
    model: str = ""  # the name that is asked for; whatever it is, the policy answers
    instructions: tuple[Turn, ...] = ()  # what stands before all messages, in this call alone
    previous: str = ""  # `Answer.id` of what the messages go on from; "": they are all
    is_kept: bool = False  # whether later calls may name the answer as `previous`
    is_plain: bool = False  # the one message is a text to go on with, without a chat template
    tools: tuple[Turn, ...] = ()  # schemas of functions, as OpenAI's chat API has them
    most_tokens: int | None = None
    stop: tuple[str, ...] = ()
    is_streamed: bool = False
    streams_usage: bool = False
    overridden: tuple[str, ...] = ()  # options of sampling that the request has, and the run decides
    echoed: Mapping[str, Any] = field(default_factory=dict)  # of the request, for the API's answer to go by


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call."""

    given: int
    cached: int  # of those given, what an earlier call of the episode was given or sampled
    sampled: int
    thought: int = 0  # of those sampled, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What is known of an answer before the policy has said it."""

    id: str  # letters and digits, the same in each play that is asked the same
    model: str
    created: int  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Begun):
    """What the policy says to one call."""

    message: Turn  # role, content, maybe reasoning_content and tool_calls with arguments as JSON's text
    is_cut: bool  # by a limit of tokens
    stopped_at: str | None  # the stop sequence that it was ended at
    usage: Usage


class Dialect(Protocol):
    """One API."""

    path: str

    def read(self, body: Mapping[str, Any]) -> Asked:
        """Read a request. Raises Refused."""
        ...

    def answer(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Return the body of an answer."""
        ...

    def alive(self, asked: Asked, begun: Begun, number: int) -> str:
        """Return a sign of life on a stream, while the policy is at it; `number` were sent before."""
        ...

    def events(self, asked: Asked, answer: Answer, signs: int) -> Iterator[str]:
        """Yield the events of a stream, each as it is sent, behind so many signs of life."""
        ...

    def error(self, refused: Refused) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def error_event(self, refused: Refused) -> str:
        """Return an error as an event of a stream that has begun."""
        ...


def event(body: Mapping[str, Any], *, is_named: bool = False) -> str:
    """Return an event of a stream; a named one says the body's `type` in a line of its own, too."""
    name = f"event: {body['type']}\n" if is_named else ""
    return f"{name}data: {json.dumps(body)}\n\n"
