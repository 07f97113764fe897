"""The seam between a generator's worker and its engine: one Protocol, which each implementation satisfies.

In: a `Prompt`. Out: its completions. The worker (generators.worker) calls `sample` from as many asyncio tasks as it has
groups in flight, and `load_weights` from one more. An engine decides itself how to batch samples and when new weights
are safe to load. A version is recorded with every token, so nobody has to guess which weights sampled the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from broker.messages import Completion, Prompt

NO_VERSION = -1  # an engine that has not been given weights yet


class Engine(Protocol):
    """An engine samples completions. All its methods run on one event loop."""

    @property
    def version(self) -> int:
        """Policy version that the next token will be sampled with; NO_VERSION before the first `load_weights`."""
        ...

    @property
    def room(self) -> int:
        """Groups that the engine has use for at once; known when `start` has returned."""
        ...

    async def start(self) -> None:
        """Load architecture and tokenizer, and no weights. Raises RunFailed with what a person can do about it."""
        ...

    async def sample(self, prompt: Prompt) -> tuple[Completion, ...]:
        """Sample `prompt.n` completions of `prompt.token_ids`.

        Their log-probabilities are as `broker.messages.Segment` says.
        """
        ...

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights by those of one or several safetensors; returns when the next token uses them."""
        ...

    async def close(self) -> None:
        """Free the accelerator's memory and end every child."""
        ...
