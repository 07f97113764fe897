"""Build the configured engine, importing its library only then.

In: a `Run`. Out: a `generators.engine.Engine`, not yet started. `python -m generators` calls it after joining a run.
"""

from __future__ import annotations

import socket
from importlib import import_module
from pathlib import Path
from typing import assert_never

from broker.errors import RunFailed
from config.generators import HfEngineConfig, ScriptedEngineConfig, VllmEngineConfig
from config.places import lacks_model
from config.run import Run
from generators.engine import Engine


def import_engine(run: Run) -> None:
    """Import the library of the run's engine, which takes seconds, while the learner loads its model."""
    match run.generators.engine:
        case HfEngineConfig():
            import_module("generators.engines.hf.sampling")
            import_module("transformers.models.auto.modeling_auto")
        case VllmEngineConfig() as config:
            from generators.engines.vllm.engine import import_vllm

            import_vllm(config)
            import_module("vllm.v1.engine.async_llm")
        case ScriptedEngineConfig():
            pass


def build_engine(run: Run) -> Engine:
    """Build the run's configured engine.

    Raises:
        RunFailed: the model is a folder that does not exist on this machine.
    """
    config = run.generators.engine
    if lacks_model(run.model) and not isinstance(config, ScriptedEngineConfig):
        merges = run.learner.lora is not None and run.learner.lora.publish == "adapter"
        loads = isinstance(config, VllmEngineConfig) and config.load_format != "dummy"
        what = "config, tokenizer and weights" if merges or loads else "config and tokenizer"
        raise RunFailed(
            f"model.path={run.model.path}: there is no folder {Path(run.model.path).absolute()} on "
            f"{socket.gethostname()}. A generator reads its {what} there: copy the folder from the learner's "
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
