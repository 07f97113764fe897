"""How far vLLM's log-probabilities are from the learner's on the same bfloat16 weights, by the type of the head.

Random models of 50 million parameters, whose last norm is scaled so that the logits spread like a trained model's. The
engine samples from each, and the learner's own module (`learner.training.logprobs`) gives the same tokens their log-
probabilities. Ours is `model.head_dtype: float32`, on both sides; beside it are the head in bfloat16 on both sides, and
in bfloat16 in vLLM alone. What is left with float32 on both is the rounding of the layers below.
"""

# T tokens of a prompt and its completion.

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Qwen2ForCausalLM

from benchmarks.comparison import Comparison
from benchmarks.rigs.random_model import large_model, save_weights
from benchmarks.rigs.vllm_rig import VllmRig, vllm_rig
from broker.messages import Completion, Prompt
from config.generators import VllmEngineConfig
from learner.training.logprobs import LogprobModel

Head = Literal["float32", "model"]
SPREAD = 9.0  # of the last norm: logits with a standard deviation of about 4 nats


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    groups: int = 4
    group_size: int = 4
    max_tokens: int = 128
    models: int = 5


FULL, SMOKE = Size(), Size(groups=1, group_size=2, max_tokens=14, models=1)


def measure(size: Size) -> list[Comparison]:
    """Make a comparison of each measure of distance with each other choice of heads."""
    with tempfile.TemporaryDirectory() as name:
        files = [
            save_weights(spread_model(seed), Path(name) / f"{seed}.safetensors")
            for seed in range(size.models)
        ]
        ours = _differences(size, files, "float32", ("float32",))["float32"]
        others = _differences(size, files, "model", ("float32", "model"))
    tokens = sum(len(difference) for difference in ours)
    return [
        Comparison(
            what=f"{what} of a token, {size.models} models, {tokens:,} tokens",
            unit="nats",
            less_is_better=True,
            ours=[of(difference) for difference in ours],
            beside=beside,
            other=[of(difference) for difference in other],
        )
        for beside, other in (
            ("peer: bfloat16 in vLLM, float32 in the learner", others["float32"]),
            ("peer: bfloat16 on both sides", others["model"]),
        )
        for what, of in (("mean difference", mean), ("largest difference", largest), ("k3 divergence", k3))
    ]


def mean(difference: NDArray[np.float64]) -> float:
    """Return the mean size of a difference."""
    return float(np.abs(difference).mean())


def largest(difference: NDArray[np.float64]) -> float:
    """Return the largest size."""
    return float(np.abs(difference).max())


def k3(difference: NDArray[np.float64]) -> float:
    """Return the mean of exp(x) - 1 - x of the learner's log-probability less the sampler's, as `mismatch_kl`."""
    return float((np.expm1(difference) - difference).mean())


def spread_model(seed: int) -> Qwen2ForCausalLM:
    """Make a random model in bfloat16 whose distributions are far from flat."""
    model = large_model(seed, dtype="bfloat16")
    with torch.no_grad():
        model.model.norm.weight.mul_(SPREAD)
    return model


def _differences(
    size: Size, files: list[Path], sampler: Head, learners: tuple[Head, ...]
) -> dict[Head, list[NDArray[np.float64]]]:
    """Sample with one type of head, and compare with the learner's log-probabilities by each of the given types.

    Returns:
        The differences of all tokens, one array a model, by the learner's type.
    """
    config = VllmEngineConfig(
        kv_cache_mb=None if torch.cuda.is_available() else 256, max_num_seqs=32, enforce_eager=True
    )
    found: dict[Head, list[NDArray[np.float64]]] = {head: [] for head in learners}
    with vllm_rig(
        config, max_tokens=size.max_tokens, group_size=size.group_size, dtype="bfloat16", head_dtype=sampler
    ) as (rig, loop):
        for seed, file in enumerate(files):
            loop.run(rig.engine.load_weights([file], seed + 1))
            asked = rig.requests(size.groups, seed=seed)
            sampled = loop.run(_sampled(rig, asked))
            for head in learners:
                model = LogprobModel(
                    _with_attention(spread_model(seed)), temperature=asked[0].temperature, head_dtype=head
                )
                found[head].append(
                    np.concatenate(
                        [_learners(model, one, done) - done.segments[0].logprobs for one, done in sampled]
                    )
                )
    return found


async def _sampled(rig: VllmRig, asked: list[Prompt]) -> list[tuple[Prompt, Completion]]:
    groups = await rig.sample(asked)
    return [(one, done) for one, group in zip(asked, groups, strict=True) for done in group]


def _with_attention(model: Any) -> Any:
    model.set_attn_implementation("sdpa")
    return model.eval()


@torch.inference_mode()
def _learners(model: LogprobModel, asked: Prompt, done: Completion) -> NDArray[np.float64]:
    """Return the learner's log-probabilities of a completion's tokens."""
    ids_T = torch.from_numpy(np.concatenate([asked.token_ids, done.segments[0].token_ids])).long()
    places = torch.arange(len(asked.token_ids), len(ids_T))
    logprobs_T, _ = model(ids_T, torch.arange(len(ids_T)), places)
    found: NDArray[np.float64] = logprobs_T[places].double().numpy()
    return found
