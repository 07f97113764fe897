"""Compile the layers of a model with torch (`learner.torch_compile`), to the same kernels in every run.

In: a model with its head replaced, on its device. Out: the same model with compiled layers. Each layer is compiled
separately, and all have the same graph, so that compile time does not grow with the model's depth. Sizes are symbolic
in the graph. The compiler tunes for the first batch that it sees: here an artificial one, the same in every process, so
that a run continued after a crash computes the same bits.
"""

# T: tokens of an artificial row. B: bounds of its sequences.

from __future__ import annotations

import logging
import time
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from broker.errors import RunFailed

if TYPE_CHECKING:
    from learner.training.logprobs import LogprobModel

log = logging.getLogger(__name__)

MADE_UP = (96, 32)  # tokens of the artificial sequences


def compile_layers(wrapped: LogprobModel, *, device: torch.device, pads: bool) -> None:
    """Compile the layers of a model, and run them once in each form that training uses.

    Args:
        wrapped: its model has its layers in one list, as transformers' models do.
        device: where the model is.
        pads: whether it will also run on padded rows.
    Raises:
        RunFailed: the model has no such list, or torch can't compile here.
    """
    begun = time.perf_counter()
    lists = [module for module in wrapped.model.base_model.modules() if isinstance(module, nn.ModuleList)]
    if not lists:
        raise RunFailed(
            f"learner.torch_compile: {type(wrapped.model).__name__} has no list of layers to compile. Leave it out"
        )
    for layer in max(lists, key=len):
        layer.compile(dynamic=True)
    try:
        for padded, trains in product((False, True) if pads else (False,), (True, False)):
            _run_once(wrapped, device, padded=padded, trains=trains)
    except Exception as error:
        raise RunFailed(
            f"learner.torch_compile: torch can't compile {type(wrapped.model).__name__} here: {_first_line(error)} "
            "A compiler has to be there: g++ for a CPU, for a GPU also a C compiler and Python.h. Or leave it out"
        ) from error
    log.info("layers_compiled took_s=%.1f", time.perf_counter() - begun)


def _run_once(wrapped: LogprobModel, device: torch.device, *, padded: bool, trains: bool) -> None:
    """Run two artificial sequences forward and, where a model trains, backward. No gradient is kept."""
    lengths = torch.tensor(MADE_UP)
    positions_T = torch.cat([torch.arange(length) for length in MADE_UP]).to(device)
    token_ids_T = torch.zeros_like(positions_T)
    places_K = torch.nonzero(positions_T)[:, 0]
    rows_T = torch.repeat_interleave(torch.arange(len(MADE_UP)), lengths).to(device)
    cells_T = rows_T * max(MADE_UP) + positions_T if padded else None
    grid = (len(MADE_UP), max(MADE_UP))
    bounds_B = functional.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32)
    with torch.set_grad_enabled(trains):
        logprobs_T, _ = wrapped(token_ids_T, positions_T, places_K, cells_T, grid, bounds_B=bounds_B)
    if trains:
        trained = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        torch.autograd.grad(logprobs_T.sum(), trained, allow_unused=True)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
