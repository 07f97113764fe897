"""Turns become sequences in which each sampled token stands once, behind what it was sampled behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.sequences import PolicyTurn, segments_of
from broker.codec import pack, unpack
from broker.messages import FinishReason, Ids, Segment, Span, TurnPrompt, TurnRecord
from tests.support.random_groups import plain

GROUP = np.array([1, 2], np.int32)


def ids(*numbers: int) -> Ids:
    return np.array(numbers, np.int32)


def turn(given: Ids, *sampled: int, version: int = 3) -> PolicyTurn:
    return PolicyTurn(
        given,
        TurnRecord(
            token_ids=ids(*sampled),
            logprobs=-np.array(sampled, np.float32),
            policy_spans=(Span(version=version, first=0, count=len(sampled)),),
            finish_reason=FinishReason.STOP,
            generator="g",
            seconds=0.5,
        ),
    )


def behind(before: PolicyTurn, *read: int) -> Ids:
    return np.concatenate([before.prompt_ids, before.record.token_ids, ids(*read)])


def shown(
    segments: tuple[Segment, ...],
) -> list[tuple[list[int], list[int], tuple[int, ...], list[tuple[int, ...]]]]:
    return [
        (
            one.prompt_ids.tolist(),
            one.token_ids.tolist(),
            one.loss_mask,
            [(span.version, span.first, span.count) for span in one.policy_spans],
        )
        for one in segments
    ]


def test_a_conversation_is_one_sequence_with_what_its_tools_said_masked() -> None:
    first = turn(GROUP, 5, 6, version=3)
    second = turn(behind(first, 70, 71), 7, version=4)
    third = turn(behind(second), 8, 9, version=4)  # nothing was said between
    assert shown(segments_of([first, second, third], GROUP)) == [
        ([], [5, 6, 70, 71, 7, 8, 9], (2, 2, 3), [(3, 0, 2), (4, 4, 1), (4, 5, 2)])
    ]


def test_a_history_that_is_rewritten_begins_a_sequence_of_its_own() -> None:
    first = turn(GROUP, 5, 6)
    summary = turn(ids(1, 90), 7)
    assert shown(segments_of([first, summary, turn(behind(summary, 91), 8)], GROUP)) == [
        ([], [5, 6], (2,), [(3, 0, 2)]),
        ([1, 90], [7, 91, 8], (1, 1, 1), [(3, 0, 1), (3, 2, 1)]),
    ]


def test_of_turns_that_go_on_from_one_the_first_goes_on_and_the_other_begins_with_all_that_it_read() -> None:
    root = turn(GROUP, 5)
    left, right = turn(behind(root, 60), 7), turn(behind(root, 61), 8)
    deeper = turn(behind(right, 62), 9)
    assert shown(segments_of([root, left, right, deeper], GROUP)) == [
        ([], [5, 60, 7], (1, 1, 1), [(3, 0, 1), (3, 2, 1)]),
        ([1, 2, 5, 61], [8, 62, 9], (1, 1, 1), [(3, 0, 1), (3, 2, 1)]),
    ]


def test_the_same_question_twice_is_two_sequences() -> None:
    assert [said[1] for said in shown(segments_of([turn(GROUP, 5), turn(GROUP, 5)], GROUP))] == [[5], [5]]


@st.composite
def episodes(draw: st.DrawFn) -> list[PolicyTurn]:
    """Draw turns that go on from any one before, with something read or not, or begin anew."""
    tokens = st.integers(1, 3)  # few, so that prefixes meet by chance too
    turns: list[PolicyTurn] = []
    for _ in range(draw(st.integers(1, 8))):
        read = draw(st.lists(tokens, max_size=2))
        place = draw(st.integers(-1, len(turns) - 1))
        given = behind(turns[place], *read) if place >= 0 else ids(*read, 1)
        turns.append(turn(given, *draw(st.lists(tokens, min_size=1, max_size=3))))
    return turns


@settings(max_examples=150)
@given(turns=episodes())
def test_every_record_is_there_once_bit_for_bit_and_in_its_own_context(turns: list[PolicyTurn]) -> None:
    found = []
    for segment in segments_of(turns, GROUP):
        prompt = segment.prompt_ids if len(segment.prompt_ids) else GROUP
        for span in segment.policy_spans:
            own = slice(span.first, span.first + span.count)
            assert segment.trains[own].all()
            context = np.concatenate([prompt, segment.token_ids[: span.first]])
            found.append((context.tolist(), segment.token_ids[own].tolist(), segment.logprobs[own].tolist()))
        assert segment.trains.sum() == segment.num_sampled
    asked = [
        (one.prompt_ids.tolist(), one.record.token_ids.tolist(), one.record.logprobs.tolist())
        for one in turns
    ]
    assert sorted(found) == sorted(asked)


def test_a_turn_and_its_record_travel_whole() -> None:
    asked = TurnPrompt(token_ids=GROUP, max_tokens=9, temperature=0.5, top_p=0.9, seed=7, stop=("so",))
    for message in (asked, turn(GROUP, 5, 6).record):
        assert plain(unpack(pack(message), type(message))) == plain(message)


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ((Span(version=3, first=0, count=1),), "spans of 1 of 2 tokens"),
        ((Span(version=3, first=1, count=1), Span(version=4, first=0, count=1)), "must follow each other"),
    ],
)
def test_a_record_names_the_version_of_each_of_its_tokens(spans: tuple[Span, ...], said: str) -> None:
    record = turn(GROUP, 5, 6).record
    with pytest.raises(ValueError, match=said):
        TurnRecord(
            token_ids=record.token_ids, logprobs=record.logprobs, policy_spans=spans,
            finish_reason=FinishReason.STOP, generator="g", seconds=0.5,
        )  # fmt: skip
