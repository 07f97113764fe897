"""What the steps of `make prove-gpu` import, imported once for all: workers are forked from a process that has it.

In: `workers.LOG` in the environment, a file for what the libraries print. Out: nothing. A library that is missing or
broken is left to the steps that want it, whose outcome names it. Nothing here may touch the card: a process that has
cannot be forked. Loaded by the fork server of `benchmarks.proofs.gpu.workers`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib import import_module

from benchmarks.proofs.gpu.workers import LOG

MODULES = (
    "torch",
    "torch.distributed",
    "safetensors.torch",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.models.qwen2.tokenization_qwen2",
    "deepspeed",
    "deepspeed.ops.op_builder.all_ops",
    "learner.training.engines.deepspeed",
    "benchmarks.rigs.groups",
)


@contextlib.contextmanager
def into_log() -> Iterator[None]:
    """Have what is printed meanwhile, by libraries in C too, in the log."""
    kept = os.dup(1), os.dup(2)
    with open(os.environ.get(LOG, os.devnull), "ab") as stream:  # noqa: PTH123 - a name of the environment
        for descriptor in (1, 2):
            os.dup2(stream.fileno(), descriptor)
    try:
        yield
    finally:
        for descriptor, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)


def read() -> None:
    """Import all."""
    for name in MODULES:
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 - the steps that want it say so
            os.write(2, f"{name}: {type(error).__name__}: {error}\n".encode())


with into_log():
    read()
