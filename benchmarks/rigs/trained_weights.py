"""Weights that AdamW trains, one file of safetensors a step: two versions differ by what training changes.

A causal language model of transformers' Qwen2 kind with new weights, each drawn from a normal distribution of deviation
`initializer_range` = 0.02 (norms are 1, biases 0). Its loss is the cross-entropy of random tokens; AdamW keeps float32
weights, with the betas, epsilon and decay that `learner.optimizer` has by default and a constant rate. A version is the
weights rounded to bfloat16, as the learner publishes them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from config.learner.training import OptimizerConfig


class TrainedWeights:
    """A model in training.

    Args:
        hidden: width; the number of parameters follows from it, with 12 layers.
        vocabulary: tokens.
        rate: AdamW's.
    """

    def __init__(self, *, hidden: int, vocabulary: int, tokens: int, rate: float, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._vocabulary, self._tokens = vocabulary, tokens
        self._model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=vocabulary,
                hidden_size=hidden,
                intermediate_size=4 * hidden,
                num_hidden_layers=12,
                num_attention_heads=hidden // 64,
                num_key_value_heads=hidden // 64,
                tie_word_embeddings=True,
            )
        )
        settings = OptimizerConfig()
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=rate,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.parameters = sum(weight.numel() for weight in self._model.parameters())

    def step(self) -> None:
        """Make one step of AdamW."""
        tokens_BT = torch.randint(self._vocabulary, (1, self._tokens))
        self._optimizer.zero_grad()
        self._model(input_ids=tokens_BT, labels=tokens_BT).loss.backward()
        self._optimizer.step()

    def write(self, file: Path) -> Path:
        """Write the present version, and return its file."""
        save_file(
            {name: weight.detach().to(torch.bfloat16) for name, weight in self._model.named_parameters()},
            file,
        )
        return file
