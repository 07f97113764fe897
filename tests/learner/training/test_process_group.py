"""Rank 0's commands to the other ranks, as bytes and back."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import psutil
import pytest

from learner.training.process_group import (
    Close,
    Command,
    Compare,
    Divergences,
    GatherWeights,
    KeepAlive,
    LoadCheckpoint,
    OptimizerStep,
    SaveCheckpoint,
    SaveModel,
    decode,
    encode,
)

pytestmark = [pytest.mark.model, pytest.mark.together("training")]

EACH: list[Command] = [
    *(
        OptimizerStep(learner=None),
        OptimizerStep(learner='{"steps": 3}'),
        Divergences(),
        Compare(),
        GatherWeights(),
    ),
    *(SaveModel(folder="model"), SaveCheckpoint(folder="checkpoint", state='{"version": 1}')),
    *(LoadCheckpoint(folder="checkpoint"), KeepAlive(), Close()),
]


def test_every_command_has_a_name_of_its_own_and_is_the_same_on_every_rank() -> None:
    assert [decode(encode(command)) for command in EACH] == EACH
    assert {type(command) for command in EACH} == set(get_args(Command))
    assert len({command.name for command in get_args(Command)}) == len(get_args(Command))


ALONE = """
import sys, torch
from learner.training.process_group import CommandChannel, join
join(torch.device("cpu"), rank=0, world_size=1)
channel = CommandChannel()
print("joined", flush=True)
sys.stdin.read()
"""


@pytest.mark.prove
def test_a_learner_of_one_rank_listens_on_loopback_alone() -> None:
    """Gloo opens a port for each group, without a password, where the host's name leads or a variable says."""
    others = [name for name in psutil.net_if_addrs() if name != "lo"]
    with subprocess.Popen(
        [sys.executable, "-c", ALONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **({"GLOO_SOCKET_IFNAME": others[0]} if others else {})},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        connections = psutil.Process(process.pid).net_connections("inet")
        listening = [one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN]
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
    assert set(listening) <= {"127.0.0.1", "::1"}
    assert listening, "else this test looks at nothing"
