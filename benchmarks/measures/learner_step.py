"""Seconds of one optimizer step, beside the faster of two loops of plain transformers and torch: padded and packed.

From scored groups to new weights, on the same tokens, with as many threads. Ours runs DeepSpeed's engine (ZeRO as in
the recipe), on rows of like length. The padded peer takes the sequences as they come; the packed one fills rows first-
fit, with restarting positions. Both take the logits of every place, and step torch's AdamW. The first step starts from
the same weights everywhere, and its gradients must agree.
"""

# B rows, T tokens of the longest.

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from benchmarks.comparison import Comparison, timed
from benchmarks.rigs.groups import demo_engine, demo_prompts, demo_run, question, scored
from benchmarks.rigs.random_model import large_model, save_folder
from broker.messages import Completion, FinishReason, SampledGroup, ScoredGroup, Span
from config.learner.objective import GrpoConfig
from config.run import Run
from learner.objective.advantages import group_advantages
from learner.training.batch import Batch, pack
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.training.engines.engine_config import adamw_arguments
from learner.training.passes import learning_rate

Layout = Literal["padded", "packed"]
TOLERANCE = 1e-3  # relative, between the norms of two gradients in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase:
    """One line of the table.

    Attributes:
        is_large: a model of 50 million parameters; else the demo's of 0.2 million.
        is_long: answers of 64 to 512 tokens; else those that the demo's model gives.
        padded_rows: sequences of one micro-batch of the padded peer.
        packed_tokens: tokens of one micro-batch of the packed peer.
        tokens: of one of ours.
    """

    is_large: bool = False
    is_long: bool = False
    groups: int = 16
    rounds: int = 5
    threads: int = 1
    padded_rows: int = 128
    packed_tokens: int = 512
    tokens: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    cases: tuple[StepCase, ...]


FULL = Size(
    cases=(StepCase(), StepCase(is_long=True, rounds=3, padded_rows=16, packed_tokens=1024, tokens=4096))
)
SMOKE = Size(cases=(StepCase(groups=2, rounds=1),))


def measure(size: Size) -> list[Comparison]:
    """Make a comparison of a whole step for each case."""
    return [_compare(case) for case in size.cases]


def _compare(case: StepCase) -> Comparison:
    with tempfile.TemporaryDirectory() as folder:
        run, groups = prepared(Path(folder), case)
        torch.set_num_threads(case.threads)
        policy = DeepSpeedBackend(run, rank=0, world_size=1)
        layouts: tuple[Layout, ...] = ("padded", "packed")
        peers = {layout: PlainLearner(run, case, layout) for layout in layouts}

        def ours(number: int) -> float:
            batch = packed(run, groups, number, run.learner.tokens_per_micro_batch, by_length=True)
            return policy.step(batch)["grad_norm"]

        def other(layout: Layout, number: int) -> float:
            return peers[layout].step(groups, number)

        sides: dict[str, Callable[[int], float]] = {"ours": ours}
        sides |= {layout: partial(other, layout) for layout in peers}
        seconds, norms = _take_turns(sides, case.rounds)
        policy.close()
        parameters = sum(parameter.numel() for parameter in peers["padded"].model.parameters())
    if any(not math.isclose(norm, norms["ours"], rel_tol=TOLERANCE) for norm in norms.values()):
        raise RuntimeError(f"the first gradients have the norms {norms}: not all do the same work")
    tokens = packed(run, groups, 0, 1).num_tokens
    faster = min(peers, key=lambda layout: median(seconds[layout]))
    slower = next(layout for layout in peers if layout != faster)
    return Comparison(
        what=f"step on {case.groups} x {run.sampling.group_size} completions, {tokens:,} trained tokens, "
        f"{parameters / 1e6:.1f} M parameters, threads: {case.threads}",
        unit="s",
        less_is_better=True,
        ours=seconds["ours"],
        beside=f"peer: {faster}, transformers, torch's AdamW ({slower}: {median(seconds[slower]):.3g})",
        other=seconds[faster],
    )


