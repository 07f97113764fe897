"""Train with DeepSpeed: its engine on all ranks, controlled by rank 0.

In: packed batches, one per optimizer step. Out: metrics, weights for the generators, checkpoints. The only importer of
deepspeed. Rank 0 calls the methods; the other ranks are in `follow`, and each method runs on all ranks at once, since
ZeRO's collectives need every rank. An exception in any rank ends that process with a non-zero code. The launcher of the
ranks then ends the others and names the rank; the journal's steps are replayed after a restart.
"""

# N: tokens of a rank. S: completions of the global batch. T: tokens of a micro-batch.

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import logging
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from broker.errors import RunFailed
from config.custom import CustomClassError
from config.learner import LearnerConfig
from config.learner.objective import CorrectionConfig, ObjectiveConfig
from config.learner.training import OptimizerConfig
from config.run import Run
from learner.base_model.own_head import has_own_head
from learner.objective.aggregate import token_weights
from learner.objective.build import build_objective
from learner.objective.importance_ratio import k3_divergence
from learner.objective.kl import kl_estimate
from learner.objective.objective import Loss, Objective, TokenBatch, needs_start_logprobs
from learner.objective.rejection import kept_tokens
from learner.training import process_group as commands
from learner.training import random_states, sequence_parallel
from learner.training.attention import SDPA, choose_attention
from learner.training.backend import SKIPPED, Differences
from learner.training.batch import Batch
from learner.training.checkpoint import read_state, write_state
from learner.training.compilation import compile_layers
from learner.training.engine_config import adamw_arguments, deepspeed_config, offloads_optimizer
from learner.training.gathered_weights import GatheredWeights, HostBuffers, wait_for_copies
from learner.training.head.chunks import logits_at_once
from learner.training.head.fused import choose_product, memory_of
from learner.training.logprobs import LogprobModel
from learner.training.lora import ADAPTER, adapters_of, add_adapter, is_adapter, merged, write_adapter
from learner.training.micro_batch import MicroBatch, on_device
from learner.training.model_files import (
    elements,
    in_parts,
    load_model,
    names_on_disk,
    write_model,
    write_weights,
)
from learner.training.process_group import Command, CommandChannel, device_of, join
from learner.training.reference import References
from learner.training.sequence_parallel import SequenceMesh
from learner.training.step_statistics import StepStatistics
from learner.weight_sync.transport import SavedWeights

log = logging.getLogger(__name__)

GATHERED_AT_ONCE = 2**28  # weights that ZeRO-3 gathers at a time while saving
_ENGINE = "engine"  # DeepSpeed's part of a checkpoint


