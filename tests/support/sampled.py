"""A prompt answered by an engine that a test has started, as a generator does it."""

from __future__ import annotations

from functools import cache
from typing import Any

from broker.messages import Completion, Prompt
from config.run import ModelConfig
from generators.answers import answer
from generators.chat import Chat
from tasks.model_chat import load_chat


@cache
def _chat(model: str) -> Chat:
    return load_chat(ModelConfig.model_validate_json(model))


async def sample(engine: Any, prompt: Prompt) -> tuple[Completion, ...]:
    """Sample the completions of `prompt` with the engine's own model and chat."""
    return await answer(prompt, engine, _chat(engine._run.model.model_dump_json()))
