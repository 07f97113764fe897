"""Messages survive the wire whole, their bytes are pinned, and what is damaged is refused with its reason."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import codec
from broker.errors import BadMessage
from broker.messages import (
    SCHEMA_VERSION,
    Announcement,
    Completion,
    DeadLetter,
    FinishReason,
    Prompt,
    SampledGroup,
    Score,
    ScoredGroup,
    ScoreStatus,
    Span,
)
from tests.support.groups import a_letter, a_prompt, a_rollout, a_scored_group, an_announcement
from tests.support.random_groups import plain, scored_groups

GOLDEN = Path(__file__).parent / "golden"


def raw_of(fields: codec.Fields) -> dict[bytes, bytes]:
    """Fields as Redis hands them out."""
    return {
        name.encode(): value.encode() if isinstance(value, str) else value for name, value in fields.items()
    }


def prompt_fields(prompt: Prompt) -> codec.Fields:
    """Return what lies in `prompts`: the script `issue` has set floor and policy."""
    return {**codec.encode_prompt(prompt), "floor": str(prompt.floor), "policy": str(prompt.floor)}


PROMPT = a_prompt(data_source="openai/gsm8k")
ROLLOUT = a_rollout(PROMPT)
SCORED_GROUP = a_scored_group(ROLLOUT)

# name -> message, its fields, the decoder
WIRE: dict[str, tuple[Any, codec.Fields, Callable[[codec.Raw], Any]]] = {
    "prompt": (PROMPT, prompt_fields(PROMPT), codec.decode_prompt),
    "rollout": (ROLLOUT, codec.encode_rollout(ROLLOUT), codec.decode_rollout),
    "scored": (SCORED_GROUP, codec.encode_scored(SCORED_GROUP), codec.decode_scored),
    "dead": (a_letter(), codec.encode_dead(a_letter(), floor=3), codec.decode_dead),
    "announcement": (
        an_announcement(),
        codec.encode_announcement(an_announcement()),
        codec.decode_announcement,
    ),
}
# What a writer of schema 1 meant by its golden files: no data source.
MEANT_BY_1 = {"prompt": a_prompt(), "rollout": a_rollout(), "scored": a_scored_group()}
BINARY = ("prompt", "rollout", "scored")


def pinned(name: str, version: int) -> dict[bytes, bytes]:
    """Return the fields of a golden file: a line a field, its name and its bytes in hex."""
    lines = (GOLDEN / f"{name}_v{version}.hex").read_text().splitlines()
    return {
        field.encode(): bytes.fromhex(in_hex) for field, _, in_hex in (line.partition(" ") for line in lines)
    }


@pytest.mark.parametrize("name", WIRE)
def test_the_bytes_of_schema_2_are_these_and_are_read_as_what_was_written(name: str) -> None:
    """A change of a golden file is a change of SCHEMA_VERSION."""
    message, fields, decode = WIRE[name]
    assert SCHEMA_VERSION == 2
    assert raw_of(fields) == pinned(name, 2)
    assert plain(decode(pinned(name, 2))) == plain(message)


@pytest.mark.parametrize("name", WIRE)
def test_the_bytes_of_schema_1_are_still_read(name: str) -> None:
    message, _, decode = WIRE[name]
    assert pinned(name, 1)[b"v"] == b"1"
    assert plain(decode(pinned(name, 1))) == plain(MEANT_BY_1.get(name, message))


def test_payloads_alone_are_read_whatever_their_schema() -> None:
    for version in (1, 2):
        rollout = codec.decode_rollout_payload(pinned("rollout", version)[b"payload"])
        group = codec.decode_scored_payload(pinned("scored", version)[b"payload"])
        assert plain(rollout) == plain(group.rollout) == plain(ROLLOUT if version == 2 else a_rollout())


def test_a_short_data_source_is_in_the_header_and_a_long_one_in_the_payload_alone() -> None:
    assert codec.encode_prompt(a_prompt(data_source="gsm8k"))["source"] == "gsm8k"
    for source in ("", "x" * 61, "two\nlines"):
        prompt = a_prompt(data_source=source)
        assert "source" not in codec.encode_prompt(prompt)
        assert codec.decode_prompt(raw_of(prompt_fields(prompt))).data_source == source


def changed(change: Callable[[list[Any]], None]) -> dict[bytes, bytes]:
    """Return the golden rollout of schema 2 with the segments of its first completion changed."""
    fields = pinned("rollout", 2)
    tree = msgpack.unpackb(fields[b"payload"])
    change(tree["completions"][0]["segments"])
    return {**fields, b"payload": msgpack.packb(tree)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda own: own.append(own[0]), "a completion of 2 segments: this version trains completions of 1"),
        (lambda own: own.clear(), "a completion of 0 segments"),
        (lambda own: own[0].update(prompt_ids=b"\1\0\0\0"), "a segment with prompt_ids of its own"),
        (
            lambda own: own[0].update(loss_mask=[2, 1]),
            "a loss_mask of 2 runs: this version trains every token",
        ),
        (lambda own: own[0].update(loss_mask=[2]), "the loss mask's runs .2,. do not cover 3 tokens"),
        (lambda own: own[0].update(loss_mask=[]), "the loss mask's runs .. do not cover 3 tokens"),
    ],
)
def test_what_no_trainer_supports_yet_is_refused_by_name(
    change: Callable[[list[Any]], None], said: str
) -> None:
    with pytest.raises(BadMessage, match=said):
        codec.decode_rollout(changed(change))


def test_a_completion_of_several_segments_can_be_told_and_has_no_single_list_of_tokens() -> None:
    (first, second) = a_rollout().completions
    both = dataclasses.replace(first, segments=first.segments + second.segments)
    with pytest.raises(ValueError, match="2 segments, and 1 is supported"):
        _ = both.token_ids
    with pytest.raises(ValueError, match="at least one segment"):
        dataclasses.replace(first, segments=())


def test_when_and_how_often_are_keys_of_their_own_that_a_reader_may_pass_over() -> None:
    """The golden files have none of them: whoever wrote those did not say, and is read all the same."""
    rollout = dataclasses.replace(a_rollout(), sampled_at=1_700_000_003.5, attempts=2)
    group = dataclasses.replace(a_scored_group(rollout), scored_at=1_700_000_004.5, attempts=1)
    tree = msgpack.unpackb(codec.encode_scored_payload(group))
    assert [tree.pop(name) for name in ("scored_at", "attempts")] == [1_700_000_004.5, 1]
    assert [tree["rollout"].pop(name) for name in ("sampled_at", "attempts")] == [1_700_000_003.5, 2]
    assert msgpack.packb(tree) == codec.encode_scored_payload(a_scored_group())
    silent = codec.decode_scored_payload(msgpack.packb(tree))
    assert (silent.scored_at, silent.attempts, silent.rollout.sampled_at, silent.rollout.attempts) == (
        0,
        0,
        0,
        0,
    )


def test_a_nucleus_is_a_key_of_its_own_and_a_prompt_without_one_is_of_the_whole_distribution() -> None:
    """No role of an earlier commit misreads it: such a role can't read the run's configuration, which asks for it."""
    prompt = a_prompt(data_source="openai/gsm8k", top_p=0.7)
    tree = msgpack.unpackb(codec.encode_prompt(prompt)["payload"])
    assert codec.decode_prompt(raw_of(prompt_fields(prompt))).top_p == 0.7
    assert tree.pop("top_p") == 0.7
    assert msgpack.packb(tree) == pinned("prompt", 2)[b"payload"]
    assert codec.decode_prompt(pinned("prompt", 2)).top_p == 1.0


@pytest.mark.parametrize("top_p", [0.0, -0.5, 1.5, "0.7", float("nan")])
def test_a_nucleus_that_is_no_share_is_refused(top_p: Any) -> None:
    fields = prompt_fields(a_prompt())
    tree = {**msgpack.unpackb(fields["payload"]), "top_p": top_p}
    with pytest.raises(BadMessage, match=r"expected a (share in|finite number)"):
        codec.decode_prompt(raw_of({**fields, "payload": msgpack.packb(tree)}))


def test_a_reason_that_quotes_half_of_a_surrogate_pair_travels_without_it() -> None:
    said = "answered \ud800, expected \u00e9"
    score = Score(status=ScoreStatus.SCORED, value=0.0, reason=said, scorer="a", version="1")
    assert score.reason == "answered ?, expected \u00e9"


def test_the_header_is_text_that_a_person_reads() -> None:
    fields = WIRE["scored"][1]
    assert {name: value for name, value in fields.items() if name != "payload"} == {
        "v": "2",
        "group": "17",
        "task": "math",
        "split": "train",
        "n": "2",
        "at": "1700000000.250",
        "source": "openai/gsm8k",
        "floor": "3",
        "policy": "3-4",
        "tokens": "4",
        "reward": "1.000",
    }


def test_a_group_without_any_score_says_so_in_its_header() -> None:
    group = a_scored_group()
    unscorable = dataclasses.replace(group, scores=(group.scores[1],) * 2, rewards=(None, None))
    assert codec.encode_scored(unscorable)["reward"] == "unscorable"


def test_a_token_costs_eight_bytes() -> None:
    def size(tokens: int) -> int:
        completion = Completion.of_one_segment(
            token_ids=np.zeros(tokens, np.int32),
            logprobs=np.zeros(tokens, np.float32),
            policy_spans=(Span(version=3, first=0, count=tokens),),
            finish_reason=FinishReason.STOP,
            text="",
        )
        rollout = dataclasses.replace(a_rollout(a_prompt(n=1)), completions=(completion,))
        return len(codec.encode_rollout(rollout)["payload"])

    assert size(3000) - size(2000) == 8000


def test_a_payload_alone_is_the_streams() -> None:
    group = a_scored_group()
    assert codec.encode_scored_payload(group) == codec.encode_scored(group)["payload"]
    assert plain(codec.decode_scored_payload(codec.encode_scored_payload(group))) == plain(group)


@settings(max_examples=60)
@given(group=scored_groups())
def test_any_group_survives_every_stage_of_its_way(group: ScoredGroup) -> None:
    rollout, prompt = group.rollout, group.rollout.prompt
    assert plain(codec.decode_prompt(raw_of(prompt_fields(prompt)))) == plain(prompt)
    assert plain(codec.decode_rollout(raw_of(codec.encode_rollout(rollout)))) == plain(rollout)
    assert plain(codec.decode_scored(raw_of(codec.encode_scored(group)))) == plain(group)


def test_the_floor_of_a_prompt_is_the_scripts() -> None:
    assert codec.decode_prompt(raw_of({**codec.encode_prompt(a_prompt()), "floor": "9"})).floor == 9


@pytest.mark.parametrize("name", [*BINARY, "announcement"])
def test_another_schema_is_refused_with_the_numbers(name: str) -> None:
    _, fields, decode = WIRE[name]
    with pytest.raises(BadMessage, match="schema version 7, this program reads 1 and 2"):
        decode(raw_of({**fields, "v": "7"}))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *[(name, field) for name in BINARY for field in ("v", "payload", "group", "floor")],
        *[("announcement", field) for field in ("v", "version", "path", "checksum", "size_bytes", "at")],
    ],
)
def test_a_missing_field_is_named(name: str, field: str) -> None:
    _, fields, decode = WIRE[name]
    raw = raw_of(fields)
    del raw[field.encode()]
    with pytest.raises(BadMessage, match=f"field '{field}' is missing"):
        decode(raw)


@pytest.mark.parametrize(
    ("name", "field", "value", "said"),
    [
        ("scored", "group", "18", "the header says group '18', the payload '17'"),
        ("rollout", "floor", "4", "the header says floor '4', the payload '3'"),
        ("prompt", "floor", "x", "invalid literal"),
        ("announcement", "version", "four", "announcement: invalid literal"),
        ("announcement", "at", "", "announcement: could not convert"),
    ],
)
def test_a_header_that_can_not_be_meant_is_refused(name: str, field: str, value: str, said: str) -> None:
    _, fields, decode = WIRE[name]
    with pytest.raises(BadMessage, match=said):
        decode(raw_of({**fields, field: value}))


def nan_bytes(count: int) -> bytes:
    return np.full(count, np.nan, "<f4").tobytes()


# path into the payload of a scored group, what is put there, what is said of it
DAMAGE: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("rollout", "prompt", "group_id"), 17, "expected str, got int"),
    (("rollout", "prompt", "n"), 3, "2 completions of 3"),
    (("rollout", "prompt", "n"), 0, "expected at least 1, got 0"),
    (("rollout", "prompt", "n"), True, "expected int, got bool"),
    (("rollout", "prompt", "max_tokens"), -1, "expected at least 1, got -1"),
    (("rollout", "prompt", "split"), "test", "'test' is not a valid Split"),
    (("rollout", "prompt", "temperature"), float("nan"), "expected a finite number, got nan"),
    (("rollout", "prompt", "issued_at"), "today", "expected a finite number, got 'today'"),
    (("rollout", "prompt", "token_ids"), b"\x00\x00\x00", "multiple of element size"),
    (("rollout", "prompt", "token_ids"), [1, 2], "expected bytes, got list"),
    (("rollout", "prompt", "token_ids"), b"", "0 tokens, expected at least 1"),
    (("rollout", "completions", 0, "segments", 0, "token_ids"), b"\xff" * 12, "token id -1"),
    (("rollout", "prompt", "messages"), ["hello"], "expected dict, got str"),
    (("rollout", "prompt", "verification_info"), "[]", "expected dict, got list"),
    (("rollout", "prompt", "verification_info"), "{", "JSONDecodeError"),
    (("rollout", "prompt", "verification_info"), "[" * 100_000, "RecursionError"),
    (("rollout", "prompt"), None, "TypeError"),
    (("rollout", "completions"), 3, "TypeError"),
    (("rollout", "completions", 0, "segments", 0, "token_ids"), b"", "0 tokens with 3 log-probabilities"),
    (
        ("rollout", "completions", 0, "segments", 0, "logprobs"),
        b"\x00" * 8,
        "3 tokens with 2 log-probabilities",
    ),
    (
        ("rollout", "completions", 0, "segments", 0, "logprobs"),
        nan_bytes(3),
        "3 of 3 log-probabilities are not finite",
    ),
    (("rollout", "completions", 0, "segments", 0, "spans"), [[3, 0, 2]], "spans cover 2 of 3 tokens"),
    (
        ("rollout", "completions", 0, "segments", 0, "spans"),
        [[3, 1, 2]],
        "spans must cover the tokens in order",
    ),
    (("rollout", "completions", 0, "segments", 0, "spans"), [[3, 0]], "not enough values"),
    (("rollout", "completions", 0, "finish_reason"), "tired", "'tired' is not a valid FinishReason"),
    (("rollout", "completions", 0, "text"), b"bytes", "expected str, got bytes"),
    (("rollout", "seconds"), None, "expected a finite number, got None"),
    (("scores", 0, "value"), 1.5, r"a score lies in \[0, 1\], got 1.5"),
    (("scores", 0, "value"), None, "a value belongs to a scored completion"),
    (("scores", 0, "value"), True, "expected a finite number, got True"),
    (("scores", 0, "status"), "fine", "'fine' is not a valid ScoreStatus"),
    (("scores", 0, "components"), {"format": "1"}, "expected a finite number, got '1'"),
    (("scores", 0, "components"), [], "AttributeError"),
    (("scores",), [], "2 completions, 0 scores, 2 rewards"),
    (("rewards",), [1.0], "2 completions, 2 scores, 1 rewards"),
    (("rewards", 0), float("inf"), "expected a finite number, got inf"),
    (("rewards", 0), "nan", "expected a finite number, got 'nan'"),
    (("worker",), 1, "expected str, got int"),
    (("scored_at",), "now", "expected a finite number, got 'now'"),
    (("rollout", "attempts"), 1.5, "expected int, got float"),
]


@pytest.mark.parametrize(("path", "value", "said"), DAMAGE)
def test_a_damaged_payload_is_refused_and_what_is_wrong_is_named(
    path: tuple[str | int, ...], value: Any, said: str
) -> None:
    fields = WIRE["scored"][1]
    tree = msgpack.unpackb(fields["payload"])
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(BadMessage, match=said):
        codec.decode_scored(raw_of({**fields, "payload": msgpack.packb(tree)}))


def leaves_of(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every path into a payload, inner nodes included."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(leaf for key, inner in items for leaf in leaves_of(inner, (*path, key)))]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "value",
    [None, -1, 1 << 63, "x", b"x", [], {}, [None], 0.5, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1)],
    ids=repr,
)
def test_a_wrong_type_anywhere_is_a_bad_message_or_none_but_never_another_error(
    name: str, value: Any
) -> None:
    _, fields, decode = WIRE[name]
    payload = fields["payload"]
    for path in leaves_of(msgpack.unpackb(payload))[1:]:
        tree = inner = msgpack.unpackb(payload)
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        decodes(decode, {**fields, "payload": msgpack.packb(tree)})


def decodes(decode: Callable[[codec.Raw], Any], fields: codec.Fields) -> bool:
    """Return whether it decodes; any error but BadMessage surfaces."""
    try:
        message = decode(raw_of(fields))
    except BadMessage as error:
        return not str(error)  # it says why
    if isinstance(message, SampledGroup):
        assert message.min_version <= message.max_version
    return True


@pytest.mark.parametrize("name", BINARY)
def test_a_payload_cut_anywhere_or_with_more_behind_it_is_refused(name: str) -> None:
    _, fields, decode = WIRE[name]
    payload = fields["payload"]
    assert isinstance(payload, bytes)
    for end in range(len(payload)):
        assert not decodes(decode, {**fields, "payload": payload[:end]})
    assert not decodes(decode, {**fields, "payload": payload + b"\x00"})


@settings(max_examples=200)
@given(payload=st.binary(max_size=60), name=st.sampled_from(BINARY))
def test_random_bytes_are_refused(payload: bytes, name: str) -> None:
    _, fields, decode = WIRE[name]
    assert not decodes(decode, {**fields, "payload": payload})


@settings(max_examples=300)
@given(name=st.sampled_from(BINARY), where=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_flipped_byte_is_a_bad_message_or_none_but_never_another_error(
    name: str, where: int, byte: int
) -> None:
    _, fields, decode = WIRE[name]
    payload = fields["payload"]
    assert isinstance(payload, bytes)
    damaged = bytearray(payload)
    damaged[where % len(payload)] = byte
    decodes(decode, {**fields, "payload": bytes(damaged)})


@given(
    raw=st.dictionaries(
        st.sampled_from([b"v", b"group", b"stage", b"reason", b"attempts", b"traceback"]),
        st.binary(max_size=8) | st.just("²".encode()),
    )
)
def test_a_dead_letter_is_always_a_letter(raw: dict[bytes, bytes]) -> None:
    assert isinstance(codec.decode_dead(raw), DeadLetter)


def test_nothing_is_pickled() -> None:
    """The payloads are msgpack and JSON throughout: another program can read them."""
    for name in BINARY:
        tree = msgpack.unpackb(WIRE[name][1]["payload"])
        prompt = tree.get("rollout", tree).get("prompt", tree)
        assert json.loads(prompt["verification_info"]) == a_prompt().verification_info


def test_an_announcement_is_text_alone() -> None:
    fields = codec.encode_announcement(an_announcement())
    assert all(isinstance(value, str) for value in fields.values())
    assert codec.decode_announcement(raw_of(fields)) == Announcement(
        version=4, path="runs/x/weights/4", checksum="c0ffee", size_bytes=1024, announced_at=1_700_000_001.5
    )
