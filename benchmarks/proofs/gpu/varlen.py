"""The step `varlen` of `make prove-gpu`: torch's varlen kernels against plain attention, one sequence at a time.

In: packed rows of made-up tokens. Out: the largest error of outputs and gradients, relative to the largest number. The
kernel is compared on a GPU alone. The learner's model with that attention (`learner.attention=varlen`) is compared on
any device; on a CPU the kernel's place is taken by the reference, and the step says so.
"""

# T tokens of a packed row, B bounds of its sequences, H heads, G heads of keys, E numbers of a head; K trained tokens.

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.proofs.gpu.made_up import TINY, write_model
from benchmarks.proofs.gpu.outcomes import Missed, StepFigures, StepPlace
from benchmarks.rigs.reference_attention import reference_kernel
from config.run import ModelConfig
from learner.training.attention import KERNELS, choose_attention, torch_kernel
from learner.training.logprobs import LogprobModel
from learner.training.model_files import load_model

LENGTHS = (1, 7, 511, 2048, 3000, 2625)
SHORT_LENGTHS = (12, 1, 6, 23)  # of the model's row
# Errors as shares of the largest number. bfloat16 has steps of 0.004 to 0.008 of a number.
KERNEL_MOST = 0.03
MODEL_MOST = {"cuda": 0.05, "cpu": 1e-4}  # in bfloat16, both sides of it; in float32


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One comparison of the kernel."""

    heads: int
    groups: int
    width: int  # numbers of a head
    window: int = -1  # tokens before itself that a token sees; -1: all


CASES = (KernelCase(14, 2, 64), KernelCase(12, 2, 128), KernelCase(8, 8, 128, window=255))


def agrees_with_sdpa(place: StepPlace) -> StepFigures:
    """Compare the kernel where there is one, and the learner's model. Raises Missed where an error is too large."""
    device = torch.device(place.device)
    dtype = torch.bfloat16 if place.device == "cuda" else torch.float32
    parts = []
    if place.device == "cuda":
        errors = {case: kernel_error(case, device) for case in CASES}
        if wrong := [f"{case}: {error:.4f}" for case, error in errors.items() if not error <= KERNEL_MOST]:
            raise Missed(f"the kernel is off by more than {KERNEL_MOST}: {'; '.join(wrong)}")
        parts.append(
            f"the kernel's outputs and gradients within {max(errors.values()):.4f} of the largest number"
        )
    else:
        KERNELS["cpu"] = reference_kernel  # in this process alone
    error, most = model_error(place.folder, device, dtype), MODEL_MOST[place.device]
    if not error <= most:
        raise Missed(f"the learner's model is off by {error:.1e}, at most {most:.0e}")
    own = "" if place.device == "cuda" else ", a reference in the kernel's place: it has no CPU form"
    parts.append(f"the learner's log-probabilities and gradients within {error:.1e}{own}")
    return StepFigures(text="; ".join(parts), facts={"model": error})


def kernel_error(case: KernelCase, device: torch.device) -> float:
    """Compare the kernel's output and gradients in bfloat16 with the reference's in float32."""
    generator = torch.Generator(device).manual_seed(0)
    tokens = sum(LENGTHS)
    bounds_B = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], dtype=torch.int32, device=device)

    def drawn(heads: int) -> Tensor:
        shape = (tokens, heads, case.width)
        return torch.randn(shape, device=device, dtype=torch.bfloat16, generator=generator).requires_grad_()

    inputs = (drawn(case.heads), drawn(case.groups), drawn(case.groups))
    weight_THE = torch.randn((tokens, case.heads, case.width), device=device, generator=generator)
    found = []
    for kernel, parts in ((torch_kernel, inputs), (reference_kernel, tuple(part.float() for part in inputs))):
        output_THE = kernel(
            *parts, bounds_B=bounds_B, longest=max(LENGTHS), scale=None, window=(case.window, 0)
        ).float()
        gradients = torch.autograd.grad((output_THE * weight_THE).sum(), inputs)
        found.append((output_THE.detach(), *gradients))
    return max(_relative(one, other) for one, other in zip(*found, strict=True))


def model_error(folder: Path, device: torch.device, dtype: torch.dtype) -> float:
    """Compare log-probabilities and weight gradients of the learner's model: packed varlen, and SDPA row by row."""
    name = str(dtype).removeprefix("torch.")
    path = write_model(folder / "model", TINY, dtype=name)
    section = ModelConfig(path=str(path), dtype="bfloat16" if dtype is torch.bfloat16 else "float32")
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(0, TINY.vocabulary, (length,), generator=generator) for length in SHORT_LENGTHS]
    found = []
    for choice, packs in (("varlen", [rows]), ("sdpa", [[row] for row in rows])):
        attention = choose_attention(choice, device=device, dtype=dtype).name  # type: ignore[arg-type]
        loaded = load_model(section, attention=attention, gradient_checkpointing=False)
        model = LogprobModel(loaded, temperature=1.0).to(device)
        logprobs = torch.cat([_logprobs(model, pack, device) for pack in packs])
        gradients = torch.autograd.grad(
            logprobs.sum(), [part for part in model.parameters() if part.requires_grad]
        )
        found.append((logprobs.detach(), *gradients))
    return max(_relative(one, other) for one, other in zip(*found, strict=True))


def _logprobs(model: LogprobModel, rows: list[Tensor], device: torch.device) -> Tensor:
    """Return the log-probabilities of all tokens but each row's first, the rows packed into one."""
    lengths = torch.tensor([len(row) for row in rows])
    positions_T = torch.cat([torch.arange(len(row)) for row in rows])
    places_K = positions_T.nonzero()[:, 0]
    bounds_B = torch.tensor([0, *lengths.cumsum(0)], dtype=torch.int32)
    logprobs_T, _ = model(
        torch.cat(rows).to(device),
        positions_T.to(device),
        places_K.to(device),
        grid=(len(rows), int(lengths.max())),
        bounds_B=bounds_B.to(device),
    )
    chosen_K: Tensor = logprobs_T[places_K.to(device)]
    return chosen_K


def _relative(one: Tensor, other: Tensor) -> float:
    """Return the largest difference as a share of the largest number of `other`."""
    scale = other.float().abs().max().clamp_min(1e-30)
    return ((one.float() - other.float()).abs().max() / scale).item()
