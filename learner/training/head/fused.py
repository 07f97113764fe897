"""Compute log-probabilities from 16-bit weights in one autograd function, on GPUs that support it.

In: hidden states, the head's weight, targets. Out: the targets' log-probabilities and the entropies, and in the
backward pass one float32 gradient of the head for all chunks. The logits are float32 products of the 16-bit tensors
themselves, by torch's `mm(..., out_dtype=torch.float32)`, so the forward pass needs no float32 copy of the head. That
product exists only on GPUs and has no gradient of its own: both passes are written out here. `choose_product` tests it
on the device before training; where it fails or is inaccurate, `learner.training.logprobs` computes as on a CPU.
"""

# K: trained tokens of a micro-batch. C: those in one chunk. D: hidden size. V: vocabulary.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

# The probe's logits have absolute values up to 5. A float32 sum of 512 exact products errs by less than 1e-5; a sum
# that is rounded to bfloat16 errs by up to 2**-9 of its size, 8e-3.
PROBE_TOLERANCE = 1e-4
PROBED_TOKENS, PROBED_WIDTH, PROBED_VOCABULARY = 64, 512, 256


class Product(Protocol):
    """Computes logits from hidden states and a weight, both of 16 bits."""

    def __call__(self, hidden_CD: Tensor, weight_VD: Tensor) -> Tensor:
        """Return [C, V], float32, summed in float32."""
        ...


def torch_product(hidden_CD: Tensor, weight_VD: Tensor) -> Tensor:
    """Run torch's own product of 16 bits into 32; GPU only."""
    return torch.mm(hidden_CD, weight_VD.t(), out_dtype=torch.float32)


PRODUCTS: dict[str, Product] = {"cuda": torch_product}  # by device type; tests add one for the CPU


@dataclass(frozen=True, slots=True)
class ChosenProduct:
    """The head's product on a device.

    Args:
        product: None where the head's weight is converted to float32 first.
        why: the reason, for people.
    """

    product: Product | None
    why: str


def memory_of(device: torch.device) -> int | None:
    """Return the bytes of a GPU's memory; None for a CPU."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def choose_product(device: torch.device, dtype: torch.dtype) -> ChosenProduct:
    """Return the product for a head of this type, tested on the device.

    Args:
        device: where the head is.
        dtype: of its weight.
    """
    if dtype is torch.float32:
        return ChosenProduct(None, "model.dtype is float32")
    if (product := PRODUCTS.get(device.type)) is None:
        return ChosenProduct(None, f"the device is {device.type}")
    try:
        error = _error_of(product, device, dtype)
    except (RuntimeError, TypeError) as failure:  # an older torch, or a GPU without it
        return ChosenProduct(None, f"torch can't multiply so here: {_first_line(failure)}")
    if not error <= PROBE_TOLERANCE:  # NaN too
        return ChosenProduct(
            None, f"it errs by {error:.1e} in a logit of size 1, and {PROBE_TOLERANCE} may be"
        )
    return ChosenProduct(product, f"it errs by {error:.1e} in a logit of size 1")


def _error_of(product: Product, device: torch.device, dtype: torch.dtype) -> float:
    """Return the largest error of a product of random numbers, against the product in float64."""
    generator = torch.Generator().manual_seed(0)
    hidden_CD = torch.randn(PROBED_TOKENS, PROBED_WIDTH, generator=generator).to(dtype)
    weight_VD = torch.randn(PROBED_VOCABULARY, PROBED_WIDTH, generator=generator).to(dtype)
    weight_VD *= PROBED_WIDTH**-0.5
    found_CV = product(hidden_CD.to(device), weight_VD.to(device))
    if found_CV.dtype is not torch.float32:
        return float("inf")
    return float((found_CV.cpu().double() - hidden_CD.double() @ weight_VD.double().t()).abs().max())


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


class FusedLogprobs(Function):
    """Log-probabilities of targets and entropies of their distributions; the entropies have no gradient."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        hidden_KD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_K: Tensor,
        product: Product,
        temperature: float,
        tokens_at_once: int,
    ) -> tuple[Tensor, Tensor]:
        """Return [K] log-probabilities and [K] entropies, nats, float32."""
        logprobs, normalizers, entropies = [], [], []
        for part in _parts(len(targets_K), tokens_at_once):
            logits_CV = _logits(product, hidden_KD[part], weight_VD, bias_V, temperature)
            normalizer_C = logits_CV.logsumexp(-1)
            logprobs.append(logits_CV.gather(-1, targets_K[part, None]).squeeze(-1) - normalizer_C)
            weighted_CV = (logits_CV - normalizer_C[:, None]).exp_().mul_(logits_CV)
            entropies.append(normalizer_C - weighted_CV.sum(-1))
            normalizers.append(normalizer_C)
        entropy_K = torch.cat(entropies)
        ctx.save_for_backward(hidden_KD, weight_VD, bias_V, targets_K, torch.cat(normalizers))
        ctx.product, ctx.temperature, ctx.tokens_at_once = product, temperature, tokens_at_once
        ctx.mark_non_differentiable(entropy_K)
        return torch.cat(logprobs), entropy_K

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of hidden states, weight and bias, each in its own type.

        The logits are recomputed, chunk by chunk, and converted to their own gradient in place:
        dL/dlogit = (1 at the target, else 0, minus the softmax) x the gradient of the log-probability / temperature.
        """
        hidden_KD, weight_VD, bias_V, targets_K, normalizer_K = ctx.saved_tensors
        gradient_K = gradients[0] / ctx.temperature
        trains_hidden, trains_weight, trains_bias = ctx.needs_input_grad[:3]
        hidden_grad_KD = torch.empty_like(hidden_KD) if trains_hidden else None
        weight_grad_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if trains_weight else None
        bias_grad_V = torch.zeros_like(bias_V, dtype=torch.float32) if trains_bias else None
        weight32_VD = weight_VD.float() if trains_hidden else None
        for part in _parts(len(targets_K), ctx.tokens_at_once):
            logits_CV = _logits(ctx.product, hidden_KD[part], weight_VD, bias_V, ctx.temperature)
            by_logit_CV = logits_CV.sub_(normalizer_K[part, None]).exp_().mul_(-gradient_K[part, None])
            by_logit_CV.scatter_add_(-1, targets_K[part, None], gradient_K[part, None])
            if hidden_grad_KD is not None and weight32_VD is not None:
                hidden_grad_KD[part] = by_logit_CV @ weight32_VD
            if weight_grad_VD is not None:
                weight_grad_VD.addmm_(by_logit_CV.t(), hidden_KD[part].float())
            if bias_grad_V is not None:
                bias_grad_V += by_logit_CV.sum(0)
        return (
            hidden_grad_KD,
            None if weight_grad_VD is None else weight_grad_VD.to(weight_VD.dtype),
            None if bias_grad_V is None else bias_grad_V.to(bias_V.dtype),
            *(None,) * 4,
        )


def _parts(tokens: int, at_once: int) -> list[slice]:
    """Return chunks of that many tokens; one empty chunk for none, so that every rank computes something."""
    return [slice(start, start + at_once) for start in range(0, max(1, tokens), at_once)]


def _logits(
    product: Product, hidden_CD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, temperature: float
) -> Tensor:
    """Return [C, V], float32, at the sampling temperature."""
    logits_CV = product(hidden_CD, weight_VD)
    if bias_V is not None:
        logits_CV += bias_V.float()
    return logits_CV.div_(temperature)
