"""The seam between a generator's worker and what samples: one Protocol, one file per implementation.

In: a `Prompt`. Out: its completions. The worker (generators.worker) calls `sample` from as many asyncio tasks as it has
groups in flight, and `load_weights` from one more; an engine decides itself how to batch the first and when it is safe
to do the second. A version is recorded with every token, so nobody has to guess which weights sampled it.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Protocol, assert_never

from broker.errors import RunFailed
from broker.messages import Completion, Prompt
from config.generators import HfEngineConfig, ScriptedEngineConfig, VllmEngineConfig
from config.places import lacks_model
from config.run import Run

NO_VERSION = -1  # an engine that has not been given weights yet


class Engine(Protocol):
    """What samples. All methods run on one event loop."""

    @property
    def version(self) -> int:
        """Policy version that the next token will be sampled with; NO_VERSION before the first `load_weights`."""
        ...

    async def start(self) -> None:
        """Load the model's architecture and tokenizer. Raises what a person can act on if that can't be done."""
        ...

    async def sample(self, prompt: Prompt) -> tuple[Completion, ...]:
        """Sample `prompt.n` completions of `prompt.token_ids`; log-probabilities are of the sampled distribution."""
        ...

    async def load_weights(self, file: Path, version: int) -> None:
        """Replace the weights by those of the safetensors `file`; returns when the next token uses them."""
        ...

    async def close(self) -> None:
        """Free the accelerator's memory and end every child."""
        ...


def build_engine(run: Run) -> Engine:
    """The engine that the run's config names; its library is imported here and nowhere else.

    Raises:
        RunFailed: the model is a folder that this machine does not have.
    """
    config = run.generators.engine
    if lacks_model(run.model) and not isinstance(config, ScriptedEngineConfig):
        what = (
            "its config, tokenizer and weights"
            if isinstance(config, VllmEngineConfig)
            else "its config and tokenizer"
        )
        raise RunFailed(
            f"model.path={run.model.path}: there is no folder {Path(run.model.path).absolute()} on "
            f"{socket.gethostname()}. A generator reads {what} there: copy the folder from the learner's "
            "machine, or start where that path leads to one"
        )
    match config:
        case HfEngineConfig():
            from generators.engines.hf.engine import HfEngine

            return HfEngine(run, config)
        case VllmEngineConfig():
            from generators.engines.vllm.engine import VllmEngine

            return VllmEngine(run, config)
        case ScriptedEngineConfig():
            from generators.engines.scripted import ScriptedEngine

            return ScriptedEngine(run, config)
        case _:
            assert_never(config)
