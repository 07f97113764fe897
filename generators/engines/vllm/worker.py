"""Run inside vLLM's own processes: load new weights there, and end them with the generator.

In: the paths of safetensors files, while generation is paused. Out: a model with these weights. vLLM imports this
module in its engine core (whose executor is unpickled from here) and in every worker (`worker_extension_cls`). An error
goes back to generators.engines.vllm.engine, which ends the generator if the model may be half loaded.

Only the files of this folder use vLLM.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor
from safetensors import safe_open
from torch import Tensor
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers.attention import is_deferred_attention_layer
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info
from vllm.platforms import current_platform
from vllm.v1.executor import Executor
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from broker.fork_server.server import show_as
from broker.processes import die_with_parent
from generators.engines.vllm.environment import GENERATOR_PID, START_METHOD, THREADS

STANDARD_ERROR = 2
DUMMY = "dummy"  # vLLM's load format that reads no file
BACKEND = "file"  # Millrace's name in vLLM's registry of weight transfer engines
RELOAD_LOG = logging.getLogger("vllm.model_executor.model_loader.reload.layerwise")


@dataclass
class FileInit(WeightTransferInitInfo):
    """Empty: nothing needs to be agreed in advance."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """The files of a new version."""

    paths: list[str] = field(default_factory=list)  # safetensors with Hugging Face names


class FileEngine(WeightTransferEngine[FileInit, FileUpdate]):
    """Load weights from files that the worker can read. The whole update is one call, `receive_weights`."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Do nothing."""

    def start_weight_update(self) -> None:
        """Do nothing yet: a file that can't be opened must not leave the layers without storage."""

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Load every tensor of the files into the model, in place (captured CUDA graphs stay valid).

        vLLM's layerwise reload first restores each layer's checkpoint form. Loading without that fails where a kernel
        has repacked a weight: every linear layer on a CPU in float32.

        Raises:
            RuntimeError: the files have nothing for a layer, which would keep its random initial values.
        """
        model: Any = self.model
        # vLLM warns about tied and computed tensors at each update; the files were already checked. vLLM's engine core
        # configures its loggers after it has imported this module, so the level is set here.
        RELOAD_LOG.setLevel(logging.ERROR)
        with ExitStack() as opened, torch.no_grad():
            stored = [opened.enter_context(safe_open(path, framework="pt")) for path in update_info.paths]
            initialize_layerwise_reload(model)
            model.load_weights(_tensors(stored))
            left_out = _left_out(model, self.model_config)
            finalize_layerwise_reload(model, self.model_config)  # type: ignore[no-untyped-call]
        if left_out and self.vllm_config.load_config.load_format == DUMMY:  # else they are the model's own
            raise RuntimeError(
                f"no weights of {', '.join(left_out)} are in the files: they would be random numbers"
            )
        if current_platform.is_cpu():
            _repack_output_layer(model)

    def finish_weight_update(self) -> None:
        """Do nothing: everything is already done."""

    def shutdown(self) -> None:
        """Release nothing."""


def _tensors(stored: Sequence[safe_open]) -> Iterator[tuple[str, Tensor]]:
    """Read one tensor at a time, in file order: two copies of the model need not fit in memory."""
    for file in stored:
        for name in file.offset_keys():  # type: ignore[no-untyped-call]
            yield name, file.get_tensor(name)  # type: ignore[no-untyped-call]


def _left_out(model: torch.nn.Module, model_config: Any) -> list[str]:
    """Name the layers with weights that the files had nothing for, by vLLM's own count of loaded elements.

    A tied output layer has the embedding's weights, and the scales of attention layers are vLLM's.
    """
    config = model_config.hf_config
    is_tied = any(getattr(one, "tie_word_embeddings", False) for one in (config, config.get_text_config()))
    return [
        name
        for name, layer in model.named_modules()
        if (info := get_layerwise_info(layer)).can_load()
        and not info.load_numel
        and _has_weights(layer)
        and not is_deferred_attention_layer(layer)
        and not (is_tied and isinstance(layer, ParallelLMHead))
    ]


def _has_weights(layer: torch.nn.Module) -> bool:
    """Return whether a layer itself has parameters, or persistent buffers."""
    kept = (
        buffer
        for name, buffer in layer.named_buffers(recurse=False)
        if name not in layer._non_persistent_buffers_set and torch.is_floating_point(buffer)  # noqa: SLF001
    )
    return any(True for _ in layer.parameters(recurse=False)) or any(True for _ in kept)


def _repack_output_layer(model: torch.nn.Module) -> None:
    """Update a tied output layer from the embedding.

    On a CPU the layer's kernel has a packed copy of the shared weight. The reload repacks layers whose tensors were in
    the files; a tied layer has none there, and would silently keep the logits of the previous version.
    """
    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            method: Any = module.quant_method
            method.process_weights_after_loading(module)


class WorkerExtension:
    """The class for `worker_extension_cls`. It is empty: naming it makes the worker import this module."""


class CoreProcessExecutor(UniProcExecutor):
    """vLLM's executor of one worker inside the engine core, which imports this module to unpickle it."""


