"""Open the chat of a policy, which decodes token ids and knows which tokens end a completion.

In: the run. Out: its policy's chat, which the worker uses to decode text for scorers and people; prompts arrive as ids,
so nothing here tokenizes. A tokenizer that can't be loaded ends the generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.messages import FinishReason
from config.generators import ScriptedEngineConfig
from config.run import Run
from generators.engines.scripted import ScriptedChat
from tasks.model_chat import load_chat


class Chat(Protocol):
    """Decodes the tokens of a policy."""

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Return the tokens that end a completion."""
        ...

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Decode one completion of the prompt."""
        ...


def open_chat(run: Run, *, is_offline: bool = False) -> Chat:
    """Open the chat of a run's policy. Raises as `load_chat` does."""
    if isinstance(run.generators.engine, ScriptedEngineConfig):
        return ScriptedChat()
    return load_chat(run.model, is_offline=is_offline)
