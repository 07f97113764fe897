"""What learner and generators write on the board of direct weights, and what is none of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.direct_weights.board import EXPIRY_S, Board
from broker.direct_weights.records import (
    Epoch,
    Round,
    State,
    Wish,
    epoch_text,
    read_epoch_text,
    read_wish_text,
    wish_text,
)
from broker.keys import Keys

ROUND = Round(number=2, version=7, checksum="c", sizes_bytes=(10, 3))
PLACE: dict[str, Any] = {"id": "e", "type": "gloo", "host": "::1", "port": 5}
EPOCH = Epoch(**PLACE, bucket_bytes=8, timeout_s=1.5, members=("a", "b"), state=State.OPEN, round=ROUND)
ONE_ROUND = {"number": 1, "version": 1, "checksum": "", "sizes_bytes": [1], "is_over": False}


@pytest.mark.parametrize("epoch", [EPOCH, replace(EPOCH, round=None, state=State.ENDED, reason="why")])
def test_an_epoch_is_read_as_it_was_written(epoch: Epoch) -> None:
    assert read_epoch_text(epoch_text(epoch)) == epoch
    assert ROUND.size_bytes == 13


@pytest.mark.parametrize(
    "change",
    [
        {"state": "asleep"},
        {"bucket_bytes": 0},
        {"members": 3},
        {"round": {"number": 1}},
        {"round": ONE_ROUND | {"number": 0}},
        {"round": ONE_ROUND | {"sizes_bytes": []}},
        {"round": ONE_ROUND | {"sizes_bytes": [-1]}},
    ],
    ids=str,
)
def test_a_damaged_epoch_is_none(change: dict[str, object]) -> None:
    assert read_epoch_text(json.dumps(json.loads(epoch_text(EPOCH)) | change)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"count": "x", "machine": ""}', "[" * 100_000])
def test_other_text_is_no_record(text: str) -> None:
    assert read_epoch_text(text) is None
    assert read_wish_text(text) is None


def test_what_lies_on_the_board_expires_and_foreign_fields_are_no_wishes(link: RedisLink, keys: Keys) -> None:
    board, wish = Board(link.client, keys), Wish(count=1, machine="m")
    board.write_epoch(EPOCH)
    board.ask("a", wish)
    link.client.hset(keys.weights_direct_wanted, "b", "nonsense")
    assert (board.read_epoch(), board.wishes()) == (EPOCH, {"a": wish})
    assert read_wish_text(wish_text(wish)) == wish
    for key in (keys.weights_direct, keys.weights_direct_wanted):
        assert 0 < int(link.client.ttl(key)) <= EXPIRY_S
    board.withdraw("a")
    board.clear()
    assert (board.read_epoch(), board.wishes()) == (None, {})
