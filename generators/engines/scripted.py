"""Return the texts of the configuration as samples, for tests without model and torch.

Out: the configured answers in turn, every field valid, with UTF-8 bytes as token ids. Runs in the generator's event
loop; it can't fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broker.messages import FinishReason, Span
from config.generators import ScriptedEngineConfig
from config.run import Run
from generators.engine import NO_VERSION, Sample, SamplingParams

ROOM = 16  # groups at once, where the run sets no number
STOP_ID = 0  # NUL ends a completion: no text contains it


class ScriptedEngine:
    """An `Engine` that answers with a list of texts."""

    def __init__(self, run: Run, config: ScriptedEngineConfig) -> None:
        del run  # required by the seam; a script needs no model
        self._config = config
        self._version = NO_VERSION

    @property
    def version(self) -> int:
        """Policy version recorded with the next tokens."""
        return self._version

    @property
    def room(self) -> int:
        """Groups at once; a script has no limit itself."""
        return ROOM

    @property
    def counts(self) -> dict[str, int]:
        """Nothing: a script reads no prompt."""
        return {}

    async def start(self) -> None:
        """Load nothing."""

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Return the scripted answers after `seconds_per_group`, under the version held when sampling began."""
        del token_ids  # a script ignores the prompt
        version = self._version
        if version == NO_VERSION:
            raise RuntimeError("generate() before load_weights(): no weights have been loaded")
        await asyncio.sleep(self._config.seconds_per_group)
        rng = np.random.default_rng(params.seed)
        answers = self._config.answers
        places = range(n) if self._config.by == "place" else rng.integers(len(answers), size=n)
        return tuple(self._sample(answers[i % len(answers)], params.max_tokens, version, rng) for i in places)

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Record the version; the files are not read."""
        del files
        self._version = version

    async def close(self) -> None:
        """Free nothing."""

    @staticmethod
    def _sample(answer: str, max_tokens: int, version: int, rng: np.random.Generator) -> Sample:
        script = [*answer.encode(), STOP_ID]
        token_ids = script[:max_tokens]
        reason = FinishReason.STOP if len(token_ids) == len(script) else FinishReason.LENGTH
        return Sample(
            token_ids=np.array(token_ids, dtype=np.int32),
            logprobs=-rng.exponential(size=len(token_ids)).astype(np.float32),
            spans=(Span(version=version, first=0, count=len(token_ids)),),
            finish_reason=reason,
        )


class ScriptedChat:
    """A `Chat` with bytes as token ids."""

    stop_token_ids = frozenset({STOP_ID})

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Return the text of these bytes, without the NUL that ended the completion."""
        del prompt_ids
        spoken = token_ids[:-1] if finish_reason is FinishReason.STOP else token_ids
        return bytes(spoken).decode(errors="replace")
