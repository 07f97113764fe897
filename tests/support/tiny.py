"""What the learner's tests share: a tiny model on disk, a run of it, and groups that it might have sampled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from broker.messages import (
    NO_IDS,
    NOTHING,
    Completion,
    FinishReason,
    SampledGroup,
    ScoredGroup,
    Segment,
    Span,
)
from config.run import Run
from tests.support.groups import a_prompt, a_score

VOCABULARY_SIZE = 300


def write_tiny_model(folder: Path, *, tied: bool = True, seed: int = 0) -> Path:
    """Return a random Qwen2 with a byte-level tokenizer. One of its matrices is large enough for ZeRO-3 to split for good."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=64,
        intermediate_size=1600,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.1,
        attention_dropout=0.1,
        dtype="float32",
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    stop = "<|endoftext|>"
    vocabulary = {character: i for i, character in enumerate([*sorted(ByteLevel.alphabet()), stop])}
    Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token=stop, pad_token=stop, unk_token=stop
    ).save_pretrained(folder)
    return folder


def write_own_head(folder: Path, *, seed: int = 0) -> Path:
    """Return the tiny model with an output head of other values than the embedding that its config ties it to."""
    import torch
    from safetensors.torch import load_file, save_file

    write_tiny_model(folder, seed=seed)
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    head = 0.1 * torch.randn(embedding.shape, generator=torch.Generator().manual_seed(seed + 1))
    save_file(weights | {"lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def tiny_run(model: Path, *, dtype: str = "float32", **learner: Any) -> Run:
    """Return a run of the tiny model on the CPU. Epsilon is large, so that AdamW does not blow rounding up to steps of full size."""
    optimizer = {"lr": 1e-2, "eps": 1e-2, "warmup_steps": 2, "grad_clip": 0.5, "weight_decay": 0.1}
    return Run.model_validate(
        {
            "name": "tiny",
            "model": {"path": str(model), "dtype": dtype},
            "data": {"train": {"type": "procedural"}},
            "sampling": {"temperature": 0.8},
            "learner": {"device": "cpu", "threads": 1, "optimizer": optimizer} | learner,
        }
    )


def completion(
    token_ids: Sequence[int],
    *,
    logprobs: Sequence[float] | None = None,
    version: int = 0,
    spans: Sequence[Span] | None = None,
    finish_reason: FinishReason = FinishReason.STOP,
) -> Completion:
    """Return a completion of one version, unless spans are given."""
    return Completion.of_one_segment(
        token_ids=np.array(token_ids, np.int32),
        logprobs=np.array([-1.0] * len(token_ids) if logprobs is None else logprobs, np.float32),
        policy_spans=tuple(spans or [Span(version=version, first=0, count=len(token_ids))]),
        finish_reason=finish_reason,
        text="",
    )


def talk(spoken: Completion, read: Sequence[int], prompt_ids: Sequence[int]) -> Completion:
    """Make a conversation of a completion of one version and at least three tokens.

    Behind the first token a tool answers; before the last two the history is rewritten.

    Args:
        read: ids of the tool's answer.
        prompt_ids: of the second segment.
    """
    (whole,) = spoken.segments
    version, ids, logprobs = whole.policy_spans[0].version, whole.token_ids, whole.logprobs
    before, told = len(ids) - 2, len(read)
    spans = [Span(version=version, first=0, count=1)]
    if before > 1:
        spans.append(Span(version=version, first=1 + told, count=before - 1))
    first = Segment(
        prompt_ids=NO_IDS,
        token_ids=np.array([ids[0], *read, *ids[1:before]], np.int32),
        logprobs=np.array([logprobs[0], *[0.0] * told, *logprobs[1:before]], np.float32),
        policy_spans=tuple(spans),
        loss_mask=(1, told, before - 1) if before > 1 else (1, told),
    )
    last = Segment(
        prompt_ids=np.array(prompt_ids, np.int32),
        token_ids=ids[before:],
        logprobs=logprobs[before:],
        policy_spans=(Span(version=version, first=0, count=2),),
        loss_mask=(2,),
    )
    return replace(spoken, segments=(first, last))


def group(
    prompt_ids: Sequence[int],
    completions: Sequence[Completion],
    rewards: Sequence[float | None],
    *,
    group_id: str = "0",
) -> ScoredGroup:
    prompt = a_prompt(
        group_id,
        n=len(completions),
        floor=0,
        issued_at=0.0,
        epoch=0,
        row=0,
        fingerprint="",
        seed=0,
        temperature=0.8,
        max_tokens=64,
        messages=(),
        verification_info=NOTHING,
        token_ids=np.array(prompt_ids, np.int32),
    )
    scores = tuple(a_score(reward, "", scorer="test") for reward in rewards)
    return ScoredGroup(
        rollout=SampledGroup(prompt=prompt, completions=tuple(completions), generator="g", seconds=0.0),
        scores=scores,
        rewards=tuple(rewards),
        worker="w",
        seconds=0.0,
    )


def random_groups(seed: int, *, policy_version: int, first_id: int = 0) -> list[ScoredGroup]:
    """Three groups of four completions of different lengths, some unscorable, of an older version, or conversations."""
    random, others = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    groups = []
    for ordinal in range(3):
        completions = []
        for _ in range(4):
            tokens = int(random.integers(2, 24))
            completions.append(
                completion(
                    random.integers(0, VOCABULARY_SIZE, tokens).tolist(),
                    logprobs=(-5.7 + random.normal(0, 0.3, tokens)).tolist(),
                    version=max(0, policy_version - int(random.integers(0, 2))),
                )
            )
        if len(completions[2].segments[0].token_ids) > 2:
            read, again = (
                others.integers(0, VOCABULARY_SIZE, int(others.integers(1, 6))).tolist() for _ in "12"
            )
            completions[2] = talk(completions[2], read, again)
        rewards = [1.0, 0.0, random.random(), None if ordinal == 0 else 0.5]
        prompt_ids = random.integers(0, VOCABULARY_SIZE, int(random.integers(1, 9))).tolist()
        groups.append(group(prompt_ids, completions, rewards, group_id=str(first_id + ordinal)))
    return groups
