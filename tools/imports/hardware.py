"""Divide the GPUs: as configured, else between generation and training.

In: verl's `trainer.n_gpus_per_node`, `trainer.nnodes` and `rollout.tensor_model_parallel_size`, and in runs whose
generators have their own GPUs `rollout.nnodes` and `rollout.n_gpus_per_node`. Out: a `GpuSplit`. Pure; used by the
rules of those keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tools.imports.theirs import UNKNOWN, Theirs

GPUS, NODES, WIDTH = (
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
)
# For generators alone: in verl's asynchronous runs, and in today's configuration.
APART: Final = (
    ("rollout.n_gpus_per_node", "rollout.nnodes"),
    ("actor_rollout_ref.rollout.n_gpus_per_node", "actor_rollout_ref.rollout.nnodes"),
)
SYNC_STEP, STALENESS = "async_training.trigger_parameter_sync_step", "async_training.staleness_threshold"
REQUIRED: Final = "async_training.require_batches"
_UPDATES: Final = 4  # in all of verl's asynchronous base configurations
UNTOLD: Final = (
    "how many there are is not known before the script runs: set learner.ranks, learner.gpus, generators.count and "
    "generators.gpus"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSplit:
    """The GPUs of each part."""

    generator_gpus: tuple[int, ...]  # () where they are counted over several machines, or unknown
    learner_gpus: tuple[int, ...]
    ranks: int
    generators: int
    tensor_parallel: int
    words: str


def is_async(theirs: Theirs) -> bool:
    """Return whether the trainer is verl's fully asynchronous one, whose batch consists of mini-batches."""
    return theirs.main == "fully_async_main" or any(key.startswith("async_training.") for key in theirs.said)


def updates(theirs: Theirs) -> int:
    """Return verl's optimizer steps per version of the weights: the unit of an asynchronous run."""
    if theirs.get(SYNC_STEP) is not None:
        return theirs.whole(SYNC_STEP)
    return _UPDATES if theirs.main == "fully_async_main" else 1


def split(theirs: Theirs) -> GpuSplit:
    """Divide the GPUs. Raises WrongValue."""
    wanted = max(1, theirs.whole(WIDTH))
    counts = [theirs.get(key) for key in (GPUS, NODES, *_apart(theirs))]
    if any(count is None or (isinstance(count, str) and UNKNOWN in count) for count in counts):
        return GpuSplit(
            generator_gpus=(), learner_gpus=(), ranks=1, generators=1, tensor_parallel=wanted, words=UNTOLD
        )
    per_node, nodes = theirs.whole(GPUS), max(1, theirs.whole(NODES))
    if keys := _apart(theirs):
        return _as_said(theirs.whole(keys[0]), theirs.whole(keys[1]), per_node, nodes, wanted)
    if per_node * nodes <= 1:
        return GpuSplit(
            generator_gpus=(0,),
            learner_gpus=(0,),
            ranks=1,
            generators=1,
            tensor_parallel=1,
            words="one GPU for both, as it was: `millrace doctor` says whether they fit beside each other",
        )
    half = per_node * nodes // 2
    width = _width(wanted, half)
    narrower = "" if width == wanted else f"; {wanted} GPUs a generator become {width}"
    if nodes > 1:
        return GpuSplit(
            generator_gpus=(),
            learner_gpus=(),
            ranks=per_node * nodes - half,
            generators=max(1, half // width),
            tensor_parallel=width,
            words=f"of {per_node * nodes} GPUs on {nodes} machines, {half} generate and the others train: "
            f"docs/clusters.md has how they are started{narrower}",
        )
    return GpuSplit(
        generator_gpus=tuple(range(half)),
        learner_gpus=tuple(range(half, per_node)),
        ranks=per_node - half,
        generators=half // width,
        tensor_parallel=width,
        words=f"of {per_node} GPUs, {half} generate and {per_node - half} train, at the same time{narrower}",
    )


def _apart(theirs: Theirs) -> tuple[str, str] | tuple[()]:
    """Return the keys of the generators' own GPUs; () where they share the learner's, whose nodes are 0 then."""
    for gpus, nodes in APART:
        if theirs.get(gpus) is not None and str(theirs.get(nodes)) not in ("None", "0", "0.0"):
            return (gpus, nodes)
    return ()


def _as_said(rollout_gpus: int, rollout_nodes: int, gpus: int, nodes: int, wanted: int) -> GpuSplit:
    """Use a configured division."""
    generate, train = rollout_gpus * max(1, rollout_nodes), gpus * nodes
    width = _width(wanted, generate)
    here = rollout_nodes <= 1 and nodes == 1 and generate + train <= 16
    return GpuSplit(
        generator_gpus=tuple(range(generate)) if here else (),
        learner_gpus=tuple(range(generate, generate + train)) if here else (),
        ranks=train,
        generators=max(1, generate // width),
        tensor_parallel=width,
        words=f"{generate} GPUs generate and {train} train, as it is written"
        + ("" if width == wanted else f"; {wanted} GPUs a generator become {width}"),
    )


def _width(wanted: int, gpus: int) -> int:
    return next(w for w in range(max(1, min(wanted, gpus)), 0, -1) if gpus % w == 0)
