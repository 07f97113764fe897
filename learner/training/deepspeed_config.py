"""The run's config in DeepSpeed's terms, and the learning rate of each step.

In: a run, the number of ranks, the device. Out: the dict that DeepSpeed's engine is built from. Pure; used by
`learner.training.deepspeed` alone. Combinations that would train, but worse than they look, are refused here.
"""

from __future__ import annotations

from typing import Any

from broker.errors import RunFailed
from config.learner import OptimizerConfig
from config.run import Run


def learning_rate(optimizer: OptimizerConfig, version: int) -> float:
    """The rate of the step that starts from this policy version: a line up to `lr`, then constant.

    A function of the version and of nothing else, so that a replayed step has the rate that it had.
    """
    return optimizer.lr * min(1.0, (version + 1) / max(1, optimizer.warmup_steps))


def offloads_optimizer(run: Run, *, on_cuda: bool) -> bool:
    """Whether the optimizer's state is kept in the host's memory; on a CPU all is, and nothing is offloaded."""
    return run.learner.zero.offload_optimizer and on_cuda


def deepspeed_config(run: Run, *, world_size: int, on_cuda: bool) -> dict[str, Any]:
    """Build DeepSpeed's config.

    Accumulation is 1 as far as DeepSpeed knows: `learner.training.deepspeed` sets the boundaries itself, since the
    number of micro-batches changes with every step, and divides by the tokens of the whole batch and by nothing else.

    Raises:
        RunFailed: settings that DeepSpeed or arithmetic has no good answer to.
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
    if run.model.dtype == "bfloat16":
        if zero.stage == 0:
            raise RunFailed(
                "model.dtype=bfloat16 needs learner.zero.stage of at least 1: stage 0 would add up "
                "gradients in bfloat16"
            )
        config |= {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    if offloads_optimizer(run, on_cuda=on_cuda):
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        config["optimizer"] = {"type": "AdamW", "params": adamw_arguments(learner.optimizer)}
    if zero.offload_weights and on_cuda:
        config["zero_optimization"]["offload_param"] = {"device": "cpu", "pin_memory": True}
    return config


def adamw_arguments(optimizer: OptimizerConfig) -> dict[str, Any]:
    """AdamW's arguments, as torch and DeepSpeed both name them."""
    return {
        "lr": optimizer.lr,
        "betas": optimizer.betas,
        "eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
    }
