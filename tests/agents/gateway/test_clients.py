"""The clients that agents use parse all that the gateway says, and what they send back is found as the same conversation."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from tests.support.in_loop import in_loop
from tests.support.policy_clients import CLIENTS, Heard, MessagesClient, ResponsesClient
from tests.support.scripted_policy import served

pytestmark = pytest.mark.process

CALLS = ({"box": 1.0, "name": "ä"}, {"box": 2, "in": {"b": 1, "a": 1e3}})
LOOKS = "".join(f'<tool_call>{{"name": "look", "arguments": {json.dumps(one)}}}</tool_call>' for one in CALLS)
LOOKING = f"<think>Where is it?</think>Let me look twice.{LOOKS}"
ENDS = {"chat": ("tool_calls", "stop"), "messages": ("tool_use", "end_turn"), "responses": ("completed",) * 2}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", CLIENTS)
@in_loop
async def test_a_client_parses_a_thought_a_text_calls_and_what_was_used(
    dialect: str, *, stream: bool
) -> None:
    async with served(LOOKING, "Found.") as it:
        client = CLIENTS[dialect](it)
        chat = client.asks("Find it.")
        first = await client.ask(chat, stream=stream)
        assert (first.thought, first.text) == ("Where is it?", "Let me look twice.")
        assert first.calls == tuple(("look", one) for one in CALLS)
        assert (first.why, first.sampled) == (ENDS[dialect][0], len(LOOKING.encode()) + 1)
        chat += [*first.said, *client.results((first.ids[0], "empty"), (first.ids[1], "here"))]
        second = await client.ask(chat, stream=stream)
        assert (second.thought, second.text, second.calls) == ("", "Found.", ())
        assert (second.why, second.sampled) == (ENDS[dialect][1], len("Found.") + 1)
        assert it.asker.prompts[1] == (
            f"{it.asker.prompts[0]}{LOOKING}\0tool\nempty\0tool\nhere\0assistant\n"
        ), "what was sampled stands once, as it was, and both results behind it"
        assert [turn.prompt_ids.size for turn in it.asker.turns] == [first.given, second.given]
        assert it.sequences == 1
        assert it.asker.after == [None, it.asker.turns[0]], "so that its generator is asked again"
        assert (longest := it.session.conversations.longest) is not None
        assert [one.get("name") for one in longest.history[-3:]] == ["look", "look", None]


def rewritten(said: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Return a client's part of a history with every object in it changed."""
    found = copy.deepcopy(said)
    left = [found]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            change(one)
        left += list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
    return found


def drop_thoughts(one: dict[str, Any]) -> None:
    one.pop("reasoning_content", None)
    for name in ("content", "output"):
        if isinstance(one.get(name), list):
            one[name] = [part for part in one[name] if part.get("type") != "thinking"]


def write_arguments_otherwise(one: dict[str, Any]) -> None:
    """As JavaScript has numbers, with other spaces, and the keys in another order."""
    if isinstance(one.get("arguments"), str):
        found = json.loads(one["arguments"], parse_float=lambda text: int(float(text)))
        one["arguments"] = json.dumps(dict(reversed(found.items())), indent=2)
    if isinstance(one.get("input"), dict):
        found = json.loads(json.dumps(one["input"]), parse_float=lambda text: int(float(text)))
        one["input"] = dict(reversed(found.items()))


def split_texts(one: dict[str, Any]) -> None:
    if isinstance(one.get("content"), str):
        one["content"] = [{"type": "text", "text": part} for part in ("Let me", " look twice. ")]
    elif isinstance(one.get("content"), list) and one.get("role") == "assistant":
        whole = [part for part in one["content"] if "text" in part]
        split = [part | {"text": text} for part in whole for text in ("Let me", " look twice. ")]
        one["content"] = [*split, *(part for part in one["content"] if "text" not in part)]


def drop_marks(one: dict[str, Any]) -> None:
    for name in ("refusal", "status", "annotations", "logprobs", "citations", "caller", "parsed"):
        one.pop(name, None)
    if str(one.get("id")).startswith(("msg_", "rs_", "fc_")):
        del one["id"]


