"""Peak memory of one row's log-probabilities with a vocabulary of 151,936, forward and backward, beside all logits.

Each side runs in a process of its own, on a model of one small layer, so that the head is what takes memory; what the
process holds before the row is taken off. Ours is `LogprobModel`. The naive side takes the logits of all places, in
float32, and their log-softmax. At 16,384 tokens the naive side is not run: its number is that of 4,096 tokens times
four, and the line says so.
"""

# T tokens of the row.

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.results import ROOT

VOCABULARY = 151_936  # of the Qwen2 family
HIDDEN = 64
OURS, NAIVE = "ours", "naive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    tokens: tuple[int, ...] = (4096, 16_384)
    vocabulary: int = VOCABULARY
    naive_most: int = 4096  # tokens of which the naive side is run


FULL, SMOKE = Size(), Size(tokens=(64, 128), vocabulary=1000, naive_most=64)


def measure(size: Size) -> list[Comparison]:
    """Make a comparison for each length of a row."""
    found, last = [], 0.0
    for tokens in size.tokens:
        ours = _peak_mb(OURS, tokens, size.vocabulary)
        if is_run := tokens <= size.naive_most:
            last = _peak_mb(NAIVE, tokens, size.vocabulary) / tokens
        found.append(
            Comparison(
                what=f"one row of {tokens:,} tokens, vocabulary {size.vocabulary:,}: memory beyond the model's",
                unit="MB",
                less_is_better=True,
                ours=[ours],
                beside="peer: all logits"
                if is_run
                else "peer: all logits, by arithmetic from the line above",
                other=[last * tokens],
            )
        )
    return found


def _peak_mb(side: str, tokens: int, vocabulary: int) -> float:
    """Run one side in a fresh process; return the MB that the row took."""
    command = [sys.executable, "-m", "benchmarks.measures.logprob_memory", side, str(tokens), str(vocabulary)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1000


def _run_one(side: str, tokens: int, vocabulary: int) -> float:
    """Take one row forward and backward; return the MB between the peak and what was held before."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from learner.training.logprobs import LogprobModel

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        dtype="float32",
    )
    model: Any = Qwen2ForCausalLM(config)
    ids = torch.randint(0, vocabulary, (tokens,))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # both sides have gradients: they are no part of the row
    places = torch.arange(1, tokens)
    wrapped = LogprobModel(model, temperature=1.0) if side == OURS else None
    before = _status_mb("VmRSS")
    if wrapped is not None:
        logprobs, _ = wrapped(ids, torch.arange(tokens), places, torch.arange(tokens), (1, tokens))
    else:
        logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
        logprobs = logits.log_softmax(-1).gather(-1, ids[places, None])
    logprobs.sum().backward()
    return _status_mb("VmHWM") - before


if __name__ == "__main__":
    sys.stdout.write(f"{_run_one(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))}\n")
