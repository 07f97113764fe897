"""The clients that agents use, each asked in one way: a history goes in, what the client parsed comes out.

Their libraries take two seconds to be imported, which is for those alone who ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support.scripted_policy import Served

SCHEMA: Final = {"type": "object", "properties": {"box": {"type": "integer"}}, "required": ["box"]}


@dataclass(frozen=True)
class Heard:
    """What a client parsed of an answer."""

    thought: str
    text: str
    calls: tuple[tuple[str, Any], ...]  # name and arguments
    ids: tuple[str, ...]  # of the calls
    why: str  # it ended
    given: int  # tokens
    sampled: int
    said: Sequence[Any]  # in JSON, as the client has it: what it sends back


class ChatClient:
    """OpenAI's client and chat completions."""

    def __init__(self, it: Served, **options: Any) -> None:
        import openai

        self.client = openai.AsyncOpenAI(
            base_url=f"{it.access.base_url}/v1", api_key=it.access.key, **options
        )
        function = {"name": "look", "description": "Look.", "parameters": SCHEMA}
        it.closing.push_async_callback(self.client.close)
        self.tools: Any = [{"type": "function", "function": function}]

    def asks(self, text: str) -> list[Any]:
        return [{"role": "user", "content": text}]

    def results(self, *answers: tuple[str, str]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in answers]

    async def ask(self, history: Sequence[Any], *, stream: bool = False, **options: Any) -> Heard:
        import openai

        asked: Any = {"model": "gpt", "messages": list(history), "tools": self.tools} | options
        found: Any
        if stream:
            asked["stream_options"] = {"include_usage": True}
            async with self.client.chat.completions.stream(**asked) as events:
                try:
                    found = await events.get_final_completion()
                except openai.LengthFinishReasonError as cut:
                    found = cut.completion
        else:
            found = await self.client.chat.completions.create(**asked)
        message, why = found.choices[0].message, found.choices[0].finish_reason
        calls = message.tool_calls or ()
        said = message.to_dict()
        for call in said.get("tool_calls") or ():
            call.pop("index", None)
        return Heard(
            thought=getattr(message, "reasoning_content", None) or "",
            text=message.content or "",
            calls=tuple((call.function.name, json.loads(call.function.arguments)) for call in calls),
            ids=tuple(call.id for call in calls),
            why=why,
            given=found.usage.prompt_tokens,
            sampled=found.usage.completion_tokens,
            said=[said],
        )


class MessagesClient:
    """Anthropic's client and messages."""

    def __init__(self, it: Served, **options: Any) -> None:
        import anthropic

        self.client = anthropic.AsyncAnthropic(base_url=it.access.base_url, api_key=it.access.key, **options)
        it.closing.push_async_callback(self.client.close)
        self.tools: Any = [{"name": "look", "description": "Look.", "input_schema": SCHEMA}]

    def asks(self, text: str) -> list[Any]:
        return [{"role": "user", "content": text}]

    def results(self, *answers: tuple[str, str]) -> list[Any]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in answers
        ]
        return [{"role": "user", "content": blocks}]

    async def ask(self, history: Sequence[Any], *, stream: bool = False, **options: Any) -> Heard:
        asked: Any = {
            "model": "claude",
            "max_tokens": 4096,
            "messages": list(history),
            "tools": self.tools,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        } | options
        if stream:
            async with self.client.messages.stream(**asked) as events:
                found: Any = await events.get_final_message()
        else:
            found = await self.client.messages.create(**asked)
        blocks = {block.type: block for block in found.content}
        calls = [block for block in found.content if block.type == "tool_use"]
        said = found.to_dict()["content"]
        for block in said:
            block.pop("parsed_output", None)
        return Heard(
            thought=blocks["thinking"].thinking if "thinking" in blocks else "",
            text=blocks["text"].text if "text" in blocks else "",
            calls=tuple((call.name, call.input) for call in calls),
            ids=tuple(call.id for call in calls),
            why=found.stop_reason,
            given=found.usage.input_tokens + found.usage.cache_read_input_tokens,
            sampled=found.usage.output_tokens,
            said=[{"role": "assistant", "content": said}],
        )


class ResponsesClient:
    """OpenAI's client and responses."""

    def __init__(self, it: Served, **options: Any) -> None:
        import openai

        self.client = openai.AsyncOpenAI(
            base_url=f"{it.access.base_url}/v1", api_key=it.access.key, **options
        )
        it.closing.push_async_callback(self.client.close)
        self.tools: Any = [{"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA}]
        self.last = ""

    def asks(self, text: str) -> list[Any]:
        return [{"role": "user", "content": text}]

    def results(self, *answers: tuple[str, str]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in answers
        ]

    async def ask(self, history: Sequence[Any], *, stream: bool = False, **options: Any) -> Heard:
        asked: Any = {"model": "gpt", "input": list(history), "tools": self.tools} | options
        if stream:
            async with self.client.responses.stream(**asked) as events:
                seen = [event.sequence_number async for event in events]
                assert seen == list(range(len(seen)))
                found: Any = await events.get_final_response()
        else:
            found = await self.client.responses.create(**asked)
        self.last = found.id
        items = {item.type: item for item in found.output}
        calls = [item for item in found.output if item.type == "function_call"]
        said = found.to_dict()["output"]
        for item in said:
            item.pop("parsed_arguments", None)
        return Heard(
            thought=items["reasoning"].content[0].text if "reasoning" in items else "",
            text=found.output_text,
            calls=tuple((call.name, json.loads(call.arguments)) for call in calls),
            ids=tuple(call.call_id for call in calls),
            why=found.status,
            given=found.usage.input_tokens,
            sampled=found.usage.output_tokens,
            said=said,
        )


Client = ChatClient | MessagesClient | ResponsesClient
CLIENTS: Final[dict[str, type[Client]]] = {
    "chat": ChatClient,
    "messages": MessagesClient,
    "responses": ResponsesClient,
}
