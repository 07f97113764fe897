"""This module shares out GPUs that did both jobs in verl: one part generates here, and the other one trains.

In: verl's `trainer.n_gpus_per_node`, `trainer.nnodes` and `rollout.tensor_model_parallel_size`. Out: a `Split`. Pure;
used by the rules of those keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.imports.theirs import UNKNOWN, Theirs

GPUS, NODES, WIDTH = (
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Who has which GPUs."""

    generator_gpus: tuple[int, ...]  # () where they are counted on several machines, or not known
    learner_gpus: tuple[int, ...]
    ranks: int
    generators: int
    tensor_parallel: int
    words: str


def split(theirs: Theirs) -> Split:
    """Share the GPUs out. Raises WrongValue."""
    wanted = max(1, theirs.whole(WIDTH))
    counts = (theirs.get(GPUS), theirs.get(NODES))
    if any(count is None or (isinstance(count, str) and UNKNOWN in count) for count in counts):
        return Split(
            generator_gpus=(),
            learner_gpus=(),
            ranks=1,
            generators=1,
            tensor_parallel=wanted,
            words="how many there are is not known before the script runs: set learner.ranks, learner.gpus, "
            "generators.count and generators.gpus",
        )
    per_node, nodes = theirs.whole(GPUS), max(1, theirs.whole(NODES))
    if per_node * nodes <= 1:
        return Split(
            generator_gpus=(0,),
            learner_gpus=(0,),
            ranks=1,
            generators=1,
            tensor_parallel=1,
            words="one GPU for both, as it was: `millrace doctor` says whether they fit beside each other",
        )
    half = per_node * nodes // 2
    width = next(w for w in range(min(wanted, half), 0, -1) if half % w == 0)
    narrower = "" if width == wanted else f"; {wanted} GPUs a generator become {width}"
    if nodes > 1:
        return Split(
            generator_gpus=(),
            learner_gpus=(),
            ranks=per_node * nodes - half,
            generators=max(1, half // width),
            tensor_parallel=width,
            words=f"of {per_node * nodes} GPUs on {nodes} machines, {half} generate and the others train: "
            f"docs/fleet.md has how they are started{narrower}",
        )
    return Split(
        generator_gpus=tuple(range(half)),
        learner_gpus=tuple(range(half, per_node)),
        ranks=per_node - half,
        generators=half // width,
        tensor_parallel=width,
        words=f"of {per_node} GPUs, {half} generate and {per_node - half} train, at the same time{narrower}",
    )
