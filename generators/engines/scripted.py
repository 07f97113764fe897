"""The scripted engine gives out the texts of its configuration, for tests of the wire: no model, no torch.

In: a prompt. Out: the answers of the config in turn, every field valid, with UTF-8 bytes as token ids. Runs in the
generator's event loop; nothing in it can fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from broker.messages import Completion, FinishReason, Prompt, Span
from config.generators import ScriptedEngineConfig
from config.run import Run
from generators.engine import NO_VERSION

ROOM = 16  # groups at once, where the run names no number
STOP_ID = 0  # NUL ends a completion: no text contains it


class ScriptedEngine:
    """An `Engine` that answers with a list of texts."""

    def __init__(self, run: Run, config: ScriptedEngineConfig) -> None:
        del run  # the seam's signature; a script needs no model
        self._config = config
        self._version = NO_VERSION

    @property
    def version(self) -> int:
        """Policy version recorded with the next tokens."""
        return self._version

    @property
    def room(self) -> int:
        """Groups at once; a script has no limit of its own."""
        return ROOM

    async def start(self) -> None:
        """Load nothing."""

    async def sample(self, prompt: Prompt) -> tuple[Completion, ...]:
        """Return the scripted answers after `seconds_per_group`, under the version held when sampling began."""
        version = self._version
        if version == NO_VERSION:
            raise RuntimeError("sample() before load_weights(): no weights have been loaded")
        await asyncio.sleep(self._config.seconds_per_group)
        rng = np.random.default_rng(prompt.seed)
        answers = self._config.answers
        return tuple(
            self._completion(answers[i % len(answers)], prompt, version, rng) for i in range(prompt.n)
        )

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Record the version; the files are not read."""
        del files
        self._version = version

    async def close(self) -> None:
        """Free nothing."""

    @staticmethod
    def _completion(answer: str, prompt: Prompt, version: int, rng: np.random.Generator) -> Completion:
        script = [*answer.encode(), STOP_ID]
        token_ids = script[: prompt.max_tokens]
        reason = FinishReason.STOP if len(token_ids) == len(script) else FinishReason.LENGTH
        return Completion.of_one_segment(
            token_ids=np.array(token_ids, dtype=np.int32),
            logprobs=-rng.exponential(size=len(token_ids)).astype(np.float32),
            policy_spans=(Span(version=version, first=0, count=len(token_ids)),),
            finish_reason=reason,
            text=text_of(token_ids, reason),
        )


def text_of(token_ids: Sequence[int], finish_reason: FinishReason) -> str:
    """Return the text of a completion of these bytes, without the NUL that ended the completion."""
    return bytes(token_ids[:-1] if finish_reason is FinishReason.STOP else token_ids).decode(errors="replace")
