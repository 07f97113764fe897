"""Let a model at an external address act as the policy, through OpenAI's chat API, without token ids.

In: messages and tools; or the calls of an agent that owns its loop, in any API of the gateway. Out: the model's
messages. Only the conversation itself is recorded. A busy or absent server is tried again for a while; a refusal ends
the episode, with the server's message. Used by `tools.agent.outside_play`, in its event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import SecretStr

from agents.gateway.calls import PlayCalls
from agents.gateway.conversations import PLAIN, CallPlace, Conversations
from agents.gateway.dialects.dialect import FAILED, ApiRequest, Begun, CallRefused, PolicyAnswer, TokenUsage
from broker.errors import PipelineError, RunFailed
from broker.messages import End, Turn
from config.endpoint import base_url
from config.episodes.own_loop import AuxiliaryCall
from scorers.served_model.wire import Wire
from tasks.turns import POLICY, text_of
from web.client import Busy, ServerAway, ServerTrouble

log = logging.getLogger(__name__)

REPLY_S: Final = 600.0  # for one answer
TRIES: Final = 4
PAUSE_S: Final = 1.0  # before the second try; doubles each time
NAMES_SHOWN: Final = 8
CHARS_PER_TOKEN: Final = 4  # estimate, for clients that ask for the length of a call in advance
# The fields of a message that are sent: servers refuse unknown ones.
SENT: Final = ("role", "content", "tool_calls", "tool_call_id", "name")
THOUGHTS: Final = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer of the model."""

    message: Turn  # role, content, optionally reasoning_content and tool_calls
    is_cut: bool  # by a token limit
    given: int  # tokens, by the server's count; 0: not counted
    sampled: int


class OutsideModel:
    """A model at an address. Belongs to one event loop.

    Args:
        url: with or without `/v1`.
        name: in the endpoint's list; None: the only one there.
        temperature, top_p: sent where they differ from 1, every server's default.
    Attributes:
        name: of the model, after `open`.
    """

    def __init__(
        self, url: str, *, name: str | None, key: SecretStr | None, temperature: float, top_p: float = 1.0
    ) -> None:
        self._url, self._temperature, self._top_p = base_url(url), temperature, top_p
        self._wire = Wire(key, timeout_s=REPLY_S)
        self.name = name or ""

    async def open(self) -> None:
        """Find the model's name if none is given. Raises PipelineError."""
        if self.name:
            return
        names = await self._wire.models(self._url)
        if len(names) != 1:
            shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
            raise RunFailed(f"{self._url} lists {len(names)} models ({shown or 'none'}): name one by --model")
        (self.name,) = names

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def said(
        self, messages: Sequence[Turn], tools: Sequence[Turn], *, most: int | None, stop: Sequence[str] = ()
    ) -> ModelReply:
        """Return the model's answer. Raises PipelineError, once retries are useless.

        Args:
            most: its largest number of tokens; None: the server's limit.
        """
        body: dict[str, Any] = {"model": self.name, "messages": [_sent(one) for one in messages]}
        if tools:
            body["tools"] = list(tools)
        if most is not None:
            body["max_tokens"] = most
        if stop:
            body["stop"] = list(stop)
        if self._temperature != 1:
            body["temperature"] = self._temperature
        if self._top_p != 1:
            body["top_p"] = self._top_p
        data = json.dumps(body).encode()
        for number in range(TRIES):
            try:
                return _said(await self._wire.completion(self._url, data), self._url)
            except ServerTrouble as error:
                if number + 1 == TRIES:
                    raise
                wait_s = (error.seconds if isinstance(error, Busy) else None) or PAUSE_S * 2**number
                is_away = isinstance(error, ServerAway | Busy)
                log.warning(
                    "asking_again in_s=%.0f error=%s%s", wait_s, error, "" if is_away else " (its fault)"
                )
                await asyncio.sleep(wait_s)
        raise AssertionError("the last try has returned or raised")


def _sent(message: Turn) -> Turn:
    return {name: message[name] for name in SENT if name in message}


