"""Build the configured training backend."""

from __future__ import annotations

from typing import assert_never

from config.custom import build
from config.learner.training import CustomBackendConfig, DeepSpeedConfig
from config.run import Run
from learner.training.backend import TrainingBackend


def build_backend(run: Run, *, rank: int, world_size: int) -> TrainingBackend:
    """Load the model into the backend of `learner.backend`; a collective.

    Raises:
        RunFailed: settings that can't work here; the message names them.
        CustomClassError: a custom class can't be imported or built.
    """
    match run.learner.backend:
        case DeepSpeedConfig():
            from learner.training.engines.deepspeed import DeepSpeedBackend

            return DeepSpeedBackend(run, rank=rank, world_size=world_size)
        case CustomBackendConfig() as section:
            backend: TrainingBackend = build(section, run=run, rank=rank, world_size=world_size)
            return backend
        case _:
            assert_never(run.learner.backend)
