"""A learner's process for the tests: `python -m tests.support.policy_driver PLAN.json`, alone or as one of the ranks.

A plan is a list of policies, each `{"model": folder, "learner": {...}, "dtype": ..., "do": [[method, argument, ...]]}`.
Rank 0 does what each says, one after the other, and writes what the methods return beside the plan; the other ranks
follow. With `broken_rank` a step raises in that rank. With `as_on_a_gpu` DeepSpeed has the configuration that it has on
a GPU, offload included, and with `torch_adam` it compiles no optimizer of its own for that; with `fused_head` the head
is computed as on a GPU. These three hold for the rest of the plan. Each process logs to `PLAN.RANK.log`.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.rigs.reference_attention import reference_kernel
from broker.errors import RunFailed
from broker.weight_files import FILE
from config.learner import LearnerConfig
from config.learner.objective import AdvantageConfig
from config.run import Run
from learner.launch.environment import set_environment
from learner.launch.ranks import Ranks, launch_or_join
from learner.objective.advantages import batch_advantages
from learner.training.attention import KERNELS
from learner.training.batch import Batch, pack
from learner.training.engines import deepspeed as backend
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.training.engines.engine_config import deepspeed_config, offloads_optimizer
from learner.training.head.fused import PRODUCTS
from learner.weight_sync.transport import SavedWeights, WeightHandle
from tests.support.reference_product import reference_product
from tests.support.tiny import random_groups, tiny_run


def make_batch(
    version: int, tokens_per_micro_batch: int, *, mini_batches: int = 1, kl_coef: float = 0.0
) -> Batch:
    """Return the batch of one step: other groups at every version, the same for every policy."""
    groups = random_groups(version, policy_version=version)
    return pack(
        groups,
        batch_advantages([group.rewards for group in groups], AdvantageConfig()),
        tokens_per_micro_batch=tokens_per_micro_batch,
        truncated="mask",
        policy_version=version,
        mini_batches=mini_batches,
        kl_coef=kl_coef,
    )


def act(policy: DeepSpeedBackend, method: str, *arguments: Any) -> Any:
    """One line of a plan."""
    result: Any
    match method:
        case "step":
            version, tokens_per_micro_batch, *settings = arguments
            learner = LearnerConfig.model_validate(settings[0]) if settings else None
            own = learner or policy.run.learner
            batch = make_batch(
                version, tokens_per_micro_batch, mini_batches=own.mini_batches, kl_coef=own.objective.kl.coef
            )
            result = policy.step(batch, learner)
        case "divergences" | "differences":
            result = getattr(policy, method)(make_batch(*arguments))
        case "large_step" | "poisoned_step":
            batch = make_batch(*arguments)
            infinite = np.where(batch.loss_mask, np.inf, 0.0).astype(np.float32)
            advantages = infinite if method == "poisoned_step" else 1000 * batch.advantages
            result = policy.step(replace(batch, advantages=advantages))
        case "step_behind_which_weights_are_saved":
            file, *step = arguments
            gathered = policy.gather_weights()
            result = act(policy, "step", *step)
            save(gathered, Path(file))
        case "draw":
            result = [random.random(), float(np.random.random()), torch.rand(3).tolist()]  # noqa: NPY002
        case "save_weights":
            result = save(policy.gather_weights(), Path(arguments[0]))
        case "save_checkpoint" | "save_model" | "keep_alive":
            result = getattr(policy, method)(*map(Path, arguments[:1]), *arguments[1:])
        case "load_checkpoint":
            try:
                result = policy.load_checkpoint(Path(arguments[0]))
            except RunFailed as error:
                result = str(error)
        case _:
            raise ValueError(method)
    return result


def _as_json(result: Any) -> Any:
    return result.tolist() if isinstance(result, np.ndarray) else asdict(result)


def save(gathered: WeightHandle, file: Path) -> SavedWeights:
    """Write gathered weights as one file of that name."""
    with TemporaryDirectory(dir=file.parent) as folder:
        saved = gathered.save_weights(Path(folder))
        (Path(folder) / FILE).rename(file)
    return saved


def allow_float16() -> None:
    """Let DeepSpeed train in float16 on a processor without instructions for it, as torch does: slowly."""
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    dtypes = [*accelerator.supported_dtypes(), torch.float16]
    vars(accelerator).update(is_fp16_supported=lambda: True, supported_dtypes=lambda: dtypes)


def configure_as_on_a_gpu(*, torch_adam: bool) -> None:
    """Give DeepSpeed the configuration of a GPU on the CPU, where the host's memory is the device's own.

    Args:
        torch_adam: take torch's AdamW for an offloaded optimizer too, not DeepSpeed's own, which is compiled.
    """

    def configuration(run: Run, *, world_size: int, on_cuda: bool) -> dict[str, Any]:
        assert not on_cuda
        made = deepspeed_config(run, world_size=world_size, on_cuda=True)
        if torch_adam and "optimizer" in made:
            made["optimizer"]["params"]["torch_adam"] = True
        return made

    def offloads(run: Run, *, on_cuda: bool) -> bool:
        assert not on_cuda
        return offloads_optimizer(run, on_cuda=True)

    set_environment()
    vars(backend).update(deepspeed_config=configuration, offloads_optimizer=offloads)


def main(words: Sequence[str]) -> None:
    plan_file = Path(words[0])
    logging.basicConfig(
        filename=plan_file.with_suffix(f".{os.environ.get('RANK', '0')}.log"), level=logging.INFO
    )
    results = []
    plan = json.loads(plan_file.read_text())
    if any(part.get("dtype") == "float16" for part in plan):
        allow_float16()
    KERNELS["cpu"] = reference_kernel  # for learner.attention=varlen; nothing else takes it
    for part in plan:
        run = tiny_run(Path(part["model"]), dtype=part.get("dtype", "float32"), **part.get("learner", {}))
        if part.get("as_on_a_gpu"):
            configure_as_on_a_gpu(torch_adam=part.get("torch_adam", False))
        if part.get("fused_head"):
            PRODUCTS["cpu"] = reference_product
        ranks = launch_or_join(run, [])
        assert isinstance(ranks, Ranks)
        policy = DeepSpeedBackend(run, rank=ranks.rank, world_size=ranks.world_size)
        if ranks.rank == part.get("broken_rank"):

            def broken(shard: Batch, learner: str | None) -> None:
                raise RuntimeError(f"this rank has no room for {shard.num_micro_batches} of them, {learner}")

            vars(policy)["_step"] = broken
        if ranks.rank == 0:
            try:
                results.append([act(policy, *line) for line in part["do"]])
                plan_file.with_suffix(".results.json").write_text(json.dumps(results, default=_as_json))
            finally:
                policy.close()
        else:
            policy.follow()


if __name__ == "__main__":
    main(sys.argv[1:])
