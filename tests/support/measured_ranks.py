"""Peaks of memory that were measured in steps on CPU ranks, with the GPU's types and DeepSpeed's own buffers.

`python -m tests.support.measured_ranks MODEL STAGE TOKENS FILE`, alone or as one of the ranks, takes two steps of a
model of 31 million parameters on the CPU. Rank 0 writes the peak of the second step's passes in bytes: the tensors that
were alive before it, and the largest sum of what was allocated and freed since. The optimizer's step is left out: on a
GPU it is fused, and makes no copies.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.run import Run
from tests.tools.conftest import MakeRun
from tools.estimates.learner import BUCKET
from tools.estimates.model import DecoderShape

if TYPE_CHECKING:
    from learner.training.engines.deepspeed import DeepSpeedBackend

SHAPE = DecoderShape(
    parameters=31_009_792,
    hidden=512,
    layers=6,
    intermediate=2048,
    vocabulary=16_000,
    heads=8,
    key_value_heads=4,
    head_width=64,
    source="made here",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A step that was measured, on two CPU cores with torch 2.13 and DeepSpeed 0.19.8."""

    stage: int
    ranks: int
    tokens: int

    per_parameter: float  # bytes of the peak

    @property
    def peak_bytes(self) -> float:
        return self.per_parameter * SHAPE.parameters

    def __str__(self) -> str:
        return f"zero-{self.stage} of {self.ranks}, {self.tokens} tokens"


MEASURED = (
    Measured(stage=1, ranks=1, tokens=32, per_parameter=22.19),
    Measured(stage=1, ranks=1, tokens=1024, per_parameter=32.0),
    Measured(stage=1, ranks=2, tokens=32, per_parameter=16.19),
    Measured(stage=2, ranks=2, tokens=32, per_parameter=45.3),
    Measured(stage=3, ranks=2, tokens=32, per_parameter=45.83),
)


def run_of(make_run: MakeRun, measured: Measured) -> Run:
    return make_run(
        model={"path": "t", "dtype": "bfloat16"},
        data={"train": {"type": "procedural"}, "max_prompt_tokens": 1},
        sampling={"max_tokens": 1},
        learner={"ranks": measured.ranks, "zero": {"stage": measured.stage}, "gradient_checkpointing": True}
        | {"tokens_per_micro_batch": measured.tokens},
    )


def without_bucket(count: float, stage: int) -> float:
    """Take off the buffer of ZeRO 2 and 3, which has one size for all models and would hide the rest of a small one."""
    return count - (2 * BUCKET if stage >= 2 else 0)


def write_model(folder: Path) -> Path:
    """Write the model of `SHAPE`, with tied embeddings."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=SHAPE.vocabulary,
        hidden_size=SHAPE.hidden,
        intermediate_size=SHAPE.intermediate,
        num_hidden_layers=SHAPE.layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        dtype="float32",
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def _alive() -> int:
    """Return the bytes of all tensors that this process holds, storages counted once."""
    import torch

    gc.collect()
    storages = [each.untyped_storage() for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _passes(policy: DeepSpeedBackend, tokens: int) -> None:
    """Run two micro-batches forward and backward, up to the optimizer's step."""
    import torch

    engine: Any = policy._engine
    engine = engine._engine  # DeepSpeed's
    token_ids, places = torch.zeros(tokens, dtype=torch.int64), torch.arange(1, tokens)
    for is_last in (False, True):
        engine.set_gradient_accumulation_boundary(is_last)
        logprobs, _ = engine(token_ids, torch.arange(tokens), places)
        engine.backward(logprobs.mean())


def main() -> None:
    from torch.profiler import ProfilerActivity, profile

    from learner.training.engines.deepspeed import DeepSpeedBackend
    from tests.support.tiny import tiny_run

    model, stage, tokens, file = sys.argv[1:]
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    run = tiny_run(Path(model), dtype="bfloat16", zero={"stage": int(stage)}, gradient_checkpointing=True)
    policy = DeepSpeedBackend(run, rank=rank, world_size=ranks)
    _passes(policy, int(tokens))
    policy._engine._engine.step()  # type: ignore[attr-defined]
    before = _alive()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        _passes(policy, int(tokens))
    now = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    if rank == 0:
        Path(file).write_text(str(before + peak))


if __name__ == "__main__":
    main()
