"""Attention within each sequence of a packed row in plain torch, for any device: what the varlen kernels compute.

In: what a kernel of `learner.training.attention` is given. Out: what it returns, by a softmax for each sequence by
itself. The proof on a GPU compares the kernel with it; on a CPU it takes the kernel's place, there and in the tests.
"""

# T tokens of a packed row, B bounds of its sequences, H heads, G heads of keys, E numbers of a head.

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor


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
    """Return [T, H, E] in the type of the query, computed in float32.

    Raises:
        ValueError: the arguments are not what a kernel may be given.
    """
    bounds = bounds_B.tolist()
    if bounds_B.dtype is not torch.int32 or bounds[-1] != len(query_THE):
        raise ValueError(f"bounds {bounds}, {bounds_B.dtype}, of {len(query_THE)} tokens")
    if max(end - start for start, end in pairwise(bounds)) != longest:
        raise ValueError(f"the longest sequence is said to have {longest} tokens, by bounds {bounds}")
    if not query_THE.dtype is key_TGE.dtype is value_TGE.dtype:
        raise ValueError(f"{query_THE.dtype}, {key_TGE.dtype} and {value_TGE.dtype} in one call")
    shared = query_THE.shape[1] // key_TGE.shape[1]
    factor = 1 / math.sqrt(query_THE.shape[-1]) if scale is None else scale
    attended = []
    for start, end in pairwise(bounds):
        query, key, value = (part[start:end].float() for part in (query_THE, key_TGE, value_TGE))
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
        scores = torch.einsum("qhe,khe->hqk", query, key) * factor
        places = torch.arange(end - start, device=query.device)
        behind = places[:, None] - places[None, :]
        seen = (behind >= -window[1]) & ((window[0] < 0) | (behind <= window[0]))
        scores = scores.masked_fill(~seen, -math.inf)
        attended.append(torch.einsum("hqk,khe->qhe", scores.softmax(-1), value))
    return torch.cat(attended).to(query_THE.dtype)
