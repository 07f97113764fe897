"""Translate a run's configuration for DeepSpeed and torch's AdamW.

In: a run. Out: dictionaries. Used by the backend and by the reference model; loads neither library.
"""

from __future__ import annotations

from typing import Any

from broker.errors import RunFailed
from config.learner.training import OptimizerConfig
from config.run import Run


def offloads_optimizer(run: Run, *, on_cuda: bool) -> bool:
    """Return whether the optimizer's state is kept in host memory. On a CPU nothing is offloaded."""
    return run.learner.zero.offload_optimizer and on_cuda


def deepspeed_config(run: Run, *, world_size: int, on_cuda: bool) -> dict[str, Any]:
    """Return the run's configuration for DeepSpeed.

    DeepSpeed is given 1 accumulation step. The backend sets the boundaries itself, since the number of micro-batches
    changes with every step. It divides only by the tokens of the whole batch.

    Raises:
        RunFailed: settings that DeepSpeed or the arithmetic does not support.
    """
    zero, learner = run.learner.zero, run.learner
    if zero.offload_weights and zero.stage != 3:
        raise RunFailed(f"learner.zero.offload_weights needs learner.zero.stage=3, not {zero.stage}")
    if zero.offload_optimizer and zero.stage == 0:
        raise RunFailed("learner.zero.offload_optimizer needs learner.zero.stage of at least 1")
    config: dict[str, Any] = {
        "train_batch_size": world_size,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": learner.optimizer.grad_clip,
        "steps_per_print": None,
        "zero_optimization": {"stage": zero.stage},
    }
    if run.model.dtype != "float32":
        if zero.stage == 0:
            raise RunFailed(
                f"model.dtype={run.model.dtype} needs learner.zero.stage of at least 1: stage 0 would add up "
                f"gradients in {run.model.dtype}"
            )
        config |= {**half_precision(run.model.dtype), "data_types": {"grad_accum_dtype": "fp32"}}
    if offloads_optimizer(run, on_cuda=on_cuda):
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        config["optimizer"] = {"type": "AdamW", "params": adamw_arguments(learner.optimizer)}
    if zero.offload_weights and on_cuda:
        config["zero_optimization"]["offload_param"] = {"device": "cpu", "pin_memory": True}
    return config


def half_precision(dtype: str) -> dict[str, Any]:
    """Return DeepSpeed's section for 16-bit weights. Float16 has a dynamic loss scale; see `_optimizer_step`."""
    if dtype == "bfloat16":
        return {"bf16": {"enabled": True}}
    return {"fp16": {"enabled": True, "initial_scale_power": 16, "hysteresis": 1, "min_loss_scale": 1}}


def adamw_arguments(optimizer: OptimizerConfig) -> dict[str, Any]:
    """Return AdamW's arguments, whose names torch and DeepSpeed share."""
    return {
        "lr": optimizer.lr,
        "betas": optimizer.betas,
        "eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
    }
