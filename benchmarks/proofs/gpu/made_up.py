"""Models with random weights, and groups of random tokens, for the steps of `make prove-gpu`.

In: a shape, a seed. Out: a Hugging Face folder with a tokenizer over bytes; scored groups. Nothing is fetched. A model
that knows nothing gives every token about the same probability, so that made-up groups are near its own policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rigs.groups import question, scored
from broker.messages import Completion, FinishReason, SampledGroup, ScoredGroup, Span
from config.run import Run
from learner.objective.advantages import group_advantages
from learner.training.batch import Batch, pack

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM

END = "<|endoftext|>"
NOISE = 0.3  # nats, of the sampler's log-probabilities around the flat distribution's


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes of a Qwen2 model. The embedding is tied to the head.

    Args:
        name: for people.
        hidden: numbers of a token's state.
        inner: numbers inside a layer's MLP.
        layers: of the model.
        heads: of queries.
        groups: heads of keys and values.
        vocabulary: tokens.
        spread: standard deviation of the random weights.
    """

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    spread: float = 0.02

    @property
    def head_width(self) -> int:
        """Numbers of one head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights of the matrices of all layers."""
        attention = self.hidden * self.head_width * (2 * self.heads + 2 * self.groups)
        return self.layers * (attention + 3 * self.hidden * self.inner)


TINY = ModelShape(
    name="a tiny model", hidden=64, inner=256, layers=2, heads=2, groups=1, vocabulary=300, spread=0.1
)
# The Qwen2.5 family's own sizes, as their config.json has them.
QWEN_0_5B = ModelShape(
    name="Qwen2.5-0.5B's shape", hidden=896, inner=4864, layers=24, heads=14, groups=2, vocabulary=151_936
)
QWEN_1_5B = ModelShape(
    name="Qwen2.5-1.5B's shape", hidden=1536, inner=8960, layers=28, heads=12, groups=2, vocabulary=151_936
)
LONGEST = 4096  # tokens of a sequence


def build_model(shape: ModelShape, seed: int) -> Qwen2ForCausalLM:
    """Return a model with random weights in float32."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.inner,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.groups,
            max_position_embeddings=LONGEST,
            tie_word_embeddings=True,
            initializer_range=shape.spread,
            dtype="float32",
        )
    )


def write_model(folder: Path, shape: ModelShape, *, dtype: str, seed: int = 0) -> Path:
    """Write a model with random weights and a tokenizer over bytes, and return its folder."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer

    build_model(shape, seed).to(getattr(torch, dtype)).save_pretrained(folder)
    vocabulary = {character: index for index, character in enumerate([*sorted(ByteLevel.alphabet()), END])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], eos_token=END, pad_token=END, unk_token=END)
    tokenizer.save_pretrained(folder)
    return folder


def write_weights(file: Path, shape: ModelShape, *, dtype: str, seed: int) -> Path:
    """Write the weights of another random model, as the learner publishes them: a tied tensor once."""
    import torch
    from safetensors.torch import save_file

    model = build_model(shape, seed).to(getattr(torch, dtype))
    tied = set(model.all_tied_weights_keys)
    save_file({name: part.clone() for name, part in model.state_dict().items() if name not in tied}, file)
    return file


def random_groups(shape: ModelShape, lengths: Sequence[Sequence[int]], *, seed: int) -> list[ScoredGroup]:
    """Make scored groups of random tokens, every second answer right.

    Args:
        shape: of the model.
        lengths: tokens of each completion, by group.
        seed: of the tokens.
    """
    random = np.random.default_rng(seed)
    flat = -math.log(shape.vocabulary)
    groups = []
    for number, of_group in enumerate(lengths):
        completions = tuple(
            Completion.of_one_segment(
                token_ids=random.integers(0, shape.vocabulary, length, dtype=np.int32),
                logprobs=(flat + random.normal(0, NOISE, length)).astype(np.float32),
                policy_spans=(Span(version=0, first=0, count=length),),
                finish_reason=FinishReason.STOP,
                text="",
            )
            for length in of_group
        )
        asked = question(str(number), n=len(completions))
        groups.append(
            scored(SampledGroup(prompt=asked, completions=completions, generator="made-up", seconds=1.0))
        )
    return groups


def batch_of(run: Run, groups: Sequence[ScoredGroup], *, version: int) -> Batch:
    """Pack groups as the learner does for one step."""
    return pack(
        groups,
        [group_advantages(group.rewards, run.learner.advantage.scale) for group in groups],
        tokens_per_micro_batch=run.learner.tokens_per_micro_batch,
        truncated=run.learner.filters.truncated,
        policy_version=version,
    )
