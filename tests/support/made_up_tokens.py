"""Completions with everything that a loss may ask of a token, as lists of tokens and packed as the learner has them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from config.learner.objective import Aggregate
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
    """One completion, each of its segments behind a prompt, some of its tokens behind some that nobody sampled."""

    group: int
    advantage: float
    prompt_tokens: int
    tokens: tuple[Token, ...]  # that were sampled
    begins: tuple[int, ...] = (0,)  # the place among them at which each segment begins
    read: tuple[int, ...] = ()  # places before which stand two tokens of a tool

    def segment_of(self, place: int) -> tuple[Token, ...]:
        """Return the sampled tokens of the segment that a token is in."""
        begin = max(begin for begin in self.begins if begin <= place)
        end = min((begin for begin in self.begins if begin > place), default=len(self.tokens))
        return self.tokens[begin:end]


def made_up(seed: int, *, spread: float = 0.8, talks: bool = False) -> list[Answer]:
    """Return completions of three groups, with ratios on both sides of every clip.

    Args:
        talks: of up to three segments, with the tokens of tools between.
    """
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

    def answer(group: int) -> Answer:
        one = Answer(
            group=group,
            advantage=source.gauss(0, 1),
            prompt_tokens=source.randint(1, 3),
            tokens=tuple(token() for _ in range(source.randint(1, 9))),
        )
        if not talks:
            return one
        places = range(1, len(one.tokens))
        begins = sorted(source.sample(places, min(len(places), source.randint(0, 2))))
        read = sorted(source.sample(places, min(len(places), source.randint(0, 3))))
        return replace(one, begins=(0, *begins), read=tuple(read))

    return [answer(group) for group in range(3) for _ in range(source.randint(2, 4))]


def laid_out(one: Answer) -> tuple[list[Token | None], list[int]]:
    """Return a completion's tokens as they are packed, None where nobody sampled, and their places in a sequence."""
    cells: list[Token | None] = []
    positions: list[int] = []
    for place, token in enumerate(one.tokens):
        begins = place in one.begins
        new = [*[None] * (one.prompt_tokens * begins), *[None, None] * (place in one.read), token]
        first = 0 if begins else positions[-1] + 1
        cells += new
        positions += range(first, first + len(new))
    return cells, positions


def packed(batch: Sequence[Answer], everything: Sequence[Answer], aggregate: Aggregate) -> TokenBatch:
    """Pack some completions of a global batch into one micro-batch, in float64; what nobody sampled holds nonsense."""
    laid = [laid_out(one) for one in batch]

    def row(value: Callable[[Token], float], blank: float) -> Tensor:
        flat = [blank if cell is None else value(cell) for cells, _ in laid for cell in cells]
        return torch.tensor(flat, dtype=torch.float64)

    lengths = [len(cells) for cells, _ in laid]
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
        position_ids_T=torch.tensor([position for _, positions in laid for position in positions]),
        num_tokens=sum(len(one.tokens) for one in everything),
        weights_T=None if weights is None else torch.tensor(weights),
        start_logprobs_T=row(lambda token: token.start, math.inf),
        reference_logprobs_T=row(lambda token: token.reference, math.nan),
    )


def padded(batch: list[Answer], value: Callable[[Token], float]) -> Tensor:
    """Return [B, T] in float64, with zeros behind shorter completions."""
    rows = [torch.tensor([value(token) for token in one.tokens], dtype=torch.float64) for one in batch]
    return pad_sequence(rows, batch_first=True)
