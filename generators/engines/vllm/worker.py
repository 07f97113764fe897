"""The part of the vLLM engine that runs inside vLLM's own processes: taking over weights, and dying with the generator.

In: the path of a safetensors file, while generation is paused. Out: a model that samples from it. vLLM imports this
module in its engine core (whose executor is unpickled from here) and in every worker (`worker_extension_cls`). An error
goes back to generators.engines.vllm.engine, which ends the generator if the model may be half loaded.

This file and generators/engines/vllm/engine.py are the two that know vLLM.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload
from vllm.platforms import current_platform
from vllm.v1.executor import Executor
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from broker.processes import die_with_parent

BACKEND = "file"  # our name in vLLM's registry of weight transfer engines
GENERATOR_PID = "_MILLRACE_GENERATOR_PID"  # environment: the process that starts the engine core


@dataclass
class FileInit(WeightTransferInitInfo):
    """Nothing to agree on beforehand."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """One new version."""

    path: str = ""  # safetensors with Hugging Face names


class FileEngine(WeightTransferEngine[FileInit, FileUpdate]):
    """Weights from a file that the worker can read. The whole update is one call, `receive_weights`."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Nothing to set up."""

    def start_weight_update(self) -> None:
        """Nothing yet: a file that can't be opened must not leave the layers without storage."""

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Load every tensor of the file into the model, in place (captured CUDA graphs stay valid).

        vLLM's layerwise reload puts each layer back into checkpoint form first. Loading without it fails where a kernel
        has repacked a weight: every linear layer on a CPU in float32.
        """
        model: Any = self.model
        with safe_open(update_info.path, framework="pt") as stored, torch.no_grad():
            initialize_layerwise_reload(model)
            model.load_weights(_tensors(stored))
            finalize_layerwise_reload(model, self.model_config)  # type: ignore[no-untyped-call]
        if current_platform.is_cpu():
            _repack_output_layer(model)

    def finish_weight_update(self) -> None:
        """Nothing left to do."""

    def shutdown(self) -> None:
        """Nothing to release."""


def _tensors(stored: safe_open) -> Iterator[tuple[str, Tensor]]:
    """One at a time, in the order of the file: the whole model need not fit beside itself."""
    for name in stored.offset_keys():  # type: ignore[no-untyped-call]
        yield name, stored.get_tensor(name)  # type: ignore[no-untyped-call]


def _repack_output_layer(model: torch.nn.Module) -> None:
    """Make a tied output layer follow the embedding.

    On a CPU its kernel has a packed copy of the shared weight. The reload repacks layers whose tensors were in the
    file, and a tied one's are not: without this it goes on with the logits of the previous version, silently.
    """
    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            method: Any = module.quant_method
            method.process_weights_after_loading(module)


class WorkerExtension:
    """What `worker_extension_cls` names. It adds nothing: its use is that this module is imported in the worker."""


class CoreProcessExecutor(UniProcExecutor):
    """vLLM's executor of one worker inside the engine core, which imports this module to unpickle it."""


class WorkerProcessExecutor(MultiprocExecutor):
    """The same of workers in processes of their own."""


def executor_for(base: type[Executor]) -> type[Executor]:
    """The class here that stands for vLLM's `base`.

    Raises:
        RuntimeError: vLLM chose another executor (Ray, for example), whose processes nobody would end.
    """
    for ours in (CoreProcessExecutor, WorkerProcessExecutor):
        if ours.__base__ is base:
            return ours
    raise RuntimeError(f"vLLM chose {base.__name__}; only one machine with its own processes is supported")


def _die_with_parent() -> None:
    """Have the kernel end this process when the one that started it ends, however that happens.

    The engine core imports this module while it still unpickles its arguments, and `multiprocessing` does not know its
    parent then: the environment says who it is.
    """
    parent = multiprocessing.parent_process()
    parent_pid = parent.pid if parent is not None else int(os.environ.get(GENERATOR_PID, os.getpid()))
    if (
        parent_pid is not None and parent_pid != os.getpid()
    ):  # equal: the generator, which only needs the names
        die_with_parent(parent_pid)


_die_with_parent()
WeightTransferEngineFactory.register_engine(BACKEND, FileEngine)
# It warns of tied and computed tensors at each update. What a file holds has been checked before it came here.
logging.getLogger("vllm.model_executor.model_loader.reload.layerwise").setLevel(logging.ERROR)
