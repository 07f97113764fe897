"""Seconds of one optimizer step of the demo's batch, beside plain transformers and torch.

From scored groups to new weights, on the same tokens, one thread each. Ours packs rows without padding and runs
DeepSpeed's engine (ZeRO as in the recipe); the peer pads all sequences into one batch, takes the logits of every place,
and steps torch's AdamW. The first step starts from the same weights in both, and its gradients must agree.
"""

# B sequences, T tokens of the longest.

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from benchmarks.comparison import Comparison, Turn, take_turns, timed
from benchmarks.rigs.groups import demo_engine, demo_prompts, demo_run, scored
from broker.messages import SampledGroup, ScoredGroup
from config.learner import GrpoConfig
from config.run import Run
from learner.objective.advantages import group_advantages
from learner.training.batch import Batch, pack
from learner.training.deepspeed import DeepSpeedBackend, adamw_arguments, learning_rate

PEER = "peer: padded batch, transformers, torch's AdamW"
TOLERANCE = 1e-3  # relative, between the norms of two gradients in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    groups: int = 16  # of one step
    rounds: int = 5


FULL, SMOKE = Size(), Size(groups=2, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make one comparison of a whole step."""
    with tempfile.TemporaryDirectory() as folder:
        run = demo_run(
            Path(folder),
            data={"train": {"type": "procedural", "split": "train", "size": size.groups}},
            learner={"device": "cpu"},
        )
        groups = _groups(run, size.groups)
        torch.set_num_threads(1)
        peer, policy = PlainLearner(run), DeepSpeedBackend(run, rank=0, world_size=1)
        norms: dict[str, list[float]] = {"ours": [], "other": []}

        def ours(number: int) -> Turn:
            def step() -> float:
                norms["ours"].append(
                    policy.step(_pack(run, groups, number, run.learner.tokens_per_micro_batch))["grad_norm"]
                )
                return 1.0

            return timed(step)

        def other(number: int) -> Turn:
            def step() -> float:
                # Rows with room for one token: every sequence has one to itself.
                norms["other"].append(peer.step(_pack(run, groups, number, 1)))
                return 1.0

            return timed(step)

        mine, others = take_turns(ours, other, rounds=size.rounds)
        policy.close()
    if not math.isclose(norms["ours"][0], norms["other"][0], rel_tol=TOLERANCE):
        raise RuntimeError(
            f"the first gradients have the norms {norms['ours'][0]} and {norms['other'][0]}: the two do "
            "not do the same work"
        )
    tokens = _pack(run, groups, 0, 1).num_tokens
    return [
        Comparison(
            what=f"step on {size.groups} x {run.sampling.group_size} completions, {tokens:,} trained tokens",
            unit="s",
            less_is_better=True,
            ours=[turn.seconds for turn in mine],
            beside=PEER,
            other=[turn.seconds for turn in others],
        )
    ]


class PlainLearner:
    """A GRPO learner as one writes it in an afternoon: one padded batch, all logits, torch's own optimizer."""

    def __init__(self, run: Run) -> None:
        self._run = run
        disable_progress_bar()
        self._model: Any = AutoModelForCausalLM.from_pretrained(run.model.path, dtype=torch.float32)
        self._model.train()
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), **adamw_arguments(run.learner.optimizer)
        )

    def step(self, batch: Batch) -> float:
        """Take a step on a batch of one sequence a row; return the gradient's norm before clipping."""

        def padded(name: str) -> Tensor:
            return pad_sequence(
                [torch.tensor(getattr(batch, name)[row]) for row in batch.micro_batches()], batch_first=True
            )

        ids_BT = padded("token_ids").long()
        keys_BT = pad_sequence(
            [torch.ones(row.stop - row.start) for row in batch.micro_batches()], batch_first=True
        )
        logits = self._model(input_ids=ids_BT, attention_mask=keys_BT, use_cache=False).logits[:, :-1].float()
        logprobs_BT = (
            (logits / self._run.sampling.temperature).log_softmax(-1).gather(-1, ids_BT[:, 1:, None])[..., 0]
        )
        objective = self._run.learner.objective
        if not isinstance(objective, GrpoConfig):
            raise TypeError(f"the comparison is with GRPO, not {objective.type}")
        ratio_BT = (logprobs_BT - padded("sampled_logprobs")[:, 1:]).exp()
        advantages_BT = padded("advantages")[:, 1:]
        clipped_BT = ratio_BT.clamp(1 - objective.clip_low, 1 + objective.clip_high)
        gain_BT = torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)
        if objective.dual_clip is not None:
            bounded_BT = torch.maximum(gain_BT, objective.dual_clip * advantages_BT)
            gain_BT = torch.where(advantages_BT < 0, bounded_BT, gain_BT)
        loss = -torch.where(padded("loss_mask")[:, 1:], gain_BT, 0.0).sum() / batch.num_tokens
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._run.learner.optimizer.grad_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(
                self._run.learner.optimizer, batch.policy_version, steps=self._run.learner.steps
            )
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(norm)


def _groups(run: Run, count: int) -> list[ScoredGroup]:
    """Make groups as the demo's model samples them, every second completion rewarded."""
    prompts = demo_prompts(run, count)
    with demo_engine(run) as sample:
        completions = sample(prompts)
    return [
        scored(SampledGroup(prompt=prompt, completions=group, generator="generator-0", seconds=1.0))
        for prompt, group in zip(prompts, completions, strict=True)
    ]


def _pack(run: Run, groups: Sequence[ScoredGroup], version: int, tokens_per_micro_batch: int) -> Batch:
    advantages = [group_advantages(group.rewards, run.learner.advantage.scale) for group in groups]
    return pack(
        groups,
        advantages,
        tokens_per_micro_batch=tokens_per_micro_batch,
        truncated=run.learner.filters.truncated,
        policy_version=version,
    )