class WorkerProcessExecutor(MultiprocExecutor):
    """vLLM's executor of workers in separate processes, which import this module, too."""


def executor_for(base: type[Executor]) -> type[Executor]:
    """Return the class of this module that replaces vLLM's `base`.

    Raises:
        RuntimeError: vLLM chose another executor (Ray, for example), whose processes would not be ended.
    """
    for ours in (CoreProcessExecutor, WorkerProcessExecutor):
        if base in (ours, ours.__base__):
            return ours
    raise RuntimeError(f"vLLM chose {base.__name__}; only one machine with its own processes is supported")


@contextmanager
def forked_if_safe(executor: type[Executor]) -> Iterator[None]:
    """Let vLLM fork its engine core, which then has what this process has imported, instead of starting another Python.

    Not with a GPU, whose driver survives no fork, and not with several threads of OpenMP, whose pool does not either.
    vLLM's configuration is complete by then: completing it asks for `spawn` on every CPU.
    """
    if not current_platform.is_cpu() or executor is not CoreProcessExecutor or os.environ.get(THREADS) != "1":
        yield
        return
    # multiprocessing refers to it weakly: a later fork of this process is no engine core.
    while_starting = threading.Event()
    register_after_fork(while_starting, lambda _: _become_core())
    os.environ[START_METHOD] = "fork"
    try:
        yield
    finally:
        os.environ[START_METHOD] = "spawn"


def _become_core() -> None:
    """Make this fork of the generator an engine core that shares nothing with it; vLLM has done nothing in it yet.

    A connection of the generator's has to end when the generator closes it, so none stays open here. Their descriptors
    stay taken: closed ones would be used again, and the objects of the generator that have their numbers would close
    those in turn.
    """
    _die_with_parent()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # that of the listing itself
            if number > STANDARD_ERROR and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.dup2(nothing, number, inheritable=False)
    show_as(["VLLM::EngineCore"])  # vLLM's own way does not work in forks of the fork server
    torch.set_num_threads(1)  # the variable was read when torch was imported, which may have been too early
    # So were those that vLLM sets for a core: it is a daemon, which may have no children that compile.
    inductor.compile_threads = 1
    inductor.cpp.dynamic_threads = True


def _die_with_parent() -> None:
    """Let the kernel end this process when its parent ends, however that happens.

    The engine core imports this module while it still unpickles its arguments, and `multiprocessing` does not know its
    parent then: the environment names the parent. The generator only needs the names, and may be anybody's child.
    """
    generator_pid = int(os.environ.get(GENERATOR_PID, os.getpid()))
    if generator_pid == os.getpid():
        return
    parent = multiprocessing.parent_process()
    parent_pid = parent.pid if parent is not None else generator_pid
    if parent_pid is not None:
        die_with_parent(parent_pid)


_die_with_parent()
WeightTransferEngineFactory.register_engine(BACKEND, FileEngine)
