"""What becomes of a call: retries, histories that are counted, kept or plain, and what has gone wrong in other gateways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agents.gateway import server
from agents.gateway.calls import LIMITS, MOST_BEHIND_END
from agents.gateway.session import PlaySession
from agents.sequences import segments_of
from agents.turns import TurnFailed
from broker.messages import NO_IDS, End
from config.episodes.own_loop import AuxiliaryCall
from tests.support.in_loop import in_loop
from tests.support.policy_clients import CLIENTS, MessagesClient, ResponsesClient
from tests.support.raw_calls import CHAT, COMPLETIONS, MESSAGES, RESPONSES, RIGHT, SAYING, sent
from tests.support.scripted_policy import MODEL, Served, served
from tests.support.waiting import wait_in_loop

pytestmark = pytest.mark.process

CALL = '<tool_call>{"name":  "look","arguments":{"box":1}}</tool_call>'


@pytest.mark.parametrize("dialect", CLIENTS)
@in_loop
async def test_a_clients_own_retries_get_one_answer(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    begin = PlaySession.call

    def noted(self: PlaySession, asked: Any, digest: bytes, *, is_retry: bool) -> Any:
        begun.append(is_retry)
        return begin(self, asked, digest, is_retry=is_retry)

    monkeypatch.setattr(PlaySession, "call", noted)
    async with served("First.", "Second.") as it:
        it.asker.gate.clear()
        client = CLIENTS[dialect](it, timeout=0.4, max_retries=1)
        asking = asyncio.create_task(client.ask(client.asks("Say.")))
        await wait_in_loop(
            lambda: len(begun) == 2, "the retry of a client that waited too short", task=asking
        )
        it.asker.gate.set()
        assert (await asking).text == "First."
        assert (begun, it.asker.asked) == ([False, True], 1)
        assert (await client.ask(client.asks("Say."))).text == "Second.", (
            "a call that is no retry is one of its own"
        )


@in_loop
async def test_an_equal_request_is_a_retry_only_where_its_client_says_so() -> None:
    async with served("1", "2", "3", "4") as it:

        async def say(count: str | None, path: str = CHAT, **more: Any) -> str:
            headers = {} if count is None else {"x_stainless_retry_count": count}
            return (await sent(it, path, RIGHT[path] | more, **headers)).says

        assert [await say(count) for count in ("0", "1", "2")] == ["1", "1", "1"]
        assert [await say(count) for count in (None, "0", "1", "1")] == ["2", "3", "3", "3"]
        assert await say("1", seed=7) == "4", "another body is no retry"
        refused = [
            await sent(it, CHAT, RIGHT[CHAT] | {"n": 2}, x_stainless_retry_count=count) for count in "01"
        ]
        assert [reply.status for reply in refused] == [400, 400]


@in_loop
async def test_counting_tokens_asks_and_records_nothing() -> None:
    async with served("<think>So.</think>Yes.", "No.") as it:
        client = MessagesClient(it)
        tools, history = client.tools, client.asks("Say.")

        async def counted() -> int:
            found = await client.client.messages.count_tokens(
                model="m", messages=history, tools=tools, system="Be."
            )
            return found.input_tokens

        for text in ("Yes.", "No."):
            counts = await counted()
            heard = await client.ask(history, system="Be.")
            assert (heard.text, heard.given) == (text, counts)
            history += [*heard.said, *client.asks("Sure?")]
        assert (it.asker.asked, it.sequences) == (2, 1)
        assert await counted() > counts
        history = [{"role": "assistant", "content": "I"}]
        assert await counted() > 0


@in_loop
async def test_a_response_is_gone_on_from_by_its_id() -> None:
    async with served(f"<think>So.</think>{CALL}", "Found.", "Yes.") as it:
        client = ResponsesClient(it)
        first = await client.ask(client.asks("Find it."), instructions="Be.")
        more: dict[str, Any] = {"instructions": "Be.", "previous_response_id": client.last}
        second = await client.ask(client.results((first.ids[0], "here")), **more)
        assert (second.text, it.sequences) == ("Found.", 1)
        one = await client.client.responses.create(model="m", input="Sure?", previous_response_id=client.last)
        assert it.sequences == 2, "without the instructions, which are no part of what is kept"
        assert it.asker.prompts[-1].startswith("user\nFind it.\0assistant\n<think>So.</think><tool_call>")
        unkept = await client.client.responses.create(model="m", input="Say.", store=False)
        refused = await sent(it, RESPONSES, RIGHT[RESPONSES] | {"previous_response_id": unkept.id})
        assert refused.body["error"]["code"] == "previous_response_not_found"
        assert (one.previous_response_id, one.model, unkept.to_dict()["store"]) == (client.last, MODEL, False)


@in_loop
async def test_the_functions_of_a_namespace_are_called_by_their_full_names() -> None:
    said = '<tool_call>{"name": "files__read", "arguments": {}}</tool_call>'
    async with served(said, "Read.") as it:
        client = ResponsesClient(it)
        inner = {"type": "function", "name": "read", "parameters": {"type": "object"}}
        tools = [
            {"type": "namespace", "name": "files", "description": "Files.", "tools": [inner]},
            *client.tools,
        ]
        history = client.asks("Read it.")
        first = await client.ask(history, tools=tools)
        assert (first.said[-1]["namespace"], first.said[-1]["name"]) == ("files", "read")
        history += [*first.said, *client.results((first.ids[0], "text"))]
        assert (await client.ask(history, tools=tools)).text == "Read."
        assert it.sequences == 1
        inner["type"] = "custom"
        refused = await sent(it, RESPONSES, RIGHT[RESPONSES] | {"tools": tools})
        assert refused.body["error"]["param"] == "tools[0].tools[0]"


@in_loop
async def test_a_plain_text_is_gone_on_with_as_it_stands() -> None:
    async with served("<think>b</think> c.") as it:
        client = ResponsesClient(it).client
        found = await client.completions.create(model="m", prompt="a\n", stop=" c", max_tokens=50)
        assert (found.choices[0].text, found.choices[0].finish_reason) == ("<think>b</think>", "stop")
        assert it.asker.stops[-1] == (" c",), "the generator ends the turn there"
        stream = await client.completions.create(model="m", prompt="a\n", max_tokens=8, stream=True)
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].text for chunk in chunks) == "<think>b"
        assert chunks[-1].choices[0].finish_reason == "length"
        assert it.asker.prompts == ["a\n", "a\n"]
        history = [{"role": "user", "content": "a\n"}, {"role": "assistant", "content": "<think>b</think>"}]
        await sent(it, CHAT, {"messages": [*history, *SAYING]})
        assert it.asker.after == [None] * 3, "what was said without a template is no conversation"


@in_loop
async def test_both_clients_list_the_one_model_under_any_name() -> None:
    async with served("Yes.") as it:
        openai, anthropic = ResponsesClient(it).client, MessagesClient(it).client
        assert [one.id async for one in openai.models.list()] == [MODEL]
        assert [one.id async for one in anthropic.models.list()] == [MODEL]
        assert (await openai.models.retrieve("a/policy")).id == MODEL
        assert (await anthropic.models.retrieve("policy")).display_name == MODEL


@pytest.mark.parametrize(
    ("path", "alive"), [(CHAT, ": "), (MESSAGES, "event: ping\n"), (RESPONSES, "event: response.created\n")]
)
@in_loop
async def test_a_stream_that_waits_stays_open_and_says_what_failed(
    path: str, alive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "QUIET_S", 0.01)
    dialect = next(name for name, client in CLIENTS.items() if name in path)
    async with served("Yes.") as it:
        it.asker.gate.clear()
        client = CLIENTS[dialect](it, max_retries=0)
        asking = asyncio.create_task(client.ask(client.asks("Say."), stream=True))
        raw = asyncio.create_task(sent(it, path, RIGHT[path] | {"stream": True}))
        await wait_in_loop(lambda: it.asker.asked == 2, task=asking)
        await asyncio.sleep(0.05)
        it.asker.gate.set()
        assert (await asking).text == "Yes."
        assert (await raw).text.startswith(alive)
        it.asker.gate.clear()
        asking = asyncio.create_task(client.ask(client.asks("Say."), stream=True))
        await wait_in_loop(lambda: it.asker.asked == 3, task=asking)
        await asyncio.sleep(0.05)
        it.asker.error = TurnFailed("no generator")
        it.asker.gate.set()
        with pytest.raises(Exception, match="this episode has ended: no generator"):
            await asking
        assert isinstance(it.session.failure, TurnFailed)
        late = await sent(it, path, RIGHT[path])
        assert (late.status, it.asker.asked) == (409, 3), (
            "behind a failure nothing is asked: the play is over"
        )


Case = Callable[[], Coroutine[None, None, None]]


async def chatted(it: Served, *texts: Any) -> list[Any]:
    """Chat with the policy, and return the history."""
    history: list[Any] = []
    for text in texts:
        history += text if isinstance(text, list) else [{"role": "user", "content": text}]
        reply = await sent(it, CHAT, {"messages": history})
        history.append(reply.body["choices"][0]["message"])
    return history


async def past_tokenized_again() -> None:
    async with served(f"  Let me\tsee. {CALL}", "Yes.") as it:
        history = await chatted(it, "Say.")
        call_id = history[-1]["tool_calls"][0]["id"]
        await sent(
            it, CHAT, {"messages": [*history, {"role": "tool", "tool_call_id": call_id, "content": "1"}]}
        )
        assert it.asker.prompts[1] == f"{it.asker.prompts[0]}  Let me\tsee. {CALL}\0tool\n1\0assistant\n"


async def false_forks() -> None:
    async with served("Yes.", "No.") as it:
        history: list[Any] = [*SAYING]
        for call in range(3):
            billing = {"type": "text", "text": f"x-anthropic-billing-header: cch={call};"}
            system = [billing, {"type": "text", "text": "Be."}]
            reply = await sent(it, MESSAGES, {"messages": history, "system": system, "max_tokens": 99})
            history += [{"role": "assistant", "content": reply.body["content"]}, *SAYING]
        assert it.sequences == 1


async def thinking_lost() -> None:
    async with served("<think>So.</think>Yes.") as it:
        first = await chatted(it, "Say.")
        del first[-1]["reasoning_content"]
        await sent(it, CHAT, {"messages": [*first, *SAYING]})
        assert "<think>So.</think>Yes.\0" in it.asker.prompts[1]


async def content_twice() -> None:
    async with served(f"<think>So.</think>Yes.{CALL}") as it:
        await chatted(it, "Say.", "Again.")
        assert it.asker.prompts[1].count("Yes.") == it.asker.prompts[1].count("So.") == 1


async def separator_dropped() -> None:
    async with served("Yes. And more", "No.", turn_tokens=4) as it:
        await chatted(it, "Say.", "Again.")
        assert it.asker.prompts[1].endswith("assistant\nYes.\0user\nAgain.\0assistant\n"), (
            "a cut turn is ended"
        )


async def results_one_by_one() -> None:
    async with served(f"{CALL}{CALL}", "Yes.") as it:
        client = MessagesClient(it)
        chat = client.asks("Find it.")
        first = await client.ask(chat)
        (results,) = client.results((first.ids[0], "a"), (first.ids[1], "b"))
        results["content"] += [{"type": "text", "text": "Go on,"}, {"type": "text", "text": "now."}]
        await client.ask([*chat, *first.said, results])
        assert it.asker.prompts[1].endswith(f"{CALL}\0tool\na\0tool\nb\0user\nGo on,\nnow.\0assistant\n")


async def a_failure_leaves_a_tail() -> None:
    async with served("Yes.") as it:
        history = await chatted(it, "Say.")
        it.asker.error = TurnFailed("no generator")
        reply = await sent(it, CHAT, {"messages": [*history, *SAYING]})
        assert (reply.status, reply.headers["x-should-retry"]) == (409, "false")
        assert it.counts.observed == 0
        assert it.session.conversations.longest is not None
        assert it.session.conversations.longest.depth == 1


async def a_limit_stops_a_call_in_flight() -> None:
    async with served("One.", "Two.", turns=2) as it:
        it.asker.gate.clear()
        two = [asyncio.create_task(sent(it, CHAT, RIGHT[CHAT] | {"seed": seed})) for seed in (1, 2)]
        await wait_in_loop(lambda: it.asker.asked == 2, task=two[0])
        for path in RIGHT:
            told = await sent(it, path, RIGHT[path])
            assert told.says == "This episode's turns are used up. Stop here."
        it.asker.gate.set()
        assert sorted([(await each).says for each in two]) == ["One.", "Two."]
        statuses = [(await sent(it, CHAT, RIGHT[CHAT])).status for _ in range(MOST_BEHIND_END)]
        assert sorted(set(statuses)) == [200, 409], "one that goes on and on is refused"
        assert it.session.failure is None, "which is no failure of the episode"
        assert (it.session.ended_by, it.asker.asked) == (End.TURNS, 2)


async def overflow_is_an_error() -> None:
    async with served("Yes.", tokens=8) as it:
        limits = it.session._limits
        object.__setattr__(limits, "first_tokens", len("user\nSay.\0assistant\n"))
        history = await chatted(it, "Say.", "Again, and more.")
        assert history[-1]["content"] == "The context of this episode is full. Stop here."
        assert (it.session.ended_by, it.asker.most) == (End.CONTEXT, [8])


async def asks_for_more_than_there_is() -> None:
    async with served("Yes.", tokens=100) as it:
        object.__setattr__(it.session._limits, "first_tokens", 50)
        await sent(it, CHAT, RIGHT[CHAT] | {"max_tokens": 64_000})
        assert it.asker.most == [150 - len("user\nSay.\0assistant\n")]


async def the_model_is_evaluated() -> None:
    said = '<tool_call>{"name": "look", "arguments": __import__("os").abort()}</tool_call>'
    async with served(said) as it:
        (_, message) = await chatted(it, "Say.")
        assert (message["content"], message.get("tool_calls")) == (said, None)


async def the_same_said_twice() -> None:
    async with served("Yes.", "Yes.", "No.") as it:
        it.asker.gate.clear()
        two = [asyncio.create_task(sent(it, CHAT, RIGHT[CHAT])) for _ in range(2)]
        await wait_in_loop(lambda: it.asker.asked == 2, task=two[0])
        it.asker.gate.set()
        await asyncio.gather(*two)
        await sent(it, CHAT, {"messages": [*SAYING, {"role": "assistant", "content": "Yes."}, *SAYING]})
        assert it.sequences == 2, "parallel calls are told apart, and the last of them is gone on from"
        assert it.asker.after[2] is it.asker.turns[1]


KNOWN: dict[str, Case] = {
    "the past is tokenized again": past_tokenized_again,
    "false forks multiply samples": false_forks,
    "thinking lost in history": thinking_lost,
    "duplicated assistant content": content_twice,
    "dropped turn separator": separator_dropped,
    "consecutive tool results": results_one_by_one,
    "prompt tail committed on an error": a_failure_leaves_a_tail,
    "a limit stops a call in flight": a_limit_stops_a_call_in_flight,
    "a context overflow is an error": overflow_is_an_error,
    "more tokens asked for than there are": asks_for_more_than_there_is,
    "a parser that evaluates model output": the_model_is_evaluated,
    "parallel sub-agents": the_same_said_twice,
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_has_gone_wrong_elsewhere_does_not_here(case: str) -> None:
    asyncio.run(KNOWN[case]())


@in_loop
async def test_a_play_that_is_given_up_waits_for_no_generator() -> None:
    async with served("Yes.") as it:
        it.asker.gate.clear()
        calls = [
            asyncio.create_task(sent(it, CHAT, RIGHT[CHAT] | {"stream": stream})) for stream in (False, True)
        ]
        await wait_in_loop(lambda: it.asker.asked == 2, task=calls[0])
        it.session.abandon()
        async with asyncio.timeout(5):
            await it.session.close()
            assert [(await call).status for call in calls] == [409, 409]
        late = await sent(it, COMPLETIONS, RIGHT[COMPLETIONS])
        assert (late.status, json.loads(late.text)["error"]["code"]) == (409, "episode_ended")


TITLES = (
    AuxiliaryCall(model="*haiku*"),
    AuxiliaryCall(system="a title*chat", tools=False),
    AuxiliaryCall(last_message="Sum up", max_tokens=64),
)
TOOLS = [{"type": "function", "function": {"name": "look"}}]


@pytest.mark.parametrize(
    ("path", "more", "is_beside"),
    [
        (MESSAGES, {"model": "claude-haiku-4"}, True),
        (CHAT, {"model": "haik"}, False),
        (RESPONSES, {"instructions": "Write a title\nof this chat."}, True),
        (CHAT, {"messages": [{"role": "system", "content": "Be a title for a chat"}, *SAYING]}, True),
        (
            CHAT,
            {"messages": [{"role": "system", "content": "a title, chat"}, *SAYING], "tools": TOOLS},
            False,
        ),
        (COMPLETIONS, {"prompt": "Sum up: a", "max_tokens": 64}, True),
        (COMPLETIONS, {"prompt": "Sum up: a", "max_tokens": 65}, False),
        (COMPLETIONS, {"prompt": "Sum up: a"}, False),
    ],
)
@in_loop
async def test_a_call_beside_the_task_is_answered_and_neither_trains_nor_is_judged(
    path: str, more: dict[str, Any], *, is_beside: bool
) -> None:
    async with served("Aside.", "Yes.", "Sure.", turns=2, beside=TITLES) as it:
        assert (await sent(it, path, RIGHT[path] | more)).says == "Aside."
        assert (it.session.auxiliary, it.counts.auxiliary, it.asker.asked) == (
            is_beside,
            is_beside,
            not is_beside,
        )
        chat = [*SAYING, {"role": "assistant", "content": (await sent(it, CHAT, RIGHT[CHAT])).says}, *SAYING]
        assert (chat[1]["content"], it.sequences) == ("Yes.", 2 - is_beside)
        last = (await sent(it, CHAT, {"messages": chat})).says
        assert last == ("Sure." if is_beside else LIMITS[End.TURNS]), "it takes none of the task's turns"
        assert it.session.conversations.longest is not None
        assert it.session.conversations.longest.depth == 1 + is_beside


@in_loop
async def test_calls_beside_the_task_have_a_limit_of_their_own_and_may_be_gone_on_from() -> None:
    async with served("A title.", "More.", turns=1, beside=TITLES) as it:
        titled = {"messages": SAYING, "model": "haiku"}
        chat = [*SAYING, {"role": "assistant", "content": (await sent(it, CHAT, titled)).says}, *SAYING]
        assert (await sent(it, CHAT, titled)).says == LIMITS[End.TURNS]
        assert it.session.ended_by is None
        assert (await sent(it, CHAT, {"messages": chat})).says == "More."
        assert it.asker.prompts[-1].startswith(it.asker.prompts[0] + "A title.\0")
        (segment,) = segments_of(it.asker.turns, NO_IDS)
        assert segment.loss_mask == (len("More.\0"),), "what was said beside it is read, and does not train"


@in_loop
async def test_what_an_agent_puts_behind_a_stop_sequence_makes_no_fork() -> None:
    """As smolagents does it: an end that was not said, and a list of calls in the policy's name."""
    async with served("I look. <code>1</code>", "Hm.", "Done.", "No.") as it:
        chat: list[Any] = [*SAYING]
        stops = {"stop": ["Calling:", "</code>"]}
        for said, behind in (("I look. <code>1", "</code>\nCalling:\n[1]"), ("Hm.", "</code>")):
            assert (await sent(it, CHAT, {"messages": chat} | stops)).says == said
            chat += [{"role": "assistant", "content": said + behind}, *SAYING]
        assert (await sent(it, CHAT, {"messages": chat} | stops)).says == "Done."
        assert (it.sequences, it.counts.breaks) == (1, 0)
        await sent(it, CHAT, {"messages": chat})
        assert it.sequences == 2, "without the stop sequences it is a history of its own"
