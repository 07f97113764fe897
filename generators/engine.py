"""Define the seam between a generator's worker and its engine: one Protocol for all engines.

In: token ids, and the number and parameters of samples after them. Out: the samples, in tokens; chat and text stay
outside. The worker (generators.worker) calls `generate` from as many asyncio tasks as it has requests in flight, and
`load_weights` from one more. The engine itself decides how to batch requests and when to load new weights. A version is
recorded with every token, so it is known which weights sampled it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from broker.messages import FinishReason, Span

NO_VERSION = -1  # an engine without weights yet


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are sampled."""

    max_tokens: int  # longest sample
    stop_token_ids: frozenset[int]  # each ends a sample, and is included
    temperature: float  # of the softmax; 0: the likeliest token each time
    top_p: float  # nucleus, in (0, 1]
    seed: int  # for engines that can use it

    @property
    def is_greedy(self) -> bool:
        """Whether each token is the likeliest one, so that all samples are equal."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Contiguous tokens sampled by an engine."""

    token_ids: NDArray[np.int32]  # [T], T >= 1, the stop token included
    logprobs: NDArray[np.float32]  # [T], nats, as `broker.messages.Segment` says
    spans: tuple[Span, ...]  # in order, covering all T
    finish_reason: FinishReason  # STOP: a stop token ended it


class Engine(Protocol):
    """Sample tokens. All methods run on one event loop."""

    @property
    def version(self) -> int:
        """Policy version of the next token; NO_VERSION before the first `load_weights`."""
        ...

    @property
    def room(self) -> int:
        """Groups that the engine can use at once; known after `start`."""
        ...

    @property
    def counts(self) -> dict[str, int]:
        """Counts of the engine itself so far, by the names of `broker.monitoring.work_meter`."""
        ...

    async def start(self) -> None:
        """Load the architecture, without weights. Raises RunFailed with what a person can do about it."""
        ...

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Sample n times after `token_ids`, which are prefilled once.

        Raises:
            BadMessage: the engine can't sample after these ids.
            Retryable: the engine ended the request itself.
        """
        ...

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights by those of one or several safetensors; returns when the next token uses them."""
        ...

    async def close(self) -> None:
        """Free the accelerator's memory and end all child processes."""
        ...
