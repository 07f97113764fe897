"""Train with DeepSpeed: its engine on all ranks. The only importer of deepspeed.

In: micro-batches, losses, settings. Out: log-probabilities, gradients applied, weights, its part of a checkpoint.
ZeRO's collectives need every rank, so each method runs on all ranks at once.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from config.learner import LearnerConfig
from config.run import Run
from learner.base_model.own_head import has_own_head
from learner.launch.environment import keep_freed_memory
from learner.training import sequence_parallel
from learner.training.attention import SDPA, choose_attention
from learner.training.engines.compilation import compile_layers
from learner.training.engines.engine_config import adamw_arguments, deepspeed_config, offloads_optimizer
from learner.training.gathered_weights import HostBuffers, wait_for_copies
from learner.training.head.chunks import logits_at_once
from learner.training.head.fused import choose_product, memory_of
from learner.training.logprobs import LogprobModel
from learner.training.lora import add_adapter
from learner.training.micro_batch import MicroBatch
from learner.training.model_files import elements, in_parts, load_model
from learner.training.passes import Objectives, Passes
from learner.training.process_group import CommandChannel, device_of, join
from learner.training.ranked import RankedBackend
from learner.training.reference import References
from learner.training.sequence_parallel import SequenceMesh

log = logging.getLogger(__name__)

GATHERED_AT_ONCE = 2**28  # weights that ZeRO-3 gathers at a time while saving
_ENGINE = "engine"  # DeepSpeed's part of a checkpoint


class DeepSpeedBackend(RankedBackend):
    """A `TrainingBackend` on DeepSpeed's engine."""

    def __init__(self, run: Run, *, rank: int, world_size: int) -> None:
        """Load the model and build the engine; a collective.

        Args:
            run: the resolved run.
            rank: of this process among `world_size`. With more than one, MASTER_ADDR, MASTER_PORT and LOCAL_RANK are in
                the environment, as launchers and `learner.launch.ranks` set them.
            world_size: number of ranks.
        Raises:
            RunFailed: settings that can't work here; the message names them.
        """
        objectives = Objectives()
        objectives.of(run.learner.objective)  # fails on a missing custom class before the model loads
        engine = DeepSpeedEngine(run, rank=rank, world_size=world_size)
        references = engine.references()
        if run.learner.objective.kl.coef:
            references.of(run.learner.objective.kl)  # fails on a missing reference at the start
        channel = CommandChannel(counts=engine.counts)
        super().__init__(run, engine, Passes(run, engine, references, channel, objectives), channel)


