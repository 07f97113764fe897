"""Attention within each sequence of a packed row in plain torch, for the CPU: what the varlen kernels of GPUs compute."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from learner.training.attention import KERNELS


def reference_kernel(
    query_THE: Tensor,
    key_TGE: Tensor,
    value_TGE: Tensor,
    *,
    bounds_B: Tensor,
    longest: int,
    scale: float | None,
    window: tuple[int, int],
) -> Tensor:
    """Return [T, H, E], a softmax for each sequence by itself, in float32."""
    assert bounds_B.dtype is torch.int32
    assert int(bounds_B[-1]) == len(query_THE)
    assert int(bounds_B.diff().max()) == longest
    assert query_THE.dtype is key_TGE.dtype is value_TGE.dtype
    shared = query_THE.shape[1] // key_TGE.shape[1]
    factor = 1 / math.sqrt(query_THE.shape[-1]) if scale is None else scale
    attended = []
    for start, end in pairwise(bounds_B.tolist()):
        query, key, value = (part[start:end].float() for part in (query_THE, key_TGE, value_TGE))
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
        scores = torch.einsum("qhe,khe->hqk", query, key) * factor
        behind = torch.arange(end - start)[:, None] - torch.arange(end - start)[None, :]
        seen = (behind >= -window[1]) & ((window[0] < 0) | (behind <= window[0]))
        scores = scores.masked_fill(~seen, -math.inf)
        attended.append(torch.einsum("hqk,khe->qhe", scores.softmax(-1), value))
    return torch.cat(attended).to(query_THE.dtype)


def use_on_cpu(patch: pytest.MonkeyPatch) -> None:
    """Have `learner.attention=varlen` run on a CPU, with the reference."""
    patch.setitem(KERNELS, "cpu", reference_kernel)
