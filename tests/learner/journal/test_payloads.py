"""A scored group as a step's payload has it, and the same group again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from broker.codec import IDS, LOGPROBS
from broker.errors import BadMessage
from broker.messages import ScoredGroup
from learner.journal.payloads import PAYLOAD_SCHEMA, PackedGroup, group_of
from tests.support.journals import silent
from tests.support.random_groups import plain, scored_groups

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

Tree = dict[str, Any]
Arrays = dict[str, list[NDArray[Any]]]


def taken_apart(group: ScoredGroup) -> tuple[Tree, Arrays]:
    """What stands in a payload's map, and the arrays beside it, one list a type."""
    packed = PackedGroup.of(group)
    return msgpack.unpackb(packed.head), packed.arrays


def put_together(tree: Tree, arrays: Arrays, schema: int = PAYLOAD_SCHEMA) -> ScoredGroup:
    waiting = {dtype: list(own) for dtype, own in arrays.items()}

    def get(count: int, dtype: str) -> NDArray[Any]:
        array = waiting[dtype].pop(0)
        assert len(array) == count
        return array

    return group_of(msgpack.packb(tree), schema, get)


@pytest.mark.parametrize("most", [15, 100])
def test_any_group_is_the_same_again_but_for_its_text(most: int) -> None:
    @settings(max_examples=most)
    @given(group=scored_groups())
    def law(group: ScoredGroup) -> None:
        assert plain(put_together(*taken_apart(group))) == plain(silent(group))

    law()


def first_segment(tree: Tree) -> Any:
    return tree["rollout"]["completions"][0]["segments"][0]


def lengthen_a_span(tree: Tree) -> None:
    first_segment(tree)["spans"][-1][2] += 100


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda tree: tree["scores"].pop(), "completions, . scores"),
        (lambda tree: tree["scores"][0].pop("version"), "missing required field `version`"),
        (lambda tree: first_segment(tree)["spans"][0].pop(), "Expected `array` of at least length 3"),
        (lengthen_a_span, "spans up to token"),
        (lambda tree: tree["rollout"].pop("prompt"), "missing required field `prompt`"),
        (lambda tree: tree.clear(), "missing required field `rollout`"),
    ],
    ids=["no score", "no version", "no count", "too long a span", "no prompt", "nothing"],
)
@settings(max_examples=10)  # what is bad of a group is so whatever else it holds
@given(group=scored_groups())
def test_bad_groups_are_refused(harm: Callable[[Tree], object], message: str, group: ScoredGroup) -> None:
    tree, arrays = taken_apart(group)
    harm(tree)
    with pytest.raises(BadMessage, match=f"payload: .*{message}"):
        put_together(tree, arrays)


def test_the_columns_of_schema_2_are_read_and_a_short_one_is_a_bad_message() -> None:
    """`tests/compatibility` has whole journals of it."""
    columns = {
        "tokens": [2, 1],
        "spans": [[3, 1, 4, 1], [4, 1]],
        "finish_reasons": ["stop", "length"],
        "scores": [["scored", "scored"], [1.0, 0.0], ["", ""], ["math"] * 2, ["1"] * 2, [0.5, 0.25], [{}, {"a": 1}]],
        "rewards": [1.0, 0.0],
        "prompt": {
            **{name: name for name in ("group_id", "task", "fingerprint")},
            **dict.fromkeys(("floor", "epoch", "row", "seed"), 3),
            **dict.fromkeys(("issued_at", "temperature"), 1.5),
            "split": "train",
            "n": 2,
            "max_tokens": 16,
            "messages": [{"role": "user", "content": "2 + 2"}],
            "token_ids": 2,
            "verification_info": "{}",
        },
        "sampling": ["generator-0", 2.0, 5.0, 1],
        "scoring": ["scorers-0", 0.5, 6.0, 2],
    }  # fmt: skip
    ids = [np.array(one, np.int32) for one in ([5, 6], [7], [1, 2])]  # the prompt's last
    arrays: Arrays = {IDS: ids, LOGPROBS: [np.array([-1, -2], np.float32), np.array([-3], np.float32)]}
    group = put_together(columns, arrays, schema=2)
    prompt, (first, second) = group.rollout.prompt, group.rollout.completions
    assert (prompt.token_ids.tolist(), first.sampled_ids.tolist(), second.sampled_ids.tolist()) == (
        [1, 2],
        [5, 6],
        [7],
    )
    assert [(span.version, span.first, span.count) for span in first.spans] == [(3, 0, 1), (4, 1, 1)]
    assert [segment.logprobs.tolist() for segment in (*first.segments, *second.segments)] == [[-1, -2], [-3]]
    assert (first.is_plain, group.scores[1].components, group.rollout.sampled_at, group.attempts) == (
        True,
        {"a": 1},
        5,
        2,
    )
    with pytest.raises(BadMessage, match="payload: ValueError: zip"):
        put_together({**columns, "finish_reasons": ["stop"]}, arrays, schema=2)