def _said(found: Any, url: str) -> ModelReply:
    """Read a completion. Raises ServerTrouble."""
    try:
        choice = found["choices"][0]
        message = choice["message"]
        said: Turn = {"role": POLICY, "content": message.get("content") or ""}
        thoughts = [message[name] for name in THOUGHTS if message.get(name)]
        if thoughts:
            said["reasoning_content"] = str(thoughts[0])
        if calls := message.get("tool_calls"):
            said["tool_calls"] = [_call(call, place) for place, call in enumerate(calls)]
        usage = found.get("usage") or {}
        return ModelReply(
            said,
            choice.get("finish_reason") == "length",
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ServerTrouble(f"{url}: a reply without a message that can be read: {error!r}") from None


def _call(call: Mapping[str, Any], place: int) -> Turn:
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    return {
        "id": str(call.get("id") or f"call_{place}"),
        "type": "function",
        "function": {
            "name": str(function["name"]),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }


class OutsideCalls(PlayCalls):
    """The calls of one episode's agent, answered by an external model.

    Args:
        turns: largest number of calls.
        turn_tokens: the longest answer; None: the server's limit.
        beside: conditions for calls outside the task.
    Attributes:
        conversations: of the agent.
        asked, given, sampled: answered calls, and their tokens by the server's count.
    """

    def __init__(
        self,
        model: OutsideModel,
        *,
        turns: int,
        turn_tokens: int | None,
        beside: Sequence[AuxiliaryCall] = (),
    ) -> None:
        super().__init__(model=model.name, created=int(time.time()), beside=beside)
        self._outside, self._turns, self._turn_tokens = model, turns, turn_tokens
        self.conversations = Conversations[ModelReply]()
        self._started = 0
        self.asked = self.given = self.sampled = 0

    def count(self, asked: ApiRequest) -> int:
        """Estimate the tokens of a call: the model's tokenizer is not available here."""
        whole = (*asked.instructions, *self._said_before(asked), *asked.messages, *asked.tools)
        return max(1, len(json.dumps(whole)) // CHARS_PER_TOKEN)

    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        try:
            return await self._by_the_model(asked, begun)
        except PipelineError as error:
            self._fail(error)
            raise CallRefused(f"the model did not answer: {error}", status=FAILED) from error

    async def _by_the_model(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        tools = PLAIN if asked.is_plain else asked.tools
        messages = (*asked.instructions, *self._said_before(asked), *asked.messages)
        found: CallPlace[ModelReply] = (
            CallPlace(None, messages, tools)
            if asked.is_plain
            else self.conversations.find(messages, tools, asked.stop)
        )
        is_beside = self._is_beside(asked)
        if not found.since or found.since[-1]["role"] == POLICY:
            raise CallRefused(
                "the last message is the assistant's: the policy answers others", where="messages"
            )
        if (self.auxiliary - 1 if is_beside else self._started) >= self._turns:
            answer = self._at_limit(End.TURNS, begun, given=self.count(asked), is_beside=is_beside)
        else:
            self._started += not is_beside
            answer = await self._sampled(asked, found, begun, is_beside=is_beside)
        self._keep(asked, answer)
        return answer

    async def _sampled(
        self, asked: ApiRequest, found: CallPlace[ModelReply], begun: Begun, *, is_beside: bool
    ) -> PolicyAnswer:
        limits = [one for one in (asked.most_tokens, self._turn_tokens) if one is not None]
        said = await self._outside.said(
            found.history,
            () if asked.is_plain else asked.tools,
            most=min(limits, default=None),
            stop=asked.stop,
        )
        self.asked += 1
        self.given += said.given
        self.sampled += said.sampled
        self.conversations.add(found, said, said.message, said.message, is_auxiliary=is_beside)
        return PolicyAnswer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message=said.message,
            is_cut=said.is_cut,
            stopped_at=None,
            # Without the server's count assume 1: 0 would mean an answer at a limit.
            usage=TokenUsage(given=said.given, cached=0, sampled=max(1, said.sampled)),
        )

    @property
    def history(self) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
        """Return the start of the longest conversation, and the messages after it."""
        if (end := self.conversations.longest) is None:
            return (), ()
        return end.history[: end.begun], end.history[end.begun :]

    @property
    def text(self) -> str:
        """Return the model's last message."""
        _, said = self.history
        return text_of(said[-1]) if said else ""
