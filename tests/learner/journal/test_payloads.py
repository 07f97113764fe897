"""A scored group as the journal's columns, and the same group again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings

from broker.errors import BadMessage
from broker.messages import ScoredGroup
from broker.trees import IDS, LOGPROBS
from learner.journal.payloads import group_of, pack_columns, token_ids_of
from tests.support.journals import silent
from tests.support.random_groups import plain, scored_groups

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

Columns = dict[str, Any]


def taken_apart(group: ScoredGroup) -> tuple[Columns, dict[str, list[bytes]]]:
    """Its columns by way of msgpack, and its arrays in one list a type."""
    own: dict[str, Any] = {IDS: token_ids_of(group)}
    completions = group.rollout.completions
    own[LOGPROBS] = [segment.logprobs for said in completions for segment in said.segments]
    arrays = {dtype: [array.astype(dtype).tobytes() for array in some] for dtype, some in own.items()}
    columns: Columns = msgpack.unpackb(pack_columns(group))
    return columns, arrays


def put_together(columns: Any, arrays: dict[str, list[bytes]]) -> ScoredGroup:
    def get(count: int, dtype: str) -> bytes:
        array = arrays[dtype].pop(0)
        assert len(array) == 4 * count
        return array

    return group_of(msgpack.packb(columns), get)


@settings(max_examples=50)
@given(group=scored_groups())
def test_any_group_is_the_same_again_but_for_its_text(group: ScoredGroup) -> None:
    assert plain(put_together(*taken_apart(group))) == plain(silent(group))


def lengthen_a_span(columns: Columns) -> None:
    columns["segments"][0][0][2][-1] += 100


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda columns: columns["scores"][0].pop(), "ValueError: zip"),
        (lambda columns: columns["finish_reasons"].pop(), "ValueError: zip"),
        (lambda columns: columns["segments"][0][0][2].pop(), "ValueError: zip"),
        (lengthen_a_span, "ValueError: spans up to token"),
        (lambda columns: columns.pop("prompt"), "KeyError: 'prompt'"),
        (lambda columns: columns.clear(), "KeyError: 'tokens'"),
    ],
    ids=["no score", "no finish reason", "no count", "too long a span", "no prompt", "nothing"],
)
@settings(max_examples=10)  # what is bad of a group is so whatever else it holds
@given(group=scored_groups())
def test_bad_columns_are_a_bad_message(
    harm: Callable[[Columns], object], message: str, group: ScoredGroup
) -> None:
    columns, arrays = taken_apart(group)
    harm(columns)
    with pytest.raises(BadMessage, match=f"payload: {message}"):
        put_together(columns, arrays)
