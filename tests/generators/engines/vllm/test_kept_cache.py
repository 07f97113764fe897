"""`new_weights: keep_cache`: completions go on behind an older cache, and nothing that begins later ever sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from broker.messages import Completion, Prompt
from config.generators import VllmEngineConfig
from generators.engines.vllm.engine import VllmEngine
from generators.engines.vllm.settings import CPU_BLOCK_SIZE
from tests.support.byte_model import (
    TOLERANCE,
    assert_agrees,
    make_prompt,
    make_run,
    random_model,
    reference_logprobs,
    save_weights,
)
from tests.support.sampled import sample

CONFIG = VllmEngineConfig(
    kv_cache_mb=64, max_num_seqs=16, enforce_eager=True, start_timeout_s=280, new_weights="keep_cache"
)
MAX_TOKENS = 200

pytestmark = [
    pytest.mark.model,
    pytest.mark.together("vllm"),
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),
]  # vLLM leaves its own open


def logprobs_behind_older_keys(
    models: Mapping[int, PreTrainedModel], prompt: Prompt, completion: Completion
) -> NDArray[np.float32]:
    """Log-probability of every sampled token where each span's model reads the keys and values that were there.

    A token's own keys and values are computed in the pass that samples the next token.
    """
    ids = torch.tensor([[*prompt.token_ids.tolist(), *completion.segments[0].token_ids.tolist()]])
    start = len(prompt.token_ids)
    cache, seen = DynamicCache(), 0
    parts = []
    for span in completion.segments[0].policy_spans:
        end = start + span.first + span.count - 1  # the span's last token is an input of the next span
        with torch.inference_mode():
            passed = models[span.version](input_ids=ids[:, seen:end], past_key_values=cache, use_cache=True)
        parts.append(passed.logits[0, -span.count :])
        cache, seen = passed.past_key_values, end
    logprobs = torch.log_softmax(torch.cat(parts).float() / prompt.temperature, -1)
    return logprobs.gather(-1, ids[0, start:, None])[:, 0].numpy()


@pytest.mark.prove
def test_each_logprob_is_the_samplers_own_and_later_completions_see_no_older_block(
    loop: asyncio.Runner, tiny_model: Path, tmp_path: Path
) -> None:
    models = {version: random_model(seed=version) for version in range(4)}
    files = [save_weights(model, tmp_path / f"{version}.safetensors") for version, model in models.items()]
    # More than a block of the cache, and the same for all: a block of before would be found if it were looked for.
    prompts = [make_prompt("1+2=" * 10, seed=seed, n=8, max_tokens=MAX_TOKENS) for seed in range(4)]
    assert len(prompts[0].token_ids) > CPU_BLOCK_SIZE

    async def body() -> tuple[list[tuple[Completion, ...]], tuple[Completion, ...]]:
        engine = VllmEngine(make_run(tiny_model, CONFIG, max_tokens=MAX_TOKENS, context=300), CONFIG)
        await engine.start()
        try:
            await engine.load_weights([files[0]], 0)
            tasks = [asyncio.create_task(sample(engine, one)) for one in prompts]  # 32, of which 16 wait
            for version in (1, 2, 3):
                await asyncio.sleep(0.3)
                await engine.load_weights([files[version]], version)
            return await asyncio.gather(*tasks), await sample(engine, prompts[0])
        finally:
            await engine.close()

    groups, fresh = loop.run(body())
    assert_agrees({3: models[3]}, prompts[0], fresh)
    crossed = later = 0
    for prompt, completion in (
        (prompt, one) for prompt, group in zip(prompts, groups, strict=True) for one in group
    ):
        logprobs, spans = completion.segments[0].logprobs, completion.segments[0].policy_spans
        expected = logprobs_behind_older_keys(models, prompt, completion)
        np.testing.assert_allclose(logprobs, expected, atol=TOLERANCE, rtol=0)
        later += spans[0].version > 0  # begun after an update, while others went on behind older keys
        if len(spans) > 1:
            crossed, last = crossed + 1, spans[-1]
            recomputed = reference_logprobs(models[last.version], prompt, [completion])[0][last.first :]
            assert last.count < 5 or np.abs(logprobs[last.first :] - recomputed).max() > 0.05
    assert crossed >= 8, "completions go on behind older keys"
    assert later >= 4
