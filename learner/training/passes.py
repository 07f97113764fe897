"""Compute the passes of a step, on any engine: what to train on, the loss, the gradient, and what comes of it.

In: this rank's shard of a batch. Out: the step's metrics, divergences to the reference, or differences from the
sampler. Every rank runs the same passes at once. The engine holds the model and its optimizer.
"""

# N: tokens of a rank. S: completions of the global batch. T: tokens of a micro-batch.

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from broker.errors import RunFailed
from config.custom import CustomClassError
from config.learner import LearnerConfig
from config.learner.objective import CorrectionConfig, ObjectiveConfig
from config.learner.training import OptimizerConfig
from config.run import Run
from learner.objective.aggregate import token_weights
from learner.objective.build import build_objective
from learner.objective.importance_ratio import k3_divergence
from learner.objective.kl import kl_estimate
from learner.objective.objective import Loss, Objective, TokenBatch, needs_start_logprobs
from learner.objective.rejection import kept_tokens
from learner.training.backend import SKIPPED, Differences
from learner.training.batch import Batch
from learner.training.engines.engine import Engine
from learner.training.micro_batch import MicroBatch, on_device
from learner.training.process_group import CommandChannel
from learner.training.reference import References
from learner.training.step_statistics import StepStatistics

log = logging.getLogger(__name__)


class Passes:
    """The passes of one rank.

    Args:
        references: compute the reference's log-probabilities.
        channel: sums over the ranks.
        objectives: of the run, and of earlier incarnations.
    """

    def __init__(
        self,
        run: Run,
        engine: Engine,
        references: References,
        channel: CommandChannel,
        objectives: Objectives,
    ) -> None:
        self.run = run
        self._engine = engine
        self._references = references
        self._channel = channel
        self._objectives = objectives

    def step(self, shard: Batch, learner: str | None = None) -> dict[str, float]:
        """Take one optimizer step; see `TrainingBackend.step`.

        Args:
            shard: of this rank.
            learner: settings as JSON, for a step of an earlier incarnation; None: the run's.
        Raises:
            RunFailed: the gradient is not finite, and the engine has applied it nevertheless. Then the weights are
                corrupt and must not be published.
        """
        begun = time.perf_counter()
        settings = self.run.learner if learner is None else LearnerConfig.model_validate_json(learner)
        if shard.num_tokens == 0:
            log.warning("step without a trained token version=%d", shard.policy_version)
        rate = learning_rate(settings.optimizer, shard.policy_version, steps=settings.steps)
        self._engine.configure(settings, rate)
        objective = self._objectives.of(settings.objective)
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
            **({"loss_scale": self._engine.loss_scale} if self.run.model.dtype == "float16" else {}),
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

    def divergences(self, shard: Batch) -> list[float]:
        """Measure each completion's divergence to the reference; see `TrainingBackend.divergences`."""
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

    def compare(self, shard: Batch) -> Differences:
        """Compare the sampler with the learner; see `TrainingBackend.differences`."""
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
        return on_device(shard, self._engine.device, weights_N=weights_N, may_pad=self._engine.pads)

    def _logprobs(self, parts: list[MicroBatch]) -> list[tuple[Tensor, Tensor]]:
        """Return the policy's log-probabilities and entropies for each micro-batch, without a gradient."""
        return [self._engine.evaluate(part) for part in parts]

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
        first, counted = self._engine.loss_scale, True
        while True:
            scale = self._engine.loss_scale
            for index, part in enumerate(parts):
                is_last = index == len(parts) - 1
                with self._room_for_activations():
                    tokens, loss = self._backward(
                        part, objective, is_last=is_last, num_tokens=num_tokens, kl_coef=kl_coef
                    )
                if counted:
                    statistics.add(tokens, loss, part.sequence_ids_T)
            norm, is_applied = self._engine.apply()
            if is_applied or self._engine.loss_scale >= scale:
                break
            counted = False
        if not is_applied and self._engine.loss_scale < first:
            self._engine.restore_loss_scale(first)
        return norm, is_applied

    def _room_for_activations(self) -> contextlib.AbstractContextManager[Any]:
        if not self.run.learner.offload_activations:
            return contextlib.nullcontext()
        return torch.autograd.graph.save_on_cpu(pin_memory=self._engine.device.type == "cuda")

    def _backward(
        self, part: MicroBatch, objective: Objective, *, is_last: bool, num_tokens: int, kl_coef: float
    ) -> tuple[TokenBatch, Loss]:
        """Add the gradient of one micro-batch."""
        logprobs_T, entropy_T = self._engine.forward(part, is_last=is_last)
        tokens = part.tokens(logprobs_T, entropy_T, num_tokens=num_tokens, kl_coef=kl_coef)
        loss = objective.loss(tokens)
        self._engine.backward(loss.value)
        return tokens, loss

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
            self._engine.rank,
        )


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
