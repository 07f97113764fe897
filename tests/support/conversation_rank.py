"""One rank of a step on conversations: `conversation_rank.py RANK WORLD SEQUENCE_RANKS PADS OUT`, with the ranks' environment.

In: a list of objectives as JSON on standard input. Out: for each of them the loss over all ranks and the gradient by
every weight, as the learner's backend makes them around a model in float64, in an npz of rank 0. DeepSpeed has no
part in it: it would sum the gradients in float32.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor, distributed
from torch.nn import functional

from config.learner import LearnerConfig
from config.learner.objective import ObjectiveConfig
from learner.objective.objective import needs_start_logprobs
from learner.training import logprobs, micro_batch
from learner.training.attention import SDPA
from learner.training.batch import pack
from learner.training.logprobs import LogprobModel
from learner.training.passes import Objectives, Passes
from learner.training.process_group import CommandChannel, join
from learner.training.sequence_parallel import NAME, SequenceMesh
from learner.training.step_statistics import StepStatistics
from tests.support.conversations import ADVANTAGES, TEMPERATURE, VERSION, conversations, double_model


class DoubleLogprobs(logprobs.TokenLogprobs):
    """The head without its float32."""

    def forward(self, hidden_KD: Tensor, targets_K: Tensor) -> tuple[Tensor, Tensor]:
        logits_KV = functional.linear(hidden_KD, self.weight, self.bias) / self.temperature
        logprobs_KV = logits_KV.log_softmax(-1)
        found_K = logprobs_KV.gather(-1, targets_K[:, None])[:, 0]
        return found_K, -(logprobs_KV.exp() * logprobs_KV).sum(-1).detach()


class Engine:
    """What the passes ask of an engine, around a model in float64."""

    device = torch.device("cpu")

    def __init__(self, wrapped: LogprobModel, mesh: SequenceMesh | None) -> None:
        self.wrapped = wrapped
        self.pads = mesh is None

    @torch.no_grad()
    def evaluate(self, part: micro_batch.MicroBatch) -> Any:
        return self.wrapped(**part.model_inputs)

    def forward(self, part: micro_batch.MicroBatch, *, is_last: bool) -> Any:
        del is_last
        return self.wrapped(**part.model_inputs)

    def backward(self, loss: Tensor) -> None:
        loss.backward()


class Reference:
    """A reference beside it."""

    def __init__(self, wrapped: LogprobModel) -> None:
        self.wrapped = wrapped

    def of(self, _: object) -> Reference:
        return self

    @torch.no_grad()
    def logprobs(self, parts: list[micro_batch.MicroBatch]) -> list[Tensor]:
        return [self.wrapped(**part.model_inputs)[0] for part in parts]


def wrapped(seed: int, mesh: SequenceMesh | None) -> LogprobModel:
    model = double_model(seed)
    model.set_attn_implementation(SDPA if mesh is None else NAME)
    return LogprobModel(model, temperature=TEMPERATURE, mesh=mesh)


def main(rank: int, world_size: int, size: int, *, pads: bool, out: str) -> None:
    """Make each objective's loss and gradient."""
    torch.set_num_threads(1)
    logprobs.TokenLogprobs = DoubleLogprobs  # type: ignore[misc]
    micro_batch.is_cheaper_padded = lambda lengths_S: pads
    join(torch.device("cpu"), rank=rank, world_size=world_size)
    mesh = SequenceMesh(size, rank=rank, world_size=world_size, attention=SDPA) if size > 1 else None
    model, channel = wrapped(0, mesh), CommandChannel(counts=mesh is None or mesh.rank == 0)
    engine: Any = Engine(model, mesh)
    reference: Any = Reference(wrapped(1, mesh))
    run: Any = SimpleNamespace(learner=LearnerConfig())
    passes = Passes(run, engine, reference, channel, Objectives())
    batch = pack(
        conversations(), ADVANTAGES, tokens_per_micro_batch=64, truncated="keep", policy_version=VERSION
    )
    shard = batch.shards(world_size // size)[rank // size]
    found: dict[str, Any] = {}
    for number, section in enumerate(json.load(sys.stdin)):
        settings = TypeAdapter(ObjectiveConfig).validate_python(section)
        objective = Objectives().of(settings)
        statistics = StepStatistics(shard)
        ((parts, num_tokens),) = passes._prepare(
            shard, settings, statistics, at_start=needs_start_logprobs(objective)
        )
        assert pads == any(part.cells_T is not None for part in parts)
        model.zero_grad()
        value = torch.zeros((), dtype=torch.float64)
        for part in parts:
            _, loss = passes._backward(
                part, objective, is_last=False, num_tokens=num_tokens, kl_coef=settings.kl.coef
            )
            value += loss.value.detach()
        gradient = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
        distributed.all_reduce(gradient)
        if mesh is None:  # the ranks of a mesh have the same loss
            distributed.all_reduce(value)
        found |= {f"value{number}": value.numpy(), f"gradient{number}": gradient.numpy()}
    if rank == 0:
        np.savez(out, **found)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), pads=sys.argv[4] == "pads", out=sys.argv[5])
