"""A product of 16 bits into float32 for the CPU, which has none, in the place of torch's for a GPU."""

from __future__ import annotations

from torch import Tensor


def reference_product(hidden_CD: Tensor, weight_VD: Tensor) -> Tensor:
    """Return [C, V]: both are brought to float32, where products of 16 bits are exact."""
    return hidden_CD.float() @ weight_VD.float().t()