def _take_turns(
    sides: dict[str, Callable[[int], float]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Time all sides in every round, another one first each time; the first round is not counted.

    Returns:
        The seconds of each counted round, and the gradient's norm of the first one, by side.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    norms: dict[str, float] = {}
    names = list(sides)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            turn = timed(partial(sides[name], number))
            if number:
                seconds[name].append(turn.seconds)
            else:
                norms[name] = turn.amount
    return seconds, norms


class PlainLearner:
    """A GRPO learner as one writes it in an afternoon: all logits, torch's own optimizer, no engine."""

    def __init__(self, run: Run, case: StepCase, layout: Layout) -> None:
        self._run, self._case, self._layout = run, case, layout
        disable_progress_bar()
        self.model: Any = AutoModelForCausalLM.from_pretrained(run.model.path, dtype=torch.float32)
        self.model.train()
        self._optimizer = torch.optim.AdamW(self.model.parameters(), **adamw_arguments(run.learner.optimizer))

    def step(self, groups: Sequence[ScoredGroup], version: int) -> float:
        """Take a step on groups; return the gradient's norm before clipping."""
        if self._layout == "packed":
            batch = packed(self._run, groups, version, self._case.packed_tokens)
            parts = [[part] for part in batch.micro_batches()]
        else:
            batch = packed(self._run, groups, version, 1)  # every sequence has a row to itself
            rows = list(batch.micro_batches())
            at_once = self._case.padded_rows
            parts = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
        for part in parts:
            self._loss(batch, part).backward()
        optimizer = self._run.learner.optimizer
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), optimizer.grad_clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(optimizer, version, steps=self._run.learner.steps)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(norm)

    def _loss(self, batch: Batch, rows: Sequence[slice]) -> Tensor:
        def padded(name: str) -> Tensor:
            arrays = [torch.tensor(getattr(batch, name)[row]) for row in rows]
            return pad_sequence(arrays, batch_first=True)

        ids_BT = padded("token_ids").long()
        if self._layout == "packed":
            more = {"position_ids": padded("position_ids").long()}
        else:
            keys = [torch.ones(row.stop - row.start) for row in rows]
            more = {"attention_mask": pad_sequence(keys, batch_first=True)}
        logits = self.model(input_ids=ids_BT, use_cache=False, **more).logits[:, :-1].float()
        logprobs = (logits / self._run.sampling.temperature).log_softmax(-1)
        logprobs_BT = logprobs.gather(-1, ids_BT[:, 1:, None])[..., 0]
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
        return -torch.where(padded("loss_mask")[:, 1:], gain_BT, 0.0).sum() / batch.num_tokens


def prepared(folder: Path, case: StepCase) -> tuple[Run, list[ScoredGroup]]:
    """Return the run, with its model on the disk, and the groups of a step."""
    run = demo_run(
        folder,
        data={"train": {"type": "procedural", "split": "train", "size": case.groups}},
        learner={"device": "cpu", "threads": case.threads, "tokens_per_micro_batch": case.tokens},
    )
    prompts = demo_prompts(run, case.groups)
    if case.is_long:
        random = np.random.default_rng(0)
        lengths = random.integers(64, 513, (case.groups, run.sampling.group_size)).tolist()
    else:
        with demo_engine(run) as sample:
            sampled = sample(prompts)
        if not case.is_large:
            rollouts = zip(prompts, sampled, strict=True)
            return run, [
                scored(SampledGroup(prompt=prompt, completions=group, generator="generator-0", seconds=1.0))
                for prompt, group in rollouts
            ]
        lengths = [[completion.num_sampled for completion in group] for group in sampled]
    if case.is_large:
        path = str(save_folder(large_model(), folder / "large"))
        run = run.model_copy(update={"model": run.model.model_copy(update={"path": path})})
    return run, [_made_up(number, some) for number, some in enumerate(lengths)]


def _made_up(number: int, lengths: Sequence[int]) -> ScoredGroup:
    """Make a group of random tokens, which a model that knows nothing gives about these log-probabilities."""
    random = np.random.default_rng(number)
    completions = tuple(
        Completion.of_one_segment(
            token_ids=random.integers(0, 64, length, dtype=np.int32),
            logprobs=np.full(length, -4.0, np.float32),
            policy_spans=(Span(version=0, first=0, count=length),),
            finish_reason=FinishReason.STOP,
            text="",
        )
        for length in lengths
    )
    asked = question(str(number), n=len(completions))
    return scored(SampledGroup(prompt=asked, completions=completions, generator="generator-0", seconds=1.0))


def packed(
    run: Run,
    groups: Sequence[ScoredGroup],
    version: int,
    tokens_per_micro_batch: int,
    *,
    by_length: bool = False,
) -> Batch:
    """Pack groups as a step from `version` takes them."""
    advantages = [group_advantages(group.rewards, run.learner.advantage.scale) for group in groups]
    return pack(
        groups,
        advantages,
        tokens_per_micro_batch=tokens_per_micro_batch,
        truncated=run.learner.filters.truncated,
        policy_version=version,
        by_length=by_length,
    )
