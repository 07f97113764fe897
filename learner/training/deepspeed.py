"""The policy under training: DeepSpeed's engine on all ranks, steered by rank 0.

In: packed batches, one an optimizer step. Out: metrics, weights for the generators, checkpoints. The only importer of
deepspeed. Rank 0 calls the methods; the other ranks are in `follow`, and each method runs on all of them at once, since
ZeRO's collectives need every rank. An exception in any rank ends that process with a non-zero code; whoever launched
the ranks ends the others and names it, and what the journal holds is trained again after a restart.
"""

# T tokens of a row.

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from broker.errors import RunFailed
from config.learner import LearnerConfig, ObjectiveConfig, OptimizerConfig
from config.run import Run
from learner.objective.losses import grpo_loss
from learner.training import random_states
from learner.training.batch import Batch
from learner.training.checkpoint import read_state, write_state
from learner.training.deepspeed_config import (
    adamw_arguments,
    deepspeed_config,
    learning_rate,
    offloads_optimizer,
)
from learner.training.logprobs import LogprobModel, attention_implementation
from learner.training.model_files import elements, in_parts, load_model, write_model_folder, write_weights
from learner.training.process_group import CommandChannel, device_of, join
from learner.training.step_statistics import StepStatistics

log = logging.getLogger(__name__)

GATHERED_AT_ONCE = 2**28  # weights that ZeRO-3 brings together at a time while saving
_ENGINE = "engine"  # DeepSpeed's part of a checkpoint


