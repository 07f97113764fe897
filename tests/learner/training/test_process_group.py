"""Rank 0's commands to the other ranks, as bytes and back."""

from __future__ import annotations

from typing import get_args

import pytest

from learner.training.process_group import (
    Close,
    Command,
    Divergences,
    GatherWeights,
    KeepAlive,
    LoadCheckpoint,
    SaveCheckpoint,
    SaveModel,
    Step,
    decode,
    encode,
)

EACH = [
    Step(learner=None),
    Step(learner='{"steps": 3}'),
    Divergences(),
    GatherWeights(),
    SaveModel(folder="model"),
    SaveCheckpoint(folder="checkpoint", state='{"version": 1}'),
    LoadCheckpoint(folder="checkpoint"),
    KeepAlive(),
    Close(),
]


@pytest.mark.parametrize("command", EACH)
def test_a_command_is_the_same_on_every_rank(command: Command) -> None:
    assert decode(encode(command)) == command


def test_every_command_has_a_name_of_its_own() -> None:
    assert {type(command) for command in EACH} == set(get_args(Command))
    assert len({command.name for command in get_args(Command)}) == len(get_args(Command))
