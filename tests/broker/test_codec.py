"""Messages survive the wire whole, their bytes are pinned, and what is damaged is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker import codec
from broker.errors import BadMessage
from broker.messages import (
    NO_IDS,
    PLAIN_VERSION,
    SCHEMA_VERSION,
    Completion,
    DeadLetter,
    End,
    EnvironmentReward,
    EpisodeEnd,
    FinishReason,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Segment,
    Span,
    Turn,
    TurnPrompt,
    TurnRecord,
)
from tests.support.groups import a_dead_letter, a_prompt, a_rollout, a_scored_group, an_announcement
from tests.support.random_groups import plain, scored_groups

GOLDEN = Path(__file__).parent / "golden"


def raw_of(fields: codec.Fields) -> dict[bytes, bytes]:
    return {name.encode(): one.encode() if isinstance(one, str) else one for name, one in fields.items()}


def prompt_fields(prompt: Prompt) -> codec.Fields:
    """Return what lies in `prompts`: the script `issue` has set floor and policy."""
    return {**codec.encode_prompt(prompt), "floor": str(prompt.floor), "policy": str(prompt.floor)}


PROMPT = a_prompt(data_source="openai/gsm8k")
ROLLOUT = a_rollout(PROMPT)
SCORED_GROUP = a_scored_group(ROLLOUT)
ANNOUNCEMENT = an_announcement()

# name -> message, its fields, the decoder
WIRE: dict[str, tuple[Any, codec.Fields, Callable[[codec.Raw], Any]]] = {
    "prompt": (PROMPT, prompt_fields(PROMPT), codec.decode_prompt),
    "rollout": (ROLLOUT, codec.encode_rollout(ROLLOUT), codec.decode_rollout),
    "scored": (SCORED_GROUP, codec.encode_scored(SCORED_GROUP), codec.decode_scored),
    "dead": (a_dead_letter(), codec.encode_dead(a_dead_letter(), floor=3), codec.decode_dead),
    "announcement": (ANNOUNCEMENT, codec.encode_announcement(ANNOUNCEMENT), codec.decode_announcement),
}
# What a writer of schema 1 meant by its golden files: no data source.
MEANT_BY_1 = {"prompt": a_prompt(), "rollout": a_rollout(), "scored": a_scored_group()}
BINARY = ("prompt", "rollout", "scored")


def pinned(name: str, version: int) -> dict[bytes, bytes]:
    """Return the fields of a golden file: a line a field, its name and its bytes in hex."""
    lines = (line.split(" ") for line in (GOLDEN / f"{name}_v{version}.hex").read_text().splitlines())
    return {field.encode(): bytes.fromhex(in_hex) for field, in_hex in lines}


def payload_of(name: str) -> bytes:
    payload = WIRE[name][1]["payload"]
    assert isinstance(payload, bytes)
    return payload


def decoded(name: str, **changes: str | bytes) -> Any:
    _, fields, decode = WIRE[name]
    return decode(raw_of({**fields, **changes}))


@pytest.mark.parametrize("name", WIRE)
def test_the_bytes_of_schema_2_are_these_and_those_of_schema_1_are_still_read(name: str) -> None:
    """A change of a golden file is a change of SCHEMA_VERSION."""
    message, fields, decode = WIRE[name]
    assert (SCHEMA_VERSION, PLAIN_VERSION) == (3, 2)
    assert raw_of(fields) == pinned(name, 2)
    assert plain(decode(pinned(name, 2))) == plain(message)
    assert pinned(name, 1)[b"v"] == b"1"
    assert plain(decode(pinned(name, 1))) == plain(MEANT_BY_1.get(name, message))


def test_payloads_alone_are_those_of_the_streams_and_are_read_whatever_their_schema() -> None:
    assert codec.pack(SCORED_GROUP) == payload_of("scored")
    for version in (1, 2):
        rollout = codec.unpack(pinned("rollout", version)[b"payload"], SampledGroup)
        group = codec.unpack(pinned("scored", version)[b"payload"], ScoredGroup)
        assert plain(rollout) == plain(group.rollout) == plain(ROLLOUT if version == 2 else a_rollout())


def test_a_short_data_source_is_in_the_header_and_a_long_one_in_the_payload_alone() -> None:
    assert codec.encode_prompt(a_prompt(data_source="gsm8k"))["source"] == "gsm8k"
    for source in ("", "x" * 61, "two\nlines"):
        prompt = a_prompt(data_source=source)
        assert "source" not in codec.encode_prompt(prompt)
        assert codec.decode_prompt(raw_of(prompt_fields(prompt))).data_source == source


# A conversation of three turns: a tool answered behind the first, and the history was rewritten behind the second.
TALK = (
    Segment(
        prompt_ids=NO_IDS,
        token_ids=np.array([5, 6, 70, 71, 7], np.int32),
        logprobs=np.array([-0.5, -0.25, 0.0, 0.0, -1.0], np.float32),
        policy_spans=(Span(version=3, first=0, count=1), Span(version=4, first=1, count=1), Span(version=6, first=4, count=1)),
        loss_mask=(2, 2, 1),
    ),
    Segment(
        prompt_ids=np.array([1, 90], np.int32),
        token_ids=np.array([8, 9], np.int32),
        logprobs=np.array([-0.125, -2.0], np.float32),
        policy_spans=(Span(version=5, first=0, count=2),),
        loss_mask=(0, 1, 1),
    ),
)  # fmt: skip


CALLED: Turn = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "Where?",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}],
}
TOLD: Turn = {"role": "tool", "tool_call_id": "c1", "content": "four", "is_error": True}
EPISODE = Completion(
    segments=TALK,
    finish_reason=FinishReason.LENGTH,
    text="4",
    messages=(CALLED, TOLD, {"role": "assistant", "content": "4"}),
    ended_by=End.TURNS,
    remark="the largest number of turns",
    reward=EnvironmentReward(value=7.5, low=0.0, high=10.0, turns=(None, -0.5)),
    generators=("g1", "g2"),
)
FAILED = Completion(
    segments=(), finish_reason=FinishReason.STOP, text="", ended_by=End.FAILED, remark="no engine"
)
EPISODES = SampledGroup(
    prompt=replace(PROMPT, token_ids=np.array([1, 2], np.int32)),
    completions=(EPISODE, FAILED),
    generator="a1",
    seconds=1.5,
    sampled_at=1_700_000_003.5,
    attempts=2,
)
# name -> payload in `turns:GROUP`
OF_TURNS: dict[str, Any] = {
    "turn_prompt": TurnPrompt(
        token_ids=np.array([1, 2, 300_000], np.int32),
        max_tokens=9,
        temperature=0.5,
        seed=7,
        top_p=0.75,
        stop=("\n",),
    ),
    "turn_record": TurnRecord(
        token_ids=np.array([5, 6], np.int32),
        logprobs=np.array([-0.5, -0.25], np.float32),
        policy_spans=(Span(version=3, first=0, count=1), Span(version=4, first=1, count=1)),
        finish_reason=FinishReason.STOP,
        generator="g1",
        seconds=0.5,
    ),
    "episode_end": EpisodeEnd(opening=PROMPT.messages, completion=EPISODE),
}


def test_the_bytes_of_a_group_of_episodes_are_these() -> None:
    """Schema 3, of what schema 2 has no words for."""
    given = pinned("rollout", 3)
    assert raw_of(codec.encode_rollout(EPISODES)) == given
    assert given[b"v"] == b"3"
    assert plain(codec.decode_rollout(given)) == plain(EPISODES)


@pytest.mark.parametrize("name", OF_TURNS)
def test_the_bytes_of_turns_and_of_an_episodes_end_are_these(name: str) -> None:
    message, given = OF_TURNS[name], pinned(name, 3)
    assert {b"payload": codec.pack(message)} == given
    assert plain(codec.unpack(given[b"payload"], type(message))) == plain(message)


def test_a_completion_of_several_segments_travels_whole_under_a_schema_of_its_own() -> None:
    given = a_rollout()
    first = replace(given.completions[0], segments=TALK)
    rollout = replace(given, completions=(first, *given.completions[1:]))
    fields = codec.encode_rollout(rollout)
    assert (fields["v"], fields["policy"], codec.encode_rollout(given)["v"]) == ("3", "3-6", "2")
    read = codec.decode_rollout(raw_of(fields))
    assert plain(read) == plain(rollout)
    said = read.completions[0]
    assert (said.num_sampled, said.sampled_ids.tolist()) == (5, [5, 6, 7, 8, 9])
    spans = [(span.version, span.first, span.count) for span in said.spans]
    assert spans == [(3, 0, 1), (4, 1, 1), (6, 4, 1), (5, 5, 2)]
    assert [segment.trains.tolist() for segment in TALK] == [[True, True, False, False, True], [False, True]]
    assert [segment.last_turn for segment in TALK] == [4, 0]
    assert (rollout.min_version, rollout.max_version) == (3, 6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy_spans": ()}, "spans up to token 0 of 5"),
        ({"policy_spans": (Span(version=3, first=4, count=2),)}, "spans up to token 6 of 5"),
        ({"policy_spans": (Span(version=3, first=0, count=2), Span(version=3, first=1, count=4))}, "must follow"),
        ({"policy_spans": (Span(version=3, first=0, count=0),)}, "must follow"),
        ({"loss_mask": (3, 1, 1)}, "tokens that no span has would train"),
        ({"loss_mask": (2,)}, r"runs \(2,\) do not cover 5 tokens"),
        ({"loss_mask": ()}, r"runs \(\) do not cover 5 tokens"),
        ({"logprobs": np.full(5, -1, np.float32)}, "log-probabilities of tokens that no span has"),
    ],
)  # fmt: skip
def test_a_segment_says_nothing_of_tokens_that_nobody_sampled(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(TALK[0], **change)


def test_a_completion_has_a_segment() -> None:
    with pytest.raises(ValueError, match="at least one segment"):
        replace(a_rollout().completions[0], segments=())


def test_when_and_how_often_are_keys_of_their_own_that_a_reader_may_pass_over() -> None:
    """The golden files have none of them: whoever wrote those did not say, and is read all the same."""
    rollout = replace(a_rollout(), sampled_at=1_700_000_003.5, attempts=2)
    group = replace(a_scored_group(rollout), scored_at=1_700_000_004.5, attempts=1)
    tree = msgpack.unpackb(codec.pack(group))
    assert [tree.pop(name) for name in ("scored_at", "attempts")] == [1_700_000_004.5, 1]
    assert [tree["rollout"].pop(name) for name in ("sampled_at", "attempts")] == [1_700_000_003.5, 2]
    assert tree == msgpack.unpackb(codec.pack(a_scored_group()))
    silent = codec.unpack(msgpack.packb(tree), ScoredGroup)
    rollout = silent.rollout
    assert (silent.scored_at, silent.attempts, rollout.sampled_at, rollout.attempts) == (0, 0, 0, 0)


def test_a_nucleus_is_a_key_of_its_own_and_a_prompt_without_one_is_of_the_whole_distribution() -> None:
    """No role of an earlier commit misreads it: such a role can't read the run's configuration, which asks for it."""
    prompt = a_prompt(data_source="openai/gsm8k", top_p=0.7)
    tree = msgpack.unpackb(codec.encode_prompt(prompt)["payload"])
    assert codec.decode_prompt(raw_of(prompt_fields(prompt))).top_p == tree.pop("top_p") == 0.7
    assert msgpack.packb(tree) == payload_of("prompt")
    assert decoded("prompt").top_p == 1.0


@pytest.mark.parametrize("top_p", [0.0, -0.5, 1.5, "0.7", float("nan")])
def test_a_nucleus_that_is_no_share_is_refused(top_p: Any) -> None:
    tree = {**msgpack.unpackb(payload_of("prompt")), "top_p": top_p}
    with pytest.raises(BadMessage, match="Expected `float`"):
        decoded("prompt", payload=msgpack.packb(tree))


def test_a_reason_that_quotes_half_of_a_surrogate_pair_travels_without_it() -> None:
    said = "answered \ud800, expected \u00e9"
    score = Score(status=ScoreStatus.SCORED, value=0.0, reason=said, scorer="a", version="1")
    assert score.reason == "answered ?, expected \u00e9"


def test_a_group_without_any_score_says_so_in_its_header() -> None:
    group = a_scored_group()
    unscorable = replace(group, scores=(group.scores[1],) * 2, rewards=(None, None))
    assert codec.encode_scored(unscorable)["reward"] == "unscorable"


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("most", [25, 100])
def test_any_group_survives_every_stage_of_its_way(most: int) -> None:
    @settings(max_examples=most)
    @given(group=scored_groups())
    def law(group: ScoredGroup) -> None:
        rollout, prompt = group.rollout, group.rollout.prompt
        assert plain(codec.decode_prompt(raw_of(prompt_fields(prompt)))) == plain(prompt)
        assert plain(codec.decode_rollout(raw_of(codec.encode_rollout(rollout)))) == plain(rollout)
        assert plain(codec.decode_scored(raw_of(codec.encode_scored(group)))) == plain(group)

    law()


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *[(name, field) for name in BINARY for field in ("v", "payload", "group", "floor")],
        *[("announcement", field) for field in ("v", "version", "path", "checksum", "size_bytes", "at")],
    ],
)
def test_a_missing_field_is_named(name: str, field: str) -> None:
    _, fields, decode = WIRE[name]
    with pytest.raises(BadMessage, match=f"field '{field}' is missing"):
        decode({key: value for key, value in raw_of(fields).items() if key != field.encode()})


@pytest.mark.parametrize(
    ("name", "field", "value", "said"),
    [
        *[
            (name, "v", "7", "schema version 7, this program reads 1, 2, 3")
            for name in (*BINARY, "announcement")
        ],
        ("scored", "group", "18", "the header says group '18', the payload '17'"),
        ("rollout", "floor", "4", "the header says floor '4', the payload '3'"),
        ("prompt", "floor", "x", "invalid literal"),
        ("announcement", "version", "four", "announcement: Expected `int`, got `str`.*version"),
        ("announcement", "at", "", "announcement: Expected `float`, got `str`"),
    ],
)
def test_a_header_that_can_not_be_meant_is_refused(name: str, field: str, value: str, said: str) -> None:
    with pytest.raises(BadMessage, match=said):
        decoded(name, **{field: value})


# Where in the payload of a scored group, what is put there, what is said of it
DAMAGE: list[tuple[str, Any, str]] = [
    ("rollout prompt group_id", 17, "Expected `str`, got `int`"),
    ("rollout prompt n", 3, "2 completions of 3"),
    ("rollout prompt n", 0, "Expected `int` >= 1"),
    ("rollout prompt n", True, "Expected `int`, got `bool`"),
    ("rollout prompt max_tokens", -1, "Expected `int` >= 1"),
    ("rollout prompt split", "test", "Invalid enum value 'test'"),
    ("rollout prompt temperature", float("nan"), "Expected `float`"),
    ("rollout prompt issued_at", "today", "Expected `float`, got `str`"),
    ("rollout prompt token_ids", b"\x00\x00\x00", "multiple of element size"),
    ("rollout prompt token_ids", [1, 2], "expected bytes, got list"),
    ("rollout prompt token_ids", b"", "a prompt has at least one token"),
    ("rollout prompt messages", ["hello"], "Expected `object`, got `str`"),
    ("rollout prompt verification_info", "[]", "expected a JSON object, got list"),
    ("rollout prompt verification_info", "{", "Expecting property name .*verification_info"),
    ("rollout prompt verification_info", "[" * 100_000, "RecursionError"),
    ("rollout prompt", None, "Expected `object`, got `None`"),
    ("rollout completions", 3, "Expected `array`, got `int`"),
    ("rollout completions 0 segments 0 token_ids", b"\xff" * 12, "token id -1"),
    ("rollout completions 0 segments 0 token_ids", b"", "0 tokens with 3 log-probabilities"),
    ("rollout completions 0 segments 0 logprobs", b"\x00" * 8, "3 tokens with 2 log-probabilities"),
    ("rollout completions 0 segments 0 logprobs", np.full(3, np.nan, "<f4").tobytes(), "3 of 3 log-prob.*not finite"),
    ("rollout completions 0 segments 0 spans", [[3, 0, 2]], "tokens that no span has would train"),
    ("rollout completions 0 segments 0 spans", [[3, 1, 3]], "spans up to token 4 of 3"),
    ("rollout completions 0 segments 0 spans", [[3, 0]], "Expected `array` of at least length 3"),
    ("rollout completions 0 finish_reason", "tired", "Invalid enum value 'tired'"),
    ("rollout completions 0 text", b"bytes", "Expected `str`, got `bytes`"),
    ("rollout seconds", None, "Expected `float`, got `None`"),
    ("rollout attempts", 1.5, "Expected `int`, got `float`"),
    ("scores 0 value", 1.5, r"a score lies in \[0, 1\], got 1.5"),
    ("scores 0 value", None, "a value belongs to a scored completion"),
    ("scores 0 value", True, r"Expected `float \| null`, got `bool` - at `\$.scores\[0\].value`"),
    ("scores 0 status", "fine", "Invalid enum value 'fine'"),
    ("scores 0 components", {"format": "1"}, "Expected `float`, got `str`"),
    ("scores 0 components", [], "Expected `object`, got `array`"),
    ("scores", [], "2 completions, 0 scores, 2 rewards"),
    ("rewards", [1.0], "2 completions, 2 scores, 1 rewards"),
    ("rewards 0", float("inf"), "Expected `float` <= "),
    ("rewards 0", "nan", r"Expected `float \| null`, got `str`"),
    ("worker", 1, "Expected `str`, got `int`"),
    ("scored_at", "now", "Expected `float`, got `str`"),
]  # fmt: skip


def damaged(payload: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    tree = inner = msgpack.unpackb(payload)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return bytes(msgpack.packb(tree))


@pytest.mark.parametrize(("place", "value", "said"), DAMAGE)
def test_a_damaged_payload_is_refused_and_what_is_wrong_is_named(place: str, value: Any, said: str) -> None:
    path = tuple(int(key) if key.isdecimal() else key for key in place.split())
    with pytest.raises(BadMessage, match=said):
        decoded("scored", payload=damaged(payload_of("scored"), path, value))


def decodes(name: str, payload: bytes) -> bool:
    """Return whether it decodes; any error but BadMessage surfaces."""
    try:
        message = decoded(name, payload=payload)
    except BadMessage as error:
        return not str(error)  # it says why
    if isinstance(message, SampledGroup):
        assert message.min_version <= message.max_version
    return True


def leaves_of(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(leaf for key, inner in items for leaf in leaves_of(inner, (*path, key)))]


ODD = [None, -1, 1 << 63, "x", b"x", [], {}, [None], 0.5, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1)]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_wrong_type_anywhere_is_a_bad_message_or_none_and_no_other_error(name: str, value: Any) -> None:
    for path in leaves_of(msgpack.unpackb(payload_of(name)))[1:]:
        decodes(name, damaged(payload_of(name), path, value))


@pytest.mark.parametrize("name", BINARY)
def test_a_payload_cut_anywhere_or_with_more_behind_it_is_refused(name: str) -> None:
    payload = payload_of(name)
    for end in range(len(payload)):
        assert not decodes(name, payload[:end])
    assert not decodes(name, payload + b"\x00")


@settings(max_examples=200)
@given(payload=st.binary(max_size=60), name=st.sampled_from(BINARY))
def test_random_bytes_are_refused(payload: bytes, name: str) -> None:
    assert not decodes(name, payload)


@settings(max_examples=300)
@given(name=st.sampled_from(BINARY), where=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_flipped_byte_is_a_bad_message_or_none_and_no_other_error(name: str, where: int, byte: int) -> None:
    payload = bytearray(payload_of(name))
    payload[where % len(payload)] = byte
    decodes(name, bytes(payload))


LETTERS = st.sampled_from([b"v", b"group", b"stage", b"reason", b"attempts", b"traceback"])


@given(raw=st.dictionaries(LETTERS, st.binary(max_size=8) | st.just("²".encode())))
def test_a_dead_letter_is_always_a_dead_letter(raw: dict[bytes, bytes]) -> None:
    assert isinstance(codec.decode_dead(raw), DeadLetter)
