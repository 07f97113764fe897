"""This module opens what turns a completion's token ids into text, and knows which tokens end a completion.

In: the run. Out: its policy's chat, which the worker asks for text for scorers and people, in the generator's process;
prompts arrive as ids, so nothing here tokenizes. A tokenizer that can't be loaded stops the generator.
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
    """A chat knows what the tokens of a policy say."""

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