def each_in_its_own_message(said: list[Any]) -> list[Any]:
    return [one | {"content": [part]} for one in said for part in one["content"]]


Change = Callable[[list[Any]], list[Any]]
WAYS: dict[str, dict[str, Change]] = {
    dialect: {
        "as it has it": list,
        "thoughts dropped": lambda said: rewritten(said, drop_thoughts),
        "arguments written otherwise": lambda said: rewritten(said, write_arguments_otherwise),
        "texts in parts": lambda said: rewritten(said, split_texts),
        "without what only the server needs": lambda said: rewritten(said, drop_marks),
    }
    for dialect in CLIENTS
}
WAYS["responses"]["thoughts dropped"] = lambda said: [one for one in said if one["type"] != "reasoning"]
WAYS["messages"]["each block in a message of its own"] = each_in_its_own_message


@pytest.mark.parametrize(("dialect", "way"), [(dialect, way) for dialect in WAYS for way in WAYS[dialect]])
@in_loop
async def test_an_answer_that_comes_back_is_gone_on_from_however_it_is_written(
    dialect: str, way: str
) -> None:
    async with served(LOOKING, "Found.", "Yes.") as it:
        client = CLIENTS[dialect](it)
        chat = client.asks("Find it.")
        first = await client.ask(chat)
        chat += WAYS[dialect][way](list(first.said))
        chat += client.results((first.ids[0], "empty"), (first.ids[1], "here"))
        second = await client.ask(chat)
        await client.ask([*chat, *second.said, *client.asks("Sure?")])
        assert it.sequences == 1
        assert it.asker.prompts[2].endswith(
            f"{LOOKING}\0tool\nempty\0tool\nhere\0assistant\nFound.\0user\nSure?\0assistant\n"
        )
        assert it.counts.breaks == 0


async def heard_twice(dialect: str, **options: Any) -> list[Heard]:
    async with served("<think>So.</think>One. Two.") as it:
        client = CLIENTS[dialect](it)
        return [await client.ask(client.asks("Say."), stream=stream, **options) for stream in (False, True)]


@pytest.mark.parametrize(
    ("dialect", "options", "why", "text"),
    [
        ("chat", {"stop": [" Two"]}, "stop", "One."),
        ("chat", {"max_tokens": 23}, "length", "One. "),
        ("messages", {"stop_sequences": [" Two"]}, "stop_sequence", "One."),
        ("messages", {"max_tokens": 23}, "max_tokens", "One. "),
    ],
)
@in_loop
async def test_a_client_is_told_why_an_answer_ended(
    dialect: str, options: dict[str, Any], why: str, text: str
) -> None:
    for heard in await heard_twice(dialect, **options):
        assert (heard.why, heard.text, heard.thought) == (why, text, "So.")


@in_loop
async def test_a_response_that_was_cut_is_incomplete() -> None:
    async with served("One. Two.") as it:
        client = ResponsesClient(it)
        assert (await client.ask(client.asks("Say."), max_output_tokens=4)).why == "incomplete"
        stream = await client.client.responses.create(
            model="m", input="Say.", max_output_tokens=4, stream=True
        )
        *_, last = [event async for event in stream]
        assert last.type == "response.incomplete"
        assert last.response.incomplete_details is not None
        assert (last.response.output_text, last.response.incomplete_details.reason) == (
            "One.",
            "max_output_tokens",
        )


@in_loop
async def test_those_who_do_not_ask_for_thinking_find_the_text_first() -> None:
    async with served("<think>So.</think>One.") as it:
        client = MessagesClient(it)
        for thinking, types in [
            (anthropic.omit, ["text"]),
            ({"type": "disabled"}, ["text"]),
            ({"type": "adaptive"}, ["thinking", "text"]),
        ]:
            heard = await client.ask(client.asks("Say."), thinking=thinking)
            assert [block["type"] for block in heard.said[0]["content"]] == types
