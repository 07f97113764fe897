"""Estimate the GPU memory of a learner's rank, by term, from the configuration and the model's shape.

In: a run, the shape of its model, and the GPU's memory if known. Out: bytes. The memory of DeepSpeed and autograd does
not depend on the device: the factors were measured in steps on CPU ranks with the GPU's configuration
(`tests/tools/estimates/test_rank_memory.py` measures again), by counting tensors. CUDA's own memory is a guess. None of
it has been measured on a GPU. Used by `tools.doctor.gpu_memory` and by `tools.plan`.
"""

# P: parameters. P': trained ones. N: ranks. T: tokens of a micro-batch. L: layers. D: hidden size. I: intermediate
# size.

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from config.run import ModelConfig, Run
from learner.training.head.chunks import LARGE_CHUNK, logits_at_once
from tools.estimates.needs import BYTES_OF, Size, cached, reference_bytes, trained_parameters

GIB = 1 << 30
BUCKET = (
    500_000_000  # elements that ZeRO 2 and 3 reduce at a time, the size of a buffer (DeepSpeed's default)
)
LIVE = 1_000_000_000  # parameters that ZeRO-3 holds gathered at once (DeepSpeed's default)
MASTER_AND_MOMENTS = 12  # bytes per parameter, in float32: the master weight and AdamW's two moments
MOMENTS = 8  # where there is no master weight
SUM = 4  # bytes per parameter: the gradient of all micro-batches, in float32
# Bytes per token: of a layer, by its intermediate size and its hidden size, kept for the backward pass...
KEPT_INTERMEDIATE, KEPT_HIDDEN, KEPT_INPUT = 8, 21, 2  # ... the last: of a recomputed layer
WORK_INTERMEDIATE, WORK_HIDDEN = 4, 20  # additional in a layer's backward pass
AGAIN_INTERMEDIATE, AGAIN_HIDDEN = 12, 22  # the same for a recomputed layer, with what it keeps
COPIES_OF_LOGITS = 20  # bytes per entry of a chunk: five float32 copies in its backward pass
FUSED_COPIES_OF_LOGITS = 8  # by the fused head, two
HEAD_COPY, HEAD_SUM = 4, 4  # bytes per weight of the head: its float32 copy, and its gradient in float32
RUNTIME_BYTES = GIB  # CUDA context, NCCL, workspaces, and fragmentation. A guess


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """The dimensions of a dense decoder."""

    parameters: int
    hidden: int
    layers: int
    intermediate: int
    vocabulary: int
    heads: int  # of queries
    key_value_heads: int  # of keys and values, shared by groups of queries
    head_width: int  # dimension of one head
    positions: int = 0  # the longest sequence that the model supports; 0: unknown
    source: str  # of the dimensions

    @property
    def layer_parameters(self) -> int:
        """Weights in the matrices of all layers."""
        attention = self.hidden * self.head_width * 2 * (self.heads + self.key_value_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head(self) -> int:
        """Weights of the output head, even if the embedding shares them."""
        return self.vocabulary * self.hidden


# Qwen2.5's, for models without files here: the nearest of these is assumed.
KNOWN = tuple(
    DecoderShape(
        parameters=parameters,
        hidden=hidden,
        layers=layers,
        intermediate=intermediate,
        vocabulary=vocabulary,
        heads=heads,
        key_value_heads=key_value_heads,
        head_width=head_width,
        source=f"taken for Qwen2.5-{name}",
    )
    for name, parameters, hidden, layers, intermediate, vocabulary, heads, key_value_heads, head_width in (
        ("0.5B", 494_032_768, 896, 24, 4_864, 151_936, 14, 2, 64),
        ("1.5B", 1_543_714_304, 1_536, 28, 8_960, 151_936, 12, 2, 128),
        ("3B", 3_085_938_688, 2_048, 36, 11_008, 151_936, 16, 2, 128),
        ("7B", 7_615_616_512, 3_584, 28, 18_944, 152_064, 28, 4, 128),
        ("14B", 14_770_033_664, 5_120, 48, 13_824, 152_064, 40, 8, 128),
        ("32B", 32_763_876_352, 5_120, 64, 27_648, 152_064, 40, 8, 128),
        ("72B", 72_706_203_648, 8_192, 80, 29_568, 152_064, 64, 8, 128),
    )
)
NEAR = 1.33  # rounding factor of names: R1-Distill-Qwen-1.5B has 1.78 billion


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The GPU memory of one rank; bytes.

    The sum is slightly above the peak: the head's chunk and a layer's work do not coexist.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    head: int
    runtime: int = RUNTIME_BYTES

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.head + self.runtime


def rank_memory(
    run: Run, shape: DecoderShape, *, card_bytes: int | None, is_fused: bool = False
) -> RankMemory:
    """Return the memory of one rank of the learner.

    Args:
        run: the resolved run.
        shape: of its model.
        card_bytes: memory of the GPU, which decides how many logits are computed at once; None: unknown, large.
        is_fused: whether `learner.training.head.fused` computes the head, which the GPU decides.
    """
    return RankMemory(
        weights=weights(run, shape),
        gradients=gradients(run, shape),
        optimizer=optimizer(run, shape),
        activations=activations(run, shape),
        head=head(run, shape, card_bytes=card_bytes, is_fused=is_fused),
    )


def weights(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the weights, and of a reference model's.

    P x 2 (4 in float32). Under ZeRO-3 P / N x 2, and the gathered parameters: at most `LIVE`. With `offload_weights`
    only the latter. The same again for the reference of a KL term, unless it stays on the host.
    """
    zero, width = run.learner.zero, BYTES_OF[run.model.dtype]
    kl = run.learner.objective.kl
    reference = 0 if kl.offload else reference_bytes(run, shape.parameters) // run.learner.ranks
    if zero.stage < 3:
        return shape.parameters * width + reference
    own = 0 if zero.offload_weights else shape.parameters * width // run.learner.ranks
    is_whole = run.learner.ranks == 1 and not zero.offload_weights
    return own + reference + (0 if is_whole else min(shape.parameters, LIVE) * width)


def gradients(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the gradients.

    ZeRO 0 and 1: P' x 4 for their sum over micro-batches, and P' x 2 for those of one micro-batch. ZeRO 2 and 3: the
    sum is split, P' / N x 4, and those of one micro-batch use one bucket of `BUCKET` x 2. With `offload_optimizer` the
    sum is on the host.
    """
    zero, width = run.learner.zero, BYTES_OF[run.model.dtype]
    trained = _trained(run, shape)
    ranks = run.learner.ranks if zero.stage >= 2 else 1
    total = 0 if zero.offload_optimizer else trained * SUM // ranks
    if zero.stage >= 2:
        return total + BUCKET * width
    return total + (trained * width if width < SUM or zero.offload_optimizer else 0)


def optimizer(run: Run, shape: DecoderShape) -> int:
    """Return the bytes of the optimizer's state: P' / N x 12, on the host with `offload_optimizer`; ZeRO 0: P' x 8."""
    zero = run.learner.zero
    if zero.offload_optimizer:
        return 0
    if zero.stage == 0:
        return _trained(run, shape) * MOMENTS
    return _trained(run, shape) * MASTER_AND_MOMENTS // run.learner.ranks


def activations(run: Run, shape: DecoderShape) -> int:
    """Return the bytes that the backward pass of one micro-batch needs.

    With `gradient_checkpointing` T x (2 L D + 12 I + 22 D): the input of each layer, and one layer with its gradients.
    Without T x (L (8 I + 21 D) + 4 I + 20 D). The mask of SDPA's attention is not counted.
    """
    learner, width = run.learner, BYTES_OF[run.model.dtype] / 2
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    tokens = max(learner.tokens_per_micro_batch, longest) / learner.sequence_ranks
    if learner.gradient_checkpointing:
        kept = 0 if learner.offload_activations else KEPT_INPUT * shape.layers * shape.hidden
        work = AGAIN_INTERMEDIATE * shape.intermediate + AGAIN_HIDDEN * shape.hidden
    else:
        layer = KEPT_INTERMEDIATE * shape.intermediate + KEPT_HIDDEN * shape.hidden
        kept = layer if learner.offload_activations else shape.layers * layer
        work = WORK_INTERMEDIATE * shape.intermediate + WORK_HIDDEN * shape.hidden
    return int(tokens * (kept + work) * width)


def head(run: Run, shape: DecoderShape, *, card_bytes: int | None, is_fused: bool = False) -> int:
    """Return the bytes of the output head: copies of one chunk of logits, and of its weight.

    Entries of a chunk x 20 (8 with the fused head), and weights of the head x 8: their float32 copy, and their
    gradient.
    """
    at_once = LARGE_CHUNK if card_bytes is None else logits_at_once(card_bytes)
    longest = run.data.max_prompt_tokens + run.sampling.max_tokens
    tokens = max(run.learner.tokens_per_micro_batch, longest)
    entries = min(at_once, tokens * shape.vocabulary)
    copy = HEAD_COPY if run.model.head_dtype == "float32" and run.model.dtype != "float32" else 0
    total = HEAD_SUM if run.learner.lora is None else 0
    return entries * (FUSED_COPIES_OF_LOGITS if is_fused else COPIES_OF_LOGITS) + shape.head * (copy + total)


def shape_of(model: ModelConfig, size: Size) -> DecoderShape:
    """Return the shape of a model: from its `config.json`, in a folder or the hub's cache, else by its size.

    Args:
        model: the section.
        size: its number of parameters, from `tools.estimates.needs.size_of`.
    """
    for folder in (Path(model.path), *cached(model.path)):
        if (found := _read(folder / "config.json", size)) is not None:
            return found
    nearest = min(KNOWN, key=lambda shape: abs(math.log(shape.parameters / size.parameters)))
    is_near = 1 / NEAR < size.parameters / nearest.parameters < NEAR
    return nearest if is_near else replace(nearest, parameters=size.parameters)


def _read(file: Path, size: Size) -> DecoderShape | None:
    """Read the shape from a model's own file; None where the file is missing, or has other keys."""
    try:
        described: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        text = described.get("text_config") or described
        hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
        return DecoderShape(
            parameters=size.parameters,
            hidden=hidden,
            layers=int(text["num_hidden_layers"]),
            intermediate=int(text["intermediate_size"]),
            vocabulary=int(text["vocab_size"]),
            heads=heads,
            key_value_heads=int(text.get("num_key_value_heads") or heads),
            head_width=int(text.get("head_dim") or hidden // heads),
            positions=int(text.get("max_position_embeddings") or 0),
            source=f"as {file} has it",
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _trained(run: Run, shape: DecoderShape) -> int:
    return trained_parameters(run, Size(shape.parameters, shape.source))
