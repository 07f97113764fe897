"""Groups of conversations for a step of training, and what a plain model says of each of their tokens, in float64.

A completion has three segments: a tool answers within the first two, and the history is rewritten before each but the
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from types import MethodType

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from broker.messages import NO_IDS, Completion, FinishReason, ScoredGroup, Segment, Span
from tests.support.chain import make_prompt, make_scored
from tests.support.made_up_tokens import Answer, Token

VOCABULARY = 40
TEMPERATURE = 0.8
VERSION = 5  # of the learner
ADVANTAGES = [[0.75, -1.5], [1.25, -0.25]]
# Of each segment: how many tokens the policy sampled, how many of a tool's it read, and so on.
RUNS = ((3, 2, 2), (2, 1, 3), (4,))


def double_model(seed: int) -> PreTrainedModel:
    """Return a random model in float64."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    model: PreTrainedModel = Qwen2ForCausalLM(config).eval().double()
    for module in model.modules():
        if isinstance(module, Qwen2RMSNorm):
            vars(module)["forward"] = MethodType(_norm, module)  # transformers' own computes in float32
    return model


def _norm(norm: Qwen2RMSNorm, hidden: Tensor) -> Tensor:
    scale = (hidden.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
    weighed: Tensor = norm.weight * (hidden * scale)
    return weighed


def conversations() -> list[ScoredGroup]:
    """Return two groups of two completions of three segments; how likely the sampler found a token is made up."""
    random = np.random.default_rng(3)

    def ids(count: int) -> np.ndarray:
        return random.integers(1, VOCABULARY, count, dtype=np.int32)

    def segment(place: int, runs: tuple[int, ...]) -> Segment:
        firsts, tokens = [*accumulate(runs, initial=0)], sum(runs)
        sampled = np.repeat([run % 2 == 0 for run in range(len(runs))], runs)
        logprobs = np.where(sampled, -random.uniform(0.5, 6.0, tokens), 0).astype(np.float32)
        return Segment(
            prompt_ids=ids(2 + place) if place else NO_IDS,
            token_ids=ids(tokens),
            logprobs=logprobs,
            policy_spans=tuple(
                Span(version=3 + place, first=firsts[run], count=runs[run]) for run in range(0, len(runs), 2)
            ),
            loss_mask=runs,
        )

    def completion() -> Completion:
        segments = tuple(segment(place, runs) for place, runs in enumerate(RUNS))
        return Completion(segments=segments, finish_reason=FinishReason.STOP, text="")

    def group(number: int) -> ScoredGroup:
        prompt = replace(make_prompt(str(number)), token_ids=ids(3 + number))
        scored = make_scored(prompt, [1.0, 0.0])
        rollout = replace(scored.rollout, completions=(completion(), completion()))
        return replace(scored, rollout=rollout)

    return [group(number) for number in range(len(ADVANTAGES))]


@dataclass(frozen=True)
class Judged:
    """What a model says of the sampled tokens of one segment."""

    completion: int  # of the batch
    segment: Segment
    logprobs_K: Tensor  # of the tokens that were sampled


def judged(model: PreTrainedModel, groups: list[ScoredGroup]) -> Iterator[Judged]:
    """Yield each segment, which the model reads alone."""
    said = [(group, one) for group in groups for one in group.rollout.completions]
    for number, (group, completion) in enumerate(said):
        for segment in completion.segments:
            prompt = segment.prompt_ids if len(segment.prompt_ids) else group.rollout.prompt.token_ids
            ids_T = torch.from_numpy(np.concatenate([prompt, segment.token_ids]).astype(np.int64))
            logprobs_TV = (model(ids_T[None]).logits[0, :-1] / TEMPERATURE).log_softmax(-1)
            logprobs_T = logprobs_TV.gather(-1, ids_T[1:, None])[len(prompt) - 1 :, 0]
            yield Judged(number, segment, logprobs_T[torch.from_numpy(segment.trains)])


def answers(policy: list[Judged], reference: list[Judged]) -> list[Answer]:
    """Return the completions as a paper knows them."""
    found = []
    advantages = [(group, one) for group, own in enumerate(ADVANTAGES) for one in own]
    for number, (group, advantage) in enumerate(advantages):
        tokens: list[Token] = []
        begins: list[int] = []
        for now, then in zip(policy, reference, strict=True):
            if now.completion != number:
                continue
            begins.append(len(tokens))
            sampled = now.segment.logprobs[now.segment.trains]
            for one, other, held in zip(now.logprobs_K, then.logprobs_K, sampled, strict=True):
                tokens.append(Token(float(one), float(one), float(held), float(other), 0.0))
        found.append(Answer(group, advantage, 1, tuple(tokens), tuple(begins)))
    return found
