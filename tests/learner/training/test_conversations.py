"""A step on completions of three segments beside a slow formula: loss and gradient to 1e-9, in float64."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner.journal.payloads import StepEncoder, decode_step
from learner.training.batch import pack
from tests.support import papers
from tests.support.conversations import ADVANTAGES, VERSION, answers, conversations, double_model, judged
from tests.support.made_up_tokens import Answer
from tests.support.papers import CASES, KL_TERMS, Loss, differences, total
from tests.support.paths import ROOT
from tests.support.redis_servers import free_port

pytestmark = [pytest.mark.model, pytest.mark.prove]

KL_COEF = 0.7
CONSTANT = 12
AGGREGATES = ("token", "sequence", "prompt", "constant")
EVERY = [(name, aggregate) for name in CASES for aggregate in AGGREGATES]


def section(name: str, aggregate: str) -> dict[str, Any]:
    constant = {"constant_length": CONSTANT if aggregate == "constant" else None}
    kl = {"coef": KL_COEF, "estimator": "k3"}
    return CASES[name][0] | {"aggregate": aggregate, "kl": kl} | constant


exact_shares = papers.shares


def rounded_shares(batch: Sequence[Answer], aggregate: str, constant: int = CONSTANT) -> list[float]:
    """What a token weighs, as a batch holds it: in float32, but for the mean over all tokens."""
    exact = exact_shares(batch, aggregate, constant)
    return exact if aggregate == "token" else [float(np.float32(share)) for share in exact]


@pytest.fixture(scope="module")
def expected() -> list[tuple[float, np.ndarray]]:
    """Each objective's loss by the paper, and its gradient by every weight, by way of a model that reads each segment alone."""
    model, groups = double_model(0), conversations()
    policy = list(judged(model, groups))
    with torch.no_grad():
        batch = answers(policy, list(judged(double_model(1), groups)))
    logprobs_K = torch.cat([one.logprobs_K for one in policy])
    weights = list(model.parameters())
    found = []
    patch = pytest.MonkeyPatch()
    patch.setattr(papers, "shares", rounded_shares)
    for name, aggregate in EVERY:
        paper = CASES[name][1]

        def loss(completion: Any, place: int, fixed: Any, paper: Loss = paper) -> float:
            token = completion.tokens[place]
            return paper(completion, place, fixed) + KL_COEF * KL_TERMS["k3"](token.now, token.reference)

        slopes_K = torch.tensor(differences(batch, loss, aggregate), dtype=torch.float64)
        gradients = torch.autograd.grad(logprobs_K, weights, slopes_K, retain_graph=True)
        found.append(
            (total(batch, batch, loss, aggregate), torch.cat([one.flatten() for one in gradients]).numpy())
        )
    patch.undo()
    return found


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("world_size", "sequence_ranks", "way"),
    [(1, 1, "packed"), (1, 1, "pads"), (2, 1, "packed"), (2, 1, "pads"), (2, 2, "packed")],
)
def test_loss_and_gradient_are_those_of_the_slow_formula(
    expected: list[tuple[float, np.ndarray]], tmp_path: Path, world_size: int, sequence_ranks: int, way: str
) -> None:
    """For every objective and aggregation, with a reference, on ranks and rows of each kind."""
    ours = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "tests.support.conversation_rank"]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(world_size), str(sequence_ranks), way, str(tmp_path / "found.npz")],
            cwd=ROOT,
            env={**os.environ, **ours, "LOCAL_RANK": str(rank), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    sections = json.dumps([section(name, aggregate) for name, aggregate in EVERY])
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write(sections)
        rank.stdin.close()
    assert [rank.wait(240) for rank in ranks] == [0] * world_size
    found = np.load(tmp_path / "found.npz")
    far = {
        (*EVERY[number], "loss"): abs(float(found[f"value{number}"]) - value)
        for number, (value, _) in enumerate(expected)
    } | {
        (*EVERY[number], "gradient"): np.abs(found[f"gradient{number}"] - gradient).max()
        for number, (_, gradient) in enumerate(expected)
    }
    assert {place: by for place, by in far.items() if not by <= 1e-9} == {}


def test_its_journal_gives_the_same_batch_bit_for_bit() -> None:
    given = conversations()
    payload = bytes(StepEncoder().encode(VERSION, given, ADVANTAGES))
    groups, advantages = decode_step(payload, "here")
    assert advantages == ADVANTAGES
    sizes: Any = {"tokens_per_micro_batch": 64, "truncated": "keep", "policy_version": VERSION}
    assert pack(groups, advantages, **sizes).to_bytes() == pack(given, ADVANTAGES, **sizes).to_bytes()
