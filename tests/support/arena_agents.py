"""The agents of an arena's tests: functions on the clients that people use."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


def ask(base_url: str, api_key: str, row: dict[str, Any]) -> float:
    """Two turns of one conversation without a client: the imports of one take a second."""
    chat = [{"role": "user", "content": f"Row {row['answer']}."}]
    chat += [_answered(base_url, api_key, chat), {"role": "user", "content": "Sure?"}]
    return float(_answered(base_url, api_key, chat)["content"] == "right")


def _answered(base_url: str, api_key: str, messages: list[Any]) -> dict[str, Any]:
    body = json.dumps({"model": "any", "messages": messages}).encode()
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        message: dict[str, Any] = json.load(answer)["choices"][0]["message"]
        return message


def ask_twice_and_stop_short(base_url: str, api_key: str, row: dict[str, Any]) -> float:
    """The same as `ask_twice`, with a stop sequence in the first turn."""
    return ask_twice(base_url, api_key, row, stop="gh")


def ask_twice(base_url: str, api_key: str, row: dict[str, Any], **options: Any) -> float:
    """Two turns of one conversation; the second sends the first back as the client has it."""
    import openai

    client = openai.OpenAI(base_url=base_url, api_key=api_key)
    chat: list[Any] = [{"role": "user", "content": f"Row {row['answer']}."}]
    first = client.chat.completions.create(model="any", messages=chat, temperature=0.1, **options)
    chat += [first.choices[0].message, {"role": "user", "content": "Sure?"}]
    with client.chat.completions.create(model="any", messages=chat, stream=True) as stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    return float(text == "right")


def ask_twice_by_messages(base_url: str, api_key: str, row: dict[str, Any]) -> float:
    """The same with Anthropic's client, whose thoughts stay behind."""
    import anthropic

    client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key=api_key)
    chat: list[Any] = [{"role": "user", "content": f"Row {row['answer']}."}]
    first = client.messages.create(model="any", messages=chat, max_tokens=512)
    chat += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Sure?"}]
    with client.messages.stream(model="any", messages=chat, max_tokens=512) as stream:
        text = "".join(stream.text_stream)
    return float(text == "right")


def ask_twice_by_responses(base_url: str, api_key: str, row: dict[str, Any]) -> float:
    """The same with responses, by the first one's id."""
    import openai

    client = openai.OpenAI(base_url=base_url, api_key=api_key)
    first = client.responses.create(model="any", input=f"Row {row['answer']}.")
    with client.responses.stream(model="any", input="Sure?", previous_response_id=first.id) as stream:
        return float(stream.get_final_response().output_text == "right")


def breaks(base_url: str, api_key: str, row: dict[str, Any]) -> float:
    """Ask once, and break."""
    _answered(base_url, api_key, [{"role": "user", "content": "?"}])
    raise ValueError("no box: broken on purpose")


async def breaks_beside_a_call(base_url: str, api_key: str, row: dict[str, Any]) -> None:
    """Break at the limit of one turn, while that turn is still out; leave a file of each play in `broke`."""
    import openai

    client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)

    async def asked(text: str) -> Any:
        return await client.chat.completions.create(model="any", messages=[{"role": "user", "content": text}])

    first = asyncio.create_task(asked("first"))
    await asyncio.wait({first}, timeout=1)
    await asked("second")
    (Path(row["broke"]) / api_key).touch()
    raise ValueError("broken at the limit, on purpose")