class DeepSpeedBackend:
    """A `TrainingBackend` that holds the model, its optimizer and its ranks."""

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
        self.run, self._rank, self._world_size = run, rank, world_size
        self._device = device_of(run)
        if run.learner.threads is not None:
            torch.set_num_threads(run.learner.threads)
        # Products of 16 bits are exact in TF32, so the head's float32 matmuls gain speed without losing precision.
        torch.backends.cuda.matmul.allow_tf32 = run.model.dtype != "float32"
        self._objectives = Objectives()
        self._objectives.of(run.learner.objective)  # fails on a missing custom class before the model loads
        self._deepspeed = _import_deepspeed(self._device)
        join(self._device, rank=rank, world_size=world_size)
        # ZeRO-3 splits the weights while they are read, and would otherwise count the ranks as one.
        self._deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)
        chosen = choose_attention(
            run.learner.attention, device=self._device, dtype=getattr(torch, run.model.dtype)
        )
        self._attention = chosen.name
        log.info("attention chosen name=%s why=%r", chosen.name, chosen.why)
        self._mesh: SequenceMesh | None = None
        if run.learner.sequence_ranks > 1:
            self._mesh = SequenceMesh(
                run.learner.sequence_ranks, rank=rank, world_size=world_size, attention=self._attention
            )
        self._channel = CommandChannel(counts=self._mesh is None or self._mesh.rank == 0)
        self._has_failed = False
        self._published = HostBuffers()
        self._model, self._wrapped, self._engine = self._build()
        self._references = References(
            run,
            deepspeed=self._deepspeed,
            device=self._device,
            world_size=world_size,
            vocabulary=self.vocabulary,
            policy=self._engine,
            mesh=self._mesh,
        )
        if run.learner.objective.kl.coef:
            self._references.of(run.learner.objective.kl)  # fails on a missing reference at the start
        log.info(
            "policy ready rank=%d ranks=%d device=%s zero=%d dtype=%s parameters=%d",
            rank,
            world_size,
            self._device,
            run.learner.zero.stage,
            run.model.dtype,
            sum(elements(parameter) for parameter in self._model.parameters()),
        )

    @property
    def vocabulary(self) -> int:
        """The number of tokens in the model's embedding."""
        size: int = self._model.get_input_embeddings().num_embeddings
        return size

    @property
    def pads(self) -> bool:
        """Whether the model may run on padded rows: without varlen kernels, and with whole rows on a rank."""
        return self._attention == SDPA and self._mesh is None

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        """Take one optimizer step on a batch, on rank 0; see `TrainingBackend.step`.

        Raises:
            RunFailed: the gradient is not finite, and the engine has applied it nevertheless. Then the weights are
                corrupt and must not be published.
        """
        command = commands.OptimizerStep(learner=None if learner is None else learner.model_dump_json())
        metrics: dict[str, float] = self._on_all_ranks(command, self._shards(batch))
        return metrics

    def divergences(self, batch: Batch) -> list[float]:
        """Measure each completion's divergence to the reference, on rank 0; see `TrainingBackend.divergences`."""
        found: list[float] = self._on_all_ranks(commands.Divergences(), self._shards(batch))
        return found

    def differences(self, batch: Batch) -> Differences:
        """Compare the sampler with the learner, on rank 0; see `TrainingBackend.differences`."""
        found: Differences = self._on_all_ranks(commands.Compare(), self._shards(batch))
        return found

    def _shards(self, batch: Batch) -> list[Batch]:
        """Return the shard of each rank; the ranks of a mesh share one."""
        size = 1 if self._mesh is None else self._mesh.size
        return [shard for shard in batch.shards(self._world_size // size) for _ in range(size)]

    def gather_weights(self) -> GatheredWeights:
        """Copy the weights into host memory, on rank 0; the copy is valid until the next call."""
        gathered: GatheredWeights = self._on_all_ranks(commands.GatherWeights())
        return gathered

    def save_model(self, folder: Path) -> None:
        """Write a folder that transformers and vLLM load, on rank 0."""
        self._on_all_ranks(commands.SaveModel(folder=str(folder)))

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        """Write everything that training continues from, on rank 0; see `HoldsState.save_checkpoint`."""
        self._on_all_ranks(commands.SaveCheckpoint(folder=str(folder), state=json.dumps(state)))

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        """Continue from a checkpoint, on rank 0. DeepSpeed reads its part with pickle: load only this system's own.

        Raises:
            RunFailed: no complete checkpoint, or one of another ZeRO stage or type; or of another number of ranks where
                the optimizer's state is split among them.
        """
        state: dict[str, Any] = self._on_all_ranks(commands.LoadCheckpoint(folder=str(folder)))
        return state

    def keep_alive(self) -> None:
        """Send an empty command, on rank 0, so that the others' wait does not time out and a dead rank is noticed."""
        self._on_all_ranks(commands.KeepAlive())

    def close(self) -> None:
        """Free the engine on all ranks, and end the others' `follow`; on rank 0.

        After a failure no command can be sent: the other ranks may be waiting inside a step. They end when this process
        does, or their launcher ends them.
        """
        if not self._has_failed:
            self._on_all_ranks(commands.Close())

    def follow(self) -> None:
        """Execute rank 0's commands on another rank, until rank 0 closes."""
        command: Command | None = None
        while not isinstance(command, commands.Close):
            command = self._channel.receive()
            shard = None
            if isinstance(command, commands.OptimizerStep | commands.Divergences | commands.Compare):
                shard = Batch.from_bytes(self._channel.receive_part())
            self._act(command, shard)

    def _on_all_ranks(self, command: Command, shards: list[Batch] | None = None) -> Any:
        """Send the command, and each rank its shard, on rank 0; then do the same here."""
        self._has_failed = True  # until the command has finished
        self._channel.send(command)
        if shards is not None:
            self._channel.send_parts([shard.to_bytes() for shard in shards[1:]])
        result = self._act(command, shards[0] if shards else None)
        self._has_failed = False
        return result

    def _act(self, command: Command, shard: Batch | None) -> Any:
        try:
            return self._do(command, shard)
        except Exception:
            log.exception("rank failed rank=%d command=%s", self._rank, command.name)
            raise

    # The methods below run on all ranks.

    def _do(self, command: Command, shard: Batch | None) -> Any:
        result: Any = None
        match command:
            case commands.OptimizerStep() | commands.Divergences() | commands.Compare():
                if shard is None:
                    raise ValueError(f"{command.name} needs a shard")
                result = self._pass_over(shard, command)
            case commands.GatherWeights():
                result = self._gather_weights()
            case commands.SaveModel(folder=folder):
                self._save_model(Path(folder))
            case commands.SaveCheckpoint(folder=folder, state=state):
                self._save_checkpoint(Path(folder), json.loads(state))
            case commands.LoadCheckpoint(folder=folder):
                result = self._load_checkpoint(Path(folder))
            case commands.KeepAlive():
                pass
            case commands.Close():
                self._engine.destroy()
            case _:
                assert_never(command)
        return result

    def _pass_over(
        self, shard: Batch, command: commands.OptimizerStep | commands.Divergences | commands.Compare
    ) -> Any:
        match command:
            case commands.OptimizerStep(learner=learner):
                return self._step(shard, learner)
            case commands.Divergences():
                return self._divergences(shard)
            case commands.Compare():
                return self._compare(shard)
            case _:
                assert_never(command)

    def _build(self) -> tuple[Any, LogprobModel, Any]:
        """Load the transformers model, and build DeepSpeed's engine around it."""
        run, on_cuda = self.run, self._device.type == "cuda"
        torch.manual_seed(run.seed)
        config = deepspeed_config(run, world_size=self._world_size, on_cuda=on_cuda)
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
        chosen = choose_product(self._device, getattr(torch, run.model.dtype))
        at_once = logits_at_once(memory_of(self._device))
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
            compile_layers(wrapped, device=self._device, pads=self.pads)
        return model, wrapped, engine

    def _step(self, shard: Batch, learner: str | None) -> dict[str, float]:
        begun = time.perf_counter()
        settings = self.run.learner if learner is None else LearnerConfig.model_validate_json(learner)
        if shard.num_tokens == 0:
            log.warning("step without a trained token version=%d", shard.policy_version)
        rate = self._set_optimizer(settings, shard.policy_version)
        objective = self._objectives.of(settings.objective)
        self._wrapped.trains_entropy = bool(settings.objective.entropy_coef)
        statistics = StepStatistics(shard)
        prepared = self._prepare(
            shard, settings.objective, statistics, at_start=needs_start_logprobs(objective)
        )
        norms, applied = [], 0
        for parts, num_tokens in prepared:
            norm, is_applied = self._optimizer_step(
                parts, objective, statistics, num_tokens=num_tokens, kl_coef=shard.kl_coef
            )
            norms.append(norm)
            applied += is_applied
            if not math.isfinite(norm):
                self._warn_of_skipped(shard.policy_version, norm, is_applied=is_applied)
        metrics = statistics.means(self._channel, optimizer_steps=len(prepared)) | {
            "grad_norm": sum(norms) / len(norms),
            "lr": rate,
            **({"loss_scale": self._loss_scale} if self.run.model.dtype == "float16" else {}),
            SKIPPED: float(not applied),
            "seconds": time.perf_counter() - begun,
        }
        return {name: value for name, value in metrics.items() if math.isfinite(value)}

    def _prepare(
        self, shard: Batch, objective: ObjectiveConfig, statistics: StepStatistics, *, at_start: bool
    ) -> list[tuple[list[MicroBatch], int]]:
        """Compute the inputs of the passes with a gradient, for every optimizer step before the first of them.

        These are the trained tokens, their weights in the mean, and their log-probabilities under the policy at the
        start and under the reference.

        Args:
            at_start: the objective needs log-probabilities at the start of the step.
        Returns:
            For each optimizer step its micro-batches, and its trained tokens over all ranks, at least 1.
        """
        prepared = []
        at_start = at_start and len(shard.mini_batch_tokens) > 1  # with one, its own pass gives them
        for mini_batch in shard.mini_batches():
            own, num_tokens, weights_N = mini_batch, mini_batch.num_tokens, None
            if objective.correction.rollout_rs:
                own = self._without_rejected(own, objective.correction, statistics)
            if objective.correction.rollout_rs or objective.aggregate != "token":
                trained_S = np.bincount(own.sequence_ids[own.loss_mask], minlength=len(own.prompts))
                tokens_S = self._channel.reduce(torch.from_numpy(trained_S)).numpy()
                num_tokens = int(tokens_S.sum())
                weights_N = token_weights(
                    own.sequence_ids,
                    tokens_S,
                    own.prompts,
                    aggregate=objective.aggregate,
                    constant_length=objective.constant_length,
                )
            parts = self._on_device(own, weights_N)
            if at_start:
                for part, (logprobs_T, _) in zip(parts, self._logprobs(parts), strict=True):
                    part.start_logprobs_T = logprobs_T
            prepared.append((parts, max(1, num_tokens)))
        if objective.kl.coef and objective.kl.place == "loss":
            parts = [part for parts, _ in prepared for part in parts]
            references = self._references.of(objective.kl).logprobs(parts)
            for part, logprobs_T in zip(parts, references, strict=True):
                part.reference_logprobs_T = logprobs_T
        return prepared

    def _without_rejected(
        self, shard: Batch, correction: CorrectionConfig, statistics: StepStatistics
    ) -> Batch:
        """Return the shard without the tokens that the correction rejects, after a separate pass.

        The difference between learner and sampler is measured here, including the rejected tokens.
        """
        parts = self._on_device(shard)
        kept = []
        for part, (logprobs_T, entropy_T) in zip(parts, self._logprobs(parts), strict=True):
            tokens = part.tokens(logprobs_T, entropy_T, num_tokens=1)
            kept.append(kept_tokens(tokens, correction))
            statistics.add_mismatch(tokens, part.sequence_ids_T)
            statistics.add_rejected((part.loss_mask_T & ~kept[-1]).sum())
        return dataclasses.replace(shard, loss_mask=torch.cat(kept).cpu().numpy())

    def _divergences(self, shard: Batch) -> list[float]:
        kl = self.run.learner.objective.kl
        parts = self._on_device(shard)
        references = self._references.of(kl).logprobs(parts)
        estimates = [
            kl_estimate(logprobs_T, reference_T, part.loss_mask_T, kl.estimator)
            for part, (logprobs_T, _), reference_T in zip(
                parts, self._logprobs(parts), references, strict=True
            )
        ]
        sums_S = np.bincount(
            shard.sequence_ids,
            weights=torch.cat(estimates).double().cpu().numpy(),
            minlength=len(shard.prompts),
        )
        found: list[float] = self._channel.reduce(torch.from_numpy(sums_S)).tolist()
        return found

    def _compare(self, shard: Batch) -> Differences:
        parts = self._on_device(shard)
        count = len(shard.prompts)
        largest_S, sums_S = np.zeros(count), np.zeros((2, count))
        for part, (logprobs_T, _) in zip(parts, self._logprobs(parts), strict=True):
            mask_T, sampled_T = part.loss_mask_T, part.sampled_logprobs_T
            difference_T = torch.where(mask_T, (logprobs_T - sampled_T).abs(), 0.0)
            k3_T = k3_divergence(logprobs_T, sampled_T, mask_T)
            for one_T, into_S, add in ((difference_T, largest_S, np.maximum), (k3_T, sums_S[0], np.add)):
                values_T = one_T.double().nan_to_num(nan=math.inf, posinf=math.inf).cpu().numpy()
                add.at(into_S, part.sequence_ids_T, values_T)
            np.add.at(sums_S[1], part.sequence_ids_T, mask_T.cpu().numpy())
        k3_S, tokens_S = self._channel.reduce(torch.from_numpy(sums_S)).numpy()
        largest_S = self._channel.reduce(torch.from_numpy(largest_S), largest=True).numpy()
        return Differences(largest_S, k3_S, tokens_S.astype(np.int64))

    def _on_device(self, shard: Batch, weights_N: NDArray[np.float64] | None = None) -> list[MicroBatch]:
        return on_device(shard, self._device, weights_N=weights_N, may_pad=self.pads)

    @torch.no_grad()
    def _logprobs(self, parts: list[MicroBatch]) -> list[tuple[Tensor, Tensor]]:
        """Return the policy's log-probabilities and entropies for each micro-batch, without a gradient."""
        return [self._engine(**part.model_inputs) for part in parts]

    def _set_optimizer(self, settings: LearnerConfig, version: int) -> float:
        """Set the optimizer's parameters for the next step. Returns the learning rate."""
        optimizer = settings.optimizer
        rate = learning_rate(optimizer, version, steps=settings.steps)
        for group in self._engine.optimizer.param_groups:
            group.update(adamw_arguments(optimizer) | {"lr": rate})
        if self.run.learner.zero.stage == 0:
            self._engine._config.gradient_clipping = optimizer.grad_clip  # noqa: SLF001 - no public way
        else:
            self._engine.optimizer.clip_grad = optimizer.grad_clip
        return rate

    @property
    def _loss_scale(self) -> float:
        """The factor of the loss in float16, so that small gradients do not underflow; 1 in other types."""
        return float(getattr(self._engine.optimizer, "loss_scale", 1.0))

    def _optimizer_step(
        self,
        parts: list[MicroBatch],
        objective: Objective,
        statistics: StepStatistics,
        *,
        num_tokens: int,
        kl_coef: float,
    ) -> tuple[float, bool]:
        """Take one optimizer step. Repeat a float16 gradient that overflows at half the scale.

        So no batch is lost in the search for the scale. A gradient that is finite at no scale leaves it unchanged.

        Returns:
            The norm of the gradient, and whether the weights changed.
        """
        first, counted = self._loss_scale, True
        while True:
            scale = self._loss_scale
            for index, part in enumerate(parts):
                self._engine.set_gradient_accumulation_boundary(index == len(parts) - 1)
                with self._room_for_activations():
                    tokens, loss = self._backward(part, objective, num_tokens=num_tokens, kl_coef=kl_coef)
                if counted:
                    statistics.add(tokens, loss, part.sequence_ids_T)
            norm, is_applied = self._apply_gradient()
            if is_applied or self._loss_scale >= scale:
                break
            counted = False
        if not is_applied and self._loss_scale < first:
            self._engine.optimizer.loss_scaler.cur_scale = first
        return norm, is_applied

    def _room_for_activations(self) -> contextlib.AbstractContextManager[Any]:
        if not self.run.learner.offload_activations:
            return contextlib.nullcontext()
        return torch.autograd.graph.save_on_cpu(pin_memory=self._device.type == "cuda")

    def _backward(
        self, part: MicroBatch, objective: Objective, *, num_tokens: int, kl_coef: float
    ) -> tuple[TokenBatch, Loss]:
        """Add the gradient of one micro-batch."""
        logprobs_T, entropy_T = self._engine(**part.model_inputs)
        tokens = part.tokens(logprobs_T, entropy_T, num_tokens=num_tokens, kl_coef=kl_coef)
        loss = objective.loss(tokens)
        # The loss is already divided by the tokens of all ranks, and DeepSpeed averages over the ranks.
        self._engine.backward(loss.value * self._world_size)
        return tokens, loss

    def _apply_gradient(self) -> tuple[float, bool]:
        """Clip and step, unless the gradient is not finite.

        Returns:
            The norm before clipping, and whether the weights changed. With ZeRO 1 to 3 DeepSpeed itself skips such a
            step. With ZeRO 0 it would apply the step: here the gradients are removed first, and AdamW ignores
            parameters without gradients.
        """
        if self.run.learner.zero.stage != 0:
            self._engine.step()
            return float(self._engine.get_global_grad_norm()), bool(self._engine.was_step_applied())
        gradients = [p.grad for p in self._model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))  # DeepSpeed reports none here
        if not math.isfinite(norm):
            self._engine.zero_grad()
            self._engine._config.gradient_clipping = 0.0  # noqa: SLF001 - nothing is left to clip; the next step sets it
        self._engine.step()
        return norm, math.isfinite(norm)

    def _warn_of_skipped(self, version: int, norm: float, *, is_applied: bool) -> None:
        """Warn about a gradient that is not finite. Raises RunFailed where the engine has applied it."""
        if is_applied:
            raise RunFailed(
                f"the step from version {version} has a gradient of norm {norm}, and the engine has applied it: "
                "the weights are spoilt. Begin a run of another name, with other settings, from a checkpoint in "
                f"{self.run.folder / 'checkpoints'}: name=... learner.resume=FOLDER"
            )
        log.warning(
            "step_skipped version=%d grad_norm=%s rank=%d: the gradient is not finite, and the weights stay as they "
            "are. Look at the learning rate, at model.dtype and at the rewards of this step",
            version,
            norm,
            self._rank,
        )

    def _weights(
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
        named = {name: parameter for name, parameter in self._model.named_parameters() if wanted(name)}
        for names_to_parameters in in_parts(named, GATHERED_AT_ONCE):
            parameters = list(names_to_parameters.values())
            with self._deepspeed.zero.GatheredParameters(parameters, enabled=partitioned):
                if self._rank == 0:
                    weights |= {
                        name: on_host(name, parameter) for name, parameter in names_to_parameters.items()
                    }
                    wait_for_copies()
        if self._rank == 0:
            saved = self._model.state_dict().keys()
            buffers = self._model.named_buffers()
            weights |= {
                name: on_host(name, buffer) for name, buffer in buffers if name in saved and wanted(name)
            }
            wait_for_copies()
        return weights

    def _gather_weights(self) -> GatheredWeights | None:
        lora = self.run.learner.lora
        is_alone = lora is not None and lora.publish == "adapter"
        weights = self._weights(is_adapter if is_alone else lambda _: True, copies=self._published)
        if self._rank > 0:
            return None

        def write(weights: Mapping[str, Tensor], folder: Path) -> SavedWeights:
            if is_alone:
                tensors = adapters_of(weights)
            else:
                tensors = names_on_disk(self._model, weights if lora is None else merged(weights, lora))
            return write_weights(tensors, folder, shard_bytes=self.run.learner.shard_bytes)

        return GatheredWeights(weights, write)

    def _save_model(self, folder: Path) -> None:
        weights, lora = self._weights(), self.run.learner.lora
        if self._rank > 0:
            return
        tensors = names_on_disk(self._model, weights if lora is None else merged(weights, lora))
        write_model(tensors, folder, source=self.run.model, shard_bytes=self.run.learner.shard_bytes)
        if lora is not None:
            write_adapter(weights, folder / ADAPTER, lora=lora, source=self.run.model)

    def _shape(self) -> dict[str, Any]:
        """Return the settings that a checkpoint must match."""
        return {
            "ranks": self._world_size,
            "zero_stage": self.run.learner.zero.stage,
            "dtype": self.run.model.dtype,
        }

    def _save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        self._engine.save_checkpoint(str(folder), tag=_ENGINE, save_latest=False)
        random_states.save(folder, self._rank, self._device)
        # NCCL would derive the GPU from the rank's number among all machines, and warns that this may hang.
        distributed.barrier(device_ids=[self._device.index] if self._device.type == "cuda" else None)
        if self._rank == 0:
            write_state(folder, state, fits=self._shape())

    def _load_checkpoint(self, folder: Path) -> dict[str, Any]:
        state = read_state(folder, fits=self._shape())
        self._engine.load_checkpoint(str(folder), tag=_ENGINE)
        random_states.load(folder, self._rank, self._device)
        return state


class Objectives:
    """The objectives of steps: the run's, or an earlier incarnation's when its steps are replayed."""

    def __init__(self) -> None:
        self._built: tuple[ObjectiveConfig, Objective] | None = None

    def of(self, config: ObjectiveConfig) -> Objective:
        """Build the objective of a section, or return the one built before.

        Raises:
            RunFailed: a custom class can't be imported or built; the message names it.
        """
        if self._built is None or self._built[0] != config:
            try:
                self._built = config, build_objective(config)
            except CustomClassError as error:
                raise RunFailed(f"learner.objective: {error}") from error
        return self._built[1]


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


def learning_rate(optimizer: OptimizerConfig, version: int, *, steps: int) -> float:
    """Return the learning rate of the step that starts from a policy version.

    The rate depends only on the settings and the version, so a replayed step has the same rate.

    Args:
        optimizer: `lr` and its schedule.
        version: optimizer steps done.
        steps: of the whole run, `learner.steps`.
    """
    warmup = optimizer.warmup_steps
    if optimizer.warmup_share is not None:
        warmup = round(optimizer.warmup_share * steps)
    if version < warmup or optimizer.schedule == "constant":
        return optimizer.lr * min(1.0, (version + 1) / max(1, warmup))
    done = min(1.0, (version - warmup) / max(1, steps - warmup))
    left = 1.0 - done if optimizer.schedule == "linear" else (1.0 + math.cos(math.pi * done)) / 2
    return optimizer.lr * (optimizer.final_share + (1.0 - optimizer.final_share) * left)