class DeepSpeedBackend:
    """The model, its optimizer and its ranks."""

    def __init__(self, run: Run, *, rank: int, world_size: int) -> None:
        """Load the model and build the engine; a collective.

        Args:
            run: the resolved run.
            rank: this process among `world_size`. With more than one, MASTER_ADDR, MASTER_PORT and LOCAL_RANK are in
                the environment, as launchers and `learner.ranks` put them.
            world_size: number of ranks.
        Raises:
            RunFailed: settings that can't work here; the message says which.
        """
        self._run, self._rank, self._world_size = run, rank, world_size
        self._device = device_of(run)
        if run.learner.threads is not None:
            torch.set_num_threads(run.learner.threads)
        # bfloat16 products are exact in TF32, so the head's float32 matmuls lose nothing by its speed.
        torch.backends.cuda.matmul.allow_tf32 = run.model.dtype == "bfloat16"
        self._deepspeed = _import_deepspeed(self._device)
        join(self._device, rank=rank, world_size=world_size)
        self._channel = CommandChannel()
        self._has_failed = False
        self._model, self._engine = self._build()
        self._actions: dict[str, Callable[..., Any]] = {
            "step": self._step,
            "save_weights": self._save_weights,
            "save_model": self._save_model,
            "save_checkpoint": self._save_checkpoint,
            "load_checkpoint": self._load_checkpoint,
            "keep_alive": lambda: None,
            "close": self._close,
        }
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
        """Tokens that the model has."""
        size: int = self._model.get_input_embeddings().num_embeddings
        return size

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        """Rank 0: one optimizer step on a batch.

        The gradient is the mean over the trained tokens of the whole batch, however many ranks and rows they lie in.
        A batch in which nothing trains makes a step with a gradient of zero, and says so.

        Args:
            batch: what it trains on.
            learner: whose objective and optimizer it takes, for a step of an earlier life; None: the run's.
        Returns:
            The means of `StepStatistics`, `grad_norm` before clipping, `lr`, and `seconds` on this rank.
        Raises:
            RunFailed: the gradient is not finite. The weights are spoilt then, and must not be published.
        """
        metrics: dict[str, float] = self._on_all_ranks(
            "step", batch=batch.to_bytes(), learner=None if learner is None else learner.model_dump_json()
        )
        return metrics

    def save_weights(self, file: Path) -> None:
        """Rank 0: write the weights as one safetensors file, in `model.dtype`, fsynced."""
        self._on_all_ranks("save_weights", file=str(file))

    def save_model(self, folder: Path) -> None:
        """Rank 0: write a folder that transformers and vLLM load."""
        self._on_all_ranks("save_model", folder=str(folder))

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        """Rank 0: write all that training goes on from; every rank needs to see this folder.

        Args:
            folder: made if it is not there; the caller makes it durable, seals and renames it.
            state: the caller's own, JSON; comes back from `load_checkpoint`.
        """
        self._on_all_ranks("save_checkpoint", folder=str(folder), state=json.dumps(state))

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        """Rank 0: go on from a checkpoint. DeepSpeed reads its part with pickle: load only what this system wrote.

        Raises:
            RunFailed: no whole checkpoint, or one of another ZeRO stage or type; or of another number of ranks where
                the optimizer's state is split among them.
        """
        state: dict[str, Any] = self._on_all_ranks("load_checkpoint", folder=str(folder))
        return state

    def keep_alive(self) -> None:
        """Rank 0, every half minute while it waits: the others' wait does not time out, and a dead rank is noticed."""
        self._on_all_ranks("keep_alive")

    def close(self) -> None:
        """Rank 0: free the engine everywhere, and end the others' `follow`.

        After a failure there is no talking to them: they may be waiting in the middle of a step. They end when this
        process does, or by whoever launched them.
        """
        if not self._has_failed:
            self._on_all_ranks("close")

    def follow(self) -> None:
        """The other ranks: do what rank 0 does, until it closes."""
        name = ""
        while name != "close":
            name, arguments = self._channel.receive()
            self._act(name, arguments)

    def _on_all_ranks(self, name: str, **arguments: Any) -> Any:
        self._has_failed = True  # unless it comes to its end
        self._channel.send(name, arguments)
        result = self._act(name, arguments)
        self._has_failed = False
        return result

    def _act(self, name: str, arguments: dict[str, Any]) -> Any:
        try:
            return self._actions[name](**arguments)
        except Exception:
            log.exception("rank failed rank=%d command=%s", self._rank, name)
            raise

    # What follows runs on all ranks.

    def _build(self) -> tuple[Any, Any]:
        """The transformers model, and DeepSpeed's engine around it."""
        run, on_cuda = self._run, self._device.type == "cuda"
        torch.manual_seed(run.seed)
        config = deepspeed_config(run, world_size=self._world_size, on_cuda=on_cuda)
        attention = attention_implementation(
            run.learner.attention, device=self._device, dtype=getattr(torch, run.model.dtype)
        )
        # transformers asks this object, while it lives, whether to split the weights among ranks as it reads them.
        from transformers.integrations.deepspeed import HfDeepSpeedConfig

        splitting = HfDeepSpeedConfig(config) if run.learner.zero.stage == 3 else None
        model = load_model(
            run.model, attention=attention, gradient_checkpointing=run.learner.gradient_checkpointing
        )
        del splitting
        wrapped = LogprobModel(model, temperature=run.sampling.temperature)
        trained = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        optimizer = None  # DeepSpeed's own for the host's memory, which it compiles
        if not offloads_optimizer(run, on_cuda=on_cuda):
            optimizer = torch.optim.AdamW(trained, fused=on_cuda, **adamw_arguments(run.learner.optimizer))
        with contextlib.redirect_stdout(
            sys.stderr
        ):  # DeepSpeed prints; standard output is the learner's console
            engine, *_ = self._deepspeed.initialize(
                model=wrapped, model_parameters=trained, optimizer=optimizer, config=config
            )
        return model, engine

    def _step(self, batch: bytes, learner: str | None) -> dict[str, float]:
        begun = time.perf_counter()
        whole = Batch.from_bytes(batch)
        settings = self._run.learner if learner is None else LearnerConfig.model_validate_json(learner)
        if whole.num_tokens == 0:
            log.warning("step without a trained token version=%d", whole.policy_version)
        rate = self._set_optimizer(settings.optimizer, whole.policy_version)
        statistics = StepStatistics(self._device)
        shard = whole.shard(self._rank, self._world_size)
        for index, row in enumerate(shard.micro_batches()):
            self._engine.set_gradient_accumulation_boundary(index == shard.num_micro_batches - 1)
            self._backward(shard, row, settings.objective, statistics)
        grad_norm = self._apply_gradient()
        if not math.isfinite(grad_norm):
            raise RunFailed(
                f"the step from version {whole.policy_version} has a gradient of norm {grad_norm}: the "
                "weights are spoilt. Each start of this run takes the step again, from the journal and "
                "with its old settings. To go on, begin a run of another name, with other settings, from a "
                f"checkpoint in {self._run.folder / 'checkpoints'}: name=... learner.resume=FOLDER"
            )
        return statistics.means(self._channel) | {
            "grad_norm": grad_norm,
            "lr": rate,
            "seconds": time.perf_counter() - begun,
        }

    def _set_optimizer(self, optimizer: OptimizerConfig, version: int) -> float:
        """Give the next step these numbers, whatever a checkpoint or the step before has left. Returns the rate."""
        rate = learning_rate(optimizer, version)
        for group in self._engine.optimizer.param_groups:
            group.update(adamw_arguments(optimizer) | {"lr": rate})
        if self._run.learner.zero.stage == 0:
            self._engine._config.gradient_clipping = optimizer.grad_clip  # noqa: SLF001 - no other way in
        else:
            self._engine.optimizer.clip_grad = optimizer.grad_clip
        return rate

    def _backward(
        self, shard: Batch, row: slice, objective: ObjectiveConfig, statistics: StepStatistics
    ) -> None:
        """Add the gradient of one micro-batch."""

        def on_device(name: str) -> Tensor:
            return torch.tensor(getattr(shard, name)[row], device=self._device)

        mask_T, sampled_logprobs_T = on_device("loss_mask"), on_device("sampled_logprobs")
        logprobs_T, entropy_T = self._engine(
            on_device("token_ids").long(), on_device("position_ids").long(), mask_T
        )
        loss, counts = grpo_loss(
            logprobs_T,
            sampled_logprobs_T,
            on_device("advantages"),
            mask_T,
            clip_low=objective.clip_low,
            clip_high=objective.clip_high,
            dual_clip=objective.dual_clip,
            num_tokens=max(1, shard.num_tokens),
        )
        # The loss is divided by the tokens of all ranks already, and DeepSpeed will take the mean over the ranks.
        self._engine.backward(loss * self._world_size)
        statistics.add(
            loss,
            counts,
            logprobs_T=logprobs_T,
            sampled_logprobs_T=sampled_logprobs_T,
            entropy_T=entropy_T,
            mask_T=mask_T,
            lags_T=on_device("lags"),
        )

    def _apply_gradient(self) -> float:
        """Clip, step, and return the norm from before the clipping."""
        norm = None
        if self._run.learner.zero.stage == 0:  # where DeepSpeed reports none
            norm = torch.nn.utils.get_total_norm(
                [p.grad for p in self._model.parameters() if p.grad is not None]
            )
        self._engine.step()
        return float(self._engine.get_global_grad_norm() if norm is None else norm)

    def _weights(self) -> dict[str, Tensor]:
        """Rank 0: every weight and saved buffer by name, on the CPU, ties once; nothing on the other ranks."""
        weights: dict[str, Tensor] = {}
        for names_to_parameters in in_parts(dict(self._model.named_parameters()), GATHERED_AT_ONCE):
            parameters = list(names_to_parameters.values())
            partitioned = self._run.learner.zero.stage == 3
            with self._deepspeed.zero.GatheredParameters(parameters, enabled=partitioned):
                if self._rank == 0:  # under ZeRO-3 a copy: what was brought together goes away again
                    weights |= {
                        name: parameter.detach().to("cpu", copy=partitioned)
                        for name, parameter in names_to_parameters.items()
                    }
        if self._rank == 0:
            saved = self._model.state_dict().keys()
            weights |= {name: buffer.cpu() for name, buffer in self._model.named_buffers() if name in saved}
        return weights

    def _save_weights(self, file: str) -> None:
        weights = self._weights()
        if self._rank == 0:
            write_weights(self._model, weights, Path(file))

    def _save_model(self, folder: str) -> None:
        weights = self._weights()
        if self._rank == 0:
            write_model_folder(self._model, weights, Path(folder), source=self._run.model)

    def _shape(self) -> dict[str, Any]:
        """What a checkpoint fits."""
        return {
            "ranks": self._world_size,
            "zero_stage": self._run.learner.zero.stage,
            "dtype": self._run.model.dtype,
        }

    def _save_checkpoint(self, folder: str, state: str) -> None:
        self._engine.save_checkpoint(folder, tag=_ENGINE, save_latest=False)
        random_states.save(Path(folder), self._rank, self._device)
        distributed.barrier()
        if self._rank == 0:
            write_state(Path(folder), json.loads(state), fits=self._shape())

    def _load_checkpoint(self, folder: str) -> dict[str, Any]:
        state = read_state(Path(folder), fits=self._shape())
        self._engine.load_checkpoint(folder, tag=_ENGINE)
        random_states.load(Path(folder), self._rank, self._device)
        return state

    def _close(self) -> None:
        self._engine.destroy()


def _import_deepspeed(device: torch.device) -> Any:
    """DeepSpeed, set to this device, quiet, and without the operator that it would compile for minutes on a CPU."""
    os.environ["DS_ACCELERATOR"] = device.type  # read when it is imported
    os.environ.setdefault("LOCAL_RANK", "0")  # its engine insists
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed
