"""What every API of the gateway is made of: a request read into one form, and an answer written out of one.

In: a body in the API's own words. Out: `Asked`. Then in: `Answer`, or `Refused`. Out: a body, or events of a stream.
Pure; the server and the session use it through the Protocol `Dialect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.messages import Turn

# Options of sampling that are the run's, by the names that APIs have for them: what a request says of them is dropped,
# since a policy is trained on what it samples by itself.
OVERRIDDEN: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
)
# Options that make the policy say what it would not have said, or ask for what there is not.
REFUSED: Final = (
    "logit_bias",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "best_of",
    "echo",
    "suffix",
    "functions",
    "function_call",
)
BAD_REQUEST, NOT_FOUND, ENDED, TOO_LARGE = 400, 404, 409, 413
UNKNOWN_KEY, UNAVAILABLE = 401, 503


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
    tools: tuple[Turn, ...] = ()  # schemas of functions, as OpenAI's chat API has them
    most_tokens: int | None = None
    stop: tuple[str, ...] = ()
    is_streamed: bool = False
    streams_usage: bool = False
    overridden: tuple[str, ...] = ()  # options of sampling that the request has, and the run decides
    echoed: Mapping[str, Any] = field(default_factory=dict)  # of the request, for the API's answer to repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call."""

    given: int
    cached: int  # of those given, what an earlier call of the episode was given or sampled
    sampled: int
    thought: int = 0  # of those sampled, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the policy says to one call."""

    id: str  # letters and digits, the same for the same tokens
    model: str
    created: int  # Unix seconds
    message: Turn  # role, content, maybe reasoning_content and tool_calls with arguments as JSON's text
    is_cut: bool  # by a limit of tokens
    stopped_at: str | None  # the stop sequence that it was ended at
    usage: Usage


class Dialect(Protocol):
    """One API."""

    def read(self, body: Mapping[str, Any]) -> Asked:
        """Read a request. Raises Refused."""
        ...

    def answer(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Return the body of an answer."""
        ...

    def events(self, asked: Asked, answer: Answer) -> Iterator[str]:
        """Yield the events of a stream, each as it is sent."""
        ...

    def error(self, refused: Refused) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def error_event(self, refused: Refused) -> str:
        """Return an error as an event of a stream that has begun."""
        ...


def refuse_what_biases(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that are overridden. Raises Refused for one that can't be had."""
    for name in REFUSED:
        if body.get(name) not in (None, False, [], {}):
            raise Refused(
                f"{name} is not there in training: the policy is sampled as the run says", where=name
            )
    if body.get("n") not in (None, 1):
        raise Refused("n is 1 in training: each call is one turn of the episode", where="n")
    return tuple(name for name in OVERRIDDEN if body.get(name) is not None)


def text_in(content: Any, where: str) -> str:
    """Return the text of a message's content: a text, parts of text, or nothing. Raises Refused for another part."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise Refused(f"{where} is a text or a list of parts, got {type(content).__name__}", where=where)
    texts = []
    for place, part in enumerate(content):
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise Refused(
                f"{where}[{place}] is of type {kind!r}: the policy reads text", where=f"{where}[{place}]"
            )
        texts.append(text)
    return "\n".join(texts)


def a_list_of_objects(value: Any, where: str) -> list[Mapping[str, Any]]:
    """Return a list of JSON objects. Raises Refused for anything else."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Refused(f"{where} is a list of objects", where=where)
    return value


def a_limit(body: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of several limits of tokens that a request has. Raises Refused for what is no such number."""
    for name in names:
        if (value := body.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise Refused(f"{name} is a whole number of at least 1, got {value!r}", where=name)
            return value
    return None


def stops_in(value: Any, where: str) -> tuple[str, ...]:
    """Return stop sequences: one text, or several. Raises Refused for anything else."""
    found = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Refused(f"{where} is a text or a list of texts", where=where)
    return tuple(one for one in found if one)
