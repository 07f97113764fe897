"""Estimate a run's needs of disk, memory and Redis from its configuration alone.

In: a run, and its model's number of parameters. Out: bytes. Every answer is assumed to have `sampling.max_tokens`
tokens, which most will not reach: sums over tokens are upper bounds. Used by the doctor (`tools.doctor.machine`,
`tools.doctor.redis`) and by `millrace plan`, which present them as estimates.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.protocol.run_reader import TURNS_SHARE
from config.run import ModelConfig, Run
from learner.data.held_out_rounds import held_out_rounds
from learner.weight_sync.version_folder import KEEP

MIB = 1 << 20
TOKEN_BYTES = 8  # in journal and wire: an id and a log-probability
TEXT_BYTES = 4  # on the wire in addition: a token's text
BYTES_OF = {"float32": 4, "bfloat16": 2, "float16": 2}
OPTIMIZER_BYTES = 12  # per parameter, in float32: the master weight and AdamW's two moments
TRAINING_BYTES = 8  # in addition to the optimizer: gradients, and their sums
HEADER = struct.Struct("<Q")  # of a safetensors file: the length of its header
NO_ADAPTER = re.compile(r"embed|lm_head|wte|wpe")  # in the names of matrices that `all-linear` excludes
BILLIONS = re.compile(r"(\d+(?:\.\d+)?)[bB](?![a-zA-Z])")  # in a model's name: Qwen2.5-0.5B


@dataclass(frozen=True, slots=True)
class Size:
    """A model's number of parameters, and its source."""

    parameters: int
    source: str  # of the number
    matrix_edges: int = 0  # rows and columns of all matrices except embeddings and head; 0: unknown


def bytes_in_flight(run: Run) -> float:
    """Return the most that a full budget of groups takes in Redis; for episodes with the records of their turns."""
    answers = run.sampling.group_size * run.sampling.max_tokens
    group = (answers + run.data.max_prompt_tokens) * (TOKEN_BYTES + TEXT_BYTES)
    return run.most_in_flight * group * (TURNS_SHARE if run.has_agents else 1)


def evaluation_bytes(run: Run) -> float:
    """Return the most that a round of all held-out sets takes in Redis in addition; 0 where no set has rounds."""
    tokens = sum(
        rounds.prompts * (rounds.samples * rounds.max_tokens + rounds.max_prompt_tokens)
        for rounds in held_out_rounds(run)
        if rounds.every
    )
    return float(tokens * (TOKEN_BYTES + TEXT_BYTES))


def journal_bytes(run: Run) -> float:
    """Return the most that the journal's payloads take: bytes per token x tokens per step x kept steps."""
    learner = run.learner
    answers = run.sampling.group_size * run.sampling.max_tokens
    step = learner.groups_per_step * (answers + run.data.max_prompt_tokens) * TOKEN_BYTES
    covering = learner.checkpoint.every * (learner.checkpoint.keep + 1)  # as many steps as recovery needs
    needed = min(learner.steps, covering or learner.steps)
    steps = needed if learner.journal.keep == "since_checkpoint" else learner.steps
    if learner.journal.keep_mb is not None:
        steps = max(needed, min(steps, math.ceil(learner.journal.keep_mb * MIB / step)))
    return float(step * steps)


def weights_bytes(run: Run, parameters: int) -> int:
    """Return the size of the versions that generators may still load, and of the one being written."""
    return parameters * BYTES_OF[run.model.dtype] * (KEEP + 1)


def checkpoints_bytes(run: Run, size: Size) -> int:
    """Return the size of the kept checkpoints, of the one being written, and of the trained model at the end."""
    one = size.parameters * BYTES_OF[run.model.dtype] + trained_parameters(run, size) * OPTIMIZER_BYTES
    return one * (run.learner.checkpoint.keep + 1) + size.parameters * BYTES_OF[run.model.dtype]


def training_bytes(run: Run, size: Size) -> int:
    """Return the learner's memory for the model, summed over ranks, without activations."""
    beside = OPTIMIZER_BYTES + TRAINING_BYTES
    return size.parameters * BYTES_OF[run.model.dtype] + trained_parameters(run, size) * beside


def trained_parameters(run: Run, size: Size) -> int:
    """Return the number of trained parameters: all, or the adapters', about a hundredth where no file has it."""
    if run.learner.lora is None:
        return size.parameters
    return run.learner.lora.rank * size.matrix_edges or size.parameters // 100


def reference_bytes(run: Run, parameters: int) -> int:
    """Return the memory of the KL term's reference model, summed over ranks; 0 where none is loaded.

    Args:
        run: the resolved run.
        parameters: of the policy; a reference of another size is looked up.
    """
    kl = run.learner.objective.kl
    if not kl.coef or (
        run.learner.lora is not None and kl.reference is None
    ):  # then the policy without its adapter
        return 0
    found = None if kl.reference is None else size_of(run.model.model_copy(update={"path": kl.reference}))
    copies = 1 if run.learner.zero.stage == 3 else run.learner.ranks
    return (parameters if found is None else found.parameters) * BYTES_OF[run.model.dtype] * copies


def sampling_bytes(run: Run, parameters: int) -> int:
    """Return the memory of all generators for their weights, without the KV cache."""
    return parameters * BYTES_OF[run.model.dtype] * run.generators.count


def judge_weights_bytes(run: Run) -> int:
    """Return the weights' size of the judge that the run serves; 0 where there is none, or its size is unknown.

    It is served in the type of its own files, assumed to have 16 bits, like most models.
    """
    serve = run.judge.serve
    size = None if serve is None else size_of(run.model.model_copy(update={"path": serve.model}))
    return 0 if size is None else size.parameters * BYTES_OF["bfloat16"]


def size_of(model: ModelConfig) -> Size | None:
    """Find the size of the model: from its files, in a folder or the hub's cache, else from its name."""
    for folder in (Path(model.path), *cached(model.path)):
        shapes = [shape for file in sorted(folder.glob("*.safetensors")) for shape in _shapes_in(file)]
        if counted := sum(math.prod(shape) for _, shape in shapes):
            edges = sum(
                sum(shape) for name, shape in shapes if len(shape) == 2 and not NO_ADAPTER.search(name)
            )
            return Size(counted, f"as {folder} has them", edges)
    if found := BILLIONS.search(Path(model.path).name):
        return Size(int(float(found[1]) * 1e9), f"by the name {Path(model.path).name}")
    return None


def cached(name: str) -> Iterator[Path]:
    """Yield the snapshots of a hub's model on this machine, the newest first."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    snapshots = (hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*")
    yield from sorted(snapshots, key=lambda path: path.stat().st_mtime, reverse=True)


def _shapes_in(file: Path) -> list[tuple[str, list[int]]]:
    """Read the names and shapes of all tensors from the header of a safetensors file; none of other files."""
    try:
        with file.open("rb") as stream:
            (length,) = HEADER.unpack(stream.read(HEADER.size))
            described = json.loads(stream.read(min(length, 100 * MIB)))
        return [(name, list(tensor["shape"])) for name, tensor in described.items() if name != "__metadata__"]
    except (OSError, ValueError, RecursionError, struct.error, KeyError, TypeError, AttributeError):
        return []
