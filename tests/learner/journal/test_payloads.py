"""A scored group as the journal's columns, and the same group again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given

from broker.errors import BadMessage
from broker.messages import ScoredGroup
from broker.trees import IDS, LOGPROBS
from learner.journal.payloads import group_of, pack_columns, token_ids_of
from tests.support.random_groups import plain, scored_groups

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

Columns = dict[str, Any]


def taken_apart(group: ScoredGroup) -> tuple[Columns, dict[str, list[bytes]]]:
    """Its columns by way of msgpack, and its arrays in one list a type."""
    logprobs = [completion.logprobs for completion in group.rollout.completions]
    arrays = {
        dtype: [array.astype(dtype).tobytes() for array in own]
        for dtype, own in ((IDS, token_ids_of(group)), (LOGPROBS, logprobs))
    }
    columns: Columns = msgpack.unpackb(pack_columns(group))
    return columns, arrays


def put_together(columns: Any, arrays: dict[str, list[bytes]]) -> ScoredGroup:
    def get(count: int, dtype: str) -> bytes:
        array = arrays[dtype].pop(0)
        assert len(array) == 4 * count
        return array

    return group_of(msgpack.packb(columns), get)


@given(group=scored_groups())
def test_any_group_is_the_same_again_but_for_its_text(group: ScoredGroup) -> None:
    silent = [dataclasses.replace(said, text="") for said in group.rollout.completions]
    expected = dataclasses.replace(
        group, rollout=dataclasses.replace(group.rollout, completions=tuple(silent))
    )
    assert plain(put_together(*taken_apart(group))) == plain(expected)


def without_a_score(columns: Columns) -> None:
    columns["scores"][0].pop()


def without_a_reason(columns: Columns) -> None:
    columns["finish_reasons"].pop()


def without_a_count(columns: Columns) -> None:
    columns["spans"][0].pop()


def with_too_long_a_span(columns: Columns) -> None:
    columns["spans"][0][-1] += 1


def without_a_prompt(columns: Columns) -> None:
    del columns["prompt"]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (without_a_score, "ValueError: zip"),
        (without_a_reason, "ValueError: zip"),
        (without_a_count, "ValueError: zip"),
        (with_too_long_a_span, "ValueError: spans cover"),
        (without_a_prompt, "KeyError: 'prompt'"),
    ],
)
@given(group=scored_groups())
def test_columns_that_mean_nothing_are_a_bad_message(
    harm: Callable[[Columns], None], message: str, group: ScoredGroup
) -> None:
    columns, arrays = taken_apart(group)
    harm(columns)
    with pytest.raises(BadMessage, match=f"payload: {message}"):
        put_together(columns, arrays)


def test_what_is_no_group_is_a_bad_message() -> None:
    with pytest.raises(BadMessage, match="payload: KeyError: 'tokens'"):
        group_of(msgpack.packb({}), lambda count, dtype: b"")
