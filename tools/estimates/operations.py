"""Tabulate the peak performance of GPUs, and count the operations of a training step, for the MFU.

In: a GPU's name from torch; a model's shape and the lengths of its sequences. Out: floating-point operations per
second, and per step. Used by the step `rates` of `make prove-gpu`, and by `millrace plan`. A GPU that is not in the
table has no MFU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

TERA = 1e12


class Peak(NamedTuple):
    """The manufacturer's peak for dense bfloat16 products with float32 sums."""

    name: str  # part of the GPU's name; the first matching row counts
    tera: float  # 10^12 operations per second, without sparsity
    source: str


class DecoderSizes(Protocol):
    """The dimensions of a decoder that determine its operations."""

    @property
    def hidden(self) -> int:
        """Hidden size."""

    @property
    def layers(self) -> int:
        """Number of layers."""

    @property
    def heads(self) -> int:
        """Number of query heads."""

    @property
    def head_width(self) -> int:
        """Head dimension."""

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""

    @property
    def layer_parameters(self) -> int:
        """Weights in the matrices of all layers."""


# Data sheet values "with sparsity" are halved.
PEAKS = (
    Peak("B200", 2250.0, "NVIDIA HGX B200 data sheet: 36,000 with sparsity for eight"),
    Peak("H100 NVL", 835.5, "NVIDIA H100 data sheet: 1,671 with sparsity"),
    Peak("H100 PCIe", 756.5, "NVIDIA H100 data sheet: 1,513 with sparsity"),
    Peak("H100", 989.5, "NVIDIA H100 data sheet, SXM: 1,979 with sparsity"),
    Peak("H200 NVL", 835.5, "NVIDIA H200 data sheet: 1,671 with sparsity"),
    Peak("H200", 989.5, "NVIDIA H200 data sheet, SXM: 1,979 with sparsity"),
    Peak("GH200", 989.5, "NVIDIA GH200 data sheet: 1,979 with sparsity"),
    Peak("A100", 312.0, "NVIDIA A100 data sheet"),
    Peak("A40", 149.7, "NVIDIA A40 data sheet"),
    Peak("A10", 125.0, "NVIDIA A10 data sheet"),
    Peak("L40S", 362.05, "NVIDIA L40S data sheet"),
    Peak("L4", 121.0, "NVIDIA L4 data sheet: 242 with sparsity"),
    Peak("RTX 4090", 165.2, "NVIDIA Ada architecture white paper, sums in FP32"),
    Peak("RTX 3090", 71.0, "NVIDIA GA102 architecture white paper, sums in FP32"),
)
OTHERS = ("Laptop", "MIG", "4090 D")  # slower GPUs with a name in the table


def peak_of(card: str) -> Peak | None:
    """Return the row of a GPU, by its name from `torch.cuda.get_device_name`; None for none."""
    words = f" {card} ".replace("-", " ")
    if any(f" {other} " in words for other in OTHERS):
        return None
    return next((peak for peak in PEAKS if f" {peak.name} " in words), None)


def step_operations(shape: DecoderSizes, lengths: Sequence[int], trained_tokens: int) -> float:
    """Return the floating-point operations of a step, forward and backward.

    6 for each weight of the layers' matrices and token, 6 for each weight of the head and trained token, and in each
    layer 6 x length^2 x width of all heads for a sequence: two products, of which the causal mask leaves half.
    Recomputation by gradient checkpointing and the head's chunks is not counted, nor is anything but products.

    Args:
        shape: of the model.
        lengths: tokens of each sequence, prompts included.
        trained_tokens: number of tokens whose logits are computed.
    Source: the MFU of PaLM, arXiv:2204.02311, appendix B, with the causal half of attention, and the head counted by
        its own tokens.
    """
    layers = 6.0 * shape.layer_parameters * sum(lengths)
    head = 6.0 * shape.vocabulary * shape.hidden * trained_tokens
    width = shape.heads * shape.head_width
    attention = 6.0 * shape.layers * width * sum(length**2 for length in lengths)
    return layers + head + attention
