"""A tiny random model on disk, prompts for it, and transformers' own answer to compare an engine's with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from broker.messages import NOTHING, Completion, Prompt
from broker.weight_files import part_name
from config.data import DataConfig, ProceduralSource
from config.generators import EngineConfig, GeneratorsConfig, SamplingConfig
from config.run import ModelConfig, Run
from tests.support.groups import a_prompt

STOP = "<|endoftext|>"
VOCABULARY = {character: i for i, character in enumerate([*sorted(ByteLevel.alphabet()), STOP])}
STOP_ID = VOCABULARY[STOP]
TOLERANCE = 1e-3  # nats, fp32
torch.set_num_threads(
    1
)  # the model is too small for two: the second would wait, and take a processor to do so


def random_model(*, seed: int, tied: bool = True) -> Qwen2ForCausalLM:
    """Two layers over bytes. Wide initialization, so that its distributions are far from flat and from each other."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        tie_word_embeddings=tied,
        initializer_range=0.15,
        eos_token_id=STOP_ID,
        pad_token_id=STOP_ID,
        bos_token_id=None,
        dtype="float32",
    )
    model: Qwen2ForCausalLM = Qwen2ForCausalLM(config).eval()
    return model


def save_weights(model: PreTrainedModel, file: Path) -> Path:
    """Write a safetensors file as the learner does: a tied tensor once."""
    tied = set(model.all_tied_weights_keys)
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items() if name not in tied}, file)
    return file


def in_parts(file: Path, folder: Path, parts: int) -> list[Path]:
    items = list(load_file(file).items())
    names = [folder / part_name(number, parts) for number in range(parts)]
    for number, name in enumerate(names):
        save_file(dict(items[number::parts]), name)
    return names


def save_folder(folder: Path, *, tied: bool) -> Path:
    random_model(seed=0, tied=tied).save_pretrained(folder)
    Qwen2Tokenizer(
        vocab=VOCABULARY, merges=[], eos_token=STOP, pad_token=STOP, unk_token=STOP
    ).save_pretrained(folder)
    return folder


def make_run(model: Path, engine: EngineConfig, *, max_tokens: int = 32, context: int = 96) -> Run:
    """Return the run of a tiny model. `context`: tokens of a prompt and its completion."""
    return Run(
        name="engines",
        model=ModelConfig(path=str(model), dtype="float32"),
        data=DataConfig(train=ProceduralSource(), max_prompt_tokens=context - max_tokens),
        sampling=SamplingConfig(max_tokens=max_tokens),
        generators=GeneratorsConfig(engine=engine),
    )


def make_prompt(
    text: str,
    *,
    n: int = 4,
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int = 24,
) -> Prompt:
    """Return a prompt of the bytes of `text`."""
    return a_prompt(
        str(seed),
        n=n,
        seed=seed,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        floor=0,
        issued_at=0.0,
        epoch=0,
        row=0,
        fingerprint="",
        messages=({"role": "user", "content": text},),
        token_ids=np.array([VOCABULARY[character] for character in text], dtype=np.int32),
        verification_info=NOTHING,
    )


def reference_logprobs(
    model: PreTrainedModel, prompt: Prompt, completions: Sequence[Completion]
) -> list[NDArray[np.float32]]:
    """Log-probability of every sampled token by one full forward of transformers, without a cache.

    The completions are rows of one batch, filled up behind their ends: no token attends to later ones.
    """
    asked, lengths = (
        prompt.token_ids.tolist(),
        [len(completion.segments[0].token_ids) for completion in completions],
    )
    ids = torch.full((len(completions), len(asked) + max(lengths)), STOP_ID)
    for row, completion in zip(ids, completions, strict=True):
        tokens = [*asked, *completion.segments[0].token_ids.tolist()]
        row[: len(tokens)] = torch.tensor(tokens)
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False).logits[:, len(asked) - 1 : -1]
    logprobs = torch.log_softmax(logits.float() / (prompt.temperature or 1.0), -1)
    found = []
    for row, sampled, length in zip(logprobs, ids[:, len(asked) :], lengths, strict=True):
        of_one = row[:length]
        if prompt.top_p < 1 and not prompt.is_greedy:
            of_one = torch.stack([_within(one, prompt.top_p) for one in of_one])
        found.append(of_one.gather(-1, sampled[:length, None])[:, 0].numpy())
    return found


def _within(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    """One distribution's log-probabilities within its nucleus, by adding up token after token."""
    kept, together = [], 0.0
    for token in logprobs.argsort(descending=True).tolist():
        kept.append(token)
        together += float(logprobs[token].exp())
        if together >= top_p:
            break
    found = torch.full_like(logprobs, -torch.inf)
    found[kept] = logprobs[kept].log_softmax(-1)
    return found


def assert_agrees(models: Mapping[int, PreTrainedModel], prompt: Prompt, group: Sequence[Completion]) -> None:
    """Every token has the probability that transformers gives it under the version that its span names."""
    assert len(group) == prompt.n
    for version in {span.version for completion in group for span in completion.segments[0].policy_spans}:
        expected = reference_logprobs(models[version], prompt, group)
        for completion, logprobs in zip(group, expected, strict=True):
            for span in completion.segments[0].policy_spans:
                if span.version == version:
                    tokens = slice(span.first, span.first + span.count)
                    found = completion.segments[0].logprobs[tokens]
                    np.testing.assert_allclose(found, logprobs[tokens], atol=TOLERANCE, rtol=0)
