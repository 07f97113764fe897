"""Completions with everything that a loss may ask of a token, as lists of tokens and packed as the learner has them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from config.learner import Aggregate
from learner.objective.aggregate import token_weights
from learner.objective.objective import TokenBatch

CONSTANT_LENGTH = 12  # tokens that a completion counts as, where the aggregate is constant


@dataclass(frozen=True)
class Token:
    """One sampled token, with everything that a paper's formula may ask of it."""

    now: float  # log-probability under the policy that trains
    start: float  # under that policy at the start of the step
    sampled: float  # under the policy that sampled
    reference: float
    entropy: float


@dataclass(frozen=True)
class Answer:
    """One completion behind its prompt."""

    group: int
    advantage: float
    prompt_tokens: int
    tokens: tuple[Token, ...]


def made_up(seed: int, *, spread: float = 0.8) -> list[Answer]:
    """Return completions of three groups, with ratios on both sides of every clip."""
    source = random.Random(seed)

    def token() -> Token:
        sampled = -source.uniform(0.05, 4)
        return Token(
            now=min(-1e-3, sampled + source.gauss(0, spread)),
            start=min(-1e-3, sampled + source.gauss(0, spread / 2)),
            sampled=sampled,
            reference=-source.uniform(0.05, 4),
            entropy=source.uniform(0, 3),
        )

    return [
        Answer(
            group=group,
            advantage=source.gauss(0, 1),
            prompt_tokens=source.randint(1, 3),
            tokens=tuple(token() for _ in range(source.randint(1, 9))),
        )
        for group in range(3)
        for _ in range(source.randint(2, 4))
    ]


def packed(batch: Sequence[Answer], everything: Sequence[Answer], aggregate: Aggregate) -> TokenBatch:
    """Pack some completions of a global batch into one micro-batch, in float64; prompts hold nonsense."""

    def row(value: Callable[[Token], float], blank: float) -> Tensor:
        flat = [
            number
            for one in batch
            for number in [*[blank] * one.prompt_tokens, *(value(token) for token in one.tokens)]
        ]
        return torch.tensor(flat, dtype=torch.float64)

    lengths = [one.prompt_tokens + len(one.tokens) for one in batch]
    mask = row(lambda _: 1.0, 0.0).bool()
    indices = [list(everything).index(one) for one in batch]
    weights = token_weights(
        np.repeat(np.array(indices, np.int32), lengths),
        np.array([len(one.tokens) for one in everything]),
        np.array([one.group for one in everything], np.int32),
        aggregate=aggregate,
        constant_length=CONSTANT_LENGTH,
    )
    return TokenBatch(
        logprobs_T=row(lambda token: token.now, 0.0).requires_grad_(),
        entropy_T=row(lambda token: token.entropy, 0.0).requires_grad_(),
        sampled_logprobs_T=row(lambda token: token.sampled, math.nan),
        advantages_T=torch.cat(
            [
                torch.full((n,), one.advantage, dtype=torch.float64)
                for one, n in zip(batch, lengths, strict=True)
            ]
        ),
        loss_mask_T=mask,
        lags_T=torch.zeros(len(mask), dtype=torch.int32),
        position_ids_T=torch.cat([torch.arange(n) for n in lengths]),
        num_tokens=sum(len(one.tokens) for one in everything),
        weights_T=None if weights is None else torch.tensor(weights),
        start_logprobs_T=row(lambda token: token.start, math.inf),
        reference_logprobs_T=row(lambda token: token.reference, math.nan),
    )


def padded(batch: list[Answer], value: Callable[[Token], float]) -> Tensor:
    """Return [B, T] in float64, with zeros behind shorter completions."""
    rows = [torch.tensor([value(token) for token in one.tokens], dtype=torch.float64) for one in batch]
    return pad_sequence(rows, batch_first=True)
