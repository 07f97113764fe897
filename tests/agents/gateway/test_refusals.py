"""What is wrong with a request is said as its API says it, with the place, and costs no turn; what is harmless is answered."""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agents.gateway import server
from agents.gateway.conversations import Conversations
from agents.gateway.dialects.dialect import CallRefused
from agents.gateway.server import COUNT, DIALECTS
from agents.rendering.scripted import ScriptedRendering
from agents.turns import TurnFailed
from tests.support.in_loop import in_loop
from tests.support.raw_calls import CHAT, COMPLETIONS, MESSAGES, RESPONSES, RIGHT, SAYING, Reply, sent
from tests.support.scripted_policy import Served, served
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
FUNCTION = {"name": "look", "parameters": {"type": "object", "properties": {}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
SOURCE = {"type": "base64", "media_type": "image/png", "data": ""}
FORM = {"type": "json_schema", "json_schema": {}}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
MESSAGES_TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]
RESPONSES_TOOLS = [{"type": "function"} | FUNCTION]


def user(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"messages": [*SAYING, {"role": "assistant", **fields}, *SAYING]}


# API, what is in its right request besides, and what the reason names.
WRONG: list[tuple[str, dict[str, Any], str]] = [
    *((path, {"n": 2}, "n is 1") for path in RIGHT),
    *((path, {"logit_bias": {"7": 1}}, "logit_bias") for path in RIGHT),
    *((path, {"logprobs": 3}, "logprobs") for path in RIGHT),
    (CHAT, {"messages": []}, "messages is empty"),
    (CHAT, {"messages": {"role": "user"}}, "messages is a list of objects"),
    (CHAT, {"messages": [{"role": "critic", "content": "No."}]}, "messages[0].role is one of system"),
    (CHAT, {"messages": [{"role": ["user"], "content": "x" * 999}]}, "messages[0].role"),
    (CHAT, {"messages": [{"role": "user", "content": 7}]}, "messages[0].content is a text"),
    (CHAT, user({"type": "text", "text": "See:"}, IMAGE), "messages[0].content[1] is of type 'image_url'"),
    (CHAT, {"messages": [{"role": "tool", "content": "1"}]}, "messages[0] has no tool_call_id"),
    (CHAT, assistant(tool_calls=[CALL | {"function": {"name": "look", "arguments": "{"}}]), "tool_calls[0]"),
    (CHAT, assistant(tool_calls=[{"id": "c1"}]), "messages[1].tool_calls[0] names no function"),
    (CHAT, {"messages": [*SAYING, {"role": "assistant", "content": "I"}]}, "the last message is the assistant's"),
    (CHAT, {"tools": CHAT_TOOLS, "tool_choice": "required"}, "tool_choice is auto or none"),
    (CHAT, {"tools": CHAT_TOOLS, "tool_choice": {"type": "function"}}, "tool_choice is auto or none"),
    (CHAT, {"tools": [{"type": "custom", "custom": {"name": "sh"}}]}, "tools[0] is of type 'custom'"),
    (CHAT, {"tools": [{"type": "function", "function": {}}]}, "tools[0] has no name"),
    (CHAT, {"response_format": FORM}, "response_format is text"),
    (CHAT, {"response_format": "json"}, "response_format is text"),
    (CHAT, {"max_tokens": 0}, "max_tokens is a whole number"),
    (CHAT, {"max_tokens": True}, "max_tokens is a whole number"),
    (CHAT, {"max_completion_tokens": "7"}, "max_completion_tokens is a whole number"),
    (CHAT, {"stop": 3}, "stop is a text"),
    (MESSAGES, {"messages": []}, "messages is empty"),
    (MESSAGES, {"messages": [{"role": "tool", "content": "1"}]}, "messages[0].role is one of user"),
    (MESSAGES, {"messages": [*SAYING, {"role": "user", "content": []}]}, "messages[1].content is empty"),
    (MESSAGES, user({"type": "image", "source": SOURCE}), "messages[0].content[0] is of type 'image'"),
    (MESSAGES, user({"type": "document", "source": SOURCE}), "is of type 'document'"),
    (MESSAGES, assistant(content=[{"type": "server_tool_use"}]), "messages[1].content[0] is of type"),
    (MESSAGES, user({"type": "tool_result", "content": "1"}), "messages[0].content[0] has no tool_use_id"),
    (
        MESSAGES,
        user({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": SOURCE}]}),
        "messages[0].content[0].content[0] is of type 'image'",
    ),
    (MESSAGES, assistant(content=[{"type": "tool_use", "name": "look", "input": 7}]), "are no JSON object"),
    (MESSAGES, {"messages": [*SAYING, {"role": "assistant", "content": "I"}]}, "the last message is the"),
    (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "'web_search_20250305'"),
    (MESSAGES, {"tools": MESSAGES_TOOLS, "tool_choice": {"type": "any"}}, "tool_choice is auto or none"),
    (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}, "output_config.format is text"),
    (MESSAGES, {"mcp_servers": [{"url": "x"}]}, "mcp_servers is not there"),
    (MESSAGES, {"max_tokens": 0}, "max_tokens is a whole number"),
    (RESPONSES, {"input": []}, "input is empty"),
    (RESPONSES, {"input": [{"type": "web_search_call", "id": "w"}]}, "input[0] is of type 'web_search_call'"),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "r"}]}, "input[0] is of type 'item_reference'"),
    (RESPONSES, {"input": user({"type": "input_image"})["messages"]}, "input[0].content[0] is of type"),
    (RESPONSES, {"input": [{"role": "critic", "content": "No."}]}, "input[0].role is one of"),
    (RESPONSES, {"input": [{"type": "function_call_output", "output": "1"}]}, "input[0] has no call_id"),
    (RESPONSES, {"previous_response_id": "resp_none"}, "previous_response_id names no response"),
    (RESPONSES, {"background": True}, "background is not there"),
    (RESPONSES, {"conversation": "c"}, "conversation is not there"),
    (RESPONSES, {"tools": [{"type": "web_search"}]}, "tools[0] is of type 'web_search'"),
    (RESPONSES, {"tools": RESPONSES_TOOLS, "tool_choice": "required"}, "tool_choice is auto or none"),
    (RESPONSES, {"text": {"format": FORM}}, "text.format is text"),
    (RESPONSES, {"include": ["message.output_text.logprobs"]}, "include"),
    (COMPLETIONS, {"prompt": ""}, "prompt is one text"),
    (COMPLETIONS, {"prompt": [1, 2]}, "prompt is one text"),
    (COMPLETIONS, {"prompt": ["a", "b"]}, "prompt is one text"),
    (COMPLETIONS, {"echo": True}, "echo"),
    (COMPLETIONS, {"suffix": "x"}, "suffix"),
    (COMPLETIONS, {"best_of": 2}, "best_of is 1"),
]  # fmt: skip
NO_JSON = [
    b"{",
    b"[1]",
    b"7",
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"messages": [' + b"[" * 99_999,
]


def is_refusal(reply: Reply, path: str, status: int, kind: str = "invalid_request_error") -> None:
    """Check a refusal's form, in the words of its API."""
    assert reply.status == status, reply.text
    assert reply.headers["x-should-retry"] == "false"
    assert len(reply.text) < 1000
    error = reply.body["error"]
    if path.startswith(MESSAGES):
        assert (reply.body["type"], error["type"]) == ("error", kind)
    else:
        assert error.keys() == {"message", "type", "param", "code"}


@in_loop
async def test_what_can_not_be_had_is_refused_by_name_and_costs_no_turn() -> None:
    async with served("Yes.") as it:
        for path, more, reason in WRONG:
            for stream in ({}, {"stream": True}):
                reply = await sent(it, path, RIGHT[path] | more | stream)
                is_refusal(reply, path, 400)
                assert reason in reply.body["error"]["message"], (path, more)
        for path, data in itertools.product(RIGHT, NO_JSON):
            is_refusal(await sent(it, path, data), path, 400)
        assert it.asker.asked == 0
        assert it.session.refusal
        assert it.session.failure is None


HARMLESS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"stream_options": {"include_usage": True}, "tools": [], "tool_choice": "required"}),
    (CHAT, {"parallel_tool_calls": False, "n": 1, "logprobs": False, "response_format": {"type": "text"}}),
    (CHAT, {"temperature": 0.0, "top_p": 0.1, "seed": 7, "frequency_penalty": 1, "user": "u", "store": True}),
    (CHAT, {"tools": CHAT_TOOLS, "tool_choice": "none", "max_tokens": 64_000, "reasoning_effort": "low"}),
    (CHAT, {"messages": [{"role": "developer", "content": None}, *SAYING], "stop": ["", "\nZ"]}),
    (CHAT, {"messages": [*SAYING, {"role": "assistant", "content": None, "tool_calls": []}, *SAYING]}),
    (MESSAGES, {"tools": [], "tool_choice": {"type": "any"}, "thinking": {"type": "disabled"}, "top_k": 5}),
    (MESSAGES, {"tools": MESSAGES_TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
    (MESSAGES, {"system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}]}),
    (MESSAGES, {"context_management": {"edits": []}, "betas": ["b"], "metadata": {"user_id": "u"}}),
    (MESSAGES, assistant(content=[{"type": "redacted_thinking", "data": "x"}])),
    (RESPONSES, {"tools": [], "tool_choice": "required", "include": ["reasoning.encrypted_content"]}),
    (RESPONSES, {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "truncation": "auto"}),
    (RESPONSES, {"input": [{"role": "user", "content": "Say."}, {"type": "reasoning", "summary": []}, *SAYING]}),
    (COMPLETIONS, {"prompt": ["Say."], "best_of": 1, "max_tokens": 16, "echo": False, "stop": None}),
]  # fmt: skip


@in_loop
async def test_what_is_harmless_is_answered() -> None:
    async with served("Yes.") as it:
        for path, more in HARMLESS:
            reply = await sent(it, path, RIGHT[path] | more)
            assert (reply.status, reply.says) == (200, "Yes."), (path, more, reply.text)
        half = await sent(it, CHAT, b'{"messages": [{"role": "user", "content": "a\\ud800\\ud83d\\ude00"}]}')
        assert half.says == "Yes."
        assert (longest := it.session.conversations.longest) is not None
        assert longest.history[0]["content"] == "a?\N{GRINNING FACE}", (
            "half of a pair is no text, a whole one is"
        )


RICH: dict[str, dict[str, Any]] = {
    CHAT: {
        "messages": [
            {"role": "system", "content": "Be."},
            {"role": "user", "content": [{"type": "text", "text": "Say."}]},
            {"role": "assistant", "content": None, "reasoning_content": "So.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        "tools": CHAT_TOOLS,
        "tool_choice": "auto",
        "response_format": {"type": "text"},
        "stream_options": {"include_usage": True},
        "stop": ["Z"],
    },
    MESSAGES: {
        "system": [{"type": "text", "text": "Be."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Say."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "So.", "signature": "s"},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": [1]}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]},
        ],
        "tools": MESSAGES_TOOLS,
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled"},
        "output_config": {"format": None},
        "stop_sequences": ["Z"],
    },
    RESPONSES: {
        "instructions": "Be.",
        "previous_response_id": "resp_1",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say."}]},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "So."}], "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
        ],
        "tools": RESPONSES_TOOLS,
        "tool_choice": "auto",
        "text": {"format": {"type": "text"}},
        "include": [],
        "max_output_tokens": 9,
    },
    COMPLETIONS: {"prompt": ["Say."], "stop": "Z", "max_tokens": 3, "n": 1},
}
ODD: tuple[Any, ...] = (None, 0, -1, 1.5, True, "", "x", [], {}, [1], [[]], [{}], {"a": 1}, {"type": 3})


def altered(value: Any) -> Iterator[Any]:
    """Yield a JSON value with one part of it replaced, in every way."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        for other in altered(part):
            found = copy.copy(value)
            found[name] = other
            yield found


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.path))
def test_whatever_stands_in_a_request_is_read_or_refused(dialect: Any) -> None:
    read = 0
    for body in altered(RICH[dialect.path]):
        if not isinstance(body, dict):
            continue
        try:
            asked = dialect.read(body)
        except CallRefused:
            continue
        found = Conversations[Any]().find((*asked.instructions, *asked.messages), asked.tools)
        ScriptedRendering().first(found.history, found.tools)
        json.dumps(asked.echoed)
        read += 1
    assert read > 5


@in_loop
async def test_a_key_a_route_and_a_size_are_refused_as_each_api_does() -> None:
    async with served("Yes.") as it:
        for path in [*RIGHT, COUNT]:
            right = RIGHT[MESSAGES if path == COUNT else path]
            is_refusal(await sent(it, path, right, key="sk-other"), path, 401, "authentication_error")
            is_refusal(await sent(it, path, right, key=""), path, 401, "authentication_error")
            with_key = await sent(it, path, right, key="", x_api_key=it.access.key, x_long="x" * 60_000)
            assert with_key.status == 200
        for path in (CHAT, MESSAGES):
            is_refusal(await sent(it, path, b" " * (server.MOST_BYTES + 1)), path, 413, "request_too_large")
        unknown = await sent(it, "/v1/embeddings", {})
        is_refusal(unknown, CHAT, 404)
        assert "POST /v1/responses" in unknown.body["error"]["message"]
        is_refusal(await sent(it, "/v1/x", {}, anthropic_version="1"), MESSAGES, 404, "not_found_error")
        is_refusal(await sent(it, CHAT, None, method="GET"), CHAT, 404)
        asked = it.asker.asked
    async with served("Yes.") as other:
        other.gateway._ended.append(it.access.key)
        for path, right in RIGHT.items():
            is_refusal(await sent(other, path, right, key=it.access.key), path, 409, "conflict_error")
    assert asked == len(RIGHT), "a count asks nobody"


@in_loop
async def test_ten_megabytes_of_history_are_answered() -> None:
    async with served("Yes.") as it:
        history = [{"role": "user", "content": "x" * 1_000_000}] * 10
        assert (await sent(it, CHAT, RIGHT[CHAT] | {"messages": history})).says == "Yes."


@asynccontextmanager
async def half_sent(it: Served) -> AsyncIterator[asyncio.StreamReader]:
    """Return a connection that has sent the half of a request; it goes away afterwards."""
    host, _, port = it.access.base_url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nx-api-key: {it.access.key}\r\nContent-Length: 99\r\n\r\n"
    writer.write(f"{head}{{".encode())
    await writer.drain()
    yield reader
    writer.close()
    await writer.wait_closed()


@in_loop
async def test_a_request_that_does_not_arrive_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_S", 0.05)
    async with served("Yes.") as it, half_sent(it) as connection:
        head = await connection.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        assert b"x-should-retry" not in head


async def go_away(*, stream: bool) -> Served:
    """Begin calls that nobody waits for: one is answered, and one fails."""
    async with served("Yes.", "Found.") as it:
        for error in (None, TurnFailed("no generator")):
            it.asker.gate.clear()
            gone = asyncio.create_task(sent(it, CHAT, RIGHT[CHAT] | {"stream": stream}))
            await wait_in_loop(lambda: it.session.is_at_work, task=gone)
            gone.cancel()
            async with half_sent(it):  # and one in the middle of its request
                pass
            await asyncio.sleep(0.05)  # in which a stream finds that nobody hears it
            it.asker.error = error
            it.asker.gate.set()
            await wait_in_loop(lambda: not it.session.is_at_work)
            if error is None:
                history = [*SAYING, {"role": "assistant", "content": "Yes."}, *SAYING]
                assert (await sent(it, CHAT, RIGHT[CHAT] | {"messages": history})).says == "Found."
        return it


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@in_loop
async def test_a_client_that_goes_away_loses_nothing(
    *, stream: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "QUIET_S", 0.01)
    it = await go_away(stream=stream)
    assert (len(it.asker.turns), it.sequences) == (2, 1)
    assert it.session.refusal == "this episode has ended: no generator"
    del it
    gc.collect()  # which tells of errors that nobody has looked at
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []
