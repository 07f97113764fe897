"""Models of random weights on disk, for what has to be larger than the demo's model and need not know anything.

In: a folder. Out: a Hugging Face folder in it, with a byte-level tokenizer for as many ids as the model has. Used by
the benchmarks of the learner's step and of vLLM; nothing is fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

STOP = "<|endoftext|>"


def large_model(seed: int = 0, *, dtype: str = "float32") -> Qwen2ForCausalLM:
    """Make a Qwen2 of 50 million parameters."""
    return _model(seed, dtype, hidden_size=512, intermediate_size=1536, num_hidden_layers=14)


def tiny_model(seed: int = 0) -> Qwen2ForCausalLM:
    """Make a Qwen2 of a million parameters, for what is beside the engine."""
    return _model(seed, "float32", hidden_size=128, intermediate_size=256, num_hidden_layers=2)


def _model(
    seed: int, dtype: str, *, hidden_size: int, intermediate_size: int, num_hidden_layers: int
) -> Qwen2ForCausalLM:
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=8192,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            num_hidden_layers=num_hidden_layers,
            num_attention_heads=hidden_size // 64,
            num_key_value_heads=hidden_size // 128,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            dtype=dtype,
        )
    )
    model.to(getattr(torch, dtype))
    return model


def save_folder(model: PreTrainedModel, folder: Path) -> Path:
    """Write the model and a tokenizer: 256 bytes, words that mean nothing, and a stop token, the last id."""
    model.save_pretrained(folder)
    size = int(model.config.vocab_size)
    letters = sorted(ByteLevel.alphabet())
    words = [f"<{place}>" for place in range(size - len(letters) - 1)]
    vocabulary: dict[str, Any] = {word: place for place, word in enumerate([*letters, *words, STOP])}
    Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token=STOP, pad_token=STOP, unk_token=STOP
    ).save_pretrained(folder)
    return folder


def save_weights(model: PreTrainedModel, file: Path) -> Path:
    """Write a safetensors file as the learner does: a tied tensor once."""
    tied = set(model.all_tied_weights_keys)
    save_file(
        {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name not in tied}, file
    )
    return file
