"""Define the interface of the gateway's APIs: requests are read into one form, and answers written from one.

In: a request's body. Out: `ApiRequest`. Then in: `PolicyAnswer`, or `CallRefused`. Out: a body, or events of a stream.
Pure; the server and the session use it through the Protocol `Dialect`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.messages import Turn

BAD_REQUEST, UNKNOWN_KEY, NOT_FOUND, TOO_SLOW, ENDED, TOO_LARGE, FAILED = 400, 401, 404, 408, 409, 413, 500
COMMENT: Final = ": the policy is at it\n\n"  # in a stream: no client of OpenAI's parses it as an event


class CallRefused(Exception):
    """The policy does not answer a request.

    Attributes:
        status: of HTTP. Where a retry can't help, 4xx.
        code: for programs.
        where: the invalid part of the request; "": the whole.
    """

    def __init__(self, reason: str, *, status: int = BAD_REQUEST, code: str = "", where: str = "") -> None:
        super().__init__(reason)
        self.status, self.code, self.where = status, code, where


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request, in one form for all APIs."""

    messages: tuple[Turn, ...]  # in the format of OpenAI's chat API; content is a text
    model: str = ""  # the requested name; the policy answers in any case
    instructions: tuple[Turn, ...] = ()  # messages before all others, in this call alone
    previous: str = ""  # `PolicyAnswer.id` that the messages continue from; "": they are complete
    is_kept: bool = False  # whether later calls may name the answer as `previous`
    is_plain: bool = False  # the one message is a text to continue, without a chat template
    tools: tuple[Turn, ...] = ()  # schemas of functions, in the format of OpenAI's chat API
    most_tokens: int | None = None
    stop: tuple[str, ...] = ()
    is_streamed: bool = False
    streams_usage: bool = False
    overridden: tuple[str, ...] = ()  # sampling options of the request that the run replaces
    echoed: Mapping[str, Any] = field(default_factory=dict)  # fields of the request for the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one call."""

    given: int
    cached: int  # prompt tokens that an earlier call of the episode had as prompt or answer
    sampled: int
    thought: int = 0  # approximate part of the sampled ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The part of an answer that is known before sampling."""

    id: str  # letters and digits, the same in each replay
    model: str
    created: int  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer(Begun):
    """The policy's answer to a call."""

    message: Turn  # role, content, optionally reasoning_content, and tool_calls with arguments as JSON text
    is_cut: bool  # by a token limit
    stopped_at: str | None  # the stop sequence that ended it
    usage: TokenUsage


class Dialect(Protocol):
    """An API."""

    path: str

    def read(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read a request. Raises CallRefused."""
        ...

    def answer(self, asked: ApiRequest, answer: PolicyAnswer) -> dict[str, Any]:
        """Return the body of an answer."""
        ...

    def alive(self, asked: ApiRequest, begun: Begun, number: int) -> str:
        """Return a sign of life for a stream that waits for the policy; `number` were sent before."""
        ...

    def events(self, asked: ApiRequest, answer: PolicyAnswer, signs: int) -> Iterator[str]:
        """Yield the events of a stream, each as it is sent, after `signs` signs of life."""
        ...

    def error(self, refused: CallRefused) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def error_event(self, refused: CallRefused) -> str:
        """Return an error as an event of a started stream."""
        ...


def event(body: Mapping[str, Any], *, is_named: bool = False) -> str:
    """Return an event of a stream; a named one repeats the body's `type` in its own line."""
    name = f"event: {body['type']}\n" if is_named else ""
    return f"{name}data: {json.dumps(body)}\n\n"
