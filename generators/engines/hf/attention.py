"""Attend from one new token a row as transformers does, up to rounding, with less copying and no look at the mask.

In: what transformers gives its functions for SDPA and its masks, which this module replaces in transformers' registers.
Out: what those return. What is not one new token a row, or not plain causal attention, goes transformers' own way. Runs
in the worker thread of generators.engines.hf.engine.
"""

# B rows. H heads of queries. G heads of keys and values. Q queries. K keys. D dimensions of a head.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import causal_mask_function, sdpa_mask

NOT_OURS = {"position_bias", "cache"}  # arguments that only transformers' own function knows


def use_decoding_attention() -> None:
    """Let every model of this process that attends by SDPA do so by `attend`, through transformers' registers."""
    AttentionInterface.register("sdpa", attend)
    AttentionMaskInterface.register("sdpa", make_mask)


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend as `sdpa_attention_forward` does, which would copy keys and values for each query head that shares them.

    One new token's queries that share a head are laid out as if they were tokens: they attend to the same keys.

    Args:
        module: the layer.
        query: [B, H, Q, D].
        key, value: [B, G, K, D].
        attention_mask: [B, 1, Q, K], True where a query attends; None: everywhere, or causal where Q > 1.
        kwargs: others of transformers.
    Returns:
        [B, Q, H, D].
    """
    (rows, heads, queries, _), shared = query.shape, key.shape[1]
    is_plain = attention_mask is None or attention_mask.shape[1] == 1
    if queries > 1 or heads == shared or not is_plain or NOT_OURS & kwargs.keys():
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    out = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, shared, heads // shared, -1),
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=kwargs.get("dropout", 0.0),
        scale=kwargs.get("scaling"),
    )
    return out.reshape(rows, 1, heads, -1), None


def make_mask(
    *, q_length: int, kv_length: int, kv_offset: int = 0, attention_mask: Tensor | None = None, **kwargs: Any
) -> Tensor | None:
    """Make a mask as `sdpa_mask` does; for one new token of plain causal attention it is which keys [B, K] are real.

    `sdpa_mask` would look whether all are, which waits for the device.
    """
    if (
        q_length == 1
        and attention_mask is not None
        and attention_mask.shape[-1] == kv_offset + kv_length
        and kwargs.get("q_offset") == kv_offset + kv_length - 1  # behind every key
        and kwargs.get("mask_function") is causal_mask_function
    ):
        return attention_mask[:, None, None, kv_offset:]
    return sdpa_mask(
        q_length=q_length, kv_length=kv_length, kv_offset=kv_offset, attention_mask=attention_mask, **kwargs
    )
