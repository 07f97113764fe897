"""Say what the roles of a run import, for the process that is forked for them (`broker.fork_server`).

In: a run. Out: modules; none for a role that starts from nothing. `millrace up` has them imported as soon as it has
read its configuration, so this module itself imports nothing heavy.
"""

from __future__ import annotations

from broker.fork_server.client import ForkServer
from config.generators import HfEngineConfig
from config.gpus import sees_gpu
from config.run import Run

TORCH = (
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.modeling_utils",
)
OF_LEARNER = (*TORCH, "learner.session", "learner.training.deepspeed", "learner.training.build")
OF_GENERATOR = (*TORCH, "generators.worker", "generators.engines.hf.engine", "generators.engines.hf.sampling")


def imports_of_learner(run: Run) -> tuple[str, ...]:
    """Return the learner's modules: none where it has ranks, which start themselves, or sees a GPU.

    Settings of torch for a GPU are each role's own, and are read when torch is imported.
    """
    return OF_LEARNER if run.learner.ranks == 1 and not sees_gpu() else ()


def imports_of_generator(run: Run) -> tuple[str, ...]:
    """Return the modules of a generator of engine `hf`. vLLM starts processes of its own."""
    return OF_GENERATOR if isinstance(run.generators.engine, HfEngineConfig) and not sees_gpu() else ()


def fork_server_of(run: Run) -> ForkServer:
    """Start the process that imports all of it."""
    return ForkServer([*dict.fromkeys((*imports_of_learner(run), *imports_of_generator(run)))])
