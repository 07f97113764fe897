"""The seam between a generator's worker and its engine: one Protocol, which each implementation satisfies.

In: token ids, and how many samples of which kind are wanted behind them. Out: the samples, in tokens; chat and text
stay outside. The worker (generators.worker) calls `generate` from as many asyncio tasks as it has requests in flight,
and `load_weights` from one more. An engine decides itself how to batch requests and when new weights are safe to load.
A version is recorded with every token, so nobody has to guess which weights sampled the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from broker.messages import FinishReason, Span

NO_VERSION = -1  # an engine that has not been given weights yet


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are sampled."""

    max_tokens: int  # most of one sample
    stop_token_ids: frozenset[int]  # each ends a sample, and belongs to it
    temperature: float  # of the softmax; 0: the likeliest token each time
    top_p: float  # nucleus, in (0, 1]
    seed: int  # for an engine that can use it

    @property
    def is_greedy(self) -> bool:
        """Whether each token is the likeliest one, so that all samples are alike."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Tokens that an engine sampled in one go."""

    token_ids: NDArray[np.int32]  # [T], T >= 1, the stop token included
    logprobs: NDArray[np.float32]  # [T], nats, as `broker.messages.Segment` says
    spans: tuple[Span, ...]  # in order, covering all T
    finish_reason: FinishReason  # STOP: a stop token ended it


class Engine(Protocol):
    """An engine samples tokens. All its methods run on one event loop."""

    @property
    def version(self) -> int:
        """Policy version that the next token will be sampled with; NO_VERSION before the first `load_weights`."""
        ...

    @property
    def room(self) -> int:
        """Groups that the engine has use for at once; known when `start` has returned."""
        ...

    @property
    def counts(self) -> dict[str, int]:
        """What the engine has counted by itself so far, by the names of `broker.monitoring.work_meter`."""
        ...

    async def start(self) -> None:
        """Load the architecture, and no weights. Raises RunFailed with what a person can do about it."""
        ...

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Sample n times behind `token_ids`, which are read once.

        Raises:
            BadMessage: the engine can't sample behind these ids.
            Retryable: the engine ended the request for a reason of its own.
        """
        ...

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights by those of one or several safetensors; returns when the next token uses them."""
        ...

    async def close(self) -> None:
        """Free the accelerator's memory and end every child."""
        ...