class DeepSpeedEngine:
    """An `Engine` of DeepSpeed's.

    Attributes:
        counts: whether this rank's sums count: one of the ranks that share a row does.
    """

    def __init__(self, run: Run, *, rank: int, world_size: int) -> None:
        """Load the model and build the engine; a collective.

        Raises:
            RunFailed: settings that can't work here; the message names them.
        """
        self.run, self.rank, self.world_size = run, rank, world_size
        self.device = device_of(run)
        if self.device.type == "cpu":
            keep_freed_memory()
        if run.learner.threads is not None:
            torch.set_num_threads(run.learner.threads)
        # Products of 16 bits are exact in TF32, so the head's float32 matmuls gain speed without losing precision.
        torch.backends.cuda.matmul.allow_tf32 = run.model.dtype != "float32"
        self._deepspeed = _import_deepspeed(self.device)
        join(self.device, rank=rank, world_size=world_size)
        # ZeRO-3 splits the weights while they are read, and would otherwise count the ranks as one.
        self._deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)
        chosen = choose_attention(
            run.learner.attention, device=self.device, dtype=getattr(torch, run.model.dtype)
        )
        self._attention = chosen.name
        log.info("attention chosen name=%s why=%r", chosen.name, chosen.why)
        self._mesh: SequenceMesh | None = None
        if run.learner.sequence_ranks > 1:
            self._mesh = SequenceMesh(
                run.learner.sequence_ranks, rank=rank, world_size=world_size, attention=self._attention
            )
        self.counts = self._mesh is None or self._mesh.rank == 0
        self.ranks_of_a_row = 1 if self._mesh is None else self._mesh.size
        self.model, self._wrapped, self._engine = self._build()
        log.info(
            "policy ready rank=%d ranks=%d device=%s zero=%d dtype=%s parameters=%d",
            rank,
            world_size,
            self.device,
            run.learner.zero.stage,
            run.model.dtype,
            sum(elements(parameter) for parameter in self.model.parameters()),
        )

    def references(self) -> References:
        """Return what holds the reference model of the KL term, next to this one."""
        return References(
            self.run,
            deepspeed=self._deepspeed,
            device=self.device,
            world_size=self.world_size,
            vocabulary=self.vocabulary,
            policy=self._engine,
            mesh=self._mesh,
        )

    @property
    def vocabulary(self) -> int:
        """The number of tokens in the model's embedding."""
        size: int = self.model.get_input_embeddings().num_embeddings
        return size

    @property
    def pads(self) -> bool:
        """Whether the model may run on padded rows: without varlen kernels, and with whole rows on a rank."""
        return self._attention == SDPA and self._mesh is None

    @property
    def loss_scale(self) -> float:
        """The factor of the loss in float16; 1 in other types."""
        return float(getattr(self._engine.optimizer, "loss_scale", 1.0))

    def restore_loss_scale(self, scale: float) -> None:
        """Set the factor back, after a gradient that was finite at no scale."""
        self._engine.optimizer.loss_scaler.cur_scale = scale

    def configure(self, settings: LearnerConfig, rate: float) -> None:
        """Set the optimizer's parameters for the next step, and whether the entropy has a gradient."""
        optimizer = settings.optimizer
        for group in self._engine.optimizer.param_groups:
            group.update(adamw_arguments(optimizer) | {"lr": rate})
        if self.run.learner.zero.stage == 0:
            self._engine._config.gradient_clipping = optimizer.grad_clip  # noqa: SLF001 - no public way
        else:
            self._engine.optimizer.clip_grad = optimizer.grad_clip
        self._wrapped.trains_entropy = bool(settings.objective.entropy_coef)

    @torch.no_grad()
    def evaluate(self, part: MicroBatch) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy of each token, without a gradient."""
        logprobs_T, entropy_T = self._engine(**part.model_inputs)
        return logprobs_T, entropy_T

    def forward(self, part: MicroBatch, *, is_last: bool) -> tuple[Tensor, Tensor]:
        """Return the same with a gradient."""
        self._engine.set_gradient_accumulation_boundary(is_last)
        logprobs_T, entropy_T = self._engine(**part.model_inputs)
        return logprobs_T, entropy_T

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss that is already divided by the tokens of all ranks."""
        self._engine.backward(loss * self.world_size)  # DeepSpeed averages over the ranks

    def apply(self) -> tuple[float, bool]:
        """Clip and step, unless the gradient is not finite.

        Returns:
            The norm before clipping, and whether the weights changed. With ZeRO 1 to 3 DeepSpeed itself skips such a
            step. With ZeRO 0 it would apply the step: here the gradients are removed first, and AdamW ignores
            parameters without gradients.
        """
        if self.run.learner.zero.stage != 0:
            self._engine.step()
            return float(self._engine.get_global_grad_norm()), bool(self._engine.was_step_applied())
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))  # DeepSpeed reports none here
        if not math.isfinite(norm):
            self._engine.zero_grad()
            self._engine._config.gradient_clipping = 0.0  # noqa: SLF001 - nothing is left to clip; the next step sets it
        self._engine.step()
        return norm, math.isfinite(norm)

    def gather(
        self, wanted: Callable[[str], bool] = lambda _: True, *, copies: HostBuffers | None = None
    ) -> dict[str, Tensor]:
        """Gather every weight and saved buffer by name, on rank 0's CPU, tied ones once; nothing on the other ranks.

        Args:
            wanted: the names to gather.
            copies: buffers to copy the weights to, unaffected by later steps; None: the result may share the model's
                memory.
        """
        partitioned = self.run.learner.zero.stage == 3

        def on_host(name: str, tensor: Tensor) -> Tensor:
            if copies is not None:
                return copies.copy(name, tensor)
            return tensor.detach().to("cpu", copy=partitioned)  # the gathered tensor is freed again

        weights: dict[str, Tensor] = {}
        named = {name: parameter for name, parameter in self.model.named_parameters() if wanted(name)}
        for names_to_parameters in in_parts(named, GATHERED_AT_ONCE):
            parameters = list(names_to_parameters.values())
            with self._deepspeed.zero.GatheredParameters(parameters, enabled=partitioned):
                if self.rank == 0:
                    weights |= {
                        name: on_host(name, parameter) for name, parameter in names_to_parameters.items()
                    }
                    wait_for_copies()
        if self.rank == 0:
            saved = self.model.state_dict().keys()
            buffers = self.model.named_buffers()
            weights |= {
                name: on_host(name, buffer) for name, buffer in buffers if name in saved and wanted(name)
            }
            wait_for_copies()
        return weights

    def save(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint."""
        self._engine.save_checkpoint(str(folder), tag=_ENGINE, save_latest=False)

    def load(self, folder: Path) -> None:
        """Continue from a part that `save` wrote. DeepSpeed reads it with pickle: load only this system's own."""
        self._engine.load_checkpoint(str(folder), tag=_ENGINE)

    def close(self) -> None:
        """Free the engine."""
        self._engine.destroy()

    def _build(self) -> tuple[Any, LogprobModel, Any]:
        """Load the transformers model, and build DeepSpeed's engine around it."""
        run, on_cuda = self.run, self.device.type == "cuda"
        torch.manual_seed(run.seed)
        config = deepspeed_config(run, world_size=self.world_size, on_cuda=on_cuda)
        own_head = has_own_head(run.model)
        # While this object exists, transformers asks it whether to split the weights among ranks as it reads them.
        from transformers.integrations.deepspeed import HfDeepSpeedConfig

        splitting = HfDeepSpeedConfig(config) if run.learner.zero.stage == 3 else None
        model = load_model(
            run.model,
            attention=self._attention if self._mesh is None else sequence_parallel.NAME,
            gradient_checkpointing=run.learner.gradient_checkpointing,
            own_head=own_head,
        )
        del splitting
        if run.learner.lora is not None:
            add_adapter(model, run.learner.lora, seed=run.seed)
        chosen = choose_product(self.device, getattr(torch, run.model.dtype))
        at_once = logits_at_once(memory_of(self.device))
        log.info("head fused=%s why=%r logits_at_once=%d", chosen.product is not None, chosen.why, at_once)
        wrapped = LogprobModel(
            model,
            temperature=run.sampling.temperature,
            head_dtype=run.model.head_dtype,
            logits_at_once=at_once,
            product=chosen.product,
            mesh=self._mesh,
        )
        trained = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        optimizer = None  # DeepSpeed's own for host memory, which it compiles
        if not offloads_optimizer(run, on_cuda=on_cuda):
            optimizer = torch.optim.AdamW(trained, fused=on_cuda, **adamw_arguments(run.learner.optimizer))
        # DeepSpeed prints to standard output, which is the learner's console.
        with contextlib.redirect_stdout(sys.stderr):
            engine, *_ = self._deepspeed.initialize(
                model=wrapped, model_parameters=trained, optimizer=optimizer, config=config
            )
        if run.model.dtype == "float16":
            # A gradient that is not finite at the lowest scale is skipped, as in other types.
            engine.optimizer.loss_scaler.raise_error_at_min_scale = False
        if run.learner.torch_compile:
            compile_layers(wrapped, device=self.device, pads=self.pads)
        return model, wrapped, engine


def _import_deepspeed(device: torch.device) -> Any:
    """Import DeepSpeed for this device, quietly, and without the operator whose compilation takes minutes on a CPU.

    Its engine imports the optimizer Muon, which is not used here. Muon is imported as if torch had no compiler, because
    importing that takes more than a second.
    """
    os.environ["DS_ACCELERATOR"] = device.type  # read when it is imported
    os.environ.setdefault("LOCAL_RANK", "0")  # its engine requires it
    import deepspeed
    from deepspeed.runtime import compiler

    compile_, compiler.compile = compiler.compile, lambda: compiler.dummy_decorator
    try:
        with contextlib.suppress(ImportError):  # another DeepSpeed may have it elsewhere
            importlib.import_module("deepspeed.runtime.zero.muon.original_muon")
    finally:
        compiler.compile = compile_
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    deepspeed.ops.__compatible_ops__ = defaultdict(bool)  # else it tries the compiler for every operator
    return deepspeed
